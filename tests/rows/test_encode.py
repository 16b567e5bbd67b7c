"""Rows as they are stored: codes, canonical keys, flags and bounds."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pytest

from watersmeet.rows.codes import exact_code, from_code, hashed_code
from watersmeet.rows.columns import CODE, HIGH, LOW, PUNCTUATION, TIME
from watersmeet.rows.encode import encoded
from watersmeet.rows.layout import row_layout
from watersmeet.rows.types import UTC, arrow_type, canonical_schema, spark_name
from watersmeet.spec.stream import Column, Punctuation, StreamSpec

NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
COLUMNS = (
    Column("k", "int"),
    Column("x", "double"),
    Column("t", "timestamp"),
    Column("low", "int"),
    Column("unused", "string"),
)
ROWS = pa.RecordBatch.from_pydict(
    {
        "k": pa.array([7, None], pa.int32()),
        "x": [1.5, -0.0],
        "t": pa.array([NOON, NOON], pa.timestamp("us", "Europe/Vienna")),
        "low": pa.array([None, 3], pa.int32()),
        "unused": ["a", "b"],
    }
)


def test_an_exact_key_is_its_code_and_is_stored_once() -> None:
    punctuation = Punctuation(when="x < 1", low="low")
    stream = StreamSpec("s", COLUMNS, streaming=True, time="t", punctuation=punctuation)
    layout = row_layout(stream, ["k"], ["bigint"], needed={"k", "x"})
    assert layout.stored == {"k": CODE, "t": TIME, "x": "#0"}
    stored = encoded(ROWS, layout)
    assert stored.schema.names == [CODE, PUNCTUATION, LOW, TIME, "#0"]
    assert HIGH not in stored.schema.names
    assert stored.column(CODE).to_pylist() == [7, None]
    assert stored.column(PUNCTUATION).to_pylist() == [False, True]
    assert stored.column(LOW).to_pylist() == [None, 3]
    assert stored.schema.field(TIME).type == UTC


def test_a_hashed_key_is_stored_beside_its_code() -> None:
    stream = StreamSpec("s", COLUMNS, streaming=True)
    layout = row_layout(stream, ["k", "x"], ["bigint", "double"], needed=set())
    stored = encoded(ROWS, layout)
    assert stored.schema.names == [CODE, "#key0", "#key1"]
    assert stored.column(CODE).is_null().to_pylist() == [False, True], "a null in the key"
    assert math.copysign(1, stored.column("#key1")[1].as_py()) == 1, "no negative zero"


def test_every_nan_has_the_same_code() -> None:
    stream = StreamSpec("s", (Column("x", "double"),), streaming=True)
    layout = row_layout(stream, ["x"], ["double"], needed=set())
    other_nan = pa.py_buffer((0x7FF8000000000001).to_bytes(8, "little"))
    nans = pa.concat_arrays(
        [pa.array([float("nan")]), pa.Array.from_buffers(pa.float64(), 1, [None, other_nan])]
    )
    codes = encoded(pa.RecordBatch.from_pydict({"x": nans}), layout).column(CODE)
    assert codes[0].as_py() == codes[1].as_py()


@pytest.mark.parametrize(
    "key",
    [
        pa.array([1, -1, None], pa.int8()),
        pa.array([dt.date(1969, 12, 31), None]),
        pa.array([NOON, None], UTC),
    ],
    ids=str,
)
def test_an_exact_code_gives_its_key_back(key: pa.Array) -> None:
    assert from_code(exact_code(key), key.type).equals(key)


def test_equal_keys_have_equal_hashes() -> None:
    codes = hashed_code([pa.array(["a", "b", "a", None]), pa.array([1, 1, 1, 1])]).to_pylist()
    assert codes[0] == codes[2] != codes[1]
    assert codes[3] is None


@pytest.mark.parametrize("name", ["tinyint", "decimal(10,2)", "timestamp", "string", "date"])
def test_types_have_names_and_names_have_types(name: str) -> None:
    assert spark_name(arrow_type(name)) == name


def test_zoned_times_are_canonical_at_any_depth() -> None:
    local = pa.timestamp("us", "Europe/Vienna")
    nested = pa.schema([pa.field("s", pa.struct([("l", pa.list_(local))]), nullable=False)])
    assert canonical_schema(nested) == pa.schema([("s", pa.struct([("l", pa.list_(UTC))]))])
