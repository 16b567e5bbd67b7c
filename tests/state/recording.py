"""Stores that remember what was asked of them."""

from __future__ import annotations

from watersmeet.state.store import MemoryStore


class RecordingStore(MemoryStore):
    """The names that were read, written and deleted, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.deletes: list[str] = []

    def get(self, name: str) -> bytes | None:
        self.reads.append(name)
        return super().get(name)

    def put(self, name: str, value: bytes) -> None:
        self.writes.append(name)
        super().put(name, value)

    def delete(self, name: str) -> None:
        self.deletes.append(name)
        super().delete(name)


class CountingStore(MemoryStore):
    """A store that counts the bytes that are put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def put(self, name: str, value: bytes) -> None:
        self.written += len(name) + len(value)
        super().put(name, value)
