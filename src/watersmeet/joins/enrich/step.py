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

**Another version** of a table that changes takes effect between two steps: no row has been answered
in part by then. The cache is made anew for it, and rows that found no match may find one
(:mod:`.retry`).

**In memory.** A shard of the table that fits into its part of the memory is not cached again: its
partitions stay in the system's memory, and the join is a main-memory join (theorem 3).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.access import DiskPhase
from watersmeet.joins.enrich.answers import Unmatched, answers
from watersmeet.joins.enrich.cache.hot_keys import HotKeys
from watersmeet.joins.enrich.cache.migration import Migration
from watersmeet.joins.enrich.counters import TABLE_VERSION, EnrichCounters
from watersmeet.joins.enrich.cursor import Turn
from watersmeet.joins.enrich.layout import STREAM, EnrichLayout
from watersmeet.joins.enrich.queue import ARRIVED, arrived_of
from watersmeet.joins.enrich.retry import Retry
from watersmeet.joins.enrich.state import EnrichState, averaged
from watersmeet.joins.operator import Chunk, Operator, count_cache
from watersmeet.rows.columns import codes_of, has_code
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.manifest import total_bytes
from watersmeet.state.store import Store
from watersmeet.table.lease import TOUCH_SECONDS
from watersmeet.table.lookup import ascending
from watersmeet.table.shard import TableShard
from watersmeet.table.staged_table import StagedTable
from watersmeet.table.versions import Versions

#: Where less than this is handled at a time, the memory is small beside what Arrow keeps of freed
#: memory, some tens of megabytes. Then that is given back after each step; it takes milliseconds.
_SMALL_PIECE = 1_000_000

_Piece = TypeVar("_Piece")


class Enrich(Operator[EnrichState, EnrichCounters, pa.RecordBatch]):
    """The operator. It holds no state of its own: see :class:`EnrichState`. ``staged`` is the
    table, as it was when the query was planned, and ``versions`` says whether there is a newer
    one, if it changes."""

    def __init__(
        self, layout: EnrichLayout, staged: StagedTable, versions: Versions | None = None
    ) -> None:
        self.layout = layout
        self.staged = staged
        self.versions = versions
        self.inputs = [layout.inputs[STREAM].name]
        schema, version = layout.output.schema, layout.version
        self.output = schema if version is None else schema.append(pa.field(version, pa.string()))

    @property
    def chunk_bytes(self) -> int | None:
        return self.layout.policy.piece

    @property
    def frame_bytes(self) -> int | None:
        return self.layout.policy.frame

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
        staged = self._version(state)
        state.progress.table = None if self.versions is None else self.versions.table
        staged.touch()
        table = staged.shard(state.shard, self.layout.policy.filters)
        step = Step.begin(self.layout, table, staged.version, state, counters, watermark)
        for results in _using(staged, step.results(_using(staged, chunks), watermark)):
            counters.results += len(results)
            yield self._with_version(results, staged.version)
        step.end()
        if self.layout.policy.piece < _SMALL_PIECE:
            pa.default_memory_pool().release_unused()
        if self.versions is not None:
            self._look_for_newer(self.versions, state, counters)

    def finish(self, state: EnrichState, counters: EnrichCounters) -> Iterator[pa.RecordBatch]:
        """No row waits where no watermark wakes a shard, as in a batch run."""
        assert not state.waits or self.layout.policy.wakes, "no row waits in a batch run"
        return iter(())

    def report(self, state: EnrichState, counters: EnrichCounters) -> None:
        (stream,), reading = counters.streams, state.reading
        for window in state.windows:
            stream.state_rows += window.rows
            stream.state_bytes += total_bytes(window.entries)
            stream.segments += len(window.entries)
        count_cache(state, counters)
        counters.retried = state.retried.rows
        counters.cycles = state.progress.cycle
        counters.seek_ns, counters.find_ns = round(reading.seek or 0), round(reading.hit or 0)
        counters.read_us = round((reading.read or 0) * 1000)
        counters.cached_keys, counters.cached_bytes = state.cached
        oldest = state.waiting.oldest()
        counters.oldest_wait = 0 if oldest is None else state.progress.step - oldest + 1

    def _with_version(self, results: pa.RecordBatch, version: str) -> pa.RecordBatch:
        """The results, with the version that they are of, if that is asked for."""
        if self.layout.version is None:
            return results
        named = pa.repeat(pa.scalar(version, pa.string()), len(results))
        return results.append_column(self.layout.version, named)

    def _version(self, state: EnrichState) -> StagedTable:
        """The version that a step uses: of a table that changes, the one that the step before
        has noted; unless that was a step of another query, with another table, or with other
        columns of it."""
        progress = state.progress
        noted = progress.newer or progress.version
        if self.versions is None or noted is None or progress.table != self.versions.table:
            return self.staged
        staged, current = self.versions.version(noted), self.versions.current() or self.staged
        # Those two have been looked at when they were made, or when the query was started.
        whole = staged in (self.staged, current) or staged.serves(state.shard)
        return staged if whole and staged.size() is not None else current

    def _look_for_newer(
        self, versions: Versions, state: EnrichState, counters: EnrichCounters
    ) -> None:
        """Note a newer version for the next step."""
        current = versions.current()
        progress = state.progress
        progress.newer = None
        if current is not None and current.version != progress.version:
            progress.newer = current.version
        failure = versions.failure()
        if failure is not None and state.shard.number == 0:
            counters.notes.append(f"the table could not be refreshed: {failure}")


def _using(staged: StagedTable, pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Pieces of a step. Its table is known to be in use as long as they come."""
    touched = time.monotonic()
    for piece in pieces:
        if time.monotonic() - touched > TOUCH_SECONDS:
            staged.touch()
            touched = time.monotonic()
        yield piece


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
    retry: Retry | None
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
    ) -> Step:
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
            turn=Turn(layout, table, state),
            retry=Retry(layout, state, counters, watermark) if layout.retry else None,
            renewed=renewed,
        )

    def results(self, chunks: Iterable[Chunk], watermark: int | None) -> Iterator[pa.RecordBatch]:
        """What new rows, and rows that wait, add to the result."""
        if self.retry is None:
            yield from Retry(self.layout, self.state, self.counters, watermark).give_up_all()
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
        yield from self._answer_waiting(watermark, paused=not arrived)
        if self.retry is not None:
            yield from self.retry.give_up()

    def end(self) -> None:
        """Note what was measured, and decide about the next step."""
        state, progress = self.state, self.state.progress
        if self.disk.counts:
            self.migration.end(self.hot, wrapped=self.turn.wrapped)
        progress.missed = averaged(progress.missed, self.missed, first=progress.step == 1)
        self.turn.end()
        state.cached = (0, 0) if self.hot is None else (len(self.hot), self.hot.nbytes)

    @property
    def _unmatched(self) -> Unmatched | None:
        """What becomes of rows without a match, if they are retried."""
        return None if self.retry is None else self.retry.unmatched

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
        if self.turn.may_wait:
            self.turn.expected_ns += self.disk.expected_ns(codes_of(rows))
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
        progress.width = averaged(progress.width, width, first=not progress.width)
        self.turn.note(rows)

    def _from_cache(self, rows: pa.RecordBatch) -> Generator[pa.RecordBatch, None, pa.RecordBatch]:
        """The results of rows whose key is cached; gives back the others."""
        if self.hot is None or not len(rows):
            return rows
        cached, keys = self.hot.find(codes_of(rows))
        mine = np.flatnonzero(cached)
        found = self.hot.found(mine, keys, backwards=self.layout.as_of)
        yield from answers(self.layout, rows, found, only=cached, unmatched=self._unmatched)
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

    def _answer_waiting(self, watermark: int | None, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """The results of the rows that need not wait any longer: all of them together, so that a
        partition is read once, if they fit into memory."""
        due = self.turn.due(
            watermark,
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
