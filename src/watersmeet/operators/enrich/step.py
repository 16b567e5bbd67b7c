"""The semi-stream join of a stream with a staged table, one step at a time.

**Result.** Each row of the stream with each row of the table that has its key and for which the
predicate holds; depending on the join type, also rows that match nothing. Each row of the stream
is answered once, as a whole.

**A step** (paper, algorithm 1):

1. *Cache phase.* New rows whose key is cached are answered from the cache (:mod:`.hot_keys`). Rows
   whose key cannot be in the table, by the partitions' bounds and filters, are answered as well.
2. *Disk phase.* The others are answered from the table's partitions (:mod:`.access`): at once, or,
   if that takes long and the user has given ``max_wait``, when the cycle comes to their partition.
   Until then they wait in the state (:mod:`.waiting`).
3. *Migration.* Frequent keys move into the cache, rare ones out of it (:mod:`.migration`).

**In memory.** A shard of the table that fits into its part of the memory is not cached again: its
partitions stay in the system's memory, and the join is a main-memory join (theorem 3).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.base import Chunk, count_windows
from watersmeet.operators.enrich.access import DiskPhase
from watersmeet.operators.enrich.answers import answers
from watersmeet.operators.enrich.counters import EnrichCounters
from watersmeet.operators.enrich.hot_keys import HotKeys
from watersmeet.operators.enrich.layout import STREAM, EnrichLayout
from watersmeet.operators.enrich.migration import Migration
from watersmeet.operators.enrich.staged import StagedTable
from watersmeet.operators.enrich.state import EnrichState, averaged
from watersmeet.operators.enrich.table import TableShard
from watersmeet.operators.enrich.turn import Turn
from watersmeet.operators.enrich.waiting import ARRIVED, arrived_of
from watersmeet.rows.columns import codes_of, has_code
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import Store


class Enrich:
    """The operator. It holds no state of its own: see :class:`EnrichState`."""

    def __init__(self, layout: EnrichLayout, staged: StagedTable) -> None:
        self.layout = layout
        self.staged = staged

    @property
    def inputs(self) -> list[str]:
        return [self.layout.inputs[STREAM].name]

    @property
    def output(self) -> pa.Schema:
        return self.layout.output.schema

    @property
    def chunk_bytes(self) -> int | None:
        return self.layout.policy.piece

    def counters(self) -> EnrichCounters:
        return EnrichCounters.zero()

    def open(self, store: Store, shard: Shard, cache: SegmentCache) -> EnrichState:
        return EnrichState(self.layout, store, shard, cache)

    def step(
        self,
        chunks: Iterable[Chunk],
        watermark: int | None,
        state: EnrichState,
        counters: EnrichCounters,
    ) -> Iterator[pa.RecordBatch]:
        """Results of one micro-batch, in pieces."""
        self.staged.touch()
        step = Step.begin(self.layout, self.staged.shard(state.shard.number), state, counters)
        for results in step.results(chunks, watermark):
            counters.results += len(results)
            yield results
        step.end()

    def finish(self, state: EnrichState, counters: EnrichCounters) -> Iterator[pa.RecordBatch]:
        """No row waits where no watermark wakes a shard, as in a batch run."""
        assert not state.waiting.rows or self.layout.policy.wakes, "no row waits in a batch run"
        return iter(())

    def report(self, state: EnrichState, counters: EnrichCounters) -> None:
        count_windows(state, counters)
        counters.cycles = state.progress.cycle
        counters.cached_keys, counters.cached_bytes = state.cached
        oldest = state.waiting.oldest()
        counters.oldest_wait = 0 if oldest is None else state.progress.step - oldest + 1


@dataclass
class Step:
    """One step of one shard.

    ``missed`` counts the new rows that the cache does not answer."""

    layout: EnrichLayout
    table: TableShard
    state: EnrichState
    counters: EnrichCounters
    migration: Migration
    hot: HotKeys | None
    disk: DiskPhase
    turn: Turn
    missed: int = 0

    @classmethod
    def begin(
        cls,
        layout: EnrichLayout,
        table: TableShard,
        state: EnrichState,
        counters: EnrichCounters,
    ) -> Step:
        state.progress.step += 1
        caches = layout.caches and table.nbytes > layout.policy.resident
        migration = Migration(layout, state, table)
        hot = migration.begin() if caches else None
        disk = DiskPhase(layout, table, state, counters, counts=caches)
        turn = Turn(layout, table, state)
        return cls(layout, table, state, counters, migration, hot, disk, turn)

    def results(self, chunks: Iterable[Chunk], watermark: int | None) -> Iterator[pa.RecordBatch]:
        """What new rows, and rows that wait, add to the result."""
        arrived = False
        for [rows] in chunks:
            if rows is not None and len(rows):
                arrived = True
                yield from self._arrive(rows)
        yield from self._answer_waiting(watermark, paused=not arrived)

    def end(self) -> None:
        """Note what was measured, and decide about the next step."""
        state, progress = self.state, self.state.progress
        if self.disk.counts:
            self.migration.end(self.hot, wrapped=self.turn.wrapped)
        progress.missed = averaged(progress.missed, self.missed, first=progress.step == 1)
        self.turn.end()
        state.cached = (0, 0) if self.hot is None else (len(self.hot), self.hot.nbytes)

    # -- new rows -------------------------------------------------------------------

    def _arrive(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """New rows are answered from the cache, or from the table, or wait."""
        counters = self.counters.streams[STREAM]
        counters.rows += len(rows)
        self._note(rows)
        keyed = has_code(rows)
        if not keyed.all():
            unmatchable = rows.filter(pa.array(~keyed))
            counters.unmatchable += len(unmatchable)
            yield from answers(self.layout, unmatchable, ())
            rows = rows.filter(pa.array(keyed))
        rows = yield from self._from_cache(ascending(rows))
        self.missed += len(rows)
        if self.turn.may_wait:
            self.turn.expected_ns += self.disk.expected_ns(codes_of(rows))
        if self.state.progress.pace is None:
            yield from self.disk.answers(rows)
        else:
            first, last = self.table.homes(codes_of(rows))
            absent = first == last
            yield from answers(self.layout, rows, (), only=absent)
            self.state.waiting.add(rows.filter(pa.array(~absent)), self.state.progress.step)

    def _note(self, rows: pa.RecordBatch) -> None:
        """Measure new rows."""
        progress = self.state.progress
        width = rows.nbytes / len(rows)
        progress.width = averaged(progress.width, width, first=not progress.width)
        self.turn.note(rows)

    def _from_cache(self, rows: pa.RecordBatch) -> Generator[pa.RecordBatch, None, pa.RecordBatch]:
        """The results of rows whose key is cached; gives back the others."""
        if self.hot is None or not len(rows):
            return rows
        cached, keys = self.hot.find(codes_of(rows))
        mine = np.flatnonzero(cached)
        found = self.hot.found(mine, keys, backwards=self.layout.as_of)
        yield from answers(self.layout, rows, found, only=cached)
        self.hot.count(keys)
        self.counters.hits += len(mine)
        return rows.filter(pa.array(~cached))

    # -- rows that wait -------------------------------------------------------------

    def _answer_waiting(self, watermark: int | None, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """The results of the rows that need not wait any longer: all of them together, so that a
        partition is read once, if they fit into memory."""
        due = self.turn.due(watermark, self.hot, paused=paused)
        gathering = Gathering(rows=1 << 31, size=self.layout.policy.piece)
        for rows in self.state.waiting.take(due):
            self.counters.waited += int((arrived_of(rows) < self.state.progress.step).sum())
            for gathered in gathering.add(rows.drop_columns([ARRIVED])):
                yield from self._answer(gathered)
        for gathered in gathering.rest():
            yield from self._answer(gathered)

    def _answer(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The results of rows, from the cache or the table."""
        rest = yield from self._from_cache(ascending(rows))
        yield from self.disk.answers(rest)


def ascending(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, in the order of their codes."""
    return rows.take(pa.array(np.argsort(codes_of(rows), kind="stable")))
