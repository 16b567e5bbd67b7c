"""The durable side of the state: a map from names to bytes.

Invariant: on Spark the map is a ``MapState`` of the state store. So every value is part of the
checkpoint, and every change commits with its micro-batch.

Rule: each operation is a round trip to Spark, so small values are kept together in one
(:class:`InlineStore`). Tests, experiments and batch runs outside Spark use :class:`MemoryStore`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

#: A value of at most this many bytes is small.
SMALL = 4 << 10
#: At most this many bytes of small values are kept together.
TOGETHER = 16 << 10


class Store(Protocol):
    """A durable map, as windows use it."""

    def get(self, name: str) -> bytes | None:
        """The value under that name, or None."""

    def put(self, name: str, value: bytes) -> None:
        """Set the value under that name."""

    def delete(self, name: str) -> None:
        """Delete the value under that name; a name that is not there is no error."""

    def at_hand(self, name: str) -> bool:
        """Is the value in this process's memory already, so that reading it costs nothing?"""


class MemoryStore:
    """A store in this process's memory.

    >>> store = MemoryStore()
    >>> store.put("a", b"1")
    >>> store.get("a"), store.get("b")
    (b'1', None)
    """

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        return self.values.get(name)

    def put(self, name: str, value: bytes) -> None:
        self.values[name] = value

    def delete(self, name: str) -> None:
        self.values.pop(name, None)

    def at_hand(self, name: str) -> bool:
        """Never: this store stands for one that is far away."""
        return False


@dataclass
class InlineStore:
    """A store whose small values are kept in a dictionary, which the owner saves as one value.

    Invariant: a value is either in ``small`` or in the other ``store``. Whoever replaces a value
    has read it before, so this class knows where it is.

    A round trip to Spark's state store takes most of a millisecond, however small the value.

    >>> store = MemoryStore()
    >>> inline = InlineStore(store, {})
    >>> inline.put("a", b"1")
    >>> inline.put("b", bytes(SMALL + 1))
    >>> inline.get("a"), list(inline.small), list(store.values)
    (b'1', ['a'], ['b'])
    """

    store: Store
    small: dict[str, bytes]
    _outside: set[str] = field(default_factory=set)

    def get(self, name: str) -> bytes | None:
        value = self.small.get(name)
        if value is None:
            value = self.store.get(name)
            if value is not None:
                self._outside.add(name)
        return value

    def put(self, name: str, value: bytes) -> None:
        self.small.pop(name, None)
        if len(value) <= SMALL and sum(map(len, self.small.values())) + len(value) <= TOGETHER:
            self.small[name] = value
            if name in self._outside:
                self.store.delete(name)
                self._outside.remove(name)
        else:
            self.store.put(name, value)
            self._outside.add(name)

    def delete(self, name: str) -> None:
        if self.small.pop(name, None) is None:
            self.store.delete(name)
            self._outside.discard(name)

    def at_hand(self, name: str) -> bool:
        return name in self.small
