"""The disk phase: the partitions of the table are sought or scanned for the keys of stream rows.

For each partition that may hold a key, the cheaper way is taken, by what both have cost so far
(:mod:`watersmeet.cost.disk_phase`). Now and then it is the other way, so that its cost stays known.
Which way it is changes no result. A partition of which the host has a copy (:mod:`.copies`) is
sought there.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.cost.disk_phase import scan_ns, scans, seek_ns
from watersmeet.joins.enrich.answers import Stopwatch, Unmatched, answers
from watersmeet.joins.enrich.copies import Copies
from watersmeet.joins.enrich.counters import EnrichCounters
from watersmeet.joins.enrich.fetching import Fetching
from watersmeet.joins.enrich.layout import TABLE, EnrichLayout
from watersmeet.joins.enrich.state import EnrichState
from watersmeet.rows.columns import Bools, Ints, codes_of
from watersmeet.rows.output import PIECE_BYTES
from watersmeet.segments.segment import Segment
from watersmeet.table.files import Extent
from watersmeet.table.lookup import DistinctCodes, MasterRanges, Visits, code_ranges
from watersmeet.table.shard import TableShard

#: This part of the time may go to reading partitions in the way that seems to cost more.
_EXPLORING = 0.05


class DiskPhase:
    """Answers stream rows from a table; lives for a step. With ``counts``, it counts how often
    keys come."""

    def __init__(
        self,
        layout: EnrichLayout,
        table: TableShard,
        state: EnrichState,
        counters: EnrichCounters,
        *,
        counts: bool,
    ) -> None:
        self._layout = layout
        self._table = table
        self._state = state
        self._counters = counters
        self.counts = counts
        self._watch = Stopwatch()
        self._copies = Copies(table, state.cache) if layout.policy.copies else None

    def answers(
        self, rows: pa.RecordBatch, unmatched: Unmatched | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The results of rows that ascend by code."""
        found, watch = self._found(rows), self._watch
        yield from answers(self._layout, rows, found, unmatched=unmatched, watch=watch)

    def expected_ns(self, codes: Ints) -> float:
        """What it would take to find such codes, which ascend."""
        visits = Visits.of(self._table, DistinctCodes.of(codes).codes)
        sizes, reading = visits.sizes(self._table), self._state.reading
        scanning, seeking = scan_ns(visits.keys, sizes, reading), seek_ns(visits.keys, reading)
        costs = np.where(self._cheaper(visits), scanning, seeking)
        if self._copies is not None:
            at_hand = scan_ns(visits.keys, np.zeros_like(sizes), reading)
            costs = np.where(self._copies.there(visits.partitions), at_hand, costs)
        return float(costs.sum())

    def _found(self, rows: pa.RecordBatch) -> Iterator[MasterRanges]:
        asked = DistinctCodes.of(codes_of(rows))
        visits = Visits.of(self._table, asked.codes)
        self._counters.skipped += len(self._table) - len(visits.partitions)
        found = np.zeros(len(asked.codes), dtype=np.bool_)
        scanned, crowded = self._scanned(visits), self._crowded(visits)
        fetching = Fetching(min(self._layout.policy.piece, PIECE_BYTES) // 2)
        order = range(len(visits.partitions))
        for visit in reversed(order) if self._layout.as_of else order:
            asking = visits.wanted[int(visits.low[visit]) : int(visits.high[visit])]
            touched: Extent = "most" if crowded[visit] else "some"
            if scanned[visit]:
                touched = "all"
            number = int(visits.partitions[visit])
            found[(yield from self._visit(number, touched, asked, asking, fetching))] = True
            yield from (asked.ranges(*fetched) for fetched in fetching.full())
        yield from (asked.ranges(*fetched) for fetched in fetching.rest())
        self._count(rows, asked, visits, found)

    def _visit(
        self, number: int, touched: Extent, asked: DistinctCodes, asking: Ints, fetching: Fetching
    ) -> Generator[MasterRanges, None, Ints]:
        """Look for keys in a partition: where their rows are, unless these are fetched. Gives back
        which keys it has. When this is over, the partition is not mapped any more."""
        reading, began = Stopwatch(), self._watch.nanoseconds
        copy = None if self._copies is None else self._copies.open(number)
        scanned = touched == "all" and copy is None
        with reading if scanned else self._watch:
            partition = copy or self._table.partition(number, touched)
        with self._watch:
            fences = self._table.fences_of(number)
            there, low, high = code_ranges(codes_of(partition.rows), fences, asked.codes[asking])
            keys = asking[there]
            fetches = self._fetches and fetching.takes(partition, low, high)
            if fetches:
                fetching.add(partition, keys, low, high)
        if not fetches:
            yield asked.ranges(partition, keys, low, high)
        finding = self._watch.nanoseconds - began
        if copy is not None:
            self._counters.copied += 1
        else:
            self._measure(number, len(asking), reading.nanoseconds, finding)
            self._copy(number, partition, finding, scanned=scanned)
        return keys

    def _count(
        self, rows: pa.RecordBatch, asked: DistinctCodes, visits: Visits, found: Bools
    ) -> None:
        """Count the rows that were looked for, and note which keys they have."""
        wanted = np.zeros(len(asked.codes), dtype=np.bool_)
        wanted[visits.wanted] = True  # of a key in several layers, once
        of_rows = asked.of_rows(wanted)
        count = int(of_rows.sum())
        self._counters.probes += count
        if self.counts:
            codes = codes_of(rows)
            barren = codes[asked.of_rows(wanted & ~found)]
            self._state.tally.note(codes[of_rows], barren=barren)
            self._state.progress.volume += rows.nbytes * count / max(len(rows), 1)

    @property
    def _fetches(self) -> bool:
        """Are results made of what several partitions have? As of a time, partitions are looked
        at one after the other; and where there are no pairs, there is little to make."""
        return self._layout.pairs and not self._layout.as_of

    def _scanned(self, visits: Visits) -> Bools:
        """Which partitions are scanned, the others being sought."""
        if self._layout.access != "auto":
            return self._cheaper(visits)
        if not self._state.reading.known:
            turns = self._state.progress.visited + np.arange(len(visits.partitions))
            alternating: Bools = turns % 2 == 0
            return alternating
        return np.logical_xor(self._cheaper(visits), self._explored(visits))

    def _explored(self, visits: Visits) -> Bools:
        """Which partitions are read in the way that seems to cost more: as soon as so much time
        has been spent on reading that it does not matter."""
        sizes, reading, progress = (
            visits.sizes(self._table),
            self._state.reading,
            self._state.progress,
        )
        costs = scan_ns(visits.keys, sizes, reading), seek_ns(visits.keys, reading)
        explored = np.zeros(len(visits.partitions), dtype=np.bool_)
        pairs = zip(np.minimum(*costs).tolist(), np.maximum(*costs).tolist(), strict=True)
        for visit, (less, more) in enumerate(pairs):
            progress.unexplored += less
            if more <= _EXPLORING * progress.unexplored:
                explored[visit] = True
                progress.unexplored = 0.0
        return explored

    def _cheaper(self, visits: Visits) -> Bools:
        """Which partitions are cheaper to scan, unless one way was asked for."""
        if self._layout.access != "auto":
            return np.full(len(visits.partitions), self._layout.access == "scan")
        return scans(visits.keys, visits.sizes(self._table), self._state.reading)

    def _crowded(self, visits: Visits) -> Bools:
        """In which partitions so many keys are wanted that most pages are touched."""
        columns = len(self._layout.inputs[TABLE].rows.stored) + 1
        crowded: Bools = visits.keys * columns * mmap.PAGESIZE > visits.sizes(self._table)
        return crowded

    def _copy(self, number: int, partition: Segment, finding: int, *, scanned: bool) -> None:
        """Copy a partition that was read, if copies are kept and it has been read enough."""
        state, copies = self._state, self._copies
        if copies is None or not (scanned or copies.wanted(number, finding, state.reading)):
            return
        copying = Stopwatch()
        with copying:
            copies.make(number, partition)
        size = int(self._table.bytes[number])
        state.reading = state.reading.copied(size, copying.nanoseconds)

    def _measure(self, number: int, keys: int, reading: int, finding: int) -> None:
        """Note what a partition has cost, in nanoseconds; ``reading`` is 0 if it was sought."""
        state = self._state
        state.progress.visited += 1
        if reading:
            size = int(self._table.bytes[number])
            self._counters.scanned += 1
            state.reading = state.reading.scanned(keys, size, reading, finding)
        else:
            self._counters.sought += 1
            self._counters.seeks += keys
            state.reading = state.reading.sought(keys, finding)
