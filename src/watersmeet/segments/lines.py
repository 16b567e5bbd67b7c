"""Stored rows in the order of one number, and in a grid by two: where may new intervals overlap?

A *line* has stored rows in the order of their lows. A new row with the interval ``[low, high]``
overlaps only rows of one range of it, which two binary searches find::

    low - reach <= stored.low <= high           reach: the length of the longest stored interval

Points have the reach 0, and the range is exact; it is exact for intervals of one length, too. If
lengths differ, some intervals in the range end before ``low``, and must be compared. One long
interval would make all ranges long. So stored rows are put into classes by their lengths, a factor
of two each, with a line for every class: if lengths are evenly spread, half of the found rows
overlap.

**Example.** The stored intervals [0, 4], [2, 3], [5, 8] and [9, 12] have the reach 4. The new
interval [4, 6] finds those whose lows are from 4 - 4 = 0 to 6: the first three. The second one ends
at 3, before 4: it is compared, and dropped. With [0, 1000] among them, every new interval would
find all stored ones before it; in a class of its own, that one costs one more search.

A *grid* has two lines, and puts stored rows into cells by their places in both: equally many in
every row and in every column of cells. A new row finds one range for each row of cells that it
reaches::

    ┌──┬──┬──┬──┐
    ├──┼──┼──┼──┤
    ├──┤##│##├──┤      a new row that reaches the cells #: two ranges of stored rows,
    ├──┤##│##├──┤      which are in the order (row of cells, column of cells)
    └──┴──┴──┴──┘
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.conditions.bounds import Bounds
from watersmeet.rows.columns import Ints, Positions
from watersmeet.segments.probe import shifted, spread

#: A class of lengths with fewer rows than this is put together with the next longer one.
_CLASS_ROWS = 32
#: Stored rows for each cell of a grid.
_CELL_ROWS = 4

#: Positions of new rows, and beside them those of stored rows.
Pairs = tuple[Positions, Positions]


@dataclass(frozen=True)
class Line:
    """Stored rows in the order of ``keys``: row ``order[i]`` has ``keys[i]``. It overlaps a new
    interval ``[low, high]`` only if ``low - reach <= keys[i] <= high``. ``reach`` None: there is no
    lower limit; ``open``: there is no upper limit. ``exact``: all rows within the limits overlap.

    >>> stored = Bounds(np.array([0, 2, 5, 9]), np.array([4, 3, 8, 12]))
    >>> line = Line.of(stored, np.arange(4))
    >>> line.ranges(Bounds(np.array([4, 10]), np.array([6, 11])))
    (array([0, 3]), array([3, 4]))
    """

    keys: Ints
    order: Ints
    reach: int | None
    open: bool
    exact: bool

    @classmethod
    def of(cls, stored: Bounds, rows: Ints) -> Line:
        """The line of some rows."""
        keys = stored.ends[rows]
        order = _sorted(keys)
        keys, order = keys[order], rows[order]
        if stored.low is None:
            return cls(keys, order, reach=0, open=True, exact=True)
        if stored.high is None:
            return cls(keys, order, reach=None, open=False, exact=True)
        highs = stored.high[order]
        lengths = _lengths(keys, highs)
        reach = int(lengths.max())
        if reach >= 1 << 63:
            return cls(keys, order, reach=None, open=False, exact=False)
        even = reach == int(lengths.min()) and bool((keys <= highs).all())
        return cls(keys, order, reach, open=False, exact=even)

    @property
    def nbytes(self) -> int:
        """The bytes of memory that it takes."""
        return self.keys.nbytes + self.order.nbytes

    def ranges(self, new: Bounds) -> tuple[Ints, Ints]:
        """For each new row, where the rows that it may overlap begin and end in the order."""
        start = np.zeros(len(new.ends), dtype=np.int64)
        stop = np.full(len(new.ends), len(self.keys))
        if self.reach is not None:
            assert new.low is not None, "a side without lows is compared by its highs"
            start = np.searchsorted(self.keys, shifted(new.low, -self.reach), side="left")
        if not self.open:
            assert new.high is not None, "a side without highs is compared by its lows"
            stop = np.searchsorted(self.keys, new.high, side="right")
        return start, np.maximum(start, stop)

    def pairs(self, new: Sequence[Bounds], size: int) -> Iterator[Pairs]:
        """New rows and the stored ones that they may overlap, at most ``size`` at a time."""
        (bounds,) = new
        for row, place in spread(*self.ranges(bounds), size):
            yield row, self.order[place]


@dataclass(frozen=True)
class Grid:
    """Stored rows in ``side`` rows and as many columns of cells, by their places in two lines: cell
    i has the rows ``order[starts[i]:starts[i + 1]]``."""

    lines: tuple[Line, Line]
    order: Ints
    starts: Ints
    side: int

    @classmethod
    def of(cls, stored: tuple[Bounds, Bounds], rows: Ints) -> Grid:
        """The grid of some rows by two dimensions."""
        every = np.arange(len(rows))
        side = math.isqrt(len(rows) // _CELL_ROWS) + 1
        one, other = (Line.of(bounds.at(rows), every) for bounds in stored)
        cells = np.empty(len(rows), dtype=np.int64)
        cells[one.order] = every * side // len(rows) * side
        cells[other.order] += every * side // len(rows)
        order = np.argsort(cells, kind="stable")
        starts = np.searchsorted(cells[order], np.arange(side * side + 1))
        return cls((one, other), rows[order], starts, side)

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        lines = sum(line.nbytes for line in self.lines)
        return lines + self.order.nbytes + self.starts.nbytes

    def pairs(self, new: Sequence[Bounds], size: int) -> Iterator[Pairs]:
        """New rows and the stored ones that they may overlap, at most ``size`` at a time."""
        across, down = (line.ranges(bounds) for line, bounds in zip(self.lines, new, strict=True))
        found = np.flatnonzero((across[0] < across[1]) & (down[0] < down[1]))
        top, bottom = self._cells(across, found)
        left, right = self._cells(down, found)
        for number, cell_row in spread(top, bottom, size):
            first = self.starts[cell_row * self.side + left[number]]
            last = self.starts[cell_row * self.side + right[number]]
            for place, stored in spread(first, last, size):
                yield found[number[place]], self.order[stored]

    def _cells(self, ranges: tuple[Ints, Ints], found: Ints) -> tuple[Ints, Ints]:
        """For some ranges of rows, none of them empty: where their cells begin and end, in one
        direction."""
        start, stop = (places[found] for places in ranges)
        return start * self.side // len(self.order), (stop - 1) * self.side // len(self.order) + 1


def classes(stored: Bounds, rows: Ints) -> list[Ints]:
    """Rows by the lengths of their intervals, from short to long."""
    if stored.low is None or stored.high is None or stored.low is stored.high or not len(rows):
        return [rows]
    _, exponents = np.frexp(_lengths(stored.low[rows], stored.high[rows]).astype(np.float64))
    counts = np.bincount(exponents)
    last, waiting = [], 0
    for exponent, count in enumerate(counts):
        waiting += count
        if waiting >= _CLASS_ROWS or exponent == len(counts) - 1:
            last.append(exponent)
            waiting = 0
    number = np.searchsorted(last, exponents)
    return [rows[number == i] for i in range(len(last))]


def _sorted(keys: Ints) -> Ints:
    """The permutation that sorts keys; equal ones stay as they are. (To sort without that promise
    takes a sixth of the time, so that is tried first.)"""
    if (keys[1:] >= keys[:-1]).all():
        return np.arange(len(keys))
    order = np.argsort(keys)
    ordered = keys[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.argsort(keys, kind="stable")
    return order


def _lengths(low: Ints, high: Ints) -> npt.NDArray[np.uint64]:
    """The lengths of intervals; 0 if the low is above the high. A length may be too large for a
    signed number, so it is an unsigned one."""
    lengths = high.view(np.uint64) - low.view(np.uint64)
    lengths[high < low] = 0
    return lengths
