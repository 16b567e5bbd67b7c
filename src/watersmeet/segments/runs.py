"""Runs: pairs of rows where each new row meets neighbours, many of them.

New row i meets the stored rows ``order[low[i]:high[i]]``. As long as nobody asks which pairs these
are, a run is two numbers. When values of both sides are compared, those of the stored rows are
strung together run by run, and that of a new row is repeated. Both are copied as blocks of memory,
which takes less than a nanosecond a pair. To gather them by positions takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from watersmeet.rows.columns import Bools, Ints, Positions
from watersmeet.segments.lines import Pairs
from watersmeet.segments.probe import portions, spread

Values = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Tile:
    """New rows, at positions ``rows``, that all meet the stored rows ``order[low:high]``."""

    rows: Ints
    low: int
    high: int

    def __len__(self) -> int:
        return len(self.rows) * (self.high - self.low)


@dataclass(frozen=True)
class Runs:
    """The pairs of new rows, at positions ``rows``, and their runs of stored ones.

    >>> runs = Runs(np.array([7, 3]), np.array([0, 1]), np.array([2, 4]), np.array([9, 8, 6, 5]))
    >>> len(runs), [pairs.tolist() for pairs in runs.at(np.array([0, 4]))]
    (5, [[7, 3], [9, 5]])
    >>> runs.repeated(np.arange(10) * 10, np.empty(5, np.int64)).tolist()
    [70, 70, 30, 30, 30]
    >>> runs.strung(np.array([9, 8, 6, 5]), np.empty(5, np.int64)).tolist()
    [9, 8, 8, 6, 5]
    """

    rows: Ints
    low: Ints
    high: Ints
    order: Ints

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self.rows) else 0

    def cut(self, size: int) -> Iterator[Runs]:
        """The same pairs, at most ``size`` at a time."""
        for numbers, low, high in portions(self.low, self.high, size):
            yield Runs(self.rows[numbers], low, high, self.order)

    def among(self, *, new: Bools | None = None, stored: Bools | None = None) -> Runs:
        """The pairs of some new rows with some stored ones.

        >>> runs = Runs(np.arange(3), np.array([0, 0, 1]), np.array([2, 2, 3]), np.array([2, 0, 1]))
        >>> some = runs.among(new=np.arange(3) > 0, stored=np.arange(3) > 0)
        >>> [(new.tolist(), stored.tolist()) for new, stored in some.pairs(10)]
        [([1, 2], [2, 1])]
        """
        rows, low, high, order = self.rows, self.low, self.high, self.order
        if new is not None:
            kept = new[rows]
            rows, low, high = rows[kept], low[kept], high[kept]
        if stored is not None:
            kept = stored[order]
            before = np.append(0, np.cumsum(kept))
            order, low, high = order[kept], before[low], before[high]
        return Runs(rows, low, high, order)

    def pairs(self, size: int) -> Iterator[Pairs]:
        """All pairs, as positions of both sides, at most ``size`` at a time."""
        for run, place in spread(self.low, self.high, size):
            yield self.rows[run], self.order[place]

    def tiles(self, size: int) -> Iterator[Tile]:
        """The same pairs. Neighbours that meet the same run are together in a tile, at most
        ``size`` pairs at a time.

        >>> low, high = np.array([0, 0, 0, 1]), np.array([2, 2, 2, 7])
        >>> runs = Runs(np.arange(4), low, high, np.arange(7))
        >>> [(tile.rows.tolist(), tile.low, tile.high) for tile in runs.tiles(5)]
        [([0, 1], 0, 2), ([2], 0, 2), ([3], 1, 6), ([3], 6, 7)]
        """
        for start, stop in pairwise([*self.changes.tolist(), len(self.rows)]):
            low, high = int(self.low[start]), int(self.high[start])
            at_once = max(1, size // max(1, high - low))
            for first in range(start, stop, at_once):
                rows = self.rows[first : min(first + at_once, stop)]
                for begin in range(low, high, size):
                    yield Tile(rows, begin, min(begin + size, high))

    def at(self, places: Positions) -> Pairs:
        """The pairs at some places among all of them."""
        run = np.searchsorted(self._ends, places, side="right")
        begun = self._ends[run] - self.high[run]
        return self.rows[run], self.order[places - begun]

    def repeated(self, values: Values, to: Values) -> Values:
        """For each pair the value of its new row. ``values`` are in order of position."""
        start = 0
        for value, length in zip(values[self.rows], self._lengths.tolist(), strict=True):
            to[start : start + length] = value
            start += length
        return to[:start]

    def strung(self, values: Values, to: Values) -> Values:
        """For each pair the value of its stored row. ``values`` are in the same :attr:`order`."""
        start = 0
        for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True):
            to[start : start + high - low] = values[low:high]
            start += high - low
        return to[:start]

    @cached_property
    def changes(self) -> Ints:
        """Where rows begin that meet another run than the row before them."""
        changes = (self.low[1:] != self.low[:-1]) | (self.high[1:] != self.high[:-1])
        return np.flatnonzero(np.append(len(self.rows) > 0, changes))

    @cached_property
    def _lengths(self) -> Ints:
        return self.high - self.low

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum(self._lengths)
