"""Probing: which stored rows do new rows match, by key and by time?

Both sides are indexes sorted by (code, time) (see :mod:`watersmeet.state.segment`).
For a new row with code c and time t the matches in a segment are one range of
its index: first the range of equal codes, by binary search over sorted probes,
then, within it, the range of times in [t - before, t + after], by a binary
search of all ranges at once. So the cost follows the new rows and the matches,
not the size of the segment.

The ranges are given out in pieces of bounded size: a row that matches millions
of stored rows is spread over as many pieces as it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from watersmeet.state.segment import Ints, Segment


@dataclass(frozen=True)
class Ranges:
    """For the probe rows at index positions ``probes``: the matches in a
    segment's index are ``low[i]`` up to, not including, ``high[i]``."""

    probes: Ints
    low: Ints
    high: Ints

    @property
    def pairs(self) -> int:
        return int((self.high - self.low).sum())

    def pieces(self, size: int) -> Iterator[tuple[Ints, Ints]]:
        """The pairs (position in the probe's index, position in the segment's), at most
        ``size`` at a time."""
        counts = self.high - self.low
        ends = np.cumsum(counts)
        starts = ends - counts
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, size):
            stop = min(start + size, total)
            first = int(np.searchsorted(ends, start, side="right"))
            last = int(np.searchsorted(ends, stop, side="left"))
            rows = np.arange(first, last + 1)
            taken = np.minimum(ends[rows], stop) - np.maximum(starts[rows], start)
            row = np.repeat(rows, taken)
            within = np.arange(start, stop) - starts[row]
            yield self.probes[row], self.low[row] + within


def probe(new: Segment, stored: Segment, before: int | None, after: int | None) -> Ranges:
    """The matches of new rows in a stored segment.

    A stored row matches by time if it is at most ``before`` earlier and at most
    ``after`` later than the new row; None means any time.
    """
    if not len(stored):
        return Ranges(*(np.empty(0, dtype=np.int64) for _ in range(3)))
    low = np.searchsorted(stored.codes, new.codes, side="left")
    candidates = stored.codes[np.minimum(low, len(stored) - 1)]
    probes = np.flatnonzero(candidates == new.codes)
    low = low[probes]
    high = np.searchsorted(stored.codes, new.codes[probes], side="right")
    if len(probes) and before is not None and stored.min_time < new.max_time - before:
        low = _bisect(stored.times, low, high, new.times[probes] - before, side="left")
    if len(probes) and after is not None and stored.max_time > new.min_time + after:
        high = _bisect(stored.times, low, high, new.times[probes] + after, side="right")
    kept = np.flatnonzero(low < high)
    return Ranges(probes[kept], low[kept], high[kept])


def _bisect(times: Ints, low: Ints, high: Ints, targets: Ints, *, side: str) -> Ints:
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
