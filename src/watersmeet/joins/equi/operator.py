"""The operator of an equality join, as backends see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.drivers import driven
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.state import EquiState
from watersmeet.joins.equi.step import EquiStep
from watersmeet.joins.equi.traffic import learn
from watersmeet.joins.operator import Chunk, Operator, count_windows
from watersmeet.joins.watermark import unproven
from watersmeet.rows.inflow import Inflow
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import Store


class EquiJoin(Operator[EquiState, EquiCounters, pa.RecordBatch]):
    """The operator. It holds no state of its own: see :class:`EquiState`."""

    def __init__(self, layout: EquiLayout) -> None:
        self.layout = layout
        self.inputs = [stream.name for stream in layout.inputs]
        self.output = layout.output.schema

    @property
    def chunk_bytes(self) -> int | None:
        return self.layout.piece

    def counters(self) -> EquiCounters:
        return EquiCounters.zero(len(self.layout.inputs))

    @property
    def expects(self) -> bool:
        return self.layout.policy.expects

    def expect(self, inflows: Sequence[Inflow], state: EquiState) -> None:
        if self.expects:
            learn(state.traffic, inflows, self.layout.kept)

    def open(self, store: Store, shard: Shard, cache: SegmentCache) -> EquiState:
        return EquiState(self.layout, store, shard, cache)

    def step(
        self,
        chunks: Iterable[Chunk],
        watermark: int | None,
        state: EquiState,
        counters: EquiCounters,
    ) -> Iterator[pa.RecordBatch]:
        """Results of one micro-batch, in pieces."""
        step = self._begun(state, counters)
        yield from _counted(step.results(chunks, watermark), counters)

    def finish(self, state: EquiState, counters: EquiCounters) -> Iterator[pa.RecordBatch]:
        """Time ends: emit what is unmatched."""
        yield from _counted(
            EquiStep(self.layout, self.ordered, state, counters).end_of_time(), counters
        )

    def report(self, state: EquiState, counters: EquiCounters) -> None:
        count_windows(state, counters)
        for i, (stream, window) in enumerate(zip(counters.streams, state.windows, strict=True)):
            stream.indexed = sum(entry.indexed for entry in window.entries)
            if self.layout.preserved[i]:
                stream.unproven = unproven(window)
        counters.owed = len(state.debts)

    def ordered(self, rows: Chunk, state: EquiState) -> Iterator[tuple[int, pa.RecordBatch]]:
        """New rows of all streams in the order in which they are processed, each batch with its
        stream. By *priority*, a stream with unique keys comes first: rows of the other one then
        find their only match at once, and are not stored."""
        schedule = self.layout.policy.schedule
        if schedule.streams != "priority":
            usual = [flow.rows for flow in state.flows]
            return driven(schedule.streams, rows, state.stored_rows, usual)
        first = sorted(range(len(rows)), key=lambda stream: not self.layout.inputs[stream].unique)
        given = ((stream, rows[stream]) for stream in first)
        return ((stream, batch) for stream, batch in given if batch is not None and len(batch))

    def _begun(self, state: EquiState, counters: EquiCounters) -> EquiStep:
        return EquiStep(self.layout, self.ordered, state, counters)


def _counted(results: Iterator[pa.RecordBatch], counters: EquiCounters) -> Iterator[pa.RecordBatch]:
    """The same results, counted as they pass."""
    for batch in results:
        counters.results += len(batch)
        yield batch
