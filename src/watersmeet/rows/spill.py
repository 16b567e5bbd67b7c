"""Rows and values that wait in a temporary file, because they are too many for memory.

- :class:`Spill`: values of bytes, which are read back in any order.
- :class:`WaitingRows`: rows that wait until a step has stored all new rows, and then probe them. A
  step gets its input in chunks, in any order. Rows that meet new rows of another stream must not
  probe before the last of those is stored. A few rows wait in memory, many wait in a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from watersmeet.rows.ipc import from_ipc, write_ipc

#: Where a value is: its first byte in the file, and its length.
Extent = tuple[int, int]


class Spill:
    """Values in a temporary file. The file is made when the first one comes; it has no name, so
    that nothing is left of it if the process dies.

    >>> spill = Spill()
    >>> extents = [spill.add(value) for value in (b"one", b"three")]
    >>> [spill.read(extent) for extent in reversed(extents)]
    [b'three', b'one']
    >>> spill.close()
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = 0

    def add(self, value: bytes | pa.Buffer) -> Extent:
        """Write a value. Returns where it is."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="watersmeet-")  # noqa: SIM115
        extent = self._size, len(value)
        self._file.seek(self._size)
        self._file.write(value)
        self._size += len(value)
        return extent

    def read(self, extent: Extent) -> bytes:
        """The value at an extent."""
        assert self._file is not None, "an extent is that of a value that was added"
        start, length = extent
        self._file.seek(start)
        return self._file.read(length)

    def close(self) -> None:
        """Delete the file, if there is one, with all values in it."""
        if self._file is not None:
            self._file.close()
        self._file, self._size = None, 0


class WaitingRows:
    """Batches that take at most ``limit`` bytes in memory.

    >>> waiting = WaitingRows(limit=20)
    >>> for number in range(3):
    ...     waiting.add(pa.RecordBatch.from_pydict({"n": [number, number]}))
    >>> [batch.column(0).to_pylist() for batch in waiting.leave()], list(waiting.leave())
    ([[0, 0], [1, 1], [2, 2]], [])
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spill = Spill()
        self._extents: list[Extent] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Let rows wait."""
        self._batches.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            self._write()

    def leave(self) -> Iterator[pa.RecordBatch]:
        """All rows that wait, in the order in which they came."""
        extents, self._extents = self._extents, []
        for extent in extents:
            yield from_ipc(self._spill.read(extent))
        self._spill.close()
        batches, self._batches, self._bytes = self._batches, [], 0
        yield from batches

    def _write(self) -> None:
        for rows in self._batches:
            sink = pa.BufferOutputStream()
            write_ipc(rows, sink)
            self._extents.append(self._spill.add(sink.getvalue()))
        self._batches, self._bytes = [], 0
