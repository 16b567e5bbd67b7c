"""From matched positions to rows of the result."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.join import START
from watersmeet.rows.columns import CODE, TIME
from watersmeet.rows.output import Output, Sides
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.testing import LocalJoin, LocalStream

INSTANT = pa.timestamp("us", "UTC")


def an_output(how: str, key: pa.DataType, *, other_key: pa.DataType | None = None) -> Output:
    a = pa.schema([("k", key), ("x", pa.list_(pa.int64())), ("t", INSTANT)])
    b = pa.schema([("k", other_key or key), ("y", pa.string()), ("t", INSTANT)])
    streams = {
        "a": LocalStream(a, time="t", delay=timedelta(0)),
        "b": LocalStream(b, time="t", delay=timedelta(0)),
    }
    return LocalJoin(streams, on="k", within=timedelta(1), how=how).join.layout.output


def instants(*seconds: int) -> pa.Array:
    return pa.array([START + timedelta(seconds=s) for s in seconds], INSTANT)


A = pa.RecordBatch.from_pydict(
    {CODE: pa.array([1, 2], pa.int64()), TIME: instants(1, 5), "#0": pa.array([[1], None])}
)
B = pa.RecordBatch.from_pydict(
    {CODE: pa.array([2, 1], pa.int64()), TIME: instants(9, 0), "#0": pa.array(["p", "q"])}
)


def test_pairs_have_the_columns_of_both_and_the_later_time() -> None:
    [result] = an_output("inner", pa.int64()).rows(
        {0: (A, np.array([1, 0])), 1: (B, np.array([0, 1]))}
    )
    assert result.to_pylist() == [
        {
            "k": 2,
            "x": None,
            "a_t": START + timedelta(seconds=5),
            "y": "p",
            "b_t": START + timedelta(seconds=9),
            "event_time": START + timedelta(seconds=9),
        },
        {
            "k": 1,
            "x": [1],
            "a_t": START + timedelta(seconds=1),
            "y": "q",
            "b_t": START,
            "event_time": START + timedelta(seconds=1),
        },
    ]


def test_a_row_alone_has_its_key_and_nulls_for_the_other_stream() -> None:
    full = an_output("full", pa.int64())
    [mine] = full.alone(0, A, np.array([0]))
    [other] = full.alone(1, B, np.array([0]))
    time = START + timedelta(seconds=1)
    assert mine.to_pylist() == [{"k": 1, "x": [1], "a_t": time, "y": None, "b_t": None}]
    assert other.column("k").to_pylist() == [2]
    assert other.column("x").to_pylist() == other.column("a_t").to_pylist() == [None]
    assert mine.schema == other.schema


@pytest.mark.parametrize(
    ("kind", "codes", "keys"),
    [
        (pa.int32(), [5, None], [5, None]),
        (pa.date32(), [-1], ["1969-12-31"]),
        (INSTANT, [0], ["1970-01-01 00:00:00+00:00"]),
    ],
)
def test_an_exact_key_is_made_of_its_code(
    kind: pa.DataType, codes: list[int], keys: list[object]
) -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            CODE: pa.array(codes, pa.int64()),
            TIME: instants(*([0] * len(codes))),
            "#0": pa.nulls(len(codes), pa.list_(pa.int64())),
        }
    )
    [result] = an_output("anti", kind).alone(0, rows, np.arange(len(codes)))
    assert result.column("k").type == kind
    shown = [
        key if key is None or isinstance(key, int) else str(key) for key in result["k"].to_pylist()
    ]
    assert shown == keys


def test_a_key_has_the_type_it_is_compared_in() -> None:
    [result] = an_output("inner", pa.int32(), other_key=pa.int64()).rows(
        {0: (A, np.array([0])), 1: (B, np.array([1]))}
    )
    assert result.schema.field("k").type == pa.int64()


def test_rows_alone_come_in_pieces() -> None:
    few = replace(an_output("left", pa.int64()), limits=Limits(piece_rows=2))
    pieces = list(few.alone(0, A, np.array([0, 1, 0, 1, 1])))
    assert [piece.column("k").to_pylist() for piece in pieces] == [[1, 2], [1, 2], [2]]


def test_no_rows_alone_are_no_piece() -> None:
    assert list(an_output("left", pa.int64()).alone(0, A, np.array([], dtype=np.int64))) == []


#: Pieces of four kilobytes.
SMALL = Limits(piece_bytes=4096)
#: One row of a kilobyte among ninety-nine of a few bytes.
UNEVEN = pa.RecordBatch.from_pydict(
    {
        CODE: pa.array(range(100), pa.int64()),
        TIME: instants(*range(100)),
        "#0": pa.array([[0] * 128] + [[]] * 99, pa.list_(pa.int64())),
    }
)


def test_a_piece_holds_fewer_rows_the_wider_they_are() -> None:
    # Given pieces of four kilobytes, each with room for the average row a hundred times,
    left = replace(an_output("left", pa.int64()), limits=SMALL)
    # when the wide row alone is asked for, again and again, and then a narrow one,
    positions = np.repeat([0, 1], [10, 205])
    pieces = list(left.alone(0, UNEVEN, positions))
    # then every piece takes what it may, and no more.
    assert [len(piece) for piece in pieces] == [3, 3, 3, 1 + 152, 53]
    assert max(piece.nbytes for piece in pieces) <= 2 * 4096  # the other stream's nulls included
    keys = [key for piece in pieces for key in piece.column("k").to_pylist()]
    assert keys == positions.tolist()


def test_combinations_are_cut_by_what_all_streams_take() -> None:
    inner = replace(an_output("inner", pa.int64()), limits=SMALL)
    wide = pa.RecordBatch.from_pydict(
        {CODE: pa.array([0], pa.int64()), TIME: instants(0), "#0": pa.array(["x" * 1500])}
    )
    sides: Sides = {0: (UNEVEN, np.array([1, 0, 0, 2, 3])), 1: (wide, np.zeros(5, dtype=np.int64))}
    pieces = list(inner.pieces(sides))
    assert [len(piece[0][1]) for piece in pieces] == [1, 1, 1, 2]
    assert [row for piece in pieces for row in piece[0][1].tolist()] == [1, 0, 0, 2, 3]


def test_a_row_wider_than_a_piece_is_a_piece() -> None:
    tiny = replace(an_output("left", pa.int64()), limits=Limits(piece_bytes=100))
    pieces = list(tiny.alone(0, UNEVEN, np.array([1, 0, 2])))
    assert [len(piece) for piece in pieces] == [1, 1, 1]


def test_a_budget_makes_pieces_smaller() -> None:
    inner = an_output("inner", pa.int64())
    assert (inner.piece_bytes, inner.piece_rows) == (LIMITS.piece_bytes, LIMITS.piece_rows)
    small = replace(inner, limit=1600)
    assert (small.piece_bytes, small.piece_rows) == (1600, 100)


def test_narrow_combinations_are_cut_by_number() -> None:
    """If the widest one is known, and so narrow that pieces have many rows all the same."""
    left = replace(an_output("left", pa.int64()), limits=SMALL)
    sides: Sides = {0: (UNEVEN, np.arange(1, 100).repeat(5))}
    sizes = [len(piece[0][1]) for piece in left.pieces(sides, widest=25)]
    assert sizes == [4096 // 25] * 3 + [495 - 3 * (4096 // 25)]
    # What is wider is measured.
    assert [len(piece[0][1]) for piece in left.pieces(sides, widest=1044)] == [204, 52, 204, 35]
