"""The durable side of the state: a map from names to bytes.

On Spark it is a ``MapState`` of the state store, so every value is part of the
checkpoint and every change commits with its micro-batch. Tests, experiments
and batch runs outside Spark use :class:`MemoryStore`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

#: A value of at most so many bytes is small, and so many bytes of small values are kept together.
SMALL = 4 << 10
TOGETHER = 16 << 10


class Store(Protocol):
    """What a window needs of a durable map."""

    def get(self, name: str) -> bytes | None:
        """The value under that name, or None."""

    def put(self, name: str, value: bytes) -> None:
        """Set the value under that name."""

    def delete(self, name: str) -> None:
        """Forget the name; a name that is not there is no error."""


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


@dataclass
class InlineStore:
    """Another store whose small values are kept in a dictionary, to be saved as one value.

    A round trip to Spark's state store takes most of a millisecond, however small the value.
    Before a value is replaced it must have been read, so that it is known where it was.

    >>> store = MemoryStore()
    >>> pocket = InlineStore(store, {})
    >>> pocket.put("a", b"1")
    >>> pocket.put("b", bytes(SMALL + 1))
    >>> pocket.get("a"), list(pocket.small), list(store.values)
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
