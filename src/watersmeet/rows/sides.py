"""Combinations of rows as positions: of each stream that takes part, its rows and the position in
them of each combination's row. The sides of all streams have the same length."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from watersmeet.rows.output import Side

Sides = dict[int, Side]


class Conditional(Protocol):
    """A join that may have a further condition."""

    def holds(self, sides: Sides, /) -> np.ndarray | None:
        """For which combinations it holds; None if there is none."""


def where(sides: Sides, mask: np.ndarray | slice) -> Sides:
    """The combinations for which the mask is true."""
    return {stream: (rows, positions[mask]) for stream, (rows, positions) in sides.items()}


def satisfying(layout: Conditional, sides: Sides) -> Sides:
    """Of combinations with equal keys, those for which the join's predicate holds."""
    if not len(next(iter(sides.values()))[1]):
        return sides
    holds = layout.holds(sides)
    return sides if holds is None else where(sides, holds)
