"""Bounds: for each of some rows, an interval of 64-bit numbers, both ends included.

Two rows *overlap* if neither interval ends before the other begins::

    a.low <= b.high  and  b.low <= a.high

If ``low`` of one side or ``high`` of the other is None, that comparison is not made. A low that is
above its high is no mistake: only these comparisons count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.rows.columns import Bools, Ints, Positions


@dataclass(frozen=True)
class Bounds:
    """The intervals of some rows in one dimension. ``known`` says which rows have one: a row with a
    null overlaps nothing. None: all of them have.

    >>> prices = Bounds.points(np.array([3, 9]))
    >>> limits = Bounds(np.array([2, 5]), np.array([4, 6]))
    >>> prices.overlap(np.array([0, 0, 1]), limits, np.array([0, 1, 1])).tolist()
    [True, False, False]
    """

    low: Ints | None
    high: Ints | None
    known: Bools | None = None

    @classmethod
    def points(cls, values: Ints, known: Bools | None = None) -> Bounds:
        """Intervals of a single number each."""
        return cls(values, values, known)

    @property
    def ends(self) -> Ints:
        """One end of each interval: the lows, if there are any."""
        ends = self.high if self.low is None else self.low
        assert ends is not None, "an interval without any end is no bound"
        return ends

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the numbers take."""
        ends = (self.low, None if self.high is self.low else self.high)
        return sum(end.nbytes for end in ends if end is not None)

    def at(self, rows: Positions) -> Bounds:
        """The intervals of the rows at some positions, all of which have one."""
        low = None if self.low is None else self.low[rows]
        high = low if self.high is self.low else None if self.high is None else self.high[rows]
        return Bounds(low, high)

    def overlap(self, rows: Positions, other: Bounds, others: Positions) -> Bools:
        """Which of these pairs of rows, given as positions, overlap."""
        found = np.ones(len(rows), dtype=np.bool_)
        if self.low is not None and other.high is not None:
            found &= self.low[rows] <= other.high[others]
        if self.high is not None and other.low is not None:
            found &= other.low[others] <= self.high[rows]
        return found


def known_rows(count: int, bounds: Sequence[Bounds]) -> Ints:
    """The positions of the rows, out of ``count``, that have an interval in every dimension."""
    masks = [each.known for each in bounds if each.known is not None]
    return np.flatnonzero(np.logical_and.reduce(masks)) if masks else np.arange(count)
