"""Gathering small batches into larger ones: large enough to be cheap, small enough to stream.

Invariant: gathered batches take less than twice the limit. A batch that is large enough by itself
is handed on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.rows.columns import concat


class Gathering:
    """Batches that wait until they have ``rows`` rows or ``size`` bytes together.

    >>> one = pa.RecordBatch.from_pydict({"n": [1, 2]})
    >>> gathering = Gathering(rows=3, size=1000)
    >>> [len(batch) for batch in gathering.add(one)], [len(batch) for batch in gathering.add(one)]
    ([], [4])
    """

    def __init__(self, rows: int, size: int) -> None:
        self._limits = rows, size
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch. Yields all batches that wait, as one, if they are enough by now."""
        size = batch.nbytes
        if size >= self._limits[1]:
            yield from self.rest()
        self._waiting.append(batch)
        self._rows += len(batch)
        self._size += size
        if self._rows >= self._limits[0] or self._size >= self._limits[1]:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All batches that wait, as one, if there are any."""
        if self._waiting:
            yield self._taken()

    def _taken(self) -> pa.RecordBatch:
        """All batches that wait, as one. They are not held in memory while it is used."""
        waiting, self._waiting = self._waiting, []
        self._rows = self._size = 0
        return concat(waiting)
