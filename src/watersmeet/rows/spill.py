"""Rows that wait until a step has stored all new rows, and then probe them.

A step gets its input in chunks, in any order. Rows that are to meet new rows of another stream must
not probe before the last of those is stored. Few wait in memory; of many, all wait in a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa


class WaitingRows:
    """Batches of one schema, that take at most ``limit`` bytes in memory.

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
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Let rows wait."""
        self._batches.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._limit:
            self._write()

    def leave(self) -> Iterator[pa.RecordBatch]:
        """All rows that wait, in the order in which they came."""
        if self._file is not None and self._writer is not None:
            self._writer.close()
            self._file.seek(0)
            with self._file, pa.ipc.open_stream(self._file) as reader:
                yield from reader
            self._file = self._writer = None
        batches, self._batches, self._bytes = self._batches, [], 0
        yield from batches

    def _write(self) -> None:
        if self._file is None or self._writer is None:
            self._file = tempfile.TemporaryFile(prefix="watersmeet-")  # noqa: SIM115
            self._writer = pa.ipc.new_stream(self._file, self._batches[0].schema)
        for rows in self._batches:
            self._writer.write_batch(rows)
        self._batches, self._bytes = [], 0
