"""Joins of three and more streams, with literal data; for random ones see the conformance
tests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.conformance.join import Batch, Condition, Join, at
from tests.conformance.ways import LocalWay
from tests.joins.equi.many_streams import SECOND, join_of, local, rows
from tests.oracle import assert_same_rows
from watersmeet.spec.tuning import DRIVERS

POLICIES = [driver for driver in DRIVERS if driver != "auto"]


class TestWorkloads:
    """Each policy, and what is unkind to a join of many streams."""

    @pytest.fixture(params=POLICIES)
    def join(self, request: pytest.FixtureRequest) -> Join:
        within = {"a": 3 * SECOND, "b": 10 * SECOND, "c": 5 * SECOND}
        return join_of("abc", within=within, driver=request.param)

    def check(self, join: Join, batches: list[Batch]) -> pa.Table:
        outcome = LocalWay().run(join, [*batches, *join.closing()], shards=2)
        assert_same_rows(outcome.result, join.expected([*batches, *join.closing()]))
        return outcome.result

    def test_a_stream_that_is_silent_for_long(self, join: Join) -> None:
        # Given c, which says nothing while a and b go on for a minute, and then all at once,
        dice = np.random.default_rng(1)
        batches: list[Batch] = [
            {name: rows(name, dice.integers(0, 5, 8), s + dice.random(8)) for name in "ab"}
            | {"c": rows("c", [], [])}
            for s in range(60)
        ]
        late = {"c": rows("c", dice.integers(0, 5, 60), np.arange(60.0))}
        # then nothing was late, as the watermark waited for it.
        result = self.check(join, [*batches, {**join.batch(), **late}])
        assert result.num_rows > 100

    def test_a_stream_that_is_a_hundred_times_faster(self, join: Join) -> None:
        dice = np.random.default_rng(2)
        batches: list[Batch] = [
            {
                name: rows(name, dice.integers(0, 300, count), s + dice.random(count))
                for name, count in (("a", 3), ("b", 300), ("c", 3))
            }
            for s in range(20)
        ]
        assert self.check(join, batches).num_rows > 10

    def test_all_keys_equal(self, join: Join) -> None:
        batches: list[Batch] = [
            {name: rows(name, np.zeros(6, int), s + np.arange(6) / 6) for name in "abc"}
            for s in range(4)
        ]
        assert self.check(join, batches).num_rows > 24 * 24

    def test_no_key_shared_by_all(self, join: Join) -> None:
        dice = np.random.default_rng(3)
        batches: list[Batch] = [
            {
                "a": rows("a", dice.integers(0, 10, 20), s + dice.random(20)),
                "b": rows("b", dice.integers(5, 15, 20), s + dice.random(20)),
                "c": rows("c", dice.integers(10, 20, 20), s + dice.random(20)),
            }
            for s in range(5)
        ]
        assert self.check(join, batches).num_rows == 0


@pytest.mark.parametrize("streams", ["abc", "abcdef"])
def test_nothing_but_the_streams_own_rows_is_stored(streams: str) -> None:
    join = local(join_of(streams))
    for s in range(5):
        join.batch(**{name: rows(name, [1, 2, 3], s) for name in streams})
    assert join.state_rows() == [15] * len(streams)
    # And they leave when their time is over.
    join.batch(**{name: rows(name, [9], 100) for name in streams})
    join.batch()
    assert join.state_rows() == [1] * len(streams)


def test_a_condition_over_three_streams() -> None:
    def adds_up(a: pa.Table, b: pa.Table, c: pa.Table) -> pa.ChunkedArray:
        return pc.equal(pc.add(a["a_n"], b["b_n"]), c["c_n"])

    condition = Condition("a.a_n + b.b_n = c.c_n", wm.predicate(adds_up, "a", "b", "c"))
    join = Join(join_of("abc").streams, on="k", within=10 * SECOND, where=condition)
    batches = [{name: rows(name, np.zeros(9, int), 1.0) for name in "abc"}, *join.closing()]
    result = LocalWay().run(join, batches).result
    assert result.num_rows == 45
    assert_same_rows(result, join.expected(batches))


class TestLeft:
    """A left join keeps every row of the first stream."""

    def test_a_row_comes_out_once_for_each_combination_of_what_it_matches(self) -> None:
        join = join_of("abc", how="left")
        batches = [
            join.batch(
                a=[(1, at(0), 1), (2, at(0), 2), (3, at(0), 3)],
                b=[(1, at(1), 11), (1, at(2), 12), (2, at(1), 21), (2, at(1), 22)],
                c=[(1, at(1), 13), (1, at(3), 14)],
            ),
            *join.closing(),
        ]
        result = LocalWay().run(join, batches).result
        found = {(row["k"], row["b_n"], row["c_n"]) for row in result.to_pylist()}
        assert found == {
            *((1, b, c) for b in (11, 12) for c in (13, 14)),
            (2, 21, None),
            (2, 22, None),
            (3, None, None),
            (None, None, None),  # the row that closes has a null key
        }
        assert_same_rows(result, join.expected(batches))

    def test_what_lacks_a_match_waits_for_the_watermark(self) -> None:
        join = local(join_of("abc", how="left"))
        assert (
            join.batch(a=rows("a", [1], 0), b=rows("b", [1], 5), c=rows("c", [7], 0)).num_rows == 0
        )
        # The watermark reaches 9.9 s, then 10 s: the end of a's window.
        for second, count in ((19.9, 0), (20, 0), (20.1, 1)):
            result = join.batch(**{name: rows(name, [99], second) for name in "abc"})
            assert [row for row in result.to_pylist() if row["k"] == 1] == [
                {
                    "k": 1,
                    "a_t": at(0),
                    "a_n": 0,
                    "b_t": at(5),
                    "b_n": 0,
                    "c_t": None,
                    "c_n": None,
                }
            ][:count]

    def test_a_match_is_kept_until_the_row_that_met_it_is_over(self) -> None:
        # Given b, whose own window ends at 10 s, and a, which met it and waits until 15 s,
        join = local(join_of("abc", how="left"))
        join.batch(a=rows("a", [1], 5), b=rows("b", [1], 0), c=rows("c", [7], 5))
        # when the watermark is at 12 s, b is still there, and c may come;
        for name in "abc":
            join.batch(**{name: rows(name, [99], 22)})
        assert join.batch(c=rows("c", [1], 12.5)).num_rows == 1
        # and when it passes b's and a's windows together, b leaves.
        for name in "abc":
            join.batch(**{name: rows(name, [98], 31)})
        assert join.batch().num_rows == 0
        assert join.state_rows()[1] == 2

    def test_streams_are_matched_with_the_first_one_alone(self) -> None:
        # b and c are 16 s apart, further than any window; both are within a's.
        join = join_of("abc", how="left")
        batches = [
            join.batch(a=[(1, at(8), 0)], b=[(1, at(0), 0)], c=[(1, at(16), 0)]),
            *join.closing(),
        ]
        result = LocalWay().run(join, batches).result
        assert [row["c_n"] for row in result.to_pylist() if row["k"] == 1] == [0]
        inner = join_of("abc")
        assert LocalWay().run(inner, batches).result.num_rows == 0
