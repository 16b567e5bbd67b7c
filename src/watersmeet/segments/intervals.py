"""Searching by intervals: which stored rows overlap new ones, in one dimension or several?

The cost depends on the new rows and their matches, not on the number of pairs. Stored rows are
*prepared* once, and so are new ones, which search several segments. They search along the *axis*
that selects most: by the intervals of one dimension, or by their lows or their highs alone, with a
line for each class of lengths (:mod:`watersmeet.segments.lines`). The rows that are found are
compared in all dimensions that the axis does not decide. If these are many, the two axes that
select most are searched together, by a grid.

A sample of the new rows tells which axes select most. The choice changes no result.

**Example.** A new row finds a tenth of the stored rows by time, and a fiftieth by price, with one
line each. The costs of a new row, in pairs that are compared::

    stored rows   by price           by price and time, in a grid
    1,000         10 + 20            60 + 2 * 2                     a line is cheaper
    100,000       10 + 2,000         60 + 2 * 200                   the grid is cheaper
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from watersmeet.conditions.bounds import Bounds, known_rows
from watersmeet.rows.columns import Ints
from watersmeet.segments.lines import Grid, Line, Pairs, classes
from watersmeet.segments.probe import spread
from watersmeet.segments.runs import Runs

#: How many pairs are compared together: few enough that they stay in the processor's cache.
_AT_A_TIME = 1 << 16
#: How many new rows tell which axes select most.
_SAMPLE = 512
#: What one new row costs, in pairs that are compared: in a line, and in a grid.
_LINE_COST = 10
_GRID_COST = 60


@dataclass(frozen=True)
class _Axis:
    """The order in which stored rows are searched: by the intervals of a dimension (``ends`` None),
    or only by their ``"lows"`` (with the highs of new rows) or their ``"highs"`` (with the lows of
    new rows)."""

    dimension: int
    ends: str | None = None

    def stored(self, bounds: Sequence[Bounds]) -> Bounds:
        whole = bounds[self.dimension]
        if self.ends is None:
            return whole
        return Bounds(whole.low, None) if self.ends == "lows" else Bounds(None, whole.high)

    def new(self, bounds: Sequence[Bounds]) -> Bounds:
        whole = bounds[self.dimension]
        if self.ends is None:
            return whole
        return Bounds(None, whole.high) if self.ends == "lows" else Bounds(whole.low, None)


class NewIntervals:
    """New rows, ``count`` of them, with their ``bounds``, one for each dimension. Data that a
    search makes of them are kept for the next one."""

    def __init__(self, count: int, bounds: Sequence[Bounds]) -> None:
        self.rows = known_rows(count, bounds)
        self.bounds = bounds
        self._along: dict[_Axis, tuple[Ints, list[Bounds]]] = {}

    @cached_property
    def sample(self) -> list[Bounds]:
        """The bounds of some of the rows that have any, evenly from all of them."""
        some = self.rows[:: -(-len(self.rows) // _SAMPLE)]
        return [each.at(some) for each in self.bounds]

    def along(self, axis: _Axis) -> tuple[Ints, list[Bounds]]:
        """The rows that have bounds, and the bounds, in the order of an axis. In order, the search
        is faster: neighbours search in the same places."""
        if axis not in self._along:
            rows = self.rows[np.argsort(axis.new(self.bounds).ends[self.rows])]
            self._along[axis] = rows, [each.at(rows) for each in self.bounds]
        return self._along[axis]


class StoredIntervals:
    """Stored rows, ``count`` of them, ready to be searched by their ``bounds``, one for each
    dimension. Data that are made for a search are kept for the next one.

    >>> stored = StoredIntervals(3, [Bounds(np.array([0, 5, 7]), np.array([4, 6, 9]))])
    >>> prices = Bounds.points(np.array([6, 8, 1]))
    >>> new = NewIntervals(3, [prices])
    >>> [(new.tolist(), old.tolist()) for new, old in stored.search(new, block=10)]
    [([2, 0, 1], [0, 1, 2])]
    """

    def __init__(self, count: int, bounds: Sequence[Bounds]) -> None:
        self._rows = known_rows(count, bounds)
        self._bounds = [each.at(self._rows) for each in bounds]
        self._lines: dict[_Axis, list[Line]] = {}
        self._grids: dict[tuple[_Axis, _Axis], list[Grid]] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of memory that it takes; more after a search along other axes."""
        kept: Iterator[Bounds | Line | Grid]
        kept = chain(self._bounds, *self._lines.values(), *self._grids.values())
        return self._rows.nbytes + sum(each.nbytes for each in kept)

    def search(self, new: NewIntervals, block: int) -> Iterator[Pairs]:
        """The pairs of new rows and stored ones that overlap in every dimension, each once, at most
        ``block`` at a time. Without a dimension, all pairs."""
        assert len(new.bounds) == len(self._bounds), "both sides have the same dimensions"
        if not len(new.rows) or not len(self._rows):
            return
        if not new.bounds:
            low, high = np.zeros_like(new.rows), np.full_like(new.rows, len(self._rows))
            yield from spread(low, high, block)
            return
        axes = self._chosen(new.sample)
        rows, bounds = new.along(axes[0])
        found = self._found(bounds, axes, min(block, _AT_A_TIME))
        for new_rows, stored_rows in together(found, block):
            yield rows[new_rows], self._rows[stored_rows]

    def runs(self, new: NewIntervals, *, longer: int = 0) -> Runs | None:
        """The same pairs as runs. That is possible in one dimension, where the order of the stored
        rows decides. If the runs are not at least about as long as ``longer``: None."""
        if len(new.bounds) != 1 or not len(new.rows) or not len(self._rows):
            return None
        axis = _Axis(0)
        [line, *others] = self._line(axis)
        if others or not line.exact:
            return None
        if longer and self._share(axis, new.sample[0]) * len(self._rows) < longer:
            return None
        rows, [bounds] = new.along(axis)
        low, high = line.ranges(bounds)
        return Runs(rows, low, high, self._rows[line.order])

    def _found(self, new: Sequence[Bounds], axes: Sequence[_Axis], size: int) -> Iterator[Pairs]:
        """The pairs that overlap, as positions among the rows that have bounds."""
        searched: Sequence[Line | Grid]
        searched = self._grid(*axes) if len(axes) > 1 else self._line(*axes)
        for each in searched:
            exact = isinstance(each, Line) and each.exact and axes[0].ends is None
            decided = axes[0].dimension if exact else None
            compared = [dimension for dimension in range(len(new)) if dimension != decided]
            for rows, stored in each.pairs([axis.new(new) for axis in axes], size):
                for dimension in compared:
                    overlap = new[dimension].overlap(rows, self._bounds[dimension], stored)
                    rows, stored = rows[overlap], stored[overlap]
                yield rows, stored

    def _chosen(self, sample: Sequence[Bounds]) -> list[_Axis]:
        """The one or two axes to search along, the one that selects most first."""
        axes = [axis for dimension in range(len(sample)) for axis in self._axes(dimension)]
        if len(axes) == 1:
            return axes
        share = {axis: self._share(axis, axis.new(sample)) for axis in axes}
        best, second = sorted(axes, key=lambda axis: share[axis])[:2]
        lines, more = len(self._line(best)), len(self._line(second))
        by_line = lines * _LINE_COST + share[best] * len(self._rows)
        # As if the axes were independent. Twice that, because cells at a border have other rows.
        both = share[best] * share[second] * len(self._rows)
        by_grid = lines * more * _GRID_COST + 2 * both
        return [best, second] if by_grid < by_line else [best]

    def _axes(self, dimension: int) -> list[_Axis]:
        """The axes of a dimension. If all intervals have one length, no end alone selects more."""
        whole, bounds = _Axis(dimension), self._bounds[dimension]
        if bounds.low is None or bounds.high is None or _exact(self._line(whole)):
            return [whole]
        return [whole, _Axis(dimension, "lows"), _Axis(dimension, "highs")]

    def _share(self, axis: _Axis, new: Bounds) -> float:
        """The share of all pairs that a search along an axis finds."""
        ranges = [line.ranges(new) for line in self._line(axis)]
        found = sum(int((stop - start).sum()) for start, stop in ranges)
        return found / (len(new.ends) * len(self._rows))

    def _line(self, axis: _Axis) -> list[Line]:
        if axis not in self._lines:
            bounds, every = axis.stored(self._bounds), np.arange(len(self._rows))
            self._lines[axis] = [Line.of(bounds, rows) for rows in classes(bounds, every)]
        return self._lines[axis]

    def _grid(self, one: _Axis, other: _Axis) -> list[Grid]:
        if (one, other) not in self._grids:
            first, second = one.stored(self._bounds), other.stored(self._bounds)
            self._grids[one, other] = [
                Grid.of((first, second), rows)
                for alike in classes(first, np.arange(len(self._rows)))
                for rows in classes(second, alike)
            ]
        return self._grids[one, other]


def _exact(lines: Sequence[Line]) -> bool:
    return all(line.exact for line in lines)


def together(pieces: Iterator[Pairs], block: int) -> Iterator[Pairs]:
    """Small pieces put together, to at most ``block`` pairs."""
    waiting: list[Pairs] = []
    count = 0
    for piece in pieces:
        if count + len(piece[0]) > block:
            yield _joined(waiting)
            waiting, count = [], 0
        if len(piece[0]):
            waiting.append(piece)
            count += len(piece[0])
    if count:
        yield _joined(waiting)


def _joined(pieces: Sequence[Pairs]) -> Pairs:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([new for new, _ in pieces]), np.concatenate([old for _, old in pieces])
