"""Conditions of the match that mean the same in Spark's SQL, in DuckDB's, and in Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

import watersmeet as wm
from tests.conformance.join import Condition
from tests.conformance.strategies import LESS

#: The column that says in which epoch a row came, for the oracle alone.
EPOCH = "#epoch"


def _near(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less_equal(pc.abs(pc.subtract(a["n"], b["n"])), 1)


def _different(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.not_equal(pc.coalesce(a["n"], -1), pc.coalesce(b["n"], -1))


_READS = {"a": ["n"], "b": ["n"]}

#: All read the same columns: those of the second stream of a semi or anti join must not change.
CONDITIONS = (
    LESS,
    Condition("abs(a.n - b.n) <= 1", wm.predicate(_near, "a", "b", columns=_READS)),
    Condition(
        "coalesce(a.n, -1) <> coalesce(b.n, -1)",
        wm.predicate(_different, "a", "b", columns=_READS),
    ),
)


def in_force(conditions: Sequence[Condition], streams: Sequence[str]) -> str | None:
    """The condition as the oracle takes it. Rows match by that of the epoch in which the last of
    them came; epochs beyond the last condition begin with the first one again."""
    if len(conditions) < 2:
        return conditions[0].sql if conditions else None
    epochs = ", ".join(f'{name}."{EPOCH}"' for name in streams)
    cases = " ".join(f"WHEN {number} THEN ({each.sql})" for number, each in enumerate(conditions))
    return f"CASE greatest({epochs}) % {len(conditions)} {cases} END"
