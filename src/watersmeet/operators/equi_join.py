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
matched; a marked row of a semi or anti join is useless at once.

**Which watermark.** Rows of a stream that brought its own watermark may come out
of another stateful operator of the same query, which gives out what the new
watermark closes: behind that watermark, but never behind the one of the step
before. So such rows are late by the previous watermark, as in Spark's own
operators, and nothing is let go before all new rows have met it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.base import Counters
from watersmeet.operators.layout import JoinLayout
from watersmeet.operators.output import Output, Positions, piece_rows
from watersmeet.operators.probe import probe
from watersmeet.state.bucket import BucketState
from watersmeet.state.manifest import Entry
from watersmeet.state.segment import CODE, TIME, Segment, times_of
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
        #: Must stream i's rows know whether they have matched?
        self._tracked = (self._preserved[0] or how == "semi", self._preserved[1])
        #: Is a row of stream i done with when it has matched?
        self.done_when_matched = (not self._pairs, False)
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
        for chunk in chunks:
            for stream, rows in enumerate(chunk):
                if rows is not None and len(rows):
                    own = self.layout.inputs[stream].own_watermark
                    rows = self._in_time(stream, rows, previous if own else watermark, counters)
                    yield from counted(self._arrive(stream, rows, state, counters), counters)
        if watermark is not None:
            yield from self.advance(watermark, state, counters)
            state.manifest.watermark = watermark

    def advance(
        self, watermark: int, state: BucketState, counters: Counters
    ) -> Iterator[pa.RecordBatch]:
        """Let go of what the watermark proves useless; give out what it proves unmatched."""
        for stream, window in enumerate(state.windows):
            if window.length is None and watermark < END_OF_TIME:
                continue
            until = watermark - (window.length or 0)
            since = state.manifest.settled[stream]
            if since is not None and until <= since:
                continue
            if self._preserved[stream]:
                yield from counted(self._unmatched(stream, window, since, until), counters)
            window.expire(until)
            state.manifest.settled[stream] = until

    def _unmatched(
        self, stream: int, window: Window, since: int | None, until: int
    ) -> Iterator[pa.RecordBatch]:
        """The unmarked rows with a time in (since, until]."""
        for entry in window.entries:
            if entry.min_time > until or entry.marked == entry.rows:
                continue
            segment = window.open(entry)
            times = times_of(segment.rows)
            due = (times <= until) & ~window.marks(entry)
            if since is not None:
                due &= times > since
            yield from self._output.alone(stream, segment.rows, np.flatnonzero(due))

    def _in_time(
        self, stream: int, rows: pa.RecordBatch, watermark: int | None, counters: Counters
    ) -> pa.RecordBatch:
        """The rows that are not late; a null time is neither early nor late."""
        count = counters.streams[stream]
        count.rows += len(rows)
        if watermark is None or TIME not in rows.schema.names:
            return rows
        times = rows.column(TIME).view(pa.int64())
        in_time = pc.fill_null(pc.greater(times, watermark), True)
        late = len(rows) - pc.sum(in_time).as_py()
        count.late += late
        return rows.filter(in_time) if late else rows

    def _arrive(
        self, stream: int, rows: pa.RecordBatch, state: BucketState, counters: Counters
    ) -> Iterator[pa.RecordBatch]:
        """New rows of one stream meet what is stored of the other, then are stored."""
        rows, unmatchable = self._sift(rows)
        counters.streams[stream].unmatchable += len(unmatchable)
        if self._preserved[stream]:
            yield from self._output.alone(stream, unmatchable, np.arange(len(unmatchable)))
        if not len(rows):
            return
        fresh = Segment.of(rows)
        matched = np.zeros(len(fresh), dtype=np.bool_)
        for entry, mine, theirs in self._meet(stream, fresh, state, counters):
            yield from self._results(stream, fresh, matched, mine, state, entry, theirs)
        if self.done_when_matched[stream] and matched.any():
            fresh = Segment.of(rows.filter(pa.array(~matched)))
            matched = np.zeros(len(fresh), dtype=np.bool_)
        state.windows[stream].add(fresh, matched)

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

    def _meet(
        self, stream: int, fresh: Segment, state: BucketState, counters: Counters
    ) -> Iterator[tuple[Entry, Positions, Positions]]:
        """Matching positions among fresh rows and each stored segment, in pieces."""
        window = state.windows[1 - stream]
        before, after = window.length, self.layout.inputs[stream].window
        earliest = -END_OF_TIME if before is None else fresh.min_time - before
        latest = END_OF_TIME if after is None else fresh.max_time + after
        for entry in list(window.overlapping(earliest, latest)):
            stored = window.open(entry)
            counters.probes += len(fresh)
            size = piece_rows(fresh.rows, stored.rows)
            for mine, theirs in probe(fresh, stored, before, after).pieces(size):
                chosen = fresh.order[mine], stored.order[theirs]
                yield entry, *self._confirm(stream, fresh.rows, stored.rows, *chosen)

    def _confirm(
        self,
        stream: int,
        fresh: pa.RecordBatch,
        stored: pa.RecordBatch,
        mine: Positions,
        theirs: Positions,
    ) -> tuple[Positions, Positions]:
        """Of candidate pairs, those with equal keys for which the predicate holds."""
        if not self.layout.exact:
            equal = np.ones(len(mine), dtype=np.bool_)
            for name in self.layout.key_columns:
                ours, others = fresh.column(name), stored.column(name)
                equal &= _equal(ours.take(pa.array(mine)), others.take(pa.array(theirs)))
            if not equal.all():
                mine, theirs = mine[equal], theirs[equal]
        predicate = self.layout.predicate
        if predicate is not None and len(mine):
            sides = {stream: (fresh, mine), 1 - stream: (stored, theirs)}
            columns = []
            for index, name in predicate.columns:
                rows, positions = sides[index]
                layout = self.layout.inputs[index]
                chosen = rows.select([layout.stored[name]]).take(pa.array(positions))
                columns.append(layout.read(chosen, name))
            holds = predicate.mask(columns)
            mine, theirs = mine[holds], theirs[holds]
        return mine, theirs

    def _results(
        self,
        stream: int,
        fresh: Segment,
        matched: np.ndarray,
        mine: Positions,
        state: BucketState,
        entry: Entry,
        theirs: Positions,
    ) -> Iterator[pa.RecordBatch]:
        """What a piece of matching pairs adds to the result; marks what it matched."""
        window = state.windows[1 - stream]
        stored = window.open(entry)
        if self._pairs:
            ours, others = (fresh.rows, mine), (stored.rows, theirs)
            yield from self._output.pairs(*((ours, others) if stream == 0 else (others, ours)))
        elif self.layout.how == "semi":
            if stream == 0:
                first, rows = np.unique(mine[~matched[mine]]), fresh.rows
            else:
                first, rows = np.unique(theirs[~window.marks(entry)[theirs]]), stored.rows
            yield from self._output.alone(0, rows, first)
        if self._tracked[stream]:
            matched[mine] = True
        if self._tracked[1 - stream]:
            window.mark(entry, theirs)


def counted(results: Iterator[pa.RecordBatch], counters: Counters) -> Iterator[pa.RecordBatch]:
    """The same results, counted as they pass."""
    for batch in results:
        counters.results += len(batch)
        yield batch


def _equal(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Are keys equal, as SQL's join sees it? NaN equals NaN; the runtime has made
    -0.0 into 0.0."""
    if pa.types.is_floating(left.type):
        a, b = left.to_numpy(), right.to_numpy()
        same: np.ndarray = (a == b) | (np.isnan(a) & np.isnan(b))
    else:
        same = pc.equal(left, right).to_numpy(zero_copy_only=False)
    return same
