"""Results as multisets of rows: the order of a result means nothing."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa

_SHOWN = 12


def multiset(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """How often each row occurs. NaN equals NaN, 0.0 equals -0.0."""
    columns = [column.to_pylist() for column in table.columns]
    return Counter(
        tuple(_hashable(column[row]) for column in columns) for row in range(table.num_rows)
    )


def assert_same_rows(actual: pa.Table, expected: pa.Table, note: str = "") -> None:
    """Fail, and say what is missing and what is too much, unless the rows are the same."""
    assert actual.column_names == expected.column_names, (
        f"columns {actual.column_names}, expected {expected.column_names}. {note}"
    )
    got, wanted = multiset(actual), multiset(expected)
    if got == wanted:
        return
    message = [
        f"{actual.num_rows} rows, expected {expected.num_rows}. {note}".strip(),
        f"columns: {actual.column_names}",
        *_listed("missing", wanted - got),
        *_listed("too much", got - wanted),
    ]
    raise AssertionError("\n".join(message))


def _listed(title: str, rows: Counter[tuple[Any, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [f"{title}, {rows.total()} rows:"]
    lines += [f"  {count} x {row}" for row, count in list(rows.items())[:_SHOWN]]
    if len(rows) > _SHOWN:
        lines.append(f"  ... and {len(rows) - _SHOWN} more")
    return lines


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    return value
