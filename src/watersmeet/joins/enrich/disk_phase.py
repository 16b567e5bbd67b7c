"""The disk phase: stream rows are answered from the partitions of the table.

Rows ascend by code, and so do the partitions. So a partition is read once for all rows whose key
it may hold, and only if it may hold any of them. How it is read is said by :mod:`.reader`.

**Several partitions together.** A partition has the rows of a few of the wanted keys only. To make
results of them partition by partition would take longer than to find them. So these master rows are
copied into a buffer, and results are made of what several partitions have.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.answers import Stopwatch, Unmatched, answers
from watersmeet.joins.enrich.counters import EnrichCounters
from watersmeet.joins.enrich.layout import EnrichLayout
from watersmeet.joins.enrich.reader import PartitionReader
from watersmeet.joins.enrich.state import EnrichState
from watersmeet.rows.columns import Bools, Ints, codes_of, concat
from watersmeet.segments.probe import spread
from watersmeet.segments.segment import Segment
from watersmeet.table.files import Extent
from watersmeet.table.lookup import DistinctCodes, MasterRanges, Visits, code_ranges
from watersmeet.table.shard import TableShard

#: Master rows, the numbers of keys, and from where to where the rows of each are.
KeyRanges = tuple[Segment, Ints, Ints, Ints]


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
        self._reader = PartitionReader(layout, table, state, counters, self._watch)

    def answers(
        self, rows: pa.RecordBatch, unmatched: Unmatched | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The results of rows that ascend by code."""
        ranges, watch = self._ranges(rows), self._watch
        yield from answers(self._layout, rows, ranges, unmatched=unmatched, watch=watch)

    def expected_ns(self, codes: Ints) -> float:
        """What it would take to find such codes, which ascend."""
        return self._reader.expected_ns(Visits.of(self._table, DistinctCodes.of(codes).codes))

    def _ranges(self, rows: pa.RecordBatch) -> Iterator[MasterRanges]:
        """Where the master rows of rows are."""
        asked = DistinctCodes.of(codes_of(rows))
        visits = Visits.of(self._table, asked.codes)
        self._counters.skipped += len(self._table) - len(visits.partitions)
        found = np.zeros(len(asked.codes), dtype=np.bool_)
        extents = self._reader.extents(visits)
        buffer = MasterBuffer(self._layout.output.piece_bytes // 2)
        order = range(len(visits.partitions))
        for visit in reversed(order) if self._layout.as_of else order:
            asking = visits.wanted[int(visits.low[visit]) : int(visits.high[visit])]
            number = int(visits.partitions[visit])
            found[(yield from self._visit(number, extents[visit], asked, asking, buffer))] = True
            yield from (asked.ranges(*held) for held in buffer.full())
        yield from (asked.ranges(*held) for held in buffer.rest())
        self._count(rows, asked, visits, found)

    def _visit(
        self, number: int, extent: Extent, asked: DistinctCodes, asking: Ints, buffer: MasterBuffer
    ) -> Generator[MasterRanges, None, Ints]:
        """Look for keys in a partition: where their rows are, unless these go into the buffer.
        Gives back which keys it has. When this is over, the partition is not mapped any more."""
        began = self._watch.nanoseconds
        partition = self._reader.open(number, extent)
        with self._watch:
            fences = self._table.fences_of(number)
            codes = codes_of(partition.rows.rows)
            there, low, high = code_ranges(codes, fences, asked.codes[asking])
            keys = asking[there]
            buffers = self._buffers and buffer.takes(partition.rows, low, high)
            if buffers:
                buffer.add(partition.rows, keys, low, high)
        if not buffers:
            yield asked.ranges(partition.rows, keys, low, high)
        self._reader.close(partition, len(asking), self._watch.nanoseconds - began)
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
            self._state.misses.note(codes[of_rows], barren=barren)
            self._state.progress.volume += rows.nbytes * count / max(len(rows), 1)

    @property
    def _buffers(self) -> bool:
        """Are results made of what several partitions have? As of a time, partitions are looked
        at one after the other; and where there are no pairs, there is little to make."""
        return self._layout.pairs and not self._layout.as_of


class MasterBuffer:
    """Master rows that are taken out of several partitions, until they take ``limit`` bytes.

    Invariant: what is held takes less than twice the limit, and twice that while it is put
    together."""

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

    def full(self) -> Iterator[KeyRanges]:
        """All that is held, if that is enough."""
        if self._bytes >= self._limit:
            yield from self.rest()

    def rest(self) -> Iterator[KeyRanges]:
        """All that is held, if anything is."""
        if self._held:
            held, self._held, self._bytes = self._held, [], 0
            master = Segment(concat([rows for rows, _, _ in held]), 0, 0).with_widest(self._widest)
            keys = np.concatenate([keys for _, keys, _ in held])
            counts = np.concatenate([counts for _, _, counts in held])
            del held
            high = np.cumsum(counts)
            yield master, keys, high - counts, high
