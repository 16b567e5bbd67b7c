"""Formulas: conditions of sums, differences and products of doubles and whole numbers, which numpy
computes for all pairs of some rows with some others.

What is said of one side alone is computed once for each of its rows, and no value is copied to
where its pairs are. Whole numbers are computed in 64 bits.

Rule: a formula means what SQL means by it as long as every double in it is finite, and every whole
number fits its type in SQL. (NaN is equal to itself and greater than any number in Spark, and
nothing of that in numpy; what overflows is null in SQL.) Bounds of the values in the columns tell
whether that is so for all pairs: :meth:`Formula.largest`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: A stream's position and a column's name.
_ColumnOf = tuple[int, str]

#: What computes the value of each symbol's parts.
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

#: By bounds of the parts, that of what is made of them. (Those of whole numbers are Python's, which
#: do not overflow; and to round a double does not change which of two is the larger one.)
_BOUNDS: dict[str, Callable[[Sequence[float]], float]] = {
    "+": sum,
    "-": sum,
    "*": math.prod,
    "double": lambda bounds: float(bounds[0]),
}


@dataclass(frozen=True)
class Formula:
    """A symbol, and what it stands between, or before: formulas, columns or numbers. No value of it
    may be larger than ``most``, by its type.

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
        """The columns of which a null means that it does not hold."""
        if self.symbol not in ("and", "or"):
            return self.columns
        found = [part.required for part in self.parts if isinstance(part, Formula)]
        both = frozenset.union if self.symbol == "and" else frozenset.intersection
        return both(*found)

    def value(self, of: Mapping[_ColumnOf, np.ndarray]) -> np.ndarray:
        """Its value, of those of its columns, whose shapes are made to fit one another."""
        parts: list[np.ndarray | float] = []
        for part in self.parts:
            if isinstance(part, Formula):
                parts.append(part.value(of))
            else:
                parts.append(of[part] if isinstance(part, tuple) else part)
        return _FUNCTIONS[self.symbol](*parts)

    def largest(self, of: Mapping[_ColumnOf, float]) -> float:
        """A bound of its absolute values, or of what it compares, by bounds of those in columns;
        infinite, if a number in it may be too large."""
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
