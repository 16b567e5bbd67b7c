"""Crossing: some rows are compared with all of a run by formulas, and no value is copied.

A formula (:mod:`watersmeet.conditions.formula`) means what SQL means by it where both rows are
*ordinary*: nothing that it reads of them is null, NaN or infinite. So ordinary rows are crossed
with ordinary ones, and the pairs of the others are gathered. Most of these need not be compared at
all: what is compared with null does not match.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from watersmeet.conditions.formula import Formula
from watersmeet.joins.ring.search.block import in_tile, numbers_of
from watersmeet.joins.ring.search.meeting import Meeting
from watersmeet.rows.columns import Bools, Positions
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs, Tile, Values

#: So many pairs are computed at a time: all that is made of them stays near. Where few pairs would
#: be computed at a time, another way is faster.
_CROSSED, _LEAST_CROSSED = 64 << 10, 4 << 10
#: Not more than this share of the pairs is left to be gathered: that takes far longer for a pair.
_GATHERED = 1 / 4

#: A stream's position and a column's name.
_ColumnOf = tuple[int, str]


class Crossing:
    """The pairs of a meeting: runs of ordinary rows, and ``others`` that may match. ``values`` are
    those of columns; of the stored stream, in the order of the runs."""

    def __init__(
        self, stream: int, values: Mapping[_ColumnOf, Values], runs: Runs, others: Sequence[Runs]
    ) -> None:
        self.stream = stream
        self.values = values
        self.runs = runs
        self._others = others

    @classmethod
    def of(cls, meeting: Meeting, runs: Runs) -> Crossing | None:
        """None, if formulas do not say all that is to compare, or another way is faster."""
        formulas = meeting.formulas
        if not formulas or len(runs.changes) * _LEAST_CROSSED > len(runs):
            return None
        operands = _Operands(meeting, formulas)
        others: list[Runs] = []
        if operands.odd:
            (new, stored), (new_known, stored_known) = operands.ordinary, operands.known
            others = [
                runs.among(new=new_known & ~new, stored=stored_known),
                runs.among(new=new, stored=stored_known & ~stored),
            ]
            if sum(map(len, others)) > _GATHERED * len(runs):
                return None
            runs = runs.among(new=new, stored=stored)
        if not operands.fit:
            return None
        return cls(meeting.stream, operands.in_order(runs.order), runs, others)

    def blocks(self, size: int) -> Iterator[Crossed]:
        """The pairs of ordinary rows, at most ``size`` at a time."""
        for tile in self.runs.tiles(min(_CROSSED, size)):
            yield Crossed(self, tile)

    def others(self, size: int) -> Iterator[Pairs]:
        """The pairs of other rows, at most ``size`` at a time."""
        return chain.from_iterable(runs.pairs(size) for runs in self._others)


@dataclass(frozen=True)
class Crossed:
    """Some probing rows, each with the same run of stored rows, or with a part of it."""

    crossing: Crossing
    tile: Tile

    def __len__(self) -> int:
        return len(self.tile)

    def mask(self, formula: Formula) -> Bools:
        """For which pairs a formula holds, by probing row and place in the run."""
        values = {of: self._of(of) for of in formula.columns}
        shape = len(self.tile.rows), self.tile.high - self.tile.low
        # What compares rows of one side alone holds for all of their pairs, or for none.
        return np.broadcast_to(formula.value(values), shape)

    def pairs(self, places: Positions) -> Pairs:
        """Some of the pairs, as positions of both sides."""
        return in_tile(self.tile, self.crossing.runs.order, places)

    def _of(self, column: _ColumnOf) -> Values:
        values, tile = self.crossing.values[column], self.tile
        if column[0] == self.crossing.stream:
            return values[np.newaxis, tile.low : tile.high]
        return values[tile.rows, np.newaxis]


class _Operands:
    """The columns that formulas read. Each answer is for probing rows, and for stored ones."""

    def __init__(self, meeting: Meeting, formulas: Sequence[Formula]) -> None:
        self._meeting = meeting
        self._formulas = formulas
        names = sorted({of for formula in formulas for of in formula.columns})
        self._columns = {of: meeting.named(*of) for of in names}
        self._values = {of: _wide(column) for of, column in self._columns.items()}

    @cached_property
    def odd(self) -> bool:
        """Is any row not ordinary?"""
        if any(column.null_count for column in self._columns.values()):
            return True
        return not all(map(math.isfinite, self._largest.values()))

    @cached_property
    def ordinary(self) -> tuple[Bools, Bools]:
        """Which rows have only finite numbers."""
        return self._rows(lambda of: _valid(self._columns[of]) & np.isfinite(self._values[of]))

    @property
    def known(self) -> tuple[Bools, Bools]:
        """Which rows have no null that proves that they match nothing."""
        required = frozenset[_ColumnOf]().union(*(each.required for each in self._formulas))
        return self._rows(lambda of: of not in required or _valid(self._columns[of]))

    @property
    def fit(self) -> bool:
        """Are all numbers that are made of ordinary rows within their types?"""
        largest = self._largest
        if self.odd:
            columns = self._values.items()
            largest = {of: _largest(each[self.ordinary[self._own(of)]]) for of, each in columns}
        return all(math.isfinite(each.largest(largest)) for each in self._formulas)

    @cached_property
    def _largest(self) -> dict[_ColumnOf, float]:
        return {of: _largest(values) for of, values in self._values.items()}

    def in_order(self, order: Positions) -> dict[_ColumnOf, Values]:
        """All values; those of the stored rows in this order."""
        return {of: each[order] if self._own(of) else each for of, each in self._values.items()}

    def _own(self, of: _ColumnOf) -> bool:
        return of[0] == self._meeting.stream

    def _rows(self, holds: Callable[[_ColumnOf], Bools | bool]) -> tuple[Bools, Bools]:
        """The rows for which something holds of each of their columns."""
        new, stored = (np.ones(count, dtype=np.bool_) for count in self._meeting.counts)
        for of in self._values:
            side = stored if self._own(of) else new
            side &= holds(of)
        return new, stored


def _wide(column: pa.Array) -> Values:
    """Doubles as they are, whole numbers in 64 bits; where there is a null, any number."""
    numbers = numbers_of(column)
    return (
        numbers.view(np.float64) if pa.types.is_floating(column.type) else numbers.astype(np.int64)
    )


def _largest(values: Values) -> float:
    """The largest absolute value, as Python has it."""
    largest: float = max(np.max(values, initial=0).item(), -np.min(values, initial=0).item())
    return largest


def _valid(column: pa.Array) -> Bools | bool:
    return not column.null_count or column.is_valid().to_numpy(zero_copy_only=False)
