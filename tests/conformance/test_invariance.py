"""The same rows give the same result, however they are cut into batches, spread over
shards, and whatever happens in between. With literal data: see test_result for random."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from tests.conformance.join import Batch, Join, at
from tests.conformance.strategies import INSTANT, LESS, limited
from tests.conformance.ways import Disturbance, Way
from tests.oracle import assert_same_rows
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.testing import LocalStream

A = pa.schema([("k", pa.string()), ("n", pa.int64()), ("t", INSTANT)])
B = pa.schema([("n", pa.int64()), ("t", INSTANT), ("k", pa.string())])


def letters(how: str) -> Join:
    streams = {
        "a": LocalStream(A, time="t", delay=timedelta(seconds=30)),
        "b": LocalStream(B, time="t", delay=timedelta(seconds=20)),
    }
    within = {"a": timedelta(seconds=8), "b": timedelta(seconds=5)}
    return Join(streams, on="k", within=within, how=how, where=LESS)


def seconds(join: Join) -> list[Batch]:
    """A minute of rows, three a second and stream; times go back and forth, keys repeat."""
    keys = ["x", "y", "z", None]
    batches = []
    for s in range(60):
        time = at((s * 7) % 20 + s * 0.5)
        a = [(keys[(s + i) % 4], (s * i) % 5, None if s % 17 == i else time) for i in range(3)]
        b = [((s + i) % 6, time, keys[(s * i) % 4]) for i in range(3)]
        batches.append(join.batch(a=a, b=b))
    return batches


def recut(join: Join, batches: list[Batch], size: int) -> list[Batch]:
    return [
        {
            name: pa.concat_tables(batch[name] for batch in batches[start : start + size])
            for name in join.streams
        }
        for start in range(0, len(batches), size)
    ]


pytestmark = pytest.mark.usefixtures("kept")

SMALL = {"fan": 2, "rewrite_below": 3000, "part_bytes": 200, "piece": 5}


@pytest.mark.parametrize("how", JOIN_NAMES)
@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_may_be_cut_anywhere(way: Way, how: str, size: int) -> None:
    join = letters(how)
    batches = seconds(join)
    assert not any(rows.num_rows for rows in join.arrivals(batches).late.values())
    cut = [*recut(join, batches, size), *join.closing()]
    assert_same_rows(way.run(join, cut).result, join.expected([*batches, *join.closing()]))


@pytest.mark.parametrize("how", JOIN_NAMES)
@pytest.mark.parametrize("shards", [2, 5])
def test_the_number_of_shards_does_not_matter(way: Way, how: str, shards: int) -> None:
    join = letters(how)
    batches = [*recut(join, seconds(join), 5), *join.closing()]
    outcome = way.run(join, batches, shards=shards)
    assert_same_rows(outcome.result, join.expected(batches))


@pytest.mark.parametrize("how", JOIN_NAMES)
@pytest.mark.parametrize("disturbance", Disturbance, ids=lambda d: d.name.lower())
def test_a_disturbance_before_every_batch_is_not_seen(
    way: Way, how: str, disturbance: Disturbance
) -> None:
    join = letters(how)
    batches = [*recut(join, seconds(join), 6), *join.closing()]
    undisturbed = way.run(join, batches)
    with limited(**SMALL):
        outcome = way.run(
            join, batches, shards=2, before=dict.fromkeys(range(len(batches)), disturbance)
        )
    assert_same_rows(outcome.result, undisturbed.result)
    assert_same_rows(outcome.result, join.expected(batches))


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_no_rows_at_all_give_no_results(way: Way, how: str) -> None:
    join = letters(how)
    outcome = way.run(join, [join.batch(), join.batch()])
    assert outcome.result.num_rows == 0
    assert outcome.result.column_names == join.expected([join.batch()]).column_names


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_one_stream_alone(way: Way, how: str) -> None:
    join = letters(how)
    batches = [join.batch(a=[("x", 1, at(0))]), *join.closing()]
    assert_same_rows(way.run(join, batches).result, join.expected(batches))


def test_columns_are_named_as_the_oracle_names_them(way: Way) -> None:
    join = letters("inner")
    batch = join.batch(a=[("x", 1, at(0))], b=[(2, at(1), "x")])
    result = way.run(join, [batch]).result
    assert result.column_names == ["k", "a_n", "a_t", "b_n", "b_t", "event_time"]
    assert result.to_pylist() == [
        {"k": "x", "a_n": 1, "a_t": at(0), "b_n": 2, "b_t": at(1), "event_time": at(1)}
    ]


def test_keys_may_be_called_differently_and_one_may_be_the_time(way: Way) -> None:
    # Given a stream whose time is its key, and another whose key has the name of a payload,
    streams = {
        "a": LocalStream(
            pa.schema([("at", INSTANT), ("v", pa.int64())]), time="at", delay=timedelta(0)
        ),
        "b": LocalStream(pa.schema([("v", INSTANT), ("t", INSTANT)]), time="t", delay=timedelta(0)),
    }
    join = Join(streams, on={"a": "at", "b": "v"}, within=timedelta(seconds=5), how="right")
    # when a matches the first row of b by key and time, and the second by key alone,
    batches = [
        join.batch(a=[(at(0), 7), (None, 8)], b=[(at(0), at(5)), (at(0), at(6)), (at(1), None)]),
        *join.closing(),
    ]
    # then the rest is unmatched, and a null time too.
    result = way.run(join, batches).result
    assert_same_rows(result, join.expected(batches))
    assert {"at": at(0), "v": 7, "t": at(5)} in result.to_pylist()
    assert {"at": at(1), "v": None, "t": None} in result.to_pylist()


@pytest.mark.parametrize("how", ["inner", "semi"])
def test_a_null_time_matches_where_there_is_no_window(way: Way, how: str) -> None:
    join = Join(letters(how).streams, on="k", how=how)
    batches = [join.batch(a=[("x", 1, None)], b=[(2, at(0), "x")])]
    assert_same_rows(way.run(join, batches).result, join.expected(batches))
