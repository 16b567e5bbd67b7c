"""Combinations of rows of three and more streams that share a key.

A new row, the *driver*, makes a result with each combination of stored rows, one of every other
stream, that have its key and are close enough in time. No part of a combination is ever stored.
It takes three passes:

**Probe.** New rows probe one window after the other (:mod:`.combination_probe`). A row without a
match in one window makes no result, and probes no further one.

**Gather.** The matches of the remaining rows are gathered, stream by stream: a bounded amount at
a time (:mod:`.gathering`).

**Expand.** Combinations grow stream by stream: all of them at once, but never more than a piece
at a time, however large the product is.

**Time.** With T the greatest time of a combination, ``T - time(i) <= W(i)`` for every row i. So
rows of stream l that may join a combination lie in [newest - W(l), deadline], where ``newest`` is
its greatest time so far and ``deadline`` the least of time(i) + W(i). A row's matches are in order
of time: both ends are found by binary search. In a left join every stream is matched with the
first one alone, so these are the first stream's time and its deadline.

**Example.** Streams a, b and c with windows of 10 seconds. A new row of a at 20 has the matches b
at 12 and 18, and c at 9, 15 and 25::

    combination    newest  deadline           the next stream's rows lie in
    a 20               20  30                 [10, 30]: b at 12 and 18
    a 20, b 12         20  min(30, 22) = 22   [10, 22]: c at 15
    a 20, b 18         20  min(30, 28) = 28   [10, 28]: c at 15 and 25

So there are three results. (20, 12, 25) is none of them: 25 - 12 is more than 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.limits.fan_out import EquiFanOut
from watersmeet.joins.equi.match.combination_probe import CombinationProbe
from watersmeet.joins.equi.match.gathering import GatheredMatches, MatchGathering
from watersmeet.rows.columns import Bools, Ints, Positions
from watersmeet.rows.output import Sides, satisfying, where
from watersmeet.segments.index import Index
from watersmeet.segments.probe import bisect, shifted, spread
from watersmeet.segments.segment import Segment


@dataclass(frozen=True)
class Partial:
    """Combinations that are not complete yet. Each has a new row, a match of each stream so far,
    and the bounds for the times of the other streams."""

    rows: Ints
    chosen: tuple[Positions, ...]
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
        fan_out = EquiFanOut(self._context, stream, fresh)
        windows, complete = self._probe.search(stream, fresh.index)
        gathering = MatchGathering(self._layout, fresh, windows, fan_out)
        for matches, rows in gathering.gather(complete):
            start = self._start(stream, fresh.index, rows)
            for combinations in self._expand(matches, start, fresh.index, fan_out):
                for sides in self._sides(stream, fresh, matches, combinations):
                    below = where(sides, fan_out.below_cap(sides[stream][1]))
                    matching = satisfying(self._layout, below)
                    admitted = where(matching, fan_out.admit(matching[stream][1]))
                    yield from self._context.output.rows(admitted)
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
        gathering = MatchGathering(self._layout, fresh, windows)
        # Rows that match in all streams have been emitted already.
        candidates = np.flatnonzero(~gathering.in_every_stream())
        for matches, chosen in gathering.gather(candidates):
            has = np.stack([some.count(chosen) > 0 for some in matches])
            patterns, group = np.unique(has, axis=1, return_inverse=True)
            for number, pattern in enumerate(patterns.T):
                if pattern.all():
                    continue
                start = self._start(stream, index, chosen[group.reshape(-1) == number])
                present = [some for some, there in zip(matches, pattern, strict=True) if there]
                for combinations in self._expand(present, start, index, None):
                    for sides in self._sides(stream, fresh, present, combinations):
                        yield from self._context.output.rows(sides)

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
        fan_out: EquiFanOut | None,
    ) -> Iterator[Partial]:
        """All combinations that begin with these, at most a piece at a time."""
        depth = len(partial.chosen)
        if depth == len(matches):
            yield partial
            return
        for wider in self._widen(matches[depth], partial, index, fan_out):
            yield from self._expand(matches, wider, index, fan_out)

    def _widen(
        self, matches: GatheredMatches, partial: Partial, index: Index, fan_out: EquiFanOut | None
    ) -> Iterator[Partial]:
        """The combinations with one more stream."""
        size = self._context.output.piece_rows
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
        """Ranges of matches, narrowed to the times that fit the combinations so far."""
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
    ) -> Iterator[Sides]:
        """Complete combinations, in pieces that are limited by rows and by bytes."""
        sides: Sides = {driver: (fresh.rows, fresh.index.order[combinations.rows])}
        for of_stream, places in zip(matches, combinations.chosen, strict=True):
            sides[of_stream.stream] = of_stream.rows, places
        widest = fresh.widest + sum(of_stream.widest for of_stream in matches)
        return self._context.output.pieces(sides, widest=widest)


def _fitting(counts: Ints, size: int) -> int:
    """How many of the first counts have a sum of at most ``size``; one at least.

    >>> _fitting(np.array([5, 5, 70]), 10)
    2
    """
    return max(1, int(np.searchsorted(np.cumsum(counts), size, side="right")))
