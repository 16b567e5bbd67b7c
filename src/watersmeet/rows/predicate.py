"""The ``where`` of a join as the operators see it.

A :class:`Predicate` holds for a pair of rows if its expression is true. As in SQL,
null is not true: a pair for which the condition is unknown does not match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa


@dataclass(frozen=True)
class Predicate:
    """A condition over columns of a pair (or more) of rows.

    ``columns`` are its inputs, each a stream's index and a column's name;
    ``expression`` names them by position: ``"0"`` is the first of them.

    >>> bigger = Predicate("a.x > b.y", ((0, "x"), (1, "y")), pl.col("0") > pl.col("1"))
    >>> bigger.mask([pa.array([1, 5, None]), pa.array([2, 2, 2])]).tolist()
    [False, True, False]
    """

    sql: str
    columns: tuple[tuple[int, str], ...]
    # `==` of two Polars expressions is an expression, not a truth value.
    expression: pl.Expr = field(compare=False)

    def mask(self, columns: Sequence[Any]) -> npt.NDArray[np.bool_]:
        """For which rows of the given Arrow arrays (of equal length) does it hold?"""
        assert len(columns) == len(self.columns), (
            f"{self.sql!r} needs {len(self.columns)} columns, not {len(columns)}"
        )
        table = pa.Table.from_arrays(list(columns), [str(i) for i in range(len(columns))])
        frame = pl.DataFrame(pl.from_arrow(table, rechunk=False))
        holds = frame.select(self.expression.fill_null(False)).to_series()
        return holds.to_numpy()
