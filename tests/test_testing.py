"""LocalJoin: what it takes and what it refuses. What it computes: see conformance/."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from watersmeet.errors import (
    PlanError,
    PunctuationError,
    StateError,
    StreamNameError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from watersmeet.state.fingerprint import facts_of
from watersmeet.testing import LocalEnrich, LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


def test_a_batch_for_an_unknown_stream_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    stream = LocalStream(SCHEMA, time="t", delay="0 seconds")
    join = LocalJoin(
        {"views": stream, "clicks": stream}, on="k", within="1 second", folder=str(tmp_path)
    )
    with pytest.raises(StreamNameError, match="'view' is not one of .* Did you mean 'views'"):
        join.batch(view=SCHEMA.empty_table())


def test_timestamps_of_any_zone_and_unit_are_taken(tmp_path) -> None:  # type: ignore[no-untyped-def]
    zoned = pa.schema([("k", pa.int64()), ("t", pa.timestamp("ms", "Europe/Vienna"))])
    stream = LocalStream(zoned, time="t", delay="0 seconds")
    join = LocalJoin({"a": stream, "b": stream}, on="k", within="1 second", folder=str(tmp_path))
    rows = pa.table([[1], [1000]], schema=zoned)
    result = join.batch(a=rows, b=rows)
    assert result.column("event_time").cast(pa.int64()).to_pylist() == [1_000_000]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("kind = 'end'", "is not a condition over its columns k, t"),
        ("k <", "is not a condition over its columns"),
        ("k", "is of type int64"),
    ],
)
def test_a_condition_that_is_none_is_refused_when_the_join_is_made(
    tmp_path: Path, when: str, message: str
) -> None:
    stream = LocalStream(SCHEMA, punctuation=wm.Punctuation(when=when))
    with pytest.raises(PunctuationError, match=message):
        LocalJoin({"a": stream, "b": stream}, on="k", folder=str(tmp_path))


@pytest.mark.parametrize("number", [-1, "x", True])
def test_expectations_are_numbers(tmp_path: Path, number: Any) -> None:
    stream = LocalStream(SCHEMA, rows_per_second=number)
    with pytest.raises(PlanError, match="rows_per_second must be a number above 0"):
        LocalJoin({"a": stream, "b": stream}, on="k", unbounded=True, folder=str(tmp_path))


def test_a_delay_of_a_part_of_a_millisecond_is_rounded_up(tmp_path: Path) -> None:
    stream = LocalStream(SCHEMA, time="t", delay="1500 us")
    join = LocalJoin({"a": stream, "b": stream}, on="k", within="1 second", folder=str(tmp_path))

    def rows(microseconds: int) -> pa.Table:
        return pa.table([[1], [microseconds]], schema=SCHEMA)

    join.batch(a=rows(10_000_000), b=rows(10_000_000))
    join.batch(a=rows(10_000_000 - 1_300))
    assert join.counters.streams[0].late == 0, "it is within its delay"


def test_a_restart_as_a_join_of_another_type_with_other_operators_is_refused(
    tmp_path: Path,
) -> None:
    stream = LocalStream(SCHEMA, time="t", delay="0 seconds")
    always = wm.predicate(lambda a, b: pc.is_valid(a["k"]), "a", "b")

    def joined(how: str, restart: LocalJoin | None = None) -> LocalJoin:
        return LocalJoin(
            {"a": stream, "b": stream},
            where=always,
            within="1 second",
            how=how,
            folder=str(tmp_path),
            restart=restart,
        )

    with pytest.raises(StateError, match="had 1 of the operators that store rows, this one has 2"):
        joined("left", restart=joined("inner"))


def test_a_condition_that_needs_columns_that_are_not_stored_is_refused_at_a_restart(
    tmp_path: Path,
) -> None:
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])

    def join(column: str, restart: LocalJoin | None = None) -> LocalJoin:
        columns = {"a": [column], "b": [column]}
        same = wm.predicate(lambda a, b: pc.equal(a[column], b[column]), "a", "b", columns=columns)
        streams = {"a": LocalStream(schema), "b": LocalStream(schema)}
        options: dict[str, Any] = {"on": "k", "how": "semi", "where": same, "unbounded": True}
        return LocalJoin(streams, folder=str(tmp_path), restart=restart, **options)

    before = join("x")
    before.batch(b=pa.table([[1], [2], [3]], schema=schema))
    with pytest.raises(
        StateError, match="stored columns of b: y bigint is new, x bigint is missing"
    ):
        join("y", before).batch(a=pa.table([[1], [2], [3]], schema=schema))


@pytest.mark.parametrize("keyed", [True, False])
def test_what_is_not_stored_may_change_at_a_restart(tmp_path: Path, keyed: bool) -> None:
    # Given a semi join that has stored rows of both streams; of the second one what it compares,
    def greater(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
        return pc.and_(pc.equal(a["k"], b["k"]), pc.greater(a["x"], b["x"]))

    read = {"a": ["k", "x"], "b": ["k", "x"]}
    asked: dict[str, Any] = {"where": wm.predicate(greater, "a", "b", columns=read)}
    asked |= {"on": "k"} if keyed else {}
    a = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("z", pa.string())])
    b = pa.schema([("k", pa.int32() if keyed else pa.int64()), ("x", pa.int64())])
    options: dict[str, Any] = {**asked, "how": "semi", "unbounded": True, "folder": str(tmp_path)}
    join = LocalJoin({"a": LocalStream(a), "b": LocalStream(b)}, **options)
    join.batch(a=pa.table([[1, 2], [7, 7], ["p", "q"]], schema=a))
    join.batch(b=pa.table([[3], [5]], schema=b))
    # when the columns have another order, the second stream has one more, and its key is of the
    # type in which it was compared, then the join goes on with what is stored.
    others = pa.schema([a.field(2), a.field(1), a.field(0)])
    wider = pa.schema([("new", pa.string()), ("x", pa.int64()), ("k", pa.int64())])
    join = LocalJoin({"a": LocalStream(others), "b": LocalStream(wider)}, restart=join, **options)
    found = join.batch(
        a=pa.table([["r"], [6], [3]], schema=others),
        b=pa.table([["new"], [6], [2]], schema=wider),
    )
    assert sorted(found.to_pylist(), key=str) == [
        {"z": "q", "x": 7, "k": 2},
        {"z": "r", "x": 6, "k": 3},
    ]


@pytest.mark.parametrize(
    ("how", "event_time", "change"),
    [
        ("inner", None, None),
        ("inner", "greatest", None),
        ("inner", "b", None),
        ("inner", "a", "Spark's watermark held back by: was 5 s, now 6 s"),
        ("semi", "a", "Spark's watermark held back by: was 5 s, now 6 s"),
        ("left", None, "window of a: was 5 s, now 6 s"),
    ],
)
@pytest.mark.parametrize("keyless", [False, True])
def test_a_window_may_change_at_a_restart_unless_results_are_proven_by_it(
    tmp_path: Path, how: str, event_time: str | None, change: str | None, keyless: bool
) -> None:
    stream = LocalStream(SCHEMA, time="t", delay="0 seconds")
    equal = wm.predicate(lambda a, b: pc.equal(a["k"], b["k"]), "a", "b")
    what = {"where": equal} if keyless else {"on": "k"}

    def join(window: str, restart: LocalJoin | None = None) -> LocalJoin:
        options: dict[str, Any] = {**what, "how": how, "event_time": event_time, "restart": restart}
        within = {"a": window, "b": "5 seconds"}
        return LocalJoin({"a": stream, "b": stream}, folder=str(tmp_path), within=within, **options)

    rows = pa.table([[1], [1_000_000]], schema=SCHEMA)
    before = join("5 seconds")
    before.batch(a=rows)
    again = join("6 seconds", before)
    if change is None:
        assert again.batch(b=rows).num_rows == 1
    else:
        with pytest.raises(StateError, match=re.escape(change)):
            again.batch(b=rows)


@pytest.mark.parametrize(
    ("window", "before", "now", "change"),
    [
        ("0 seconds", None, "a", None),
        ("0 seconds", "a", None, None),
        ("5 seconds", "a", "a", None),
        ("5 seconds", None, "a", "Spark's watermark held back by: was none, now 5 s"),
        ("5 seconds", "a", None, "Spark's watermark held back by: was 5 s, now none"),
    ],
)
@pytest.mark.parametrize("keyless", [False, True])
def test_whose_time_a_result_has_may_change_at_a_restart_where_no_watermark_moves(
    tmp_path: Path,
    window: str,
    before: str | None,
    now: str | None,
    change: str | None,
    keyless: bool,
) -> None:
    stream = LocalStream(SCHEMA, time="t", delay="0 seconds")
    equal = wm.predicate(lambda a, b: pc.equal(a["k"], b["k"]), "a", "b")
    what = {"where": equal} if keyless else {"on": "k"}

    def join(event_time: str | None, restart: LocalJoin | None = None) -> LocalJoin:
        options: dict[str, Any] = {
            **what,
            "how": "anti",
            "event_time": event_time,
            "restart": restart,
        }
        within = {"a": window, "b": "5 seconds"}
        return LocalJoin({"a": stream, "b": stream}, folder=str(tmp_path), within=within, **options)

    # Given stored rows of an anti join, of which one has no match,
    first = join(before)
    first.batch(a=pa.table([[1, 2], [1_000_000] * 2], schema=SCHEMA))
    # when it goes on with an event time, or without one, then it gives that row,
    again = join(now, first)
    match = pa.table([[1], [1_000_000]], schema=SCHEMA)
    if change is None:
        again.batch(b=match)
        assert again.finish().column("k").to_pylist() == [2]
    else:  # or it is refused, if Spark's watermark would be held back in another way.
        with pytest.raises(StateError, match=re.escape(change)):
            again.batch(b=match)


@pytest.mark.parametrize("how", ["inner", "semi"])
@pytest.mark.parametrize("keyless", [False, True])
def test_rows_without_a_time_match_nothing_after_a_restart_with_a_window(
    tmp_path: Path, how: str, keyless: bool
) -> None:
    stream = LocalStream(SCHEMA, time="t", delay="0 seconds")
    equal = wm.predicate(lambda a, b: pc.equal(a["k"], b["k"]), "a", "b")
    what = {"where": equal} if keyless else {"on": "k"}

    def join(restart: LocalJoin | None = None, **options: Any) -> LocalJoin:
        options |= {**what, "how": how, "restart": restart}
        return LocalJoin({"a": stream, "b": stream}, folder=str(tmp_path), **options)

    def rows(*rows: tuple[int, int | None]) -> pa.Table:
        return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)

    # Given stored rows without a time, of a join in which they match,
    first = join(unbounded=True)
    first.batch(a=rows((1, None), (2, 5_000_000)), b=rows((3, None)))
    # when rows of their keys come in a join with a window, however near to 1970,
    again = join(first, within="10 seconds")
    found = again.batch(a=rows((3, 2_000_000)), b=rows((1, 1_000_000), (2, 6_000_000)))
    # then they match nothing, and leave as soon as there is a watermark.
    assert found.column("k" if how == "semi" or not keyless else "a_k").to_pylist() == [2]
    stored = sum(again.state_rows())
    again.batch()
    assert stored - sum(again.state_rows()) == 2
    assert [counted.expired for counted in again.counters.streams] == [1, 1]


LARGE = 2**53 + 1
DECIMAL = pa.decimal128(38, 20)


@pytest.mark.parametrize(
    ("ours", "theirs", "keys", "matches"),
    [
        # A double has no room for the last bit: both are 2**53 as doubles.
        (pa.int64(), pa.float64(), [[LARGE, 3], [2.0**53, 3.5]], [LARGE]),
        # 0.47 is no fraction of a power of two; Arrow's own cast is off by a bit.
        (DECIMAL, pa.float64(), [[Decimal("0.47"), None], [0.47, 0.0]], [Decimal("0.47")]),
        # decimal(38,18) is compared: half a unit is rounded up.
        (DECIMAL, pa.int64(), [[Decimal("3." + "9" * 20)], [4]], [Decimal("3." + "9" * 20)]),
    ],
    ids=["bigint and double", "decimal and double", "long decimals and bigint"],
)
def test_keys_of_different_number_types_meet_as_on_spark_and_an_enrichment_leaves_them(
    ours: pa.DataType, theirs: pa.DataType, keys: list[list[Any]], matches: list[Any]
) -> None:
    a = pa.table({"k": pa.array(keys[0], ours), "n": range(len(keys[0]))})
    b = pa.table({"k": pa.array(keys[1], theirs), "m": range(len(keys[1]))})
    # In a join, the key is of whichever stream has the row, as it is compared;
    join = LocalJoin({"a": LocalStream(a), "b": LocalStream(b)}, on="k", unbounded=True)
    assert join.batch(a=a, b=b).column("n").to_pylist() == [0]
    # in an enrichment it is a column of the stream, which stays as it came,
    for how in ("inner", "semi"):
        found = LocalEnrich("a", LocalStream(a), b, on="k", how=how).batch(a)
        assert found.schema.field("k").type == ours
        assert found.column("k").to_pylist() == matches
    # also for a condition.
    own = wm.predicate(lambda a, b: pc.equal(a["k"], matches[0]), "a", "table")
    assert LocalEnrich("a", LocalStream(a), b, on="k", where=own).batch(a).num_rows == 1


@pytest.mark.parametrize(
    ("columns", "of_rows", "key", "own"),
    [
        ("k", ["k"], [-0.0], True),
        (["k", "i"], ["i", "k"], [7, -0.0], True),
        ("i", ["i"], [7], False),
    ],
)
def test_an_enrichment_alters_no_column_of_its_stream(
    columns: Any, of_rows: list[str], key: list[Any], own: bool
) -> None:
    table = pa.table({"k": pa.array([0.0]), "i": pa.array([7], pa.int64()), "m": [1]})
    rows = pa.table({"k": pa.array([-0.0]), "i": pa.array([7], pa.int32())})
    stream = LocalStream(rows.schema)
    enrich = LocalEnrich("a", stream, table.select([*of_rows, "m"]), on=columns, how="left")
    found = enrich.batch(rows)
    assert repr([found.column(name)[0].as_py() for name in of_rows]) == repr(key)
    assert found.select(rows.column_names).schema == rows.schema
    assert found.column("m").to_pylist() == [1]
    # The checkpoint knows that a key is stored as it came, too.
    stored = facts_of(enrich.layout.fingerprint)["stored columns"]
    assert any(column.split()[0] in of_rows for column in stored) == own


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"k": ["a"]},
            UnsupportedTypeError,
            "'k' in .* 'a' is of type (string|object).*; .* bigint",
        ),
        ({"k": pa.array([1], pa.int32())}, UnsupportedTypeError, "is of type int; .* says bigint"),
        ({"t": [NOON.replace(tzinfo=None)]}, UnsupportedTypeError, "timestamp_ntz; .* timestamp"),
        ({"t": None}, UnknownColumnError, "have no column 't'.* They have k; the schema says k, t"),
    ],
)
def test_rows_of_another_schema_are_refused(
    change: dict[str, Any], error: type[PlanError], message: str
) -> None:
    join = LocalJoin(dict.fromkeys("ab", LocalStream(SCHEMA)), on="k", unbounded=True)
    columns = {**{"k": [1], "t": [NOON]}, **change}
    rows = pa.table({name: column for name, column in columns.items() if column is not None})
    for given in (rows, rows.to_pandas(), pl.DataFrame(pl.from_arrow(rows))):
        with pytest.raises(error, match=message):
            join.batch(a=given)
    with pytest.raises(PlanError, match="the rows of 'a' are a list, not a table"):
        join.batch(a=[1])
    enrich = LocalEnrich("a", LocalStream(SCHEMA), SCHEMA.empty_table(), on="k")
    with pytest.raises(error):
        enrich.batch(rows)


def test_tables_of_pandas_and_polars_are_taken() -> None:
    # Given rows in which something is missing, of every kind that a library has its own form for,
    data: dict[str, list[Any]] = {
        "k": [1, None, 2],
        "text": ["a", None, "b"],
        "at": [NOON, NOON, None],
        "items": [[{"x": "y"}], None, []],
    }
    kinds = [
        pa.int64(),
        pa.string(),
        pa.timestamp("us", "UTC"),
        pa.list_(pa.struct({"x": "string"})),
    ]
    rows = pa.table([pa.array(v, t) for v, t in zip(data.values(), kinds, strict=True)], [*data])
    objects = pd.DataFrame(data)
    others = [objects.assign(text=objects["text"].astype("category")), objects]
    others += [rows.to_pandas(), pl.DataFrame(pl.from_arrow(rows))]
    # when they come as tables of any of them, then the result is the same.
    for given in others:
        assert LocalStream(given).schema.names == rows.column_names
        join = LocalJoin(dict.fromkeys("ab", LocalStream(rows)), on="k", how="semi", unbounded=True)
        assert join.batch(a=given, b=given).equals(join.batch(a=rows))
