"""Formulas: conditions of sums, differences and products of doubles, which numpy computes for all
pairs of some rows with some others.

What is said of one side alone is computed once for each of its rows, and no value is copied to
where its pairs are.

Rule: a formula means what SQL means by it as long as every number in it is finite. (NaN is equal to
itself and greater than any number in Spark, and nothing of that in numpy.) No number in it is
larger than :meth:`Formula.largest` says; so if that is finite, all are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: A stream's position and a column's name.
_ColumnOf = tuple[int, str]

#: What computes the value of each symbol's parts.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "negative": np.negative,
    "abs": np.abs,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


@dataclass(frozen=True)
class Formula:
    """A symbol, and what it stands between, or before: formulas, columns or numbers.

    >>> x, y = (0, "x"), (1, "y")
    >>> far = Formula(">", (Formula("-", (x, y)), 1.0))
    >>> far.value({x: np.array([[1.0], [5.0]]), y: np.array([[0.0, 3.0, 4.5]])}).tolist()
    [[False, False, False], [True, True, False]]
    >>> far.largest({x: 5.0, y: 4.5}), far.largest({x: math.nan, y: 4.5})
    (9.5, nan)
    """

    symbol: str
    parts: tuple[Formula | _ColumnOf | float, ...]

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

    def value(self, of: Mapping[_ColumnOf, Any]) -> Any:
        """Its value, of those of its columns, whose shapes are made to fit one another."""
        parts = []
        for part in self.parts:
            if isinstance(part, Formula):
                part = part.value(of)
            parts.append(of[part] if isinstance(part, tuple) else part)
        return _FUNCTIONS[self.symbol](*parts)

    def largest(self, of: Mapping[_ColumnOf, float]) -> float:
        """A bound of the absolute values of all numbers in it, by bounds of those in its columns;
        NaN or infinite, if there is none."""
        bounds = []
        for part in self.parts:
            if isinstance(part, Formula):
                bounds.append(part.largest(of))
            else:
                bounds.append(of[part] if isinstance(part, tuple) else abs(part))
        if any(map(math.isnan, bounds)):
            return math.nan
        if self.symbol in ("+", "-"):
            return sum(bounds)
        if self.symbol == "*":
            # A factor below one makes the result smaller, not what went into it.
            return math.prod(max(1.0, bound) for bound in bounds)
        return max(bounds)
