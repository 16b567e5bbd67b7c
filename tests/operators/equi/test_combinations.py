"""Joins of three and more streams, with literal data; for random ones see the conformance
tests."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests.conformance.join import START, Batch, Join, at
from tests.conformance.strategies import INSTANT
from tests.conformance.ways import LocalWay
from tests.oracle import assert_same_rows, multiset
from watersmeet.errors import OverBudget
from watersmeet.operators.equi import output
from watersmeet.operators.equi.flow import Flow
from watersmeet.operators.equi.order import probe_order
from watersmeet.operators.equi.order.drivers import RUNS, driven
from watersmeet.rows.predicate import Predicate
from watersmeet.spec import DRIVERS, Budget
from watersmeet.testing import LocalJoin, LocalStream

POLICIES = [driver for driver in DRIVERS if driver != "auto"]
SECOND = timedelta(seconds=1)


def join_of(names: str, *, within: Any = 10 * SECOND, how: str = "inner", **further: Any) -> Join:
    """Streams with the columns `k`, `<name>_t` and `<name>_n`, ten seconds late at most."""
    streams = {
        name: LocalStream(
            pa.schema([("k", pa.int64()), (f"{name}_t", INSTANT), (f"{name}_n", pa.int64())]),
            time=f"{name}_t",
            delay=10 * SECOND,
        )
        for name in names
    }
    return Join(streams, on="k", within=within, how=how, further=further)


def local(join: Join, **options: Any) -> LocalJoin:
    return LocalJoin(join.streams, **(join.options | options))


def rows(name: str, keys: Any, seconds: Any) -> pa.Table:
    """As many rows as keys; `seconds` are their times."""
    keys = np.asarray(keys, dtype=np.int64)
    times = np.int64(START.timestamp() * 1e6) + np.int64(np.broadcast_to(seconds, keys.shape) * 1e6)
    instants = pa.array(times).view(INSTANT)
    return pa.table({"k": keys, f"{name}_t": instants, f"{name}_n": np.arange(len(keys))})


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
        result = self.check(join, [*batches, join.batch() | late])
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
    condition = Predicate(
        "a.a_n + b.b_n = c.c_n",
        ((0, "a_n"), (1, "b_n"), (2, "c_n")),
        pl.col("0") + pl.col("1") == pl.col("2"),
    )
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


class TestFanOut:
    """A key with many rows in every stream."""

    HOT = 100

    def hot(self, join: Join, **options: Any) -> tuple[LocalJoin, pa.Table]:
        """A hundred rows of key 7 in a and in b, then two rows of it in c."""
        running = local(join, **options)
        for name in "ab":
            running.batch(**{name: rows(name, np.full(self.HOT, 7), 1.0)})
        return running, running.batch(c=rows("c", [7, 7, 8], 2.0))

    def test_the_product_comes_in_pieces_and_is_reported(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(output, "PIECE", 1_000)
        join, result = self.hot(join_of("abc"))
        assert result.num_rows == 2 * self.HOT**2
        assert max(len(batch) for batch in result.to_batches()) <= 1_000
        largest = join.counters.largest
        assert (largest.fanout, largest.stream, largest.key) == (self.HOT**2, "c", "7")

    def test_a_budget_caps_it(self) -> None:
        budget = Budget(fanout=150, overflow="shed")
        join, result = self.hot(join_of("abc"), budget=budget)
        assert result.num_rows == 300
        assert join.counters.capped == 2
        _, everything = self.hot(join_of("abc"))
        assert not multiset(result) - multiset(everything)

    def test_a_cap_that_is_not_reached_changes_nothing(self) -> None:
        budget = Budget(fanout=self.HOT**2, overflow="shed")
        join, result = self.hot(join_of("abc"), budget=budget)
        assert result.num_rows == 2 * self.HOT**2
        assert join.counters.capped == 0

    def test_a_budget_makes_it_fail(self) -> None:
        budget = Budget(fanout=150, overflow="fail")
        with pytest.raises(OverBudget, match="row of c with the key 7 makes more than 150"):
            self.hot(join_of("abc"), budget=budget)

    def test_two_streams_are_watched_too(self) -> None:
        join = local(join_of("ab"))
        join.batch(a=rows("a", np.full(50, 7), 1.0))
        assert join.batch(b=rows("b", [7, 7, 8], 2.0)).num_rows == 100
        assert (join.counters.largest.fanout, join.counters.largest.key) == (50, "7")
        capped = local(join_of("ab"), budget=Budget(fanout=20, overflow="shed"))
        capped.batch(a=rows("a", np.full(50, 7), 1.0))
        assert capped.batch(b=rows("b", [7, 7, 8], 2.0)).num_rows == 40
        assert capped.counters.capped == 2

    def test_a_cap_counts_over_segments(self) -> None:
        join = local(join_of("abc"), budget=Budget(fanout=7, overflow="shed"))
        for _ in range(3):  # three segments of each
            join.batch(a=rows("a", [7, 7], 1.0), b=rows("b", [7, 7], 1.0))
        assert join.batch(c=rows("c", [7], 2.0)).num_rows == 7


class TestProbeOrder:
    """The most selective window is looked into first."""

    def test_it_is_measured_and_changes_are_noted(self) -> None:
        join = local(join_of("abc"))
        keys = np.arange(1_000)

        def feed(second: int, b: np.ndarray, c: np.ndarray) -> list[str]:
            second *= 10  # as long as the window
            join.batch(a=rows("a", keys, second), b=rows("b", b, second), c=rows("c", c, second))
            return [note for note in join.counters.notes if "rows of a look" in note]

        # Given b, which has every key, and c, which has hardly any,
        notes = [note for s in range(3) for note in feed(s, keys, keys[:10])]
        assert len(notes) == 1
        assert "look into c (met by 1" in notes[0]
        assert "then b (met by 1" in notes[0]
        # when it is the other way round from some time on, that is found out before long.
        notes = [note for s in range(3, 30) for note in feed(s, keys[:10], keys)]
        assert len(notes) == 1
        assert "look into b (met by" in notes[0]

    def test_declared_rates_and_keys_say_where_to_begin(self) -> None:
        def plan(**facts: tuple[float, float]) -> LocalJoin:
            streams = {
                name: LocalStream(
                    stream.schema,
                    stream.time,
                    stream.delay,
                    rate=facts[name][0],
                    keys=facts[name][1],
                )
                for name, stream in join_of("abc").streams.items()
            }
            return LocalJoin(streams, on="k", within="10 seconds")

        first = plan(a=(10, 10), b=(10, 10), c=(10, 1e6)).join.layout.sequences
        assert first == ((2, 1), (2, 0), (0, 1))

    def test_only_a_clearly_cheaper_one_is_taken(self) -> None:
        flow = Flow(match_rates=[1.0, 0.5, 0.49], probe_order=[1, 2])
        assert probe_order.revise(0, flow, "abc") == []
        flow.match_rates = [1.0, 0.5, 0.2]
        [note] = probe_order.revise(0, flow, "abc")
        assert note == "new rows of a look into c (met by 20.0%), then b (met by 50.0%) from now on"
        assert flow.probe_order == [2, 1]


class TestDrivers:
    """In which order streams are taken."""

    def order(
        self, policy: str, *, new: list[int], stored: list[int], usual: list[float] | None = None
    ) -> list[int]:
        names = "abcdef"[: len(new)]
        batches = [
            _batch(rows(name, np.arange(count), np.arange(count)), name) if count else None
            for name, count in zip(names, new, strict=True)
        ]
        held = list(stored)
        taken = []
        for stream, run in driven(policy, batches, lambda: held, usual or [float(n) for n in new]):
            taken.append(stream)
            held[stream] += len(run)
        return taken

    def test_consumption_rate_takes_the_stream_with_most_rows_first(self) -> None:
        order = self.order("consumption-rate", new=[5, 5, 5], stored=[1, 1, 1], usual=[2, 9, 4])
        assert order == [1, 2, 0]

    def test_initial_output_size_takes_what_makes_most_results_now(self) -> None:
        # a: 10 * 5 * 1, b: 2 * 100 * 1, c: 1 * 100 * 5
        assert self.order("initial-output-size", new=[10, 2, 1], stored=[100, 5, 1])[0] == 2

    def test_and_decides_again_after_each(self) -> None:
        # While nothing of b is stored, only b's rows make results; then c's make most.
        order = self.order("initial-output-size", new=[5, 1, 50], stored=[10, 0, 10])
        assert order == [1, 2, 0]

    def test_output_rate_takes_the_rows_that_make_most_each(self) -> None:
        assert self.order("output-rate", new=[1, 1, 1], stored=[3, 2, 1]) == [2, 1, 0]

    def test_round_robin_takes_runs_in_turn(self) -> None:
        order = self.order("round-robin", new=[96, 96, 48], stored=[0, 0, 0])
        assert order[:6] == [0, 1, 2, 0, 1, 2]
        assert len(order) == 20 + 20 + 10  # 240 rows in runs of 5

    def test_timestamp_takes_all_streams_in_order_of_time(self) -> None:
        first = rows("a", np.arange(60), np.arange(60)[::-1])  # out of order
        second = rows("b", np.arange(30), np.arange(30) * 2 + 0.5)
        batches = [_batch(first, "a"), _batch(second, "b")]
        spans = []
        for stream, run in driven("timestamp", batches, lambda: [0, 0], [1.0, 1.0]):
            times = run.column("#time").cast(pa.int64()).to_numpy()
            assert (np.diff(times) > 0).all()
            spans.append((stream, times.min(), times.max()))
        for stream in (0, 1):
            mine = [span for span in spans if span[0] == stream]
            assert len(mine) <= RUNS
            assert all(one[2] < two[1] for one, two in itertools.pairwise(mine))
        assert [span[1] for span in spans[::2]] == sorted(span[1] for span in spans[::2])


def _batch(table: pa.Table, name: str) -> pa.RecordBatch:
    renamed = table.rename_columns(["#code", "#time", "#2"])
    return renamed.combine_chunks().to_batches()[0]
