"""Formulas: conditions of sums, differences and products of doubles and whole numbers, which numpy
computes for all pairs of some rows with some others.

Parts about one side alone are computed once for each of its rows, and no value is copied for each
of its pairs. Whole numbers are computed in 64 bits.

Rule: a formula has the meaning of SQL as long as every double in it is finite, and every whole
number fits its type in SQL. (In Spark NaN is equal to itself and greater than any number, in numpy
it is neither; in SQL an overflow is null.) Bounds of the values in the columns tell whether that is
so for all pairs: :meth:`Formula.largest`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: A stream's position and a column's name.
_ColumnOf = tuple[int, str]

#: For each symbol, the function that computes its value.
_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "negative": np.negative,
    "abs": np.abs,
    "double": lambda number: np.asarray(number, np.float64),
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "<>": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}

#: For each symbol, the bound of its value by the bounds of its parts. (Bounds of whole numbers are
#: Python's, which do not overflow; and rounding never makes the smaller of two doubles the larger.)
_BOUNDS: dict[str, Callable[[Sequence[float]], float]] = {
    "+": sum,
    "-": sum,
    "*": math.prod,
    "double": lambda bounds: float(bounds[0]),
}


@dataclass(frozen=True)
class Formula:
    """A symbol, and its parts: formulas, columns or numbers. By its type, no value may be larger
    than ``most``.

    >>> x, y = (0, "x"), (1, "y")
    >>> far = Formula(">", (Formula("-", (x, y)), 1.0))
    >>> far.value({x: np.array([[1.0], [5.0]]), y: np.array([[0.0, 3.0, 4.5]])}).tolist()
    [[False, False, False], [True, True, False]]
    >>> far.largest({x: 5.0, y: 4.5}), far.largest({x: math.nan, y: 4.5})
    (9.5, inf)
    >>> of_bytes = Formula(">", (Formula("*", (x, y), most=127), 1))
    >>> of_bytes.largest({x: 12, y: 10}), of_bytes.largest({x: 12, y: 11})
    (120, inf)
    >>> Formula("or", (far, Formula(">", (x, 9)))).required
    frozenset({(0, 'x')})
    """

    symbol: str
    parts: tuple[Formula | _ColumnOf | float, ...]
    most: float = sys.float_info.max

    @property
    def columns(self) -> frozenset[_ColumnOf]:
        """The columns that it reads."""
        found: frozenset[_ColumnOf] = frozenset()
        for part in self.parts:
            if isinstance(part, Formula):
                found |= part.columns
            elif isinstance(part, tuple):
                found |= {part}
        return found

    @property
    def required(self) -> frozenset[_ColumnOf]:
        """The columns in which a null means that the formula does not hold."""
        if self.symbol not in ("and", "or"):
            return self.columns
        found = [part.required for part in self.parts if isinstance(part, Formula)]
        both = frozenset.union if self.symbol == "and" else frozenset.intersection
        return both(*found)

    def value(self, of: Mapping[_ColumnOf, np.ndarray]) -> np.ndarray:
        """Its value, by the values of its columns. Their shapes fit one another (numpy broadcasts
        them)."""
        parts: list[np.ndarray | float] = []
        for part in self.parts:
            if isinstance(part, Formula):
                parts.append(part.value(of))
            else:
                parts.append(of[part] if isinstance(part, tuple) else part)
        return _FUNCTIONS[self.symbol](*parts)

    def largest(self, of: Mapping[_ColumnOf, float]) -> float:
        """A bound of its absolute values, or of those that it compares, by bounds of the columns.
        It is infinite if a number in the formula may be too large."""
        bounds = []
        for part in self.parts:
            if isinstance(part, Formula):
                bounds.append(part.largest(of))
            else:
                bounds.append(of[part] if isinstance(part, tuple) else abs(part))
        if not all(bound < math.inf for bound in bounds):
            return math.inf
        bound = _BOUNDS.get(self.symbol, max)(bounds)
        return bound if bound <= self.most else math.inf
