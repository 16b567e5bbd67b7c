"""The join of whole tables, in SQL.

Rows a and b match if their keys are equal (null equals nothing, NaN equals NaN,
-0.0 equals 0.0), the condition holds, and, where there are windows,

    -W_b <= time(b) - time(a) <= W_a

Rows of three and more streams match if each two of them do; in a left join, each
stream is matched with the first one alone.

DuckDB finds out which rows meet; their columns are then taken from the Arrow
tables as they are, so that no type passes through DuckDB and back.
"""

from __future__ import annotations

import atexit
import functools
from collections import Counter
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
    """The result of the join of streams, with Watersmeet's columns. ``where`` is
    SQL over columns that are qualified by the streams' names."""
    met = _meetings(streams, how=how, where=where)
    first = next(iter(streams.values()))
    if how in ("semi", "anti"):
        return first.rows.take(met.column(0))
    chosen = dict(zip(streams, met.columns, strict=False))
    columns: dict[str, pa.ChunkedArray] = {}
    for position, name in enumerate(first.keys):
        columns[name] = _coalesced(
            [s.rows.column(s.keys[position]).take(chosen[n]) for n, s in streams.items()]
        )
    timed = how == "inner" and all(stream.time for stream in streams.values())
    reserved = {*first.keys, *([EVENT_TIME] if timed else [])}
    owners = Counter(
        column for s in streams.values() for column in s.rows.column_names if column not in s.keys
    )
    for name, stream in streams.items():
        for column in stream.rows.column_names:
            if column not in stream.keys:
                shared = owners[column] > 1 or column in reserved
                taken = stream.rows.column(column).take(chosen[name])
                columns[f"{name}_{column}" if shared else column] = taken
    if timed:
        columns[EVENT_TIME] = met.column(EVENT_TIME).cast(pa.timestamp("us", "UTC"))
    return pa.table(columns)


def _meetings(streams: Mapping[str, Stream], *, how: str, where: str | None) -> pa.Table:
    """Which row of each stream is in each row of the result, by position."""
    first, *others = streams
    joins = []
    for position, name in enumerate(others, start=1):
        partners = list(streams)[:position] if how == "inner" else [first]
        conditions = [
            term
            for partner in partners
            for term in _conditions(partner, streams[partner], name, streams[name])
        ]
        if where is not None and name == others[-1]:
            conditions.append(f"({where})")
        joins.append(
            f"{_KINDS[how]} rows_{position} AS {name} ON {' AND '.join(conditions) or 'true'}"
        )
    shown = [first] if how in ("semi", "anti") else list(streams)
    chosen = [f'{name}."#row" AS row_{position}' for position, name in enumerate(shown)]
    if how == "inner" and all(stream.time for stream in streams.values()):
        latest = ", ".join(f"epoch_us({n}.{_quoted(s.time)})" for n, s in streams.items())
        chosen.append(f"greatest({latest}) AS {EVENT_TIME}")
    statement = f"SELECT {', '.join(chosen)} FROM rows_0 AS {first} {' '.join(joins)}"
    with _database().cursor() as connection:
        for position, stream in enumerate(streams.values()):
            connection.register(f"rows_{position}", _numbered(stream.rows))
        return connection.sql(statement).to_arrow_table()


def _conditions(one: str, a: Stream, two: str, b: Stream) -> list[str]:
    """When two rows match, the predicate aside."""
    conditions = [
        f"{_key(one, a, mine)} = {_key(two, b, other)}"
        for mine, other in zip(a.keys, b.keys, strict=True)
    ]
    distance = f"epoch_us({two}.{_quoted(b.time)}) - epoch_us({one}.{_quoted(a.time)})"
    if a.window is not None:
        conditions.append(f"{distance} <= {a.window}")
    if b.window is not None:
        conditions.append(f"{distance} >= {-b.window}")
    return conditions


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


def _coalesced(keys: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """The first stream's keys, or the next one's where the first has no row."""
    kind = functools.reduce(_common, (key.type for key in keys))
    return pc.coalesce(*(key.cast(kind) for key in keys))


def _common(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    """A type that holds the values of both; which one does not matter."""
    if one == two:
        return one
    if pa.types.is_floating(one) or pa.types.is_floating(two):
        return pa.float64()
    return pa.int64() if pa.types.is_integer(one) and pa.types.is_integer(two) else _DECIMAL
