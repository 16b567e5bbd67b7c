"""The equality join of streams, one step at a time.

**Result.** Rows a and b match if their keys are equal, the predicate holds, and the earlier one is
at most its stream's window older than the later one:

    -W_b <= time(b) - time(a) <= W_a

Rows of three and more streams match if each two of them do.

**Each pair once.** A step processes the streams in some order (:mod:`.order.drivers`). A stream's
new rows first probe what is stored of the others: rows of earlier batches, and new rows that were
processed before in this one. Then they are stored themselves. So of two rows the one that is
stored later probes the other, and no pair is found twice; of many, the one that is stored last
probes all others (:mod:`.combinations`).

**What expires.** The watermark promises that no row with a time <= watermark comes any more (one
that does is late, and is dropped). So row a is useless when time(a) + W_a <= watermark: every
later b is further away. That same moment proves an outer or anti join's unmatched row. A row's
*mark* says that it has matched. A row of a semi or anti join is discarded when it has matched.

**Which watermark.** Rows of a stream that brought its own watermark may come out of another
stateful operator of the same query, which emits what the new watermark closes: behind that
watermark, but never behind the one of the step before. So such rows are late by the previous
watermark, as in Spark's own operators, and no row expires before all new rows have probed it.

**What is known about keys.** A stream may promise that a key comes once, or comes no more
(:mod:`.promises.closing`). Rows that cannot match any more are then discarded
(:mod:`.promises.purging`), or not stored at all, with or without a window.

**What may vary.** Whether a window has an index (:mod:`.limits.index_choice`), and when its
expired rows leave: *actively*, whenever the watermark moves, or *lazily*, when the window is
probed, which takes more memory and less work. Neither changes the result. What does not fit into
a budget is shed (:mod:`.limits.shedding`), or stays on disk, and is probed at once or, for early
results, later (:mod:`.limits.debts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.limits import shedding
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.limits.load import Load
from watersmeet.joins.equi.match.matcher import Matcher, matcher_of
from watersmeet.joins.equi.match.pair_probe import PairProbe
from watersmeet.joins.equi.order.drivers import driven
from watersmeet.joins.equi.order.runs import (
    STREAM_ORDERS,
    Rows,
    punctuated_first,
    runs,
    with_only,
)
from watersmeet.joins.equi.promises.closed_keys import split_punctuations
from watersmeet.joins.equi.promises.promised_keys import Promised
from watersmeet.joins.equi.promises.propagation import Propagating
from watersmeet.joins.equi.promises.purge import Purging
from watersmeet.joins.equi.promises.violations import accepted
from watersmeet.joins.equi.state import EquiState
from watersmeet.joins.operator import END_OF_TIME, Operator, count_windows
from watersmeet.rows.columns import CODE, TIME, codes_of, has_code, times_of
from watersmeet.rows.shard import Shard
from watersmeet.rows.widths import sliced
from watersmeet.segments.segment import Segment
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import Store
from watersmeet.state.window import Window


@dataclass(frozen=True)
class Step:
    """The parts of one step. Each refers to those before it only: see :mod:`.context`."""

    context: StepContext
    promised: Promised
    debts: Debts
    matcher: Matcher
    purging: Purging
    propagating: Propagating

    @classmethod
    def of(cls, context: StepContext) -> Step:
        promised, probe = Promised(context), PairProbe(context)
        debts = Debts(context, promised, probe)
        return cls(
            context,
            promised,
            debts,
            matcher=matcher_of(context, promised, probe, debts),
            purging=Purging(context, promised, debts),
            propagating=Propagating(context, promised, debts),
        )


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

    def open(self, store: Store, shard: Shard, cache: SegmentCache) -> EquiState:
        return EquiState(self.layout, store, shard, cache)

    def step(
        self,
        chunks: Iterable[Rows],
        watermark: int | None,
        state: EquiState,
        counters: EquiCounters,
    ) -> Iterator[pa.RecordBatch]:
        """Results of one micro-batch, in pieces.

        A chunk holds new rows of each stream. ``watermark`` is in microseconds, None before there
        is one. The state changes as the results are taken; commit it when they are all taken."""
        context = StepContext(self.layout, state, counters)
        yield from counted(self._results(chunks, watermark, context), counters)

    def finish(self, state: EquiState, counters: EquiCounters) -> Iterator[pa.RecordBatch]:
        """Time ends: emit what is unmatched."""
        step = Step.of(StepContext(self.layout, state, counters))
        yield from counted(self._advance(END_OF_TIME, step, load=None), counters)

    def report(self, state: EquiState, counters: EquiCounters) -> None:
        count_windows(state, counters)
        for i, (stream, window) in enumerate(zip(counters.streams, state.windows, strict=True)):
            stream.indexed = sum(entry.indexed for entry in window.entries)
            if self.layout.preserved[i]:
                stream.unproven = window.unmarked(state.settled[i])
        counters.owed = len(state.debts)

    def _results(
        self, chunks: Iterable[Rows], watermark: int | None, context: StepContext
    ) -> Iterator[pa.RecordBatch]:
        load, step = Load(context), Step.of(context)
        yield from step.debts.begin()
        flagged = with_only(chunks) if self._value_oriented else ((rows, False) for rows in chunks)
        for chunk, only in flagged:
            rows = [self._accept(i, rows, watermark, step, load) for i, rows in enumerate(chunk)]
            groups = punctuated_first(rows, step.promised.is_punctuated) if only else [rows]
            for number, group in enumerate(groups):
                if number:
                    yield from self._punctuate(step, paused=False)
                yield from self._process(group, step)
        yield from step.debts.finish(watermark, paused=load.paused)
        step.promised.close_arrived()
        yield from self._punctuate(step, paused=load.paused)
        step.promised.save(watermark)
        if watermark is not None:
            yield from self._advance(watermark, step, load)
            context.state.watermark = watermark
        load.learn()

    # -- new rows -------------------------------------------------------------------

    @property
    def _value_oriented(self) -> bool:
        """Are rows with a punctuated key processed first? A punctuation takes effect after all
        rows of its micro-batch that it is about: so they must be in one chunk."""
        closes = any(stream.closes for stream in self.layout.inputs)
        return closes and self.layout.policy.schedule.rows == "value"

    def _accept(
        self,
        stream: int,
        rows: pa.RecordBatch | None,
        watermark: int | None,
        step: Step,
        load: Load,
    ) -> pa.RecordBatch | None:
        """The new rows to join: neither late nor shed, and as promised. Punctuations among them
        are collected."""
        if rows is None or not len(rows):
            return rows
        rows, punctuations = split_punctuations(rows, ranges=self.layout.exact)
        step.promised.punctuate(stream, punctuations)
        own = self.layout.inputs[stream].own_watermark
        rows = self._on_time(stream, rows, step.context.state.watermark if own else watermark, step)
        rows = accepted(step.context, step.promised, stream, rows)
        return load.admit(stream, rows)

    def _on_time(
        self, stream: int, rows: pa.RecordBatch, watermark: int | None, step: Step
    ) -> pa.RecordBatch:
        """The rows that are not late; one with a null time never is. Late rows are dropped, but
        their keys have arrived."""
        count = step.context.counters.streams[stream]
        count.rows += len(rows)
        if watermark is None or TIME not in rows.schema.names or not len(rows):
            return rows
        times = rows.column(TIME).view(pa.int64())
        on_time = pc.fill_null(pc.greater(times, watermark), True)
        late = len(rows) - pc.sum(on_time).as_py()
        if not late:
            return rows
        count.late += late
        if step.promised.closed[stream] is not None:
            step.promised.arrive(stream, rows.filter(pc.invert(on_time)))
        return rows.filter(on_time)

    def _process(self, rows: Rows, step: Step) -> Iterator[pa.RecordBatch]:
        """Join new rows of all streams, in the order of the schedule."""
        for stream, run in self._runs(rows, step.context.state):
            for part in self._parts(run):
                yield from self._arrive(stream, part, step)

    def _runs(self, rows: Rows, state: EquiState) -> Iterator[tuple[int, pa.RecordBatch]]:
        """New rows of all streams in the order of the schedule."""
        schedule = self.layout.policy.schedule
        if schedule.streams in STREAM_ORDERS:
            unique = [stream.unique for stream in self.layout.inputs]
            return runs(rows, unique, schedule)
        usual = [flow.rows for flow in state.flows]
        return driven(
            schedule.streams, rows, lambda: [window.rows for window in state.windows], usual
        )

    def _parts(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows, in parts that a memory budget has room for."""
        limit = self.layout.piece
        return iter([rows]) if limit is None else sliced(rows, limit)

    def _arrive(self, stream: int, rows: pa.RecordBatch, step: Step) -> Iterator[pa.RecordBatch]:
        """New rows of one stream probe what is stored of the others, then are stored."""
        context = step.context
        rows, unmatchable = self._split_matchable(rows)
        context.counters.streams[stream].unmatchable += len(unmatchable)
        if self.layout.preserved[stream]:
            yield from self.layout.output.alone(stream, unmatchable, np.arange(len(unmatchable)))
        if not len(rows):
            return
        context.state.flows[stream].sample_keys(codes_of(rows))
        yield from step.matcher.arrive(stream, Segment.of(rows))
        if self.layout.policy.budget is not None:
            shedding.fit(self.layout.policy.budget, context.state, context.names)

    def _split_matchable(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Rows that can match, and rows that cannot: with a null key, or, where there is a
        window, with a null time."""
        needed = [CODE]
        if TIME in rows.schema.names and any(length is not None for length in self.layout.kept):
            needed.append(TIME)
        if not any(rows.column(name).null_count for name in needed):
            return rows, rows.slice(0, 0)
        matchable = pa.array(has_code(rows))
        for name in needed[1:]:
            matchable = pc.and_(matchable, rows.column(name).is_valid())
        return rows.filter(matchable), rows.filter(pc.invert(matchable))

    # -- what the step proves -------------------------------------------------------

    def _punctuate(self, step: Step, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """Let punctuations take effect, after all rows that they are about: close their keys,
        purge what that makes useless, hand on those that are complete."""
        step.promised.close_punctuated()
        yield from step.purging.purge(paused=paused)
        yield from step.propagating.propagate()

    def _advance(self, watermark: int, step: Step, load: Load | None) -> Iterator[pa.RecordBatch]:
        """Emit the rows that the watermark proves unmatched, and drop expired segments."""
        state = step.context.state
        for stream, window in enumerate(state.windows):
            if window.length is None and watermark < END_OF_TIME:
                continue
            until = watermark if watermark == END_OF_TIME else watermark - (window.length or 0)
            since = state.settled[stream]
            if since is not None and until <= since:
                continue
            if not self._expires_now(stream, window, until, load):
                continue
            if self.layout.preserved[stream]:
                yield from self._unmatched(stream, since, until, step)
            window.expire(until)
            state.settled[stream] = until

    def _expires_now(self, stream: int, window: Window, until: int, load: Load | None) -> bool:
        """Shall expired rows leave now? With lazy invalidation, if the window has been probed, or
        if most of its rows have expired."""
        preserved = self.layout.preserved[stream]
        if self.layout.policy.invalidation == "active" or preserved or load is None:
            return True
        expired = sum(entry.rows for entry in window.entries if entry.max_time <= until)
        return load.probed(stream) or 2 * expired > window.rows

    def _unmatched(
        self, stream: int, since: int | None, until: int, step: Step
    ) -> Iterator[pa.RecordBatch]:
        """The results for unmarked rows with a time in (since, until]."""
        window = step.context.state.windows[stream]
        for entry in window.entries:
            if entry.min_time > until or entry.marked == entry.rows:
                continue
            segment = window.open(entry)
            times = times_of(segment.rows)
            due = (times <= until) & ~window.marks(entry) & ~window.gone(entry)
            if since is not None:
                due &= times > since
            yield from step.matcher.unmatched(stream, segment.rows, due)


def counted(results: Iterator[pa.RecordBatch], counters: EquiCounters) -> Iterator[pa.RecordBatch]:
    """The same results, counted as they pass."""
    for batch in results:
        counters.results += len(batch)
        yield batch
