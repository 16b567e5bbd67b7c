"""Master rows that are taken out of several partitions, so that they are answered together.

A partition has the rows of a few of the wanted keys only. To make results of them partition by
partition would take longer than to find them. So they are copied, and the results are made of
what several partitions have.

Invariant: what is held takes less than twice the limit, and twice that while it is put together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import Ints, concat
from watersmeet.segments.probe import spread
from watersmeet.segments.segment import Segment

#: Master rows, the numbers of keys, and from where to where the rows of each are.
Fetched = tuple[Segment, Ints, Ints, Ints]


class Fetching:
    """Master rows that wait until they take ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[tuple[pa.RecordBatch, Ints, Ints]] = []
        self._widest = self._bytes = 0

    def takes(self, partition: Segment, low: Ints, high: Ints) -> bool:
        """Are these rows of a partition few enough to be copied?"""
        return int((high - low).sum()) * partition.widest <= self._limit

    def add(self, partition: Segment, keys: Ints, low: Ints, high: Ints) -> None:
        """Copy these rows of a partition."""
        for _, places in spread(low, high, 1 << 31):
            rows = partition.rows.take(pa.array(places))
            self._held.append((rows, keys, high - low))
            self._bytes += rows.nbytes
            self._widest = max(self._widest, partition.widest)

    def full(self) -> Iterator[Fetched]:
        """All that is held, if that is enough."""
        if self._bytes >= self._limit:
            yield from self.rest()

    def rest(self) -> Iterator[Fetched]:
        """All that is held, if anything is."""
        if self._held:
            held, self._held, self._bytes = self._held, [], 0
            master = Segment(concat([rows for rows, _, _ in held]), 0, 0).with_widest(self._widest)
            keys = np.concatenate([keys for _, keys, _ in held])
            counts = np.concatenate([counts for _, _, counts in held])
            del held
            high = np.cumsum(counts)
            yield master, keys, high - counts, high
