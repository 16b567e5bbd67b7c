"""How a partition of the table is read: scanned, sought, or from a copy on the host.

For each partition that may hold a key, the cheaper way is taken, by what both have cost so far
(:mod:`watersmeet.cost.disk_phase`). Now and then it is the other way, so that its cost stays known.
Which way it is changes no result.

**Copies.** Where the staged table is on storage that others share, a host keeps copies of the
partitions that it reads. Rule: rent or buy. A partition that was read as a whole is copied then.
One that is sought is copied when the seeks in it have taken as long as reading it as a whole and
copying it would: so however often it is wanted, all together takes at most twice as long as if that
had been known. Say that a partition takes 3 ms to read and 1 ms to copy, and a step's seeks in it
take 2 ms: then it is copied in the third step, behind 6 ms of seeks.

Copies are files of the local cache of segments (:mod:`watersmeet.state.cache`): checked when they
are first read, limited in size, the least recently used evicted first. They may be lost at any
time, and decide about time alone, never about a result.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np

from watersmeet.cost.disk_phase import Reading, scan_ns, scans, seek_ns
from watersmeet.joins.enrich.answers import Stopwatch
from watersmeet.joins.enrich.counters import EnrichCounters
from watersmeet.joins.enrich.layout import TABLE, EnrichLayout
from watersmeet.joins.enrich.state import EnrichState
from watersmeet.rows.columns import Bools, Ints
from watersmeet.segments.segment import Segment
from watersmeet.state.cache import SegmentCache
from watersmeet.table.files import Extent
from watersmeet.table.lookup import Visits
from watersmeet.table.shard import TableShard

#: This part of the time may go to reading partitions in the way that seems to cost more.
_EXPLORING = 0.05


@dataclass(frozen=True)
class OpenPartition:
    """A partition that is read: its ``rows``, whether they are from a ``copy``, whether it was
    ``scanned``, and how many nanoseconds that took (``scanning``)."""

    number: int
    rows: Segment
    copy: bool
    scanned: bool
    scanning: int


class PartitionReader:
    """Reads partitions of one shard of the table; lives for a step. To find keys in a partition
    takes the time of the ``watch``; to seek it counts as finding, to scan it does not."""

    def __init__(
        self,
        layout: EnrichLayout,
        table: TableShard,
        state: EnrichState,
        counters: EnrichCounters,
        watch: Stopwatch,
    ) -> None:
        self._layout = layout
        self._table = table
        self._state = state
        self._counters = counters
        self._watch = watch
        self._copies = Copies(table, state.cache) if layout.policy.copies else None

    def expected_ns(self, visits: Visits) -> float:
        """What it would take to read partitions."""
        sizes, reading = visits.sizes(self._table), self._state.reading
        scanning, seeking = scan_ns(visits.keys, sizes, reading), seek_ns(visits.keys, reading)
        costs = np.where(self._cheaper(visits), scanning, seeking)
        if self._copies is not None:
            at_hand = scan_ns(visits.keys, np.zeros_like(sizes), reading)
            costs = np.where(self._copies.has(visits.partitions), at_hand, costs)
        return float(costs.sum())

    def extents(self, visits: Visits) -> list[Extent]:
        """How much of each partition is going to be touched: all of it, if it is scanned."""
        extents: list[Extent] = []
        for scanned, crowded in zip(self._scanned(visits), self._crowded(visits), strict=True):
            extents.append("all" if scanned else "most" if crowded else "some")
        return extents

    def open(self, number: int, extent: Extent) -> OpenPartition:
        """A partition, to be looked into. Whoever drops it unmaps it."""
        scanning = Stopwatch()
        copy = None if self._copies is None else self._copies.open(number)
        scanned = extent == "all" and copy is None
        with scanning if scanned else self._watch:
            rows = copy or self._table.partition(number, extent)
        return OpenPartition(number, rows, copy is not None, scanned, scanning.nanoseconds)

    def close(self, partition: OpenPartition, keys: int, finding: int) -> None:
        """Note what it took to find that many keys in a partition, in nanoseconds; and copy it,
        if copies are kept and it has been read enough."""
        if partition.copy:
            self._counters.copied += 1
        else:
            self._measure(partition.number, keys, partition.scanning, finding)
            self._copy(partition, finding)

    # -- which way ------------------------------------------------------------------

    def _scanned(self, visits: Visits) -> Bools:
        """Which partitions are scanned, the others being sought."""
        if self._layout.access != "auto":
            return self._cheaper(visits)
        if not self._state.reading.known:
            turns = self._state.progress.visited + np.arange(len(visits.partitions))
            alternating: Bools = turns % 2 == 0
            return alternating
        return np.logical_xor(self._cheaper(visits), self._explored(visits))

    def _cheaper(self, visits: Visits) -> Bools:
        """Which partitions are cheaper to scan, unless one way was asked for."""
        if self._layout.access != "auto":
            return np.full(len(visits.partitions), self._layout.access == "scan")
        return scans(visits.keys, visits.sizes(self._table), self._state.reading)

    def _explored(self, visits: Visits) -> Bools:
        """Which partitions are read in the way that seems to cost more: as soon as so much time
        has been spent on reading that it does not matter."""
        sizes, reading = visits.sizes(self._table), self._state.reading
        progress = self._state.progress
        costs = scan_ns(visits.keys, sizes, reading), seek_ns(visits.keys, reading)
        explored = np.zeros(len(visits.partitions), dtype=np.bool_)
        pairs = zip(np.minimum(*costs).tolist(), np.maximum(*costs).tolist(), strict=True)
        for visit, (less, more) in enumerate(pairs):
            progress.unexplored += less
            if more <= _EXPLORING * progress.unexplored:
                explored[visit] = True
                progress.unexplored = 0.0
        return explored

    def _crowded(self, visits: Visits) -> Bools:
        """In which partitions so many keys are wanted that most pages are touched."""
        columns = len(self._layout.inputs[TABLE].rows.stored) + 1
        crowded: Bools = visits.keys * columns * mmap.PAGESIZE > visits.sizes(self._table)
        return crowded

    # -- what it has cost -----------------------------------------------------------

    def _measure(self, number: int, keys: int, scanning: int, finding: int) -> None:
        """Note what a partition has cost, in nanoseconds; ``scanning`` is 0 if it was sought."""
        state = self._state
        state.progress.visited += 1
        if scanning:
            size = int(self._table.bytes[number])
            self._counters.scanned += 1
            state.reading = state.reading.scanned(keys, size, scanning, finding)
        else:
            self._counters.sought += 1
            self._counters.seeks += keys
            state.reading = state.reading.sought(keys, finding)

    def _copy(self, partition: OpenPartition, finding: int) -> None:
        state, copies, number = self._state, self._copies, partition.number
        if copies is None:
            return
        if not partition.scanned and not copies.pays(number, finding, state.reading):
            return
        copying = Stopwatch()
        with copying:
            copies.make(number, partition.rows)
        size = int(self._table.bytes[number])
        state.reading = state.reading.copied(size, copying.nanoseconds)


class Copies:
    """The copies of one shard of a table; lives for a step."""

    def __init__(self, table: TableShard, cache: SegmentCache) -> None:
        self._table = table
        self._cache = cache

    def has(self, partitions: Ints) -> Bools:
        """Of which partitions there is a copy."""
        return np.array([self._cache.has(self._id(number)) for number in partitions], np.bool_)

    def open(self, number: int) -> Segment | None:
        """The copy of a partition, if there is one, in the order of its codes."""
        copy = self._cache.load(self._id(number))
        return copy

    def pays(self, number: int, nanoseconds: int, reading: Reading) -> bool:
        """Note what seeks in a partition have taken. Does it pay to copy it by now?"""
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
