"""The join of whole tables, in SQL.

Rows a and b match if their keys are equal (null equals nothing, NaN equals NaN,
-0.0 equals 0.0), the condition holds, and, where there are windows,

    -W_b <= time(b) - time(a) <= W_a

DuckDB finds out which rows meet; their columns are then taken from the Arrow
tables as they are, so that no type passes through DuckDB and back.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

EVENT_TIME = "event_time"

_DECIMAL = pa.decimal128(38, 10)

_KINDS = {
    "inner": "INNER JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}


@dataclass(frozen=True)
class Stream:
    """All accepted rows of a stream, and what the join knows of them. ``window`` is
    how many microseconds a row waits for a later one; None: for ever."""

    rows: pa.Table
    keys: Sequence[str]
    time: str | None = None
    window: int | None = None


def sql_join(
    streams: Mapping[str, Stream], *, how: str = "inner", where: str | None = None
) -> pa.Table:
    """The result of the join of two streams, with Watersmeet's columns. ``where`` is
    SQL over columns that are qualified by the streams' names."""
    (one, a), (two, b) = streams.items()
    pairs = _meetings(one, a, two, b, how=how, where=where)
    first = pairs.column("first")
    if how in ("semi", "anti"):
        return a.rows.take(first)
    second = pairs.column("second")
    columns: dict[str, pa.ChunkedArray] = {}
    for mine, other in zip(a.keys, b.keys, strict=True):
        columns[mine] = _coalesced(a.rows.column(mine).take(first), b.rows.column(other), second)
    timed = how == "inner" and bool(a.time and b.time)
    reserved = {*a.keys, *([EVENT_TIME] if timed else [])}
    for name, stream, chosen, other in ((one, a, first, b), (two, b, second, a)):
        others = set(other.rows.column_names) - set(other.keys)
        for column in stream.rows.column_names:
            if column not in stream.keys:
                shared = column in others or column in reserved
                taken = stream.rows.column(column).take(chosen)
                columns[f"{name}_{column}" if shared else column] = taken
    if timed:
        columns[EVENT_TIME] = pairs.column(EVENT_TIME).cast(pa.timestamp("us", "UTC"))
    return pa.table(columns)


def _meetings(one: str, a: Stream, two: str, b: Stream, *, how: str, where: str | None) -> pa.Table:
    """Which row of each stream is in each row of the result, by position."""
    conditions = [
        f"{_key(one, a, mine)} = {_key(two, b, other)}"
        for mine, other in zip(a.keys, b.keys, strict=True)
    ]
    distance = f"epoch_us({two}.{_quoted(b.time)}) - epoch_us({one}.{_quoted(a.time)})"
    if a.window is not None:
        conditions.append(f"{distance} <= {a.window}")
    if b.window is not None:
        conditions.append(f"{distance} >= {-b.window}")
    if where is not None:
        conditions.append(f"({where})")
    chosen = [f'{one}."#row" AS first']
    if how not in ("semi", "anti"):
        chosen.append(f'{two}."#row" AS second')
    if how == "inner" and a.time and b.time:
        latest = ", ".join(
            f"epoch_us({name}.{_quoted(stream.time)})" for name, stream in ((one, a), (two, b))
        )
        chosen.append(f"greatest({latest}) AS {EVENT_TIME}")
    statement = (
        f"SELECT {', '.join(chosen)} FROM first_rows AS {one} {_KINDS[how]} second_rows AS {two} "
        f"ON {' AND '.join(conditions)}"
    )
    with _database().cursor() as connection:
        connection.register("first_rows", _numbered(a.rows))
        connection.register("second_rows", _numbered(b.rows))
        return connection.sql(statement).to_arrow_table()


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One database for all statements: it takes far longer to open than to ask."""
    atexit.register(_database.cache_clear)
    return duckdb.connect(config={"threads": 1})


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column("#row", pa.array(range(rows.num_rows), pa.int64()))


def _key(name: str, stream: Stream, column: str) -> str:
    floating = pa.types.is_floating(stream.rows.schema.field(column).type)
    # Adding 0.0 makes 0.0 of -0.0 and changes nothing else.
    return f"({name}.{_quoted(column)} + 0.0::DOUBLE)" if floating else f"{name}.{_quoted(column)}"


def _quoted(column: str | None) -> str:
    return f'"{column}"'


def _coalesced(
    first: pa.ChunkedArray, other: pa.ChunkedArray, second: pa.ChunkedArray
) -> pa.ChunkedArray:
    """The first stream's keys, or the second's where the first has no row."""
    kind = _common(first.type, other.type)
    return pc.coalesce(first.cast(kind), other.take(second).cast(kind))


def _common(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    """A type that holds the values of both; which one does not matter."""
    if one == two:
        return one
    if pa.types.is_floating(one) or pa.types.is_floating(two):
        return pa.float64()
    return pa.int64() if pa.types.is_integer(one) and pa.types.is_integer(two) else _DECIMAL
