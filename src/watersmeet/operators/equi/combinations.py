"""Combinations of rows of three and more streams that share a key.

A new row, the *driver*, makes a result with each combination of stored rows, one of every other
stream, that have its key and are close enough in time. No part of a combination is ever stored.
It takes three passes:

**Probe.** New rows probe one window after the other (:mod:`.combination_probe`). A row without a
match in one window makes no result, and probes no further one.

**Gather.** The matches of the remaining rows are gathered, stream by stream: a bounded number at
a time.

**Expand.** Combinations grow stream by stream: all of them at once, but never more than a piece
at a time, however large the product is.

**Time.** With T the greatest time of a combination, ``T - time(i) <= W(i)`` for every row i. So
rows of stream l that may join a combination lie in [newest - W(l), deadline], where ``newest`` is
its greatest time so far and ``deadline`` the least of time(i) + W(i). A row's matches are in order
of time: both ends are found by binary search. In a left join every stream is matched with the
first one alone, so these are the first stream's time and its deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.equi.combination_probe import CombinationProbe, WindowMatches
from watersmeet.operators.equi.context import StepContext
from watersmeet.operators.equi.keys import same_keys
from watersmeet.operators.equi.limits.fan_out import FanOut
from watersmeet.operators.equi.sides import Sides, satisfying
from watersmeet.rows.columns import Bools, Ints
from watersmeet.rows.output import piece_rows
from watersmeet.state.index import Index, sort_order
from watersmeet.state.probe import bisect, shifted, spread
from watersmeet.state.segment import Segment

_ALL = 2**62
#: Matches are gathered for about this many pieces of results at a time.
_PIECES_GATHERED = 8


@dataclass(frozen=True)
class GatheredMatches:
    """The matches of some new rows in one stream. New row r has those from ``starts[r - first]``
    on, in order of ``times``; match m is row ``places[m]`` of ``rows``."""

    stream: int
    rows: pa.RecordBatch
    first: int
    starts: Ints
    times: Ints
    places: Ints

    def count(self, rows: Ints) -> Ints:
        """How many matches each of these new rows has."""
        return self.starts[rows - self.first + 1] - self.starts[rows - self.first]


@dataclass(frozen=True)
class Partial:
    """Combinations that are not complete yet: of each, the new row, the match chosen of each
    stream so far, and the bounds for the times of the others."""

    rows: Ints
    chosen: tuple[Ints, ...]
    newest: Ints
    deadline: Ints


class CombinationMatcher:
    """Matches rows of three and more streams; lives for a step."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._layout = context.layout
        self._lengths = [stream.window for stream in context.layout.inputs]
        self._probe = CombinationProbe(context)

    def arrive(self, stream: int, fresh: Segment) -> Iterator[pa.RecordBatch]:
        """The results that new rows make with stored ones; then the new rows are stored."""
        fan_out = FanOut(self._context, stream, fresh)
        windows, complete = self._probe.search(stream, fresh.index)
        for matches, rows in self._gather(fresh, windows, complete):
            start = self._start(stream, fresh.index, rows)
            for combinations in self._expand(matches, start, fresh.index, fan_out):
                sides = self._sides(stream, fresh, matches, combinations)
                sides = fan_out.admit(satisfying(self._layout, sides))
                yield from self._context.output.rows(sides)
        fan_out.finish()
        self._context.state.windows[stream].add(fresh)

    def unmatched(self, stream: int, rows: pa.RecordBatch, due: Bools) -> Iterator[pa.RecordBatch]:
        """A left join's results for the rows of the first stream that are due: those without a
        match in some stream, with each combination of the matches that they have."""
        if not due.any():
            return
        fresh = Segment.of(rows.filter(pa.array(due)))
        index = fresh.index
        windows = self._probe.search_all(stream, index)
        # Rows that match in all streams have been emitted already. Whether they do is certain
        # once keys that share a code have been told apart.
        everywhere = np.logical_and.reduce([window.counts > 0 for window in windows])
        candidates = np.flatnonzero(~everywhere) if self._layout.exact else np.arange(len(fresh))
        for matches, chosen in self._gather(fresh, windows, candidates):
            has = np.stack([some.count(chosen) > 0 for some in matches])
            patterns, group = np.unique(has, axis=1, return_inverse=True)
            for number, pattern in enumerate(patterns.T):
                if pattern.all():
                    continue
                start = self._start(stream, index, chosen[group.reshape(-1) == number])
                present = [some for some, there in zip(matches, pattern, strict=True) if there]
                for combinations in self._expand(present, start, index, None):
                    sides = self._sides(stream, fresh, present, combinations)
                    yield from self._context.output.rows(sides)

    # -- gathering ------------------------------------------------------------------

    def _gather(
        self, fresh: Segment, windows: Sequence[WindowMatches], rows: Ints
    ) -> Iterator[tuple[list[GatheredMatches], Ints]]:
        """The matches of some new rows at a time in each stream, and which rows these are; a
        bounded number of matches at a time."""
        limit = _PIECES_GATHERED * piece_rows(fresh.rows, limit=self._layout.piece)
        total = sum((window.counts[rows] for window in windows), start=np.ones(len(rows), np.int64))
        while len(rows):
            few = _fitting(total, limit)
            chosen, rows, total = rows[:few], rows[few:], total[few:]
            yield [self._gather_window(window, chosen, fresh) for window in windows], chosen

    def _gather_window(
        self, matches: WindowMatches, chosen: Ints, fresh: Segment
    ) -> GatheredMatches:
        """The matches of some new rows in one stream."""
        first, count = int(chosen[0]), int(chosen[-1]) - int(chosen[0]) + 1
        wanted = np.zeros(count, dtype=np.bool_)
        wanted[chosen - first] = True
        owners, times, batches = [np.empty(0, np.int64)], [np.empty(0, np.int64)], []
        for part in matches.segments:
            start, stop = np.searchsorted(part.rows, [first, first + count])
            kept = start + np.flatnonzero(wanted[part.rows[start:stop] - first])
            segment = matches.window.open(part.entry)
            index = segment.index if part.built is None else part.built
            for number, place in spread(part.low[kept], part.high[kept], _ALL):
                owner, positions = part.rows[kept][number], index.order[place]
                rows, instants = segment.rows.take(pa.array(positions)), index.times[place]
                if not self._layout.exact:
                    equal = same_keys(
                        self._layout,
                        fresh.rows,
                        rows,
                        fresh.index.order[owner],
                        np.arange(len(owner)),
                    )
                    if not equal.all():
                        owner, instants = owner[equal], instants[equal]
                        rows = rows.filter(pa.array(equal))
                owners.append(owner)
                times.append(instants)
                batches.append(rows)
        owner, instants = np.concatenate(owners), np.concatenate(times)
        order = sort_order(owner, instants)
        starts = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner - first, minlength=count), out=starts[1:])
        rows = pa.concat_batches(batches) if batches else fresh.rows.slice(0, 0)
        return GatheredMatches(matches.stream, rows, first, starts, instants[order], order)

    # -- expanding ------------------------------------------------------------------

    def _start(self, driver: int, index: Index, rows: Ints) -> Partial:
        """Combinations of new rows alone."""
        times = index.times[rows]
        return Partial(rows, (), times, shifted(times, self._lengths[driver] or 0))

    def _expand(
        self,
        matches: Sequence[GatheredMatches],
        partial: Partial,
        index: Index,
        fan_out: FanOut | None,
    ) -> Iterator[Partial]:
        """All combinations that begin with these, at most a piece at a time."""
        depth = len(partial.chosen)
        if depth == len(matches):
            yield partial
            return
        for wider in self._widen(matches[depth], partial, index, fan_out):
            yield from self._expand(matches, wider, index, fan_out)

    def _widen(
        self, matches: GatheredMatches, partial: Partial, index: Index, fan_out: FanOut | None
    ) -> Iterator[Partial]:
        """The combinations with one more stream."""
        size = piece_rows(*[matches.rows] * len(self._lengths), limit=self._layout.piece)
        numbers = partial.rows - matches.first
        low, high = matches.starts[numbers], matches.starts[numbers + 1]
        if partial.chosen:
            low, high = self._narrow(matches, partial, low, high)
        kept = np.flatnonzero(low < high)
        while len(kept):
            few = kept[: _fitting(high[kept] - low[kept], size)]
            kept = kept[len(few) :]
            for number, match in spread(low[few], high[few], size):
                yield self._add(matches, partial, few[number], match)
            if fan_out is not None:
                kept = kept[fan_out.below_cap(index.order[partial.rows[kept]])]

    def _narrow(
        self, matches: GatheredMatches, partial: Partial, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """Ranges of matches, narrowed to the times that fit what has been chosen."""
        window, times = self._lengths[matches.stream], matches.times
        if window is None:
            return low, high
        earliest, latest = shifted(partial.newest, -window), partial.deadline
        some = np.flatnonzero(low < high)
        early = some[times[low[some]] < earliest[some]]  # hardly any, if rows come in order
        low[early] = bisect(times, low[early], high[early], earliest[early], side="left")
        some = np.flatnonzero(low < high)
        late = some[times[high[some] - 1] > latest[some]]
        high[late] = bisect(times, low[late], high[late], latest[late], side="right")
        return low, high

    def _add(self, matches: GatheredMatches, partial: Partial, owner: Ints, match: Ints) -> Partial:
        """Some of the combinations, each with one more match."""
        rows, chosen = partial.rows[owner], tuple(before[owner] for before in partial.chosen)
        newest, deadline = partial.newest[owner], partial.deadline[owner]
        times = matches.times[match]
        until = shifted(times, self._lengths[matches.stream] or 0)
        if self._probe.through is None:
            newest, deadline = np.maximum(newest, times), np.minimum(deadline, until)
        elif matches.stream == self._probe.through:
            newest, deadline = times, until
        return Partial(rows, (*chosen, matches.places[match]), newest, deadline)

    # -- results --------------------------------------------------------------------

    def _sides(
        self,
        driver: int,
        fresh: Segment,
        matches: Sequence[GatheredMatches],
        combinations: Partial,
    ) -> Sides:
        sides: Sides = {driver: (fresh.rows, fresh.index.order[combinations.rows])}
        for of_stream, places in zip(matches, combinations.chosen, strict=True):
            sides[of_stream.stream] = of_stream.rows, places
        return sides


def _fitting(counts: Ints, size: int) -> int:
    """How many of the first counts have a sum of at most ``size``; one at least.

    >>> _fitting(np.array([5, 5, 70]), 10)
    2
    """
    return max(1, int(np.searchsorted(np.cumsum(counts), size, side="right")))
