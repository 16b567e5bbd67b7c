"""Combinations of rows as positions: of each stream that takes part, its rows and the position in
them of each combination's row. The sides of all streams have the same length."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.equi.layout import EquiLayout
from watersmeet.rows.output import Side

Sides = dict[int, Side]


def where(sides: Sides, mask: np.ndarray | slice) -> Sides:
    """The combinations for which the mask is true."""
    return {stream: (rows, positions[mask]) for stream, (rows, positions) in sides.items()}


def satisfying(layout: EquiLayout, sides: Sides) -> Sides:
    """Of combinations with equal keys, those for which the join's predicate holds."""
    if not len(next(iter(sides.values()))[1]):
        return sides
    holds = layout.holds(sides)
    return sides if holds is None else where(sides, holds)
