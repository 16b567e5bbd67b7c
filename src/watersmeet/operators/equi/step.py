"""The equality join of streams, one step at a time.

**Result.** Rows a and b match if their keys are equal, the predicate holds, and
the earlier one is at most its stream's window older than the later one:

    -W_b <= time(b) - time(a) <= W_a

Rows of three and more streams match if each two of them do.

**Each pair once.** A step takes the streams in some order
(:mod:`.order.drivers`): a stream's new rows first probe what is stored of
the others (which is what arrived in earlier batches, and the new rows that were taken
before in this one), and are then stored themselves. So of two rows the one that is stored
later meets the other, and no pair is met twice; of many, the one that is stored last
meets all others (:mod:`.combinations`).

**What leaves.** The watermark promises that no row with a time <= watermark
comes any more (one that does is late, and dropped). So row a is useless when
time(a) + W_a <= watermark: every later b is further away. That same moment
proves an outer or anti join's unmatched row. A row's *mark* says that it has
matched; a row of a semi or anti join that has is done with at once.

**Which watermark.** Rows of a stream that brought its own watermark may come out
of another stateful operator of the same query, which gives out what the new
watermark closes: behind that watermark, but never behind the one of the step
before. So such rows are late by the previous watermark, as in Spark's own
operators, and nothing is let go before all new rows have met it.

**What is known about keys.** A stream may promise that a key comes once, or is over
(:mod:`.promises.closing`). Rows that can meet nothing any more are then let go,
or not stored at all (:mod:`.promises.purging`), window or not.

**What may vary.** How a window is held (:mod:`.limits.index_choice`) and when its
expired rows leave: *actively*, whenever the watermark moves, or *lazily*, when the window
is probed, which spares steps and takes memory. Neither changes the result. What does not
fit into a budget is shed (:mod:`.limits.shedding`) or stays on disk, and is
probed at once or, for early results, later (:mod:`.limits.debts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.base import END_OF_TIME, Counters
from watersmeet.operators.equi.combinations import Combining
from watersmeet.operators.equi.layout import JoinLayout
from watersmeet.operators.equi.limits import shedding
from watersmeet.operators.equi.limits.debts import Overflow
from watersmeet.operators.equi.limits.load import Pacing
from watersmeet.operators.equi.order.drivers import driven
from watersmeet.operators.equi.order.runs import STREAM_ORDERS, punctuated_first, runs, with_only
from watersmeet.operators.equi.output import Output
from watersmeet.operators.equi.pairs import Pairing
from watersmeet.operators.equi.promises.closing import split
from watersmeet.operators.equi.promises.purging import Purging
from watersmeet.operators.equi.state import EquiState
from watersmeet.rows.columns import CODE, TIME, codes_of, times_of
from watersmeet.state.segment import Segment
from watersmeet.state.window import Window


@dataclass(frozen=True)
class Step:
    """What the parts of one step share."""

    state: EquiState
    counters: Counters
    purging: Purging
    pairing: Pairing
    overflow: Overflow


class EquiJoin:
    """The operator. It holds no state of its own: see :class:`EquiState`."""

    def __init__(self, layout: JoinLayout) -> None:
        self.layout = layout
        #: Does an unmatched row of stream i appear in the result?
        self._preserved = layout.preserved
        self._output = Output(layout)

    @property
    def lengths(self) -> list[int | None]:
        """For how long rows of each stream are kept."""
        return [stream.kept for stream in self.layout.inputs]

    def step(
        self,
        chunks: Iterable[Sequence[pa.RecordBatch | None]],
        watermark: int | None,
        state: EquiState,
        counters: Counters,
    ) -> Iterator[pa.RecordBatch]:
        """Results of one micro-batch, in pieces.

        A chunk holds new rows of each stream. ``watermark`` is in microseconds,
        None before there is one. The state changes as the results are taken;
        commit it when they are all taken."""
        previous = state.watermark
        pacing = Pacing(self.layout, state, counters)
        purging = Purging(self.layout, state, self._output)
        pairing = Pairing(self.layout, self._output, state, purging, counters)
        overflow = Overflow(self.layout, state, purging, pairing, counters)
        step = Step(state, counters, purging, pairing, overflow)
        for chunk, alone in with_only(chunks) if self._by_value else ((c, False) for c in chunks):
            taken: list[pa.RecordBatch | None] = []
            for stream, rows in enumerate(chunk):
                if rows is not None and len(rows):
                    rows, punctuations = split(rows, ranges=self.layout.exact)
                    purging.note(stream, punctuations)
                    own = self.layout.inputs[stream].own_watermark
                    rows = self._in_time(stream, rows, previous if own else watermark, counters)
                    rows = purging.checked(stream, rows, counters)
                    rows = pacing.let_in(stream, rows)
                taken.append(rows)
            groups = punctuated_first(taken, purging.awaited) if alone else [taken]
            yield from counted(self._take(groups, step), counters)
        yield from counted(overflow.finish(watermark, paused=pacing.paused), counters)
        finished = purging.finish(counters, overflow.settle, paused=pacing.paused)
        yield from counted(finished, counters)
        if watermark is not None:
            yield from self.advance(watermark, state, counters, pacing)
            state.watermark = watermark
        pacing.learn()

    def _take(
        self, groups: Sequence[Sequence[pa.RecordBatch | None]], step: Step
    ) -> Iterator[pa.RecordBatch]:
        """New rows of all streams, in the order of the schedule; punctuations take effect
        between groups."""
        for number, group in enumerate(groups):
            if number:
                settle = step.overflow.settle
                yield from step.purging.punctuate(step.counters, settle, paused=False)
            for stream, run in self._runs(group, step.state):
                for part in self._parts(run):
                    yield from self._arrive(stream, part, step)

    def _runs(
        self, rows: Sequence[pa.RecordBatch | None], state: EquiState
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """New rows of all streams in the order in which they are taken."""
        schedule = self.layout.schedule
        if schedule.streams in STREAM_ORDERS:
            unique = [stream.unique for stream in self.layout.inputs]
            return runs(rows, unique, schedule)
        usual = [flow.rows for flow in state.flows]
        return driven(
            schedule.streams, rows, lambda: [window.rows for window in state.windows], usual
        )

    @property
    def _by_value(self) -> bool:
        closes = any(stream.closes for stream in self.layout.inputs)
        return closes and self.layout.schedule.rows == "value"

    def advance(
        self,
        watermark: int,
        state: EquiState,
        counters: Counters,
        pacing: Pacing | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Let go of what the watermark proves useless; give out what it proves unmatched."""
        for stream, window in enumerate(state.windows):
            if window.length is None and watermark < END_OF_TIME:
                continue
            until = watermark - (window.length or 0)
            since = state.settled[stream]
            if since is not None and until <= since:
                continue
            if not self._due(stream, window, until, pacing):
                continue
            if self._preserved[stream]:
                due = self._unmatched(stream, state, since, until, counters)
                yield from counted(due, counters)
            window.expire(until)
            state.settled[stream] = until

    def _due(self, stream: int, window: Window, until: int, pacing: Pacing | None) -> bool:
        """Shall expired rows leave now? With lazy invalidation, when they have been in the
        way of a probe, or are more than what they are among."""
        if self.layout.invalidation == "active" or self._preserved[stream] or pacing is None:
            return True
        over = sum(entry.rows for entry in window.entries if entry.max_time <= until)
        return pacing.probed(stream) or 2 * over > window.rows

    def _parts(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows, in parts that a memory budget has room for."""
        limit = self.layout.piece
        count = 1 if limit is None else max(1, -(-rows.nbytes // limit))
        size = max(1, -(-len(rows) // count))
        for start in range(0, len(rows), size):
            yield rows.slice(start, size)

    def _unmatched(
        self,
        stream: int,
        state: EquiState,
        since: int | None,
        until: int,
        counters: Counters,
    ) -> Iterator[pa.RecordBatch]:
        """What the unmarked rows with a time in (since, until] add to the result."""
        window = state.windows[stream]
        for entry in window.entries:
            if entry.min_time > until or entry.marked == entry.rows:
                continue
            segment = window.open(entry)
            times = times_of(segment.rows)
            due = (times <= until) & ~window.marks(entry) & ~window.gone(entry)
            if since is not None:
                due &= times > since
            if len(self.layout.inputs) == 2:
                yield from self._output.alone(stream, segment.rows, np.flatnonzero(due))
            elif due.any():
                combining = Combining(self.layout, self._output, state, counters)
                yield from combining.incomplete(segment.rows.filter(pa.array(due)))

    def _in_time(
        self, stream: int, rows: pa.RecordBatch, watermark: int | None, counters: Counters
    ) -> pa.RecordBatch:
        """The rows that are not late; a null time is neither early nor late."""
        count = counters.streams[stream]
        count.rows += len(rows)
        if watermark is None or TIME not in rows.schema.names or not len(rows):
            return rows
        times = rows.column(TIME).view(pa.int64())
        in_time = pc.fill_null(pc.greater(times, watermark), True)
        late = len(rows) - pc.sum(in_time).as_py()
        count.late += late
        return rows.filter(in_time) if late else rows

    def _arrive(self, stream: int, rows: pa.RecordBatch, step: Step) -> Iterator[pa.RecordBatch]:
        """New rows of one stream meet what is stored of the others, then are stored."""
        rows, unmatchable = self._sift(rows)
        step.counters.streams[stream].unmatchable += len(unmatchable)
        if self._preserved[stream]:
            yield from self._output.alone(stream, unmatchable, np.arange(len(unmatchable)))
        if not len(rows):
            return
        step.state.flows[stream].sample_keys(codes_of(rows))
        fresh = Segment.of(rows)
        if len(self.layout.inputs) == 2:
            yield from self._pair(stream, fresh, step)
        else:
            combining = Combining(self.layout, self._output, step.state, step.counters)
            yield from combining.results(stream, fresh)
            step.state.windows[stream].add(fresh)
        if self.layout.budget is not None:
            names = [layout.name for layout in self.layout.inputs]
            shedding.fit(self.layout.budget, step.state, names)

    def _pair(self, stream: int, fresh: Segment, step: Step) -> Iterator[pa.RecordBatch]:
        """New rows of one of two streams meet what is stored of the other, then are stored."""
        pairing = step.pairing
        near, far = step.overflow.split(pairing.overlapping(stream, fresh))
        matched, done = (np.zeros(len(fresh), dtype=np.bool_) for _ in range(2))
        yield from pairing.results(stream, fresh, near, matched, done)
        if not far:
            done |= step.purging.needless(stream, fresh)
        if pairing.done_when_matched[stream]:
            done |= matched
        if self._preserved[stream]:
            unmatched = np.flatnonzero(done & ~matched)
            yield from self._output.alone(stream, fresh.rows, unmatched)
        if done.any():
            step.counters.streams[stream].dropped += int(done.sum())
            fresh, matched = Segment.of(fresh.rows.filter(pa.array(~done))), matched[~done]
        marks = matched if pairing.tracked[stream] else None
        entry = step.state.windows[stream].add(fresh, marks)
        yield from step.overflow.note(stream, entry, far)

    def _sift(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Rows that can match, and rows that cannot: with a null key, or, where there
        is a window, with a null time."""
        needed = [CODE]
        if TIME in rows.schema.names and any(length is not None for length in self.lengths):
            needed.append(TIME)
        if not any(rows.column(name).null_count for name in needed):
            return rows, rows.slice(0, 0)
        valid = rows.column(CODE).is_valid()
        for name in needed[1:]:
            valid = pc.and_(valid, rows.column(name).is_valid())
        return rows.filter(valid), rows.filter(pc.invert(valid))


def counted(results: Iterator[pa.RecordBatch], counters: Counters) -> Iterator[pa.RecordBatch]:
    """The same results, counted as they pass."""
    for batch in results:
        counters.results += len(batch)
        yield batch
