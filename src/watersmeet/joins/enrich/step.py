"""One step of the semi-stream join in one shard.

**A step** (paper, algorithm 1):

1. *Cache phase.* New rows whose key is cached are answered from the cache (:mod:`.cache.hot_keys`).
   Rows whose key cannot be in the table, by the partitions' bounds and filters, are answered as
   well.
2. *Disk phase.* The others are answered from the table's partitions (:mod:`.disk_phase`): at once,
   or, if that takes long and the user has given ``max_wait``, when the cursor comes to their
   partition (:mod:`.cursor`). Until then they wait in the state (:mod:`.queue`).
3. *Migration.* Frequent keys move into the cache, rare ones out of it (:mod:`.cache.migration`).

**In memory.** A shard of the table that fits into its part of the memory is not cached again: its
partitions stay in the system's memory, and the join is a main-memory join (theorem 3).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.cost.averages import moving_average
from watersmeet.joins.enrich.answers import Unmatched, answers
from watersmeet.joins.enrich.cache.hot_keys import HotKeys
from watersmeet.joins.enrich.cache.migration import Migration
from watersmeet.joins.enrich.counters import TABLE_VERSION, EnrichCounters
from watersmeet.joins.enrich.cursor import Cursor
from watersmeet.joins.enrich.disk_phase import DiskPhase
from watersmeet.joins.enrich.layout import STREAM, EnrichLayout
from watersmeet.joins.enrich.queue import ARRIVED, Retry, arrived_of
from watersmeet.joins.enrich.state import WEIGHT, EnrichState
from watersmeet.joins.operator import Chunk
from watersmeet.rows.columns import codes_of, has_code
from watersmeet.rows.gathering import Gathering
from watersmeet.table.lookup import ascending
from watersmeet.table.shard import TableShard


@dataclass
class EnrichStep:
    """One step of one shard. ``hot`` is the cache, if there is one. ``renewed``: is the table
    another one than that of the step before? ``missed`` counts the new rows that the cache does not
    answer."""

    layout: EnrichLayout
    table: TableShard
    state: EnrichState
    counters: EnrichCounters
    migration: Migration
    hot: HotKeys | None
    disk: DiskPhase
    cursor: Cursor
    retry: Retry
    watermark: int | None
    renewed: bool
    missed: int = 0

    @classmethod
    def begin(
        cls,
        layout: EnrichLayout,
        table: TableShard,
        version: str,
        state: EnrichState,
        counters: EnrichCounters,
        watermark: int | None,
    ) -> EnrichStep:
        """A step that uses a version of the table."""
        progress = state.progress
        progress.step += 1
        counters.notes.append(f"{TABLE_VERSION}{version}")
        caches = layout.caches and table.nbytes > layout.policy.resident
        migration = Migration(layout, state, table)
        renewed = progress.version not in (None, version)
        progress.version = version
        if renewed:
            migration.renew()
        return cls(
            layout,
            table,
            state,
            counters,
            migration,
            hot=migration.begin() if caches else None,
            disk=DiskPhase(layout, table, state, counters, counts=caches),
            cursor=Cursor(layout, table, state),
            retry=Retry(layout, state.retried, counters, progress.step, watermark),
            watermark=watermark,
            renewed=renewed,
        )

    def results(self, chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
        """What new rows, and rows that wait, add to the result."""
        if not self.layout.retry:
            yield from self.retry.give_up_all()
        elif self.renewed:
            for rows in self.retry.again():
                yield from self._answer(rows)
        # What the cache does not answer is gathered, so that few partitions are read twice.
        gathering = Gathering(rows=1 << 31, size=self.layout.policy.piece)
        arrived = False
        for [rows] in chunks:
            if rows is not None and len(rows):
                arrived = True
                missed = yield from self._arrive(rows)
                for gathered in gathering.add(missed):
                    yield from self._look_up(gathered)
        for gathered in gathering.rest():
            yield from self._look_up(gathered)
        yield from self._answer_waiting(paused=not arrived)
        if self.layout.retry:
            yield from self.retry.give_up()

    def end(self) -> None:
        """Note what was measured, and decide about the next step."""
        state, progress = self.state, self.state.progress
        if self.disk.counts:
            self.migration.end(self.hot, wrapped=self.cursor.wrapped)
        before = None if progress.step == 1 else progress.missed
        progress.missed = moving_average(before, self.missed, weight=WEIGHT)
        self.cursor.end()
        state.cached = (0, 0) if self.hot is None else (len(self.hot), self.hot.nbytes)

    @property
    def _unmatched(self) -> Unmatched | None:
        """What becomes of rows without a match, if they are retried."""
        return self.retry.unmatched if self.layout.retry else None

    # -- new rows -------------------------------------------------------------------

    def _arrive(self, rows: pa.RecordBatch) -> Generator[pa.RecordBatch, None, pa.RecordBatch]:
        """New rows are answered from the cache; gives back the others."""
        counters = self.counters.streams[STREAM]
        counters.rows += len(rows)
        self._note(rows)
        keyed = has_code(rows)
        if not keyed.all():
            unmatchable = rows.filter(pa.array(~keyed))
            counters.unmatchable += len(unmatchable)
            yield from answers(self.layout, unmatchable, ())
            rows = rows.filter(pa.array(keyed))
        missed = yield from self._from_cache(ascending(rows, stable=False))
        self.counters.hits += len(rows) - len(missed)
        return missed

    def _look_up(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """New rows that the cache does not answer are answered from the table, or wait."""
        rows = ascending(rows, stable=False)
        self.missed += len(rows)
        if self.cursor.may_wait:
            self.cursor.expected_ns += self.disk.expected_ns(codes_of(rows))
        if self.state.progress.pace is None:
            yield from self.disk.answers(rows, self._unmatched)
        else:
            absent = self.table.home(codes_of(rows)) < 0
            yield from answers(self.layout, rows, (), only=absent, unmatched=self._unmatched)
            rows = yield from self._of_leaving(rows.filter(pa.array(~absent)))
            self.state.waiting.add(rows, self.state.progress.step)

    def _note(self, rows: pa.RecordBatch) -> None:
        """Measure new rows."""
        progress = self.state.progress
        width = rows.nbytes / len(rows)
        progress.width = moving_average(progress.width or None, width, weight=WEIGHT)
        self.cursor.note(rows)

    def _from_cache(self, rows: pa.RecordBatch) -> Generator[pa.RecordBatch, None, pa.RecordBatch]:
        """The results of rows whose key is cached; gives back the others."""
        if self.hot is None or not len(rows):
            return rows
        cached, keys = self.hot.find(codes_of(rows))
        mine = np.flatnonzero(cached)
        ranges = self.hot.ranges(mine, keys, backwards=self.layout.as_of)
        yield from answers(self.layout, rows, ranges, only=cached, unmatched=self._unmatched)
        self.hot.count(keys)
        return rows.filter(pa.array(~cached))

    def _of_leaving(self, rows: pa.RecordBatch) -> Generator[pa.RecordBatch, None, pa.RecordBatch]:
        """The results of rows whose key was cached until now; gives back the others."""
        leaving = np.isin(codes_of(rows), self.migration.leaving)
        if not leaving.any():
            return rows
        yield from self.disk.answers(rows.filter(pa.array(leaving)), self._unmatched)
        return rows.filter(pa.array(~leaving))

    # -- rows that wait -------------------------------------------------------------

    def _answer_waiting(self, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """The results of the rows that need not wait any longer: all of them together, so that a
        partition is read once, if they fit into memory."""
        due = self.cursor.due(
            self.watermark,
            self.hot,
            leaving=self.migration.leaving,
            paused=paused,
            renewed=self.renewed,
        )
        gathering = Gathering(rows=1 << 31, size=self.layout.policy.piece)
        for rows in self.state.waiting.take(due):
            self.counters.waited += int((arrived_of(rows) < self.state.progress.step).sum())
            for gathered in gathering.add(rows.drop_columns([ARRIVED])):
                yield from self._answer(gathered)
        for gathered in gathering.rest():
            yield from self._answer(gathered)

    def _answer(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The results of rows, from the cache or the table."""
        rest = yield from self._from_cache(ascending(rows, stable=False))
        yield from self.disk.answers(rest, self._unmatched)
