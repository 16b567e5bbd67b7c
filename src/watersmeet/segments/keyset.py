"""A set of key codes, as ranges.

Invariant: the ranges are ascending and disjoint, and there is a gap between neighbours.

Rule: ranges that touch become one. Punctuations come as single keys and as ranges of keys, and a
query may see millions of them. If the keys of a stream are closed in about their order, a few
ranges are enough, whatever the number of keys. A shard has only some of the keys. So a gap that has
only keys of other shards is closed too: it makes no difference to this shard. If the keys 4 and 7
are closed and the shard has neither 5 nor 6, the range is 4 to 7.

A set does not change. A set that grows consists of several (:mod:`watersmeet.state.key_segments`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import CODE, HIGH, Bools, Ints, Positions, codes_of
from watersmeet.rows.shard import Shard
from watersmeet.segments.index import Index
from watersmeet.segments.segment import Segment

#: A gap with more codes than this, times the number of shards, is assumed to have a key of every
#: shard. (One in ten million has none of some shard.)
_GAP = 16
#: Gaps are examined together, about this number of codes at a time.
_CODES = 1 << 20


def _none() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class KeySet:
    """The codes from ``low[i]`` to ``high[i]``, both included, for every i.

    Invariant: ``low[i] <= high[i]``, and ``high[i] + 1 < low[i + 1]``.

    >>> some = KeySet().with_codes(np.array([3, 5, 4, 9]))
    >>> some.low.tolist(), some.high.tolist()
    ([3, 9], [5, 9])
    >>> some.contains(np.array([2, 4, 9])).tolist()
    [False, True, True]
    """

    low: Ints = field(default_factory=_none)
    high: Ints = field(default_factory=_none)

    def __bool__(self) -> bool:
        return len(self.low) > 0

    def contains(self, codes: Ints) -> Bools:
        """For each code: is it in the set?"""
        if not self:
            return np.zeros(len(codes), dtype=np.bool_)
        found: Bools = (codes >= self.low[0]) & (codes <= self.high[-1])
        if len(self.low) > 1:
            among = np.flatnonzero(found)
            at = np.searchsorted(self.low, codes[among], side="right") - 1
            found[among] = codes[among] <= self.high[at]
        return found

    def with_codes(self, codes: Ints) -> KeySet:
        """The union of the set and the codes."""
        codes = np.unique(codes)
        return self.with_ranges(codes, codes)

    def with_ranges(self, low: Ints, high: Ints) -> KeySet:
        """The union of the set and the ranges; a range whose low is above its high is empty."""
        covers = low <= high
        lows = np.concatenate([self.low, low[covers]])
        highs = np.concatenate([self.high, high[covers]])
        if not len(lows):
            return self
        order = np.argsort(lows, kind="stable")
        lows, reach = lows[order], np.maximum.accumulate(highs[order])
        # A range starts where there is a gap after all ranges before it. (Subtract: a sum might
        # overflow.)
        starts = np.ones(len(lows), dtype=np.bool_)
        starts[1:] = (lows[1:] > reach[:-1]) & (lows[1:] - 1 > reach[:-1])
        ends = np.append(starts[1:], True)
        return KeySet(lows[starts], reach[ends])

    def bridged(self, before: KeySet, shard: Shard) -> KeySet:
        """The set, with those gaps closed that have no key of this shard. A gap of the set
        ``before`` has been examined already, and stays open.

        >>> mine = KeySet().with_codes(np.arange(1, 1000)[Shard(1, 2).has(np.arange(1, 1000))])
        >>> whole = mine.bridged(KeySet(), Shard(1, 2))
        >>> len(mine.low) > 200, len(whole.low)
        (True, 1)
        """
        if shard.count == 1 or len(self.low) < 2:
            return self
        below, above = self.high[:-1], self.low[1:]
        widths = above.view(np.uint64) - below.view(np.uint64) - np.uint64(1)
        fresh = (widths <= np.uint64(_GAP * shard.count)) & ~before._has_gaps(below, above)
        gaps = np.flatnonzero(fresh)
        cuts = np.flatnonzero(np.diff(np.cumsum(widths[gaps]) // np.uint64(_CODES))) + 1
        empty = [
            some[_without(shard, below[some] + 1, widths[some].astype(np.int64))]
            for some in np.split(gaps, cuts)
            if len(some)
        ]
        if not empty:
            return self
        closed = np.concatenate(empty)
        return KeySet(np.delete(self.low, closed + 1), np.delete(self.high, closed))

    def _has_gaps(self, below: Ints, above: Ints) -> Bools:
        """For each gap, between one code and another: is it between two ranges of this set?"""
        if len(self.low) < 2:
            return np.zeros(len(below), dtype=np.bool_)
        at = np.clip(np.searchsorted(self.low, above), 1, len(self.low) - 1)
        there: Bools = (self.low[at] == above) & (self.high[at - 1] == below)
        return there

    def covers(self, low: int | Ints, high: int | Ints) -> Bools:
        """For each range, from low to high: is every code of it in the set?

        >>> some = KeySet().with_ranges(np.array([3]), np.array([7]))
        >>> some.covers(np.array([4, 4, 9]), np.array([7, 8, 8])).tolist()
        [True, False, True]
        """
        low, high = np.atleast_1d(low), np.atleast_1d(high)
        covered: Bools = low > high
        if self:
            at = np.searchsorted(self.low, low, side="right") - 1
            covered |= (at >= 0) & (high <= self.high[at])
        return covered

    def to_rows(self) -> pa.RecordBatch:
        """The form kept in a segment: one row for each range, with its bounds. The upper bounds
        are left out if every range is a single code."""
        rows = {CODE: pa.array(self.low)}
        if (self.high != self.low).any():
            rows[HIGH] = pa.array(self.high)
        return pa.RecordBatch.from_pydict(rows)

    @classmethod
    def from_rows(cls, rows: pa.RecordBatch) -> KeySet:
        """The inverse of :meth:`to_rows`; nothing is copied."""
        low = codes_of(rows)
        return cls(low, rows.column(HIGH).to_numpy() if HIGH in rows.schema.names else low)


def rows_with_keys(segment: Segment, keys: KeySet) -> Positions:
    """Where a segment has rows with such keys. With an index the search follows the keys."""
    if segment.has_index and len(keys.low) < len(segment):
        return _in_ranges(segment.index, keys)
    return np.flatnonzero(keys.contains(codes_of(segment.rows)))


def _in_ranges(index: Index, keys: KeySet) -> Positions:
    low = np.searchsorted(index.codes, keys.low, side="left")
    high = np.searchsorted(index.codes, keys.high, side="right")
    counts = high - low
    starts = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return index.order[starts + np.arange(int(counts.sum()))]


def _without(shard: Shard, firsts: Ints, sizes: Ints) -> Bools:
    """For each run of codes, given its first code and its size (at least 1): has the shard none
    of them?"""
    starts = np.cumsum(sizes) - sizes
    codes = np.repeat(firsts - starts, sizes) + np.arange(int(sizes.sum()))
    none: Bools = np.add.reduceat(shard.has(codes), starts, dtype=np.int64) == 0
    return none
