"""Combinations of rows of three and more streams that share a key.

A new row, the *driver*, makes a result with each combination of rows, one of every other
stream, that is stored already, has its key, and is close enough in time. No part of a
combination is ever stored. It takes two passes:

**Look.** New rows look into one window after the other (:mod:`watersmeet.operators.sequence`).
In each segment a row finds a range of the index, which tells where its matches are without
touching them. A row that finds nothing in a window is done with. What is left makes results.

**Expand.** Combinations grow stream by stream, from the ranges found: all of them at
once, but never more than a piece at a time, however large the product is.

**Time.** With T the greatest time of a combination, ``T - time(i) <= W(i)`` for every row i.
So rows of stream l that may join a combination lie in [newest - W(l), deadline], where
``newest`` is its greatest time so far and ``deadline`` the least of time(i) + W(i). A range
is ordered by time: both ends are found by binary search. In a left join every stream is
matched with the first one alone, so these are the first stream's time and its deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators import sequence
from watersmeet.operators.base import Counters
from watersmeet.operators.fanout import FanOut
from watersmeet.operators.keys import same_keys
from watersmeet.operators.layout import JoinLayout
from watersmeet.operators.output import Output, Positions, Side, piece_rows
from watersmeet.operators.probe import bisect, find, spread
from watersmeet.state.bucket import BucketState
from watersmeet.state.manifest import Entry
from watersmeet.state.segment import CODE, TIME, Bools, Index, Ints, Segment, times_of
from watersmeet.state.window import Window

_FOR_EVER = 2**62


@dataclass(frozen=True)
class Finds:
    """Where new rows have matches in one stream's window.

    Range j holds the matches of one new row in one segment: places ``low[j]`` to
    ``high[j]`` of the index of segment ``segment[j]``. The ranges of new row r are those
    from ``starts[r]`` to ``starts[r + 1]``."""

    stream: int
    window: Window
    segments: list[tuple[Entry, Index | None]]
    segment: Ints
    low: Ints
    high: Ints
    starts: Ints

    @property
    def found(self) -> Bools:
        """Which new rows have a match."""
        return np.diff(self.starts) > 0

    def index(self, number: int) -> Index:
        """A segment's index: its own, or, if it is plain, the one that was made to look."""
        entry, made = self.segments[number]
        return self.window.open(entry).index if made is None else made

    def rows(self, number: int) -> pa.RecordBatch:
        return self.window.open(self.segments[number][0]).rows

    def side(self, segment: Ints, positions: Positions) -> Side:
        """The rows at those positions of those segments, as positions in one batch."""
        numbers = np.unique(segment).tolist()
        if len(numbers) == 1:
            return self.rows(numbers[0]), positions
        gathered, places, start = [], np.empty(len(positions), dtype=np.int64), 0
        for number in numbers:
            here = np.flatnonzero(segment == number)
            gathered.append(self.rows(number).take(pa.array(positions[here])))
            places[here] = np.arange(start, start + len(here))
            start += len(here)
        return pa.concat_batches(gathered), places


@dataclass(frozen=True)
class Partial:
    """Combinations that are not complete yet: of each, the new row, what was chosen of each
    stream so far (segment and position), and the bounds for the times of the others."""

    rows: Ints
    chosen: tuple[tuple[Ints, Positions], ...]
    newest: Ints
    deadline: Ints

    def take(self, which: Ints | Bools) -> Partial:
        chosen = tuple((segment[which], at[which]) for segment, at in self.chosen)
        return Partial(self.rows[which], chosen, self.newest[which], self.deadline[which])


class Combining:
    """Makes the combinations of a join of three and more streams."""

    def __init__(self, layout: JoinLayout, output: Output) -> None:
        self._layout = layout
        self._output = output
        self._windows = [stream.window for stream in layout.inputs]
        #: In a left join, every stream is matched with this one.
        self._through = 0 if layout.how == "left" else None

    def results(
        self, driver: int, fresh: Segment, state: BucketState, counters: Counters
    ) -> Iterator[pa.RecordBatch]:
        """The results that new rows of one stream make."""
        flow = state.manifest.flows[driver]
        if sequence.is_due(flow) and all(window.entries for window in _but(state.windows, driver)):
            flow.sample_meeting(self._meeting(driver, fresh, state))
            names = [stream.name for stream in self._layout.inputs]
            counters.notes += sequence.reconsider(driver, flow, names, through=self._through)
        order = flow.sequence or self._layout.sequences[driver]
        finds = self._look(driver, fresh, state, order, counters)
        if finds is None:
            return
        fanout = FanOut(self._layout, driver, fresh, counters)
        complete = np.flatnonzero(np.logical_and.reduce([find.found for find in finds]))
        for partial in self._expand(finds, self._start(driver, fresh, complete), fresh, fanout):
            sides = self._sides(driver, fresh.rows, finds, partial)
            yield from self._output.rows(fanout.admitted(self._holding(sides), driver))
        fanout.finish()

    def incomplete(
        self, rows: pa.RecordBatch, state: BucketState, counters: Counters
    ) -> Iterator[pa.RecordBatch]:
        """A left join's results for rows of the first stream that have waited long enough:
        those that lack a match in some stream, with each combination of what they have."""
        fresh = Segment.of(rows)
        others = range(1, len(self._layout.inputs))
        finds = [self._find(0, stream, fresh, state.windows[stream], counters) for stream in others]
        has = np.stack([find.found for find in finds])
        patterns, group = np.unique(has, axis=1, return_inverse=True)
        for number, pattern in enumerate(patterns.T):
            if pattern.all():
                continue  # they have come out already
            members = np.flatnonzero(group.reshape(-1) == number)
            present = [find for find, there in zip(finds, pattern, strict=True) if there]
            for partial in self._expand(present, self._start(0, fresh, members), fresh, None):
                yield from self._output.rows(self._sides(0, fresh.rows, present, partial))

    # -- looking --------------------------------------------------------------------

    def _look(
        self,
        driver: int,
        fresh: Segment,
        state: BucketState,
        order: Sequence[int],
        counters: Counters,
    ) -> list[Finds] | None:
        """What new rows find in every other window; None if no row finds something in all."""
        finds = []
        alive = np.arange(len(fresh))
        looking = _lookers(fresh, alive)
        for stream in order:
            found = self._find(driver, stream, looking, state.windows[stream], counters)
            kept = found.found
            finds.append((found, alive))
            alive = alive[kept]
            if not len(alive):
                return None
            looking = _lookers(fresh, alive)
        return [_widened(found, rows, len(fresh)) for found, rows in finds]

    def _find(
        self, driver: int, stream: int, looking: Segment, window: Window, counters: Counters
    ) -> Finds:
        """What rows that look into one window find there."""
        before, after = self._reach(driver, stream)
        earliest = -_FOR_EVER if before is None else looking.min_time - before
        latest = _FOR_EVER if after is None else looking.max_time + after
        segments: list[tuple[Entry, Index | None]] = []
        rows: list[Positions] = []
        numbers, lows, highs = [], [], []
        for entry in window.overlapping(earliest, latest):
            stored = window.open(entry)
            ranges, index = find(looking, stored, before, after)
            counters.probes += len(looking)
            rows.append(ranges.searchers)
            numbers.append(np.full(len(ranges.low), len(segments)))
            lows.append(ranges.low)
            highs.append(ranges.high)
            segments.append((entry, None if stored.has_index else index))
        row, number = _joined(rows), _joined(numbers)
        order = np.argsort(row, kind="stable")
        counts = np.bincount(row, minlength=len(looking))
        starts = np.concatenate([[0], np.cumsum(counts)])
        low, high = _joined(lows), _joined(highs)
        return Finds(stream, window, segments, number[order], low[order], high[order], starts)

    def _reach(self, driver: int, stream: int) -> tuple[int | None, int | None]:
        """How much earlier and how much later than a driver a row of a stream may be."""
        own, other = self._windows[driver], self._windows[stream]
        if own is None or other is None:
            return None, None
        if self._through is None or self._through in (driver, stream):
            return other, own
        by = self._windows[self._through] or 0
        return other + by, own + by

    def _meeting(self, driver: int, fresh: Segment, state: BucketState) -> list[float]:
        """The share of new rows that meet something of each stream, from a sample of them."""
        step = max(1, len(fresh) // sequence.SAMPLE)
        sample = _lookers(fresh, np.arange(0, len(fresh), step))
        aside = Counters.zero(len(state.windows))
        return [
            1.0
            if stream == driver
            else float(self._find(driver, stream, sample, window, aside).found.mean())
            for stream, window in enumerate(state.windows)
        ]

    # -- expanding ------------------------------------------------------------------

    def _start(self, driver: int, fresh: Segment, rows: Ints) -> Partial:
        times = times_of(fresh.rows)[rows]
        return Partial(rows, (), times, times + (self._windows[driver] or 0))

    def _expand(
        self,
        finds: Sequence[Finds],
        partial: Partial,
        fresh: Segment,
        fanout: FanOut | None,
        depth: int = 0,
    ) -> Iterator[Partial]:
        """All combinations that begin with these, at most a piece at a time."""
        if depth == len(finds):
            if len(partial.rows):
                yield partial
            return
        for wider in self._wider(finds[depth], partial, fresh, fanout):
            yield from self._expand(finds, wider, fresh, fanout, depth + 1)

    def _wider(
        self, found: Finds, partial: Partial, fresh: Segment, fanout: FanOut | None
    ) -> Iterator[Partial]:
        """The combinations with one more stream."""
        size = self._piece(fresh.rows, found)
        ends = found.starts[partial.rows + 1]
        for owner, place in spread(found.starts[partial.rows], ends, size):
            low, high = found.low[place], found.high[place]
            segment = found.segment[place]
            if partial.chosen:
                self._narrow(found, partial, owner, segment, low, high)
            kept = np.flatnonzero(low < high)
            while len(kept):
                few = kept[: _fitting(low[kept], high[kept], size)]
                kept = kept[len(few) :]
                for number, at in spread(low[few], high[few], size):
                    chosen = few[number]
                    yield self._with(found, partial, owner[chosen], segment[chosen], at, fresh)
                if fanout is not None:
                    kept = kept[fanout.wants(partial.rows[owner[kept]])]

    def _narrow(
        self,
        found: Finds,
        partial: Partial,
        owner: Ints,
        segment: Ints,
        low: Ints,
        high: Ints,
    ) -> None:
        """Narrow ranges to the times that fit what has been chosen."""
        window = self._windows[found.stream]
        if window is None or not len(owner):
            return
        earliest, latest = partial.newest[owner] - window, partial.deadline[owner]
        for number in np.unique(segment).tolist():
            entry = found.segments[number][0]
            early = entry.min_time < earliest.max()
            late = entry.max_time > latest.min()
            if not early and not late:
                continue
            here, times = np.flatnonzero(segment == number), found.index(number).times
            if early:
                low[here] = bisect(times, low[here], high[here], earliest[here], side="left")
            if late:
                high[here] = bisect(times, low[here], high[here], latest[here], side="right")

    def _with(
        self, found: Finds, partial: Partial, owner: Ints, segment: Ints, at: Ints, fresh: Segment
    ) -> Partial:
        """Combinations, each with one more row: at a place of a segment's index."""
        grown = partial.take(owner)
        positions = np.empty(len(at), dtype=np.int64)
        times = np.empty(len(at), dtype=np.int64)
        equal = np.ones(len(at), dtype=np.bool_)
        for number in np.unique(segment).tolist():
            here = np.flatnonzero(segment == number)
            index = found.index(number)
            positions[here] = index.order[at[here]]
            times[here] = index.times[at[here]]
            if not self._layout.exact:
                rows = found.rows(number)
                equal[here] = same_keys(
                    self._layout, fresh.rows, rows, grown.rows[here], positions[here]
                )
        newest, deadline = grown.newest, grown.deadline
        until = times + (self._windows[found.stream] or 0)
        if self._through is None:
            newest, deadline = np.maximum(newest, times), np.minimum(deadline, until)
        elif found.stream == self._through:
            newest, deadline = times, until
        grown = Partial(grown.rows, (*grown.chosen, (segment, positions)), newest, deadline)
        return grown if equal.all() else grown.take(equal)

    def _piece(self, fresh: pa.RecordBatch, found: Finds) -> int:
        largest = [found.rows(number) for number in range(min(len(found.segments), 1))]
        limit = self._layout.piece
        return piece_rows(fresh, *largest * (len(self._windows) - 1), limit=limit)

    # -- results --------------------------------------------------------------------

    def _sides(
        self, driver: int, rows: pa.RecordBatch, finds: Sequence[Finds], partial: Partial
    ) -> dict[int, Side]:
        sides: dict[int, Side] = {driver: (rows, partial.rows)}
        for found, (segment, positions) in zip(finds, partial.chosen, strict=True):
            sides[found.stream] = found.side(segment, positions)
        return sides

    def _holding(self, sides: dict[int, Side]) -> dict[int, Side]:
        """Of combinations with equal keys, those for which the predicate holds."""
        predicate = self._layout.predicate
        if predicate is None:
            return sides
        holds = predicate.mask(
            [self._layout.inputs[i].read_at(*sides[i], name) for i, name in predicate.columns]
        )
        return {stream: (rows, at[holds]) for stream, (rows, at) in sides.items()}


def _but(windows: Sequence[Window], driver: int) -> list[Window]:
    return [window for stream, window in enumerate(windows) if stream != driver]


def _lookers(fresh: Segment, rows: Ints) -> Segment:
    """The codes and times of some new rows: all that it takes to look."""
    if len(rows) == len(fresh):
        return fresh
    names = [name for name in (CODE, TIME) if name in fresh.rows.schema.names]
    return Segment.of(fresh.rows.select(names).take(pa.array(rows)))


def _widened(found: Finds, rows: Ints, count: int) -> Finds:
    """What some of ``count`` new rows have found, by position among all of them."""
    if len(rows) == count:
        return found
    counts = np.zeros(count, dtype=np.int64)
    counts[rows] = np.diff(found.starts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    parts = found.segments, found.segment, found.low, found.high
    return Finds(found.stream, found.window, *parts, starts)


def _fitting(low: Ints, high: Ints, size: int) -> int:
    """How many of the ranges hold no more than ``size`` places, one at least.

    >>> _fitting(np.array([0, 10, 20]), np.array([5, 15, 90]), 10)
    2
    """
    return max(1, int(np.searchsorted(np.cumsum(high - low), size, side="right")))


def _joined(arrays: Sequence[Positions]) -> Ints:
    return np.concatenate(arrays, dtype=np.int64) if arrays else np.empty(0, dtype=np.int64)
