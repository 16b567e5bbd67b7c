"""The durable side of the state: a map from names to bytes.

On Spark it is a ``MapState`` of the state store, so every value is part of the
checkpoint and every change commits with its micro-batch. Tests, experiments
and batch runs outside Spark use :class:`MemoryStore`.
"""

from __future__ import annotations

from typing import Protocol


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
