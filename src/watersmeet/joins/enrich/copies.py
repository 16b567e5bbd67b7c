"""Copies of partitions on the host, where the staged table is on storage that others share.

Rule: rent or buy. A partition that was read as a whole is copied then. One that is sought is
copied when the seeks in it have taken as long as reading it as a whole and copying it would: so
however often it is wanted, all together takes at most twice as long as if that had been known.

Copies are files of the local cache of segments (:mod:`watersmeet.state.cache`): checked when they
are first read, limited in size, the least recently used evicted first. They may be lost at any
time, and decide about time alone, never about a result.
"""

from __future__ import annotations

import numpy as np

from watersmeet.cost.disk_phase import Reading
from watersmeet.rows.columns import Bools, Ints
from watersmeet.segments.segment import Segment
from watersmeet.state.cache import SegmentCache
from watersmeet.table.shard import TableShard


class Copies:
    """The copies of one shard of a table; lives for a step."""

    def __init__(self, table: TableShard, cache: SegmentCache) -> None:
        self._table = table
        self._cache = cache

    def there(self, partitions: Ints) -> Bools:
        """Of which partitions there is a copy."""
        return np.array([self._cache.has(self._id(number)) for number in partitions], np.bool_)

    def open(self, number: int) -> Segment | None:
        """The copy of a partition, if there is one, in the order of its codes."""
        copy = self._cache.load(self._id(number))
        return copy

    def wanted(self, number: int, nanoseconds: int, reading: Reading) -> bool:
        """Note what seeks in a partition have taken. Was it enough to copy it?"""
        layer, local = self._table.locate(number)
        layer.spent[local] += nanoseconds
        price = reading.buying(int(layer.bytes[local]))
        return price is not None and bool(layer.spent[local] > price)

    def make(self, number: int, partition: Segment) -> None:
        """Copy a partition."""
        layer, local = self._table.locate(number)
        layer.spent[local] = 0
        self._cache.save(self._id(number), Segment(partition.rows, 0, 0))

    def _id(self, number: int | np.integer) -> str:
        # Versions of a table that share a layer share its copies.
        layer, local = self._table.locate(int(number))
        return f"{layer.name}-{local}"
