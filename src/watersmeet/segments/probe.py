"""Probing: which stored rows do new rows match, by key and by time?

One side is *searched*: its index is sorted by (code, time) (see
:mod:`watersmeet.segments.segment`). The other side *searches*: for a row with code c
and time t the matches are one range of that index: first the range of equal codes,
by binary search, then, within it, the range of times, by a binary search of all
ranges at once. The cost depends on which side is which:

- a stored segment with an index is searched by the new rows (the paper's hash join):
  the cost follows the new rows and the matches, not the size of the segment;
- a plain one is scanned (nested loops): its rows search among the new ones. The cost
  follows the stored rows, but no index had to be kept. If there are more new rows than
  stored ones, it is cheaper to build an index of the segment, use it, and forget it.

The ranges are emitted in pieces of bounded size: a row that matches millions
of stored rows is spread over as many pieces as it needs.

**Example.** A new row with code 3 and time 15 probes an index, within 2 seconds::

    code   3    3    3    7    7    9
    time  10   14   20   11   19   12
           └──────────┘                 equal codes: the places 0 to 2
                └┘                      times from 13 to 17: the place 1

If the segment is plain, its six rows search among the new ones: the row with code 3 and time 14
finds the new row, all others find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.rows.columns import Ints, codes_of, times_of
from watersmeet.segments.code_search import may_be_among, starts_of
from watersmeet.segments.index import Index
from watersmeet.segments.segment import Segment

#: Rows that search among fewer rows than this need not be sorted: these stay in the processor's
#: cache.
NEAR = 1 << 15


@dataclass(frozen=True)
class Searchers:
    """Rows that search: ``codes``, ``times`` and ``rows``, their positions (None: in
    order of position)."""

    codes: Ints
    times: Ints
    rows: npt.NDArray[np.integer] | None

    @classmethod
    def of(cls, segment: Segment, *, in_order: bool) -> Searchers:
        if in_order or segment.has_index:
            return cls(segment.index.codes, segment.index.times, segment.index.order)
        return cls(codes_of(segment.rows), times_of(segment.rows), None)

    def only(self, chosen: Ints) -> Searchers:
        rows = chosen if self.rows is None else self.rows[chosen]
        return Searchers(self.codes[chosen], self.times[chosen], rows)


@dataclass(frozen=True)
class Ranges:
    """For searching rows: the matches are ``order[low[i]:high[i]]`` of the searched
    side. ``swapped``: the stored rows searched among the new ones."""

    searchers: npt.NDArray[np.integer]
    low: Ints
    high: Ints
    order: npt.NDArray[np.integer]
    swapped: bool

    def pieces(self, size: int) -> Iterator[tuple[npt.NDArray[np.integer], ...]]:
        """Pairs (position of the new row, position of the stored row), at most ``size``
        at a time."""
        for row, place in spread(self.low, self.high, size):
            pair = self.searchers[row], self.order[place]
            yield pair[::-1] if self.swapped else pair


def spread(low: Ints, high: Ints, size: int) -> Iterator[tuple[Ints, Ints]]:
    """The places in ranges: for each place the number of its range, and the place itself. At most
    ``size`` of them at a time.

    >>> low, high = np.array([4, 9]), np.array([7, 10])
    >>> [(number.tolist(), place.tolist()) for number, place in spread(low, high, 2)]
    [([0, 0], [4, 5]), ([0, 1], [6, 9])]
    """
    counts = high - low
    ends = np.cumsum(counts)
    starts = ends - counts
    total = int(ends[-1]) if len(ends) else 0
    single = total == len(low) and bool((counts == 1).all())
    for start in range(0, total, size):
        stop = min(start + size, total)
        if single:
            yield np.arange(start, stop), low[start:stop]
            continue
        numbers = _reached(ends, start, stop)
        taken = np.minimum(ends[numbers], stop) - np.maximum(starts[numbers], start)
        first_places = np.repeat(low[numbers] - starts[numbers], taken)
        yield np.repeat(numbers, taken), first_places + np.arange(start, stop)


def portions(low: Ints, high: Ints, size: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Ranges, with at most ``size`` places at a time: their numbers, and where each begins and
    ends. A range may be in several portions.

    >>> low, high = np.array([4, 9]), np.array([7, 10])
    >>> [[each.tolist() for each in portion] for portion in portions(low, high, 2)]
    [[[0], [4], [6]], [[0, 1], [6, 9], [7, 10]]]
    """
    ends = np.cumsum(high - low)
    before = ends - high
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, size):
        stop = min(start + size, total)
        numbers = _reached(ends, start, stop)
        lows = np.maximum(low[numbers], start - before[numbers])
        yield numbers, lows, np.minimum(high[numbers], stop - before[numbers])


def _reached(ends: Ints, start: int, stop: int) -> Ints:
    """The numbers of the ranges that have the places from ``start`` to ``stop``. Range i ends
    before place ``ends[i]``."""
    first = int(np.searchsorted(ends, start, side="right"))
    last = int(np.searchsorted(ends, stop, side="left"))
    return np.arange(first, last + 1)


def search(
    searchers: Searchers, stored: Segment, before: int | None, after: int | None
) -> tuple[Ranges, Index]:
    """The matches of rows in a stored segment, as ranges of an index. It is the segment's own
    index; or, if the segment is plain, a new index of those rows that may match."""
    index = stored.index if stored.has_index else _index_of_some(stored, searchers.codes)
    if not len(searchers.codes) or not len(index.codes):
        nothing = np.empty(0, dtype=np.int64)
        return Ranges(nothing, nothing, nothing, index.order, swapped=False), index
    earliest, latest = int(searchers.times.min()), int(searchers.times.max())
    reach = latest - stored.min_time, stored.max_time - earliest
    return _search_index(searchers, index, _Bounds(before, after), reach, swapped=False), index


def _index_of_some(segment: Segment, targets: Ints) -> Index:
    """The index of a segment's rows that may have one of some codes, and of no others."""
    codes = codes_of(segment.rows)
    chosen = np.flatnonzero(may_be_among(codes, targets)) if len(targets) else np.arange(0)
    some = Index.of(codes[chosen], times_of(segment.rows)[chosen])
    return Index(some.codes, some.times, chosen[some.order].astype(np.int32))


def probe(new: Segment, stored: Segment, before: int | None, after: int | None) -> Ranges:
    """The matches of new rows in a stored segment.

    A stored row matches by time if it is at most ``before`` earlier and at most
    ``after`` later than the new row; None means any time.
    """
    bounds = _Bounds(before, after)
    if not len(new) or not len(stored):
        nothing = np.empty(0, dtype=np.int64)
        return Ranges(nothing, nothing, nothing, nothing, swapped=False)
    if stored.has_index or len(stored) < len(new):
        searchers = Searchers.of(new, in_order=len(stored) > max(NEAR, len(new)))
        return _search_index(searchers, stored.index, bounds, _reach(new, stored), swapped=False)
    searchers = Searchers.of(stored, in_order=False)
    return _search_index(searchers, new.index, bounds.mirrored, _reach(stored, new), swapped=True)


@dataclass(frozen=True)
class _Bounds:
    """How much earlier and later than a searching row a match may be."""

    before: int | None
    after: int | None

    @property
    def mirrored(self) -> _Bounds:
        return _Bounds(self.after, self.before)


def _reach(searching: Segment, searched: Segment) -> tuple[int, int]:
    """How much earlier and later than a searching row a searched one can be at most."""
    return searching.max_time - searched.min_time, searched.max_time - searching.min_time


def _search_index(
    searchers: Searchers, index: Index, bounds: _Bounds, reach: tuple[int, int], *, swapped: bool
) -> Ranges:
    found, start = starts_of(searchers.codes, index.codes)
    end = _ends(index, start, searchers.codes[found])
    low, high = start, end
    if bounds.before is not None and reach[0] > bounds.before:
        targets = shifted(searchers.times[found], -bounds.before)
        low = bisect(index.times, low, high, targets, side="left")
    if bounds.after is not None and reach[1] > bounds.after:
        targets = shifted(searchers.times[found], bounds.after)
        high = bisect(index.times, low, high, targets, side="right")
    if low is not start or high is not end:
        kept = np.flatnonzero(low < high)
        found, low, high = found[kept], low[kept], high[kept]
    rows = found if searchers.rows is None else searchers.rows[found]
    return Ranges(rows, low, high, index.order, swapped)


def _ends(index: Index, low: Ints, codes: Ints) -> Ints:
    """Where the codes end that start at ``low``."""
    if len(codes) < len(index.codes):
        return np.searchsorted(index.codes, codes, side="right")
    last = np.flatnonzero(np.append(index.codes[1:] != index.codes[:-1], True)) + 1
    ends: Ints = np.repeat(last, np.diff(last, prepend=0))[low]
    return ends


def shifted(times: Ints, by: int) -> Ints:
    """Times that much later, or earlier; no later than the greatest number of 64 bits, and no
    earlier than the least.

    >>> shifted(np.array([5, 2**63 - 2]), 7).tolist() == [12, 2**63 - 1]
    True
    """
    limit = np.iinfo(np.int64).max - by if by > 0 else np.iinfo(np.int64).min - by
    return (np.minimum(times, limit) if by > 0 else np.maximum(times, limit)) + by


def bisect(times: Ints, low: Ints, high: Ints, targets: Ints, *, side: str) -> Ints:
    """For each i, where ``targets[i]`` belongs in the sorted ``times[low[i]:high[i]]``."""
    low, high = low.copy(), high.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        value, target = times[middle], targets[open_]
        right = value < target if side == "left" else value <= target
        low[open_[right]] = middle[right] + 1
        high[open_[~right]] = middle[~right]
        open_ = open_[low[open_] < high[open_]]
    return low
