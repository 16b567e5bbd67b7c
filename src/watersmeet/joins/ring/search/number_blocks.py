"""Blocks of numbers: pairs in runs that need not be gathered.

There are two kinds, because predicates are of two kinds:

- Any predicate reads columns. Those of a :class:`NumberBlock` are strung together
  (:mod:`watersmeet.segments.runs`), into memory that the block before has used: to get as much anew
  from the system can take longer than the comparison.
- A formula (:mod:`watersmeet.conditions.formula`) is computed by numpy. Some rows are compared with
  all of a run, and no value is copied: a :class:`FormulaBlock` has a column of the values of the
  probing rows, a row of the stored ones, and a mask of all their pairs.

Example: the rows 0 and 1 of a, with x = 5 and 8, meet the rows 1 and 2 of b, with x = 6 and 9. The
columns of the NumberBlock are ``a.x = [5, 5, 8, 8]`` and ``b.x = [6, 9, 6, 9]``. For the formula
``a.x < b.x``, the FormulaBlock compares four numbers::

              b.x  6  9
        a.x  5     1  1       the places of the matches are 0, 1 and 3
             8     0  1

**Rule.** A formula means what SQL means by it where both rows are *ordinary*: nothing that it reads
of them is null, NaN or infinite. So ordinary rows are compared by it, and the pairs of the others
are gathered. Most of these need not be compared at all: what is compared with null does not match.
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
from watersmeet.joins.ring.search.blocks import PairRows, PositionBlock, pairs_of
from watersmeet.rows.columns import Bools, Positions
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs, Tile, Values

#: Not more than this share of the pairs is left to be gathered: that takes far longer for a pair.
_GATHERED = 1 / 4

#: A stream's position and a column's name.
_ColumnOf = tuple[int, str]


class Scratch:
    """Memory that is used again and again: an array for each column."""

    def __init__(self) -> None:
        self._arrays: dict[_ColumnOf, Values] = {}

    def array(self, of: _ColumnOf, dtype: np.dtype[np.generic], count: int) -> Values:
        """At least ``count`` values."""
        known = self._arrays.get(of)
        if known is None or known.dtype != dtype or len(known) < count:
            known = self._arrays[of] = np.empty(count, dtype)
        return known


class NumberBlock:
    """Some pairs in runs, of which predicates read only numbers."""

    def __init__(self, columns: _NumberColumns, runs: Runs, scratch: Scratch) -> None:
        self._columns = columns
        self._runs = runs
        self._count = len(runs)
        self._scratch = scratch

    @classmethod
    def blocks(cls, rows: PairRows, runs: Runs, scratch: Scratch) -> Iterator[NumberBlock]:
        """All pairs of the runs, a bounded number at a time."""
        columns = _NumberColumns(rows, runs.order)
        for part in runs.cut(rows.run_pairs):
            yield cls(columns, part, scratch)

    def __len__(self) -> int:
        return self._count

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        values, kind = self._columns.of(stream, stored)
        scratch = self._scratch if again else Scratch()
        to = scratch.array((stream, stored), values.dtype, self._count)
        own = stream == self._columns.rows.stream
        write = self._runs.strung if own else self._runs.repeated
        return pa.Array.from_buffers(kind, self._count, [None, pa.py_buffer(write(values, to))])

    def at(self, places: Positions) -> PositionBlock:
        return PositionBlock(self._columns.rows.sides(*self.pairs(places)))

    def pairs(self, places: Positions) -> Pairs:
        return self._runs.at(places)


class _NumberColumns:
    """The columns of pairs as numbers, those of the stored rows in the ``order`` of the runs."""

    def __init__(self, rows: PairRows, order: Positions) -> None:
        self.rows = rows
        self._order = order
        self._known: dict[_ColumnOf, tuple[Values, pa.DataType]] = {}

    def of(self, stream: int, stored: str) -> tuple[Values, pa.DataType]:
        """A column, and its type in Arrow."""
        if (stream, stored) not in self._known:
            column = self.rows.column(stream, stored)
            values, own = _numbers(column), stream == self.rows.stream
            self._known[stream, stored] = values[self._order] if own else values, column.type
        return self._known[stream, stored]


class FormulaRuns:
    """Pairs for which formulas are computed: ``runs`` of ordinary rows. The ``others`` may match
    too. ``values`` are those of columns; of the stored stream, in the order of the runs. So many
    ``pairs`` are computed at a time: all that is made of them stays near."""

    def __init__(
        self,
        stream: int,
        values: Mapping[_ColumnOf, Values],
        runs: Runs,
        others: Sequence[Runs],
        *,
        pairs: int,
    ) -> None:
        self._pairs = pairs
        self.stream = stream
        self.values = values
        self.runs = runs
        self._others = others

    @classmethod
    def of(cls, rows: PairRows, runs: Runs) -> FormulaRuns | None:
        """None, if formulas do not say all that is to compare, or another way is faster."""
        formulas = rows.formulas
        least = rows.limits.least_formula_pairs
        if not formulas or len(runs.changes) * least > len(runs):
            return None
        operands = _Operands(rows, formulas)
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
        return cls(
            rows.stream,
            operands.in_order(runs.order),
            runs,
            others,
            pairs=rows.limits.formula_pairs,
        )

    def blocks(self, size: int, needed: Callable[[Tile], Tile]) -> Iterator[FormulaBlock]:
        """The pairs of ordinary rows, at most ``size`` at a time. ``needed`` is asked, before a
        tile is compared, which part of it is to be."""
        for tile in self.runs.tiles(min(self._pairs, size)):
            block = FormulaBlock(self, needed(tile))
            if len(block):
                yield block

    def others(self, size: int) -> Iterator[Pairs]:
        """The pairs of other rows, at most ``size`` at a time."""
        return chain.from_iterable(runs.pairs(size) for runs in self._others)


@dataclass(frozen=True)
class FormulaBlock:
    """Some probing rows, each with the same run of stored rows, or with a part of it."""

    of: FormulaRuns
    tile: Tile

    def __len__(self) -> int:
        return len(self.tile)

    def mask(self, formula: Formula) -> Bools:
        """For which pairs a formula holds, by probing row and place in the run."""
        values = {column: self._values(column) for column in formula.columns}
        shape = len(self.tile.rows), self.tile.high - self.tile.low
        # What compares rows of one side alone holds for all of their pairs, or for none.
        return np.broadcast_to(formula.value(values), shape)

    def pairs(self, places: Positions) -> Pairs:
        """Some of the pairs, as positions of both sides."""
        return pairs_of(self.tile, self.of.runs.order, places)

    def _values(self, column: _ColumnOf) -> Values:
        values, tile = self.of.values[column], self.tile
        if column[0] == self.of.stream:
            return values[np.newaxis, tile.low : tile.high]
        return values[tile.rows, np.newaxis]


class _Operands:
    """The columns that formulas read. Each answer is for probing rows, and for stored ones."""

    def __init__(self, rows: PairRows, formulas: Sequence[Formula]) -> None:
        self._rows = rows
        self._formulas = formulas
        names = sorted({of for formula in formulas for of in formula.columns})
        self._columns = {of: rows.named(*of) for of in names}
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
        return self._where(lambda of: _valid(self._columns[of]) & np.isfinite(self._values[of]))

    @property
    def known(self) -> tuple[Bools, Bools]:
        """Which rows have no null that proves that they match nothing."""
        required = frozenset[_ColumnOf]().union(*(each.required for each in self._formulas))
        return self._where(lambda of: of not in required or _valid(self._columns[of]))

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
        return of[0] == self._rows.stream

    def _where(self, holds: Callable[[_ColumnOf], Bools | bool]) -> tuple[Bools, Bools]:
        """The rows for which something holds of each of their columns."""
        new, stored = (np.ones(count, dtype=np.bool_) for count in self._rows.counts)
        for of in self._values:
            side = stored if self._own(of) else new
            side &= holds(of)
        return new, stored


def _wide(column: pa.Array) -> Values:
    """Doubles as they are, whole numbers in 64 bits; where there is a null, any number."""
    numbers = _numbers(column)
    return (
        numbers.view(np.float64) if pa.types.is_floating(column.type) else numbers.astype(np.int64)
    )


def _numbers(column: pa.Array) -> Values:
    """The values of a numeric column, as integers of as many bits.

    >>> _numbers(pa.array([1, 2, 3], pa.timestamp("us")).slice(1)).tolist()
    [2, 3]
    """
    values = np.frombuffer(column.buffers()[1], np.dtype(f"i{column.type.bit_width // 8}"))
    return values[column.offset : column.offset + len(column)]


def _largest(values: Values) -> float:
    """The largest absolute value, as Python has it."""
    largest: float = max(np.max(values, initial=0).item(), -np.min(values, initial=0).item())
    return largest


def _valid(column: pa.Array) -> Bools | bool:
    return not column.null_count or column.is_valid().to_numpy(zero_copy_only=False)
