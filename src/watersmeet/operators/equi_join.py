"""The equality join of streams, one step at a time.

**Result.** Rows a and b match if their keys are equal, the predicate holds, and
the earlier one is at most its stream's window older than the later one:

    -W_b <= time(b) - time(a) <= W_a

**Each pair once.** A step takes the streams in turn: a stream's new rows first
probe what is stored of the other (which holds what arrived in earlier batches
and, for the second stream, the first stream's new rows of this batch), and are
then stored themselves. So of two rows the one that is stored later meets the
other, and no pair is met twice.

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
(:mod:`watersmeet.operators.closing`). Rows that can meet nothing any more are then let go,
or not stored at all (:mod:`watersmeet.operators.purging`), window or not.

**What may vary.** How a window is held (:mod:`watersmeet.operators.holding`) and when its
expired rows leave: *actively*, whenever the watermark moves, or *lazily*, when the window
is probed, which spares steps and takes memory. Neither changes the result. What does not
fit into a budget is shed (:mod:`watersmeet.operators.shedding`) or stays on disk, and is
probed at once or, for early results, later (:mod:`watersmeet.operators.overflow`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators import shedding
from watersmeet.operators.base import Counters
from watersmeet.operators.closing import split
from watersmeet.operators.keys import same_keys
from watersmeet.operators.layout import JoinLayout
from watersmeet.operators.output import Output, Positions, piece_rows
from watersmeet.operators.overflow import Overflow
from watersmeet.operators.pacing import Pacing
from watersmeet.operators.probe import probe
from watersmeet.operators.purging import Purging
from watersmeet.operators.scheduling import by_value, only_one, runs
from watersmeet.state.bucket import BucketState
from watersmeet.state.manifest import Entry
from watersmeet.state.memory import piece_of
from watersmeet.state.segment import CODE, TIME, Bools, Segment, codes_of, times_of
from watersmeet.state.window import Window

#: Later than any time: the watermark at the end of a batch run.
END_OF_TIME = 2**62


class EquiJoin:
    """The operator. It holds no state of its own: see :class:`BucketState`."""

    def __init__(self, layout: JoinLayout) -> None:
        self.layout = layout
        how = layout.how
        #: Do pairs appear in the result, or only rows of the first stream?
        self._pairs = how not in ("semi", "anti")
        #: Does an unmatched row of stream i appear in the result?
        self._preserved = layout.preserved
        #: Is a row of stream i done with when it has matched? Not if its key is unique: it
        #: stays, to tell later rows of the other stream that they need not wait.
        self._done_when_matched = (not self._pairs and not layout.inputs[0].unique, False)
        #: Must a stored row of stream i know whether it has matched?
        self._tracked = (self._preserved[0] or not self._pairs, self._preserved[1])
        self._output = Output(layout)

    @property
    def lengths(self) -> list[int | None]:
        return [stream.window for stream in self.layout.inputs]

    def step(
        self,
        chunks: Iterable[Sequence[pa.RecordBatch | None]],
        watermark: int | None,
        state: BucketState,
        counters: Counters,
    ) -> Iterator[pa.RecordBatch]:
        """Results of one micro-batch, in pieces.

        A chunk holds new rows of each stream. ``watermark`` is in microseconds,
        None before there is one. The state changes as the results are taken;
        commit it when they are all taken."""
        previous = state.manifest.watermark
        pacing = Pacing(self.layout, state, counters)
        purging = Purging(self.layout, state, self._output)
        overflow = self._overflow(state, purging, counters)
        for chunk, alone in only_one(chunks) if self._by_value else ((c, False) for c in chunks):
            taken: list[pa.RecordBatch | None] = []
            for stream, rows in enumerate(chunk):
                if rows is not None and len(rows):
                    rows, punctuations = split(rows)
                    purging.note(stream, punctuations)
                    own = self.layout.inputs[stream].own_watermark
                    rows = self._in_time(stream, rows, previous if own else watermark, counters)
                    rows = purging.checked(stream, rows, counters)
                    rows = pacing.let_in(stream, rows)
                taken.append(rows)
            groups = by_value(taken, purging.awaited) if alone else [taken]
            yield from counted(self._take(groups, state, purging, overflow, counters), counters)
        yield from counted(overflow.finish(watermark, paused=pacing.paused), counters)
        finished = purging.finish(counters, overflow.settle, paused=pacing.paused)
        yield from counted(finished, counters)
        if watermark is not None:
            yield from self.advance(watermark, state, counters, pacing)
            state.manifest.watermark = watermark
        pacing.learn()

    def _take(
        self,
        groups: Sequence[Sequence[pa.RecordBatch | None]],
        state: BucketState,
        purging: Purging,
        overflow: Overflow,
        counters: Counters,
    ) -> Iterator[pa.RecordBatch]:
        """New rows of all streams, in the order of the schedule; punctuations take effect
        between groups."""
        unique = [stream.unique for stream in self.layout.inputs]
        for number, group in enumerate(groups):
            if number:
                yield from purging.punctuate(counters, overflow.settle, paused=False)
            for stream, run in runs(group, unique, self.layout.schedule):
                for part in self._parts(run):
                    yield from self._arrive(stream, part, state, purging, overflow, counters)

    def _overflow(self, state: BucketState, purging: Purging, counters: Counters) -> Overflow:
        def meet(
            stream: int, rows: Segment, entries: Sequence[Entry], matched: Bools, met: Bools
        ) -> Iterator[pa.RecordBatch]:
            return self._join(stream, rows, entries, matched, met, state, purging, counters)

        def note_matched(stream: int, entry: Entry, positions: Positions) -> None:
            self._note_matched(stream, state.windows[stream], entry, positions)

        return Overflow(self.layout, state, purging, counters, meet, note_matched)

    @property
    def _by_value(self) -> bool:
        closes = any(stream.closes for stream in self.layout.inputs)
        return closes and self.layout.schedule.rows == "value"

    def advance(
        self,
        watermark: int,
        state: BucketState,
        counters: Counters,
        pacing: Pacing | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Let go of what the watermark proves useless; give out what it proves unmatched."""
        for stream, window in enumerate(state.windows):
            if window.length is None and watermark < END_OF_TIME:
                continue
            until = watermark - (window.length or 0)
            since = state.manifest.settled[stream]
            if since is not None and until <= since:
                continue
            if not self._due(stream, window, until, pacing):
                continue
            if self._preserved[stream]:
                yield from counted(self._unmatched(stream, window, since, until), counters)
            window.expire(until)
            state.manifest.settled[stream] = until

    def _due(self, stream: int, window: Window, until: int, pacing: Pacing | None) -> bool:
        """Shall expired rows leave now? With lazy invalidation, when they have been in the
        way of a probe, or are more than what they are among."""
        if self.layout.invalidation == "active" or self._preserved[stream] or pacing is None:
            return True
        over = sum(entry.rows for entry in window.entries if entry.max_time <= until)
        return pacing.probed(stream) or 2 * over > window.rows

    def _parts(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows, in parts that a memory budget has room for."""
        limit = self._piece_limit
        count = 1 if limit is None else max(1, -(-rows.nbytes // limit))
        size = max(1, -(-len(rows) // count))
        for start in range(0, len(rows), size):
            yield rows.slice(start, size)

    @property
    def _piece_limit(self) -> int | None:
        return piece_of(self.layout.memory)

    def _unmatched(
        self, stream: int, window: Window, since: int | None, until: int
    ) -> Iterator[pa.RecordBatch]:
        """The unmarked rows with a time in (since, until]."""
        for entry in window.entries:
            if entry.min_time > until or entry.marked == entry.rows:
                continue
            segment = window.open(entry)
            times = times_of(segment.rows)
            due = (times <= until) & ~window.marks(entry) & ~window.gone(entry)
            if since is not None:
                due &= times > since
            yield from self._output.alone(stream, segment.rows, np.flatnonzero(due))

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

    def _arrive(
        self,
        stream: int,
        rows: pa.RecordBatch,
        state: BucketState,
        purging: Purging,
        overflow: Overflow,
        counters: Counters,
    ) -> Iterator[pa.RecordBatch]:
        """New rows of one stream meet what is stored of the other, then are stored."""
        rows, unmatchable = self._sift(rows)
        counters.streams[stream].unmatchable += len(unmatchable)
        if self._preserved[stream]:
            yield from self._output.alone(stream, unmatchable, np.arange(len(unmatchable)))
        if not len(rows):
            return
        fresh = Segment.of(rows)
        near, far = overflow.split(self._overlapping(stream, fresh, state))
        matched, done = (np.zeros(len(fresh), dtype=np.bool_) for _ in range(2))
        yield from self._join(stream, fresh, near, matched, done, state, purging, counters)
        if not far:
            done |= purging.needless(stream, fresh)
        if self._done_when_matched[stream]:
            done |= matched
        if self._preserved[stream]:
            unmatched = np.flatnonzero(done & ~matched)
            yield from self._output.alone(stream, fresh.rows, unmatched)
        state.manifest.flows[stream].sample_keys(codes_of(rows))
        if done.any():
            counters.streams[stream].dropped += int(done.sum())
            fresh, matched = Segment.of(rows.filter(pa.array(~done))), matched[~done]
        entry = state.windows[stream].add(fresh, matched if self._tracked[stream] else None)
        yield from overflow.note(stream, entry, far)
        if self.layout.budget is not None:
            names = [layout.name for layout in self.layout.inputs]
            shedding.fit(self.layout.budget, state, names)

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

    def _join(
        self,
        stream: int,
        fresh: Segment,
        entries: Sequence[Entry],
        matched: Bools,
        met: Bools,
        state: BucketState,
        purging: Purging,
        counters: Counters,
    ) -> Iterator[pa.RecordBatch]:
        """Fresh rows meet stored ones of the other stream; notes which of them have matched,
        and which have met their one."""
        window = state.windows[1 - stream]
        for entry, mine, theirs in self._meet(stream, fresh, entries, state, counters):
            pairs = self._holding(stream, fresh.rows, window.open(entry).rows, mine, theirs)
            yield from self._results(stream, fresh, matched, state, entry, *pairs)
            if self.layout.inputs[1 - stream].unique:
                met[mine] = True
            if self.layout.inputs[stream].unique and len(theirs):
                yield from purging.let_go(1 - stream, entry, theirs, counters)

    def _overlapping(self, stream: int, fresh: Segment, state: BucketState) -> list[Entry]:
        """The stored segments of the other stream that are close enough in time."""
        window = state.windows[1 - stream]
        before, after = window.length, self.layout.inputs[stream].window
        earliest = -END_OF_TIME if before is None else fresh.min_time - before
        latest = END_OF_TIME if after is None else fresh.max_time + after
        return list(window.overlapping(earliest, latest))

    def _meet(
        self,
        stream: int,
        fresh: Segment,
        entries: Sequence[Entry],
        state: BucketState,
        counters: Counters,
    ) -> Iterator[tuple[Entry, Positions, Positions]]:
        """Positions of fresh rows and of stored ones with equal keys and close in time, in
        pieces."""
        window = state.windows[1 - stream]
        before, after = window.length, self.layout.inputs[stream].window
        for entry in entries:
            stored = window.open(entry)
            counters.probes += len(fresh)
            size = piece_rows(fresh.rows, stored.rows, limit=self._piece_limit)
            for mine, theirs in probe(fresh, stored, before, after).pieces(size):
                if entry.gone:
                    there = ~window.gone(entry)[theirs]
                    mine, theirs = mine[there], theirs[there]
                if not self.layout.exact:
                    equal = same_keys(self.layout, fresh.rows, stored.rows, mine, theirs)
                    mine, theirs = mine[equal], theirs[equal]
                yield entry, mine, theirs

    def _holding(
        self,
        stream: int,
        fresh: pa.RecordBatch,
        stored: pa.RecordBatch,
        mine: Positions,
        theirs: Positions,
    ) -> tuple[Positions, Positions]:
        """Of pairs with equal keys, those for which the predicate holds."""
        predicate = self.layout.predicate
        if predicate is None or not len(mine):
            return mine, theirs
        sides = {stream: (fresh, mine), 1 - stream: (stored, theirs)}
        columns = []
        for index, name in predicate.columns:
            rows, positions = sides[index]
            layout = self.layout.inputs[index]
            chosen = rows.select([layout.stored[name]]).take(pa.array(positions))
            columns.append(layout.read(chosen, name))
        holds = predicate.mask(columns)
        return mine[holds], theirs[holds]

    def _results(
        self,
        stream: int,
        fresh: Segment,
        matched: np.ndarray,
        state: BucketState,
        entry: Entry,
        mine: Positions,
        theirs: Positions,
    ) -> Iterator[pa.RecordBatch]:
        """What a piece of matching pairs adds to the result; notes what it matched."""
        window = state.windows[1 - stream]
        stored = window.open(entry)
        if self._pairs:
            ours, others = (fresh.rows, mine), (stored.rows, theirs)
            yield from self._output.pairs(*((ours, others) if stream == 0 else (others, ours)))
        elif self.layout.how == "semi":
            if stream == 0:
                first, rows = mine[~matched[mine]], fresh.rows
            else:
                first, rows = theirs[~window.marks(entry)[theirs]], stored.rows
            yield from self._output.alone(0, rows, np.unique(first))
        matched[mine] = True
        self._note_matched(1 - stream, window, entry, theirs)

    def _note_matched(
        self, stream: int, window: Window, entry: Entry, positions: Positions
    ) -> None:
        if self._done_when_matched[stream]:
            window.let_go(entry, positions)
        elif self._tracked[stream]:
            window.mark(entry, positions)


def counted(results: Iterator[pa.RecordBatch], counters: Counters) -> Iterator[pa.RecordBatch]:
    """The same results, counted as they pass."""
    for batch in results:
        counters.results += len(batch)
        yield batch
