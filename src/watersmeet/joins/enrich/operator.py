"""The semi-stream join of a stream with a staged table, as an operator.

**Result.** Each row of the stream with each row of the table that has its key and for which the
predicate holds; depending on the join type, also rows that match nothing. Each row of the stream
is answered once, as a whole: in a step (:mod:`.step`), or in a later one, if it may wait.

**Another version** of a table that changes takes effect between two steps: no row has been answered
in part by then. The cache is made anew for it, and rows that found no match may find one
(:mod:`.queue`). At its end, a step notes the version that is current by then, in the state; the
next one uses it. So a step that is run again uses the same version, and gives the same result:

    step   current at its end   noted        used
    1      a                    nothing      a, as it was when the query was planned
    2      b                    b            a
    3      b                    nothing      b
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from watersmeet.joins.enrich.counters import EnrichCounters
from watersmeet.joins.enrich.layout import STREAM, EnrichLayout
from watersmeet.joins.enrich.state import EnrichState
from watersmeet.joins.enrich.step import EnrichStep
from watersmeet.joins.operator import Chunk, Operator, count_cache
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.manifest import total_bytes
from watersmeet.state.store import Store
from watersmeet.table.lease import TOUCH_SECONDS
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
        step = EnrichStep.begin(self.layout, table, staged.version, state, counters, watermark)
        for results in _using(staged, step.results(_using(staged, chunks))):
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
