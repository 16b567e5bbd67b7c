"""Combinations of rows of three and more streams that share a key.

A new row, the *driver*, makes a result with each combination of rows, one of every other
stream, that is stored already, has its key, and is close enough in time. No part of a
combination is ever stored. It takes three passes:

**Look.** New rows look into one window after the other (:mod:`.order.probe_order`). In each
segment a row finds a range of the index, which tells how many matches there are without
touching them. A row that finds nothing in a window is done with.

**Gather.** The matches of the rows that are left are gathered, stream by stream: a bounded
number at a time.

**Expand.** Combinations grow stream by stream: all of them at once, but never more than a
piece at a time, however large the product is.

**Time.** With T the greatest time of a combination, ``T - time(i) <= W(i)`` for every row i.
So rows of stream l that may join a combination lie in [newest - W(l), deadline], where
``newest`` is its greatest time so far and ``deadline`` the least of time(i) + W(i). A row's
matches are in order of time: both ends are found by binary search. In a left join every
stream is matched with the first one alone, so these are the first stream's time and its
deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.base import Counters
from watersmeet.operators.equi.keys import same_keys
from watersmeet.operators.equi.layout import JoinLayout
from watersmeet.operators.equi.limits.fan_out import FanOut
from watersmeet.operators.equi.order import probe_order
from watersmeet.operators.equi.output import Output, Side, piece_rows
from watersmeet.operators.equi.state import EquiState
from watersmeet.rows.columns import Ints
from watersmeet.state.index import Index, sort_order
from watersmeet.state.manifest import Entry
from watersmeet.state.probe import Searchers, bisect, search, spread
from watersmeet.state.segment import Segment
from watersmeet.state.window import Window

_ALL = 2**62
#: Matches are gathered for so many pieces of results at a time.
_PIECES_GATHERED = 8


@dataclass(frozen=True)
class Find:
    """Where new rows have matches in one segment: row ``rows[j]`` at the places ``low[j]`` to
    ``high[j]`` of its index. ``made`` is the index that was made to look, if it is plain."""

    entry: Entry
    made: Index | None
    rows: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True)
class Finds:
    """Where new rows have matches in one stream's window, and ``counts``: how many each."""

    stream: int
    window: Window
    parts: list[Find]
    counts: Ints


@dataclass(frozen=True)
class Matches:
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


class Combining:
    """Makes the combinations of a join of three and more streams; lives for a step."""

    def __init__(
        self, layout: JoinLayout, output: Output, state: EquiState, counters: Counters
    ) -> None:
        self._layout = layout
        self._output = output
        self._state = state
        self._counters = counters
        self._windows = [stream.window for stream in layout.inputs]
        #: In a left join, every stream is matched with this one.
        self._through = 0 if layout.how == "left" else None

    def results(self, driver: int, fresh: Segment) -> Iterator[pa.RecordBatch]:
        """The results that new rows of one stream make."""
        lookers = fresh.index
        finds, complete = self._look(driver, lookers)
        fanout = FanOut(self._layout, driver, fresh, self._counters)
        for matches, rows in self._gathered(fresh, finds, complete):
            for whole in self._expand(matches, self._start(driver, lookers, rows), lookers, fanout):
                sides = self._sides(driver, fresh, matches, whole)
                yield from self._output.rows(fanout.admitted(self._holding(sides), driver))
        fanout.finish()

    def incomplete(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A left join's results for rows of the first stream that have waited long enough:
        those that lack a match in some stream, with each combination of what they have."""
        fresh = Segment.of(rows)
        lookers = fresh.index
        every = Searchers(lookers.codes, lookers.times, None)
        finds = [
            self._find(0, stream, every, len(fresh)) for stream in range(1, len(self._windows))
        ]
        # Rows that match in all streams have come out already. Whether they do is certain once
        # keys that share a code have been told apart.
        found = np.logical_and.reduce([find.counts > 0 for find in finds])
        looking = np.flatnonzero(~found) if self._layout.exact else np.arange(len(fresh))
        for matches, chosen in self._gathered(fresh, finds, looking):
            has = np.stack([some.count(chosen) > 0 for some in matches])
            patterns, group = np.unique(has, axis=1, return_inverse=True)
            for number, pattern in enumerate(patterns.T):
                if pattern.all():
                    continue
                members = self._start(0, lookers, chosen[group.reshape(-1) == number])
                present = [some for some, there in zip(matches, pattern, strict=True) if there]
                for whole in self._expand(present, members, lookers, None):
                    yield from self._output.rows(self._sides(0, fresh, present, whole))

    # -- looking --------------------------------------------------------------------
    # New rows are known by their number in the order of the keys: so what they search
    # for is in order too.

    def _look(self, driver: int, lookers: Index) -> tuple[list[Finds], Ints]:
        """What new rows find in the other windows, and which of them find something in all."""
        count = len(lookers.codes)
        every = Searchers(lookers.codes, lookers.times, None)
        alive, finds = np.arange(count), []
        for stream in self._sequence(driver, lookers):
            looking = every if len(alive) == count else every.only(alive)
            found = self._find(driver, stream, looking, count)
            finds.append(found)
            alive = alive[found.counts[alive] > 0]
            if not len(alive):
                break
        return finds, alive

    def _sequence(self, driver: int, lookers: Index) -> Sequence[int]:
        """In which order to look into the other windows; measured now and then."""
        flow = self._state.flows[driver]
        stored = [bool(window.entries) for window in self._state.windows]
        if probe_order.is_due(flow) and all(stored[:driver] + stored[driver + 1 :]):
            flow.sample_match_rates(self._match_rates(driver, lookers))
            names = [stream.name for stream in self._layout.inputs]
            notes = probe_order.revise(driver, flow, names, through=self._through)
            self._counters.notes += notes
        return flow.probe_order or self._layout.sequences[driver]

    def _match_rates(self, driver: int, lookers: Index) -> list[float]:
        """The share of new rows that meet something of each stream, from a sample of them."""
        count = len(lookers.codes)
        chosen = np.arange(0, count, max(1, count // probe_order.SAMPLE))
        sample = Searchers(lookers.codes[chosen], lookers.times[chosen], None)
        found = [
            np.ones(1)
            if stream == driver
            else self._find(driver, stream, sample, len(chosen)).counts > 0
            for stream in range(len(self._windows))
        ]
        return [float(some.mean()) for some in found]

    def _find(self, driver: int, stream: int, looking: Searchers, count: int) -> Finds:
        """What some of ``count`` new rows find in one window."""
        window = self._state.windows[stream]
        before, after = self._reach(driver, stream)
        counts = np.zeros(count, dtype=np.int64)
        parts: list[Find] = []
        if not len(looking.codes):
            return Finds(stream, window, parts, counts)
        earliest = None if before is None else int(looking.times.min()) - before
        latest = None if after is None else int(looking.times.max()) + after
        for entry in window.overlapping(earliest, latest):
            stored = window.open(entry)
            ranges, index = search(looking, stored, before, after)
            self._counters.probes += len(looking.codes)
            if not len(ranges.low):
                continue
            rows = np.asarray(ranges.searchers, dtype=np.int64)
            counts[rows] += ranges.high - ranges.low  # a row is there once only
            made = None if stored.has_index else index
            parts.append(Find(entry, made, rows, ranges.low, ranges.high))
        return Finds(stream, window, parts, counts)

    def _reach(self, driver: int, stream: int) -> tuple[int | None, int | None]:
        """How much earlier and how much later than a driver a row of a stream may be."""
        own, other = self._windows[driver], self._windows[stream]
        if own is None or other is None:
            return None, None
        if self._through is None or self._through in (driver, stream):
            return other, own
        by = self._windows[self._through] or 0
        return other + by, own + by

    # -- gathering ------------------------------------------------------------------

    def _gathered(
        self, fresh: Segment, finds: Sequence[Finds], rows: Ints
    ) -> Iterator[tuple[list[Matches], Ints]]:
        """The matches of new rows in each stream, a bounded number of them at a time, and
        whose they are."""
        widest = piece_rows(fresh.rows, limit=self._layout.piece)
        total = sum((find.counts[rows] for find in finds), start=np.ones(len(rows), np.int64))
        while len(rows):
            few = _fitting(total, _PIECES_GATHERED * widest)
            chosen, rows, total = rows[:few], rows[few:], total[few:]
            yield [self._matches(find, chosen, fresh) for find in finds], chosen

    def _matches(self, finds: Finds, chosen: Ints, fresh: Segment) -> Matches:
        """The matches of some new rows in one stream."""
        first, count = int(chosen[0]), int(chosen[-1]) - int(chosen[0]) + 1
        wanted = np.zeros(count, dtype=np.bool_)
        wanted[chosen - first] = True
        owners, times, batches = [np.empty(0, np.int64)], [np.empty(0, np.int64)], []
        for part in finds.parts:
            start, stop = np.searchsorted(part.rows, [first, first + count])
            kept = start + np.flatnonzero(wanted[part.rows[start:stop] - first])
            segment = finds.window.open(part.entry)
            index = segment.index if part.made is None else part.made
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
        return Matches(finds.stream, rows, first, starts, instants[order], order)

    # -- expanding ------------------------------------------------------------------

    def _start(self, driver: int, lookers: Index, rows: Ints) -> Partial:
        """What combinations of new rows begin with."""
        times = lookers.times[rows]
        return Partial(rows, (), times, times + (self._windows[driver] or 0))

    def _expand(
        self,
        matches: Sequence[Matches],
        partial: Partial,
        lookers: Index,
        fanout: FanOut | None,
    ) -> Iterator[Partial]:
        """All combinations that begin with these, at most a piece at a time."""
        depth = len(partial.chosen)
        if depth == len(matches):
            yield partial
            return
        for wider in self._wider(matches[depth], partial, lookers, fanout):
            yield from self._expand(matches, wider, lookers, fanout)

    def _wider(
        self, matches: Matches, partial: Partial, lookers: Index, fanout: FanOut | None
    ) -> Iterator[Partial]:
        """The combinations with one more stream."""
        size = piece_rows(*[matches.rows] * len(self._windows), limit=self._layout.piece)
        numbers = partial.rows - matches.first
        low, high = matches.starts[numbers], matches.starts[numbers + 1]
        if partial.chosen:
            low, high = self._narrowed(matches, partial, low, high)
        kept = np.flatnonzero(low < high)
        while len(kept):
            few = kept[: _fitting(high[kept] - low[kept], size)]
            kept = kept[len(few) :]
            for number, match in spread(low[few], high[few], size):
                yield self._with(matches, partial, few[number], match)
            if fanout is not None:
                kept = kept[fanout.wants(lookers.order[partial.rows[kept]])]

    def _narrowed(
        self, matches: Matches, partial: Partial, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """Ranges of matches, narrowed to the times that fit what has been chosen."""
        window, times = self._windows[matches.stream], matches.times
        if window is None:
            return low, high
        earliest, latest = partial.newest - window, partial.deadline
        some = np.flatnonzero(low < high)
        early = some[times[low[some]] < earliest[some]]  # hardly any, if rows come in order
        low[early] = bisect(times, low[early], high[early], earliest[early], side="left")
        some = np.flatnonzero(low < high)
        late = some[times[high[some] - 1] > latest[some]]
        high[late] = bisect(times, low[late], high[late], latest[late], side="right")
        return low, high

    def _with(self, matches: Matches, partial: Partial, owner: Ints, match: Ints) -> Partial:
        """Combinations, each with one more match."""
        rows, chosen = partial.rows[owner], tuple(before[owner] for before in partial.chosen)
        newest, deadline = partial.newest[owner], partial.deadline[owner]
        times = matches.times[match]
        until = times + (self._windows[matches.stream] or 0)
        if self._through is None:
            newest, deadline = np.maximum(newest, times), np.minimum(deadline, until)
        elif matches.stream == self._through:
            newest, deadline = times, until
        return Partial(rows, (*chosen, matches.places[match]), newest, deadline)

    # -- results --------------------------------------------------------------------

    def _sides(
        self, driver: int, fresh: Segment, matches: Sequence[Matches], whole: Partial
    ) -> dict[int, Side]:
        sides: dict[int, Side] = {driver: (fresh.rows, fresh.index.order[whole.rows])}
        for of_stream, places in zip(matches, whole.chosen, strict=True):
            sides[of_stream.stream] = of_stream.rows, places
        return sides

    def _holding(self, sides: dict[int, Side]) -> dict[int, Side]:
        """Of combinations with equal keys, those for which the predicate holds."""
        holds = self._layout.holds(sides)
        if holds is None:
            return sides
        return {stream: (rows, at[holds]) for stream, (rows, at) in sides.items()}


def _fitting(counts: Ints, size: int) -> int:
    """How many of these make no more than ``size`` together, one at least.

    >>> _fitting(np.array([5, 5, 70]), 10)
    2
    """
    return max(1, int(np.searchsorted(np.cumsum(counts), size, side="right")))
