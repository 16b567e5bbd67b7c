"""A join keeps to its budget, and what it sheds is never made up for by wrong results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.join import START, Join
from tests.conformance.strategies import INSTANT, Run, examples, limited, runs
from tests.conformance.ways import LocalWay
from tests.oracle.compare import multiset
from watersmeet.errors import OverBudgetError
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.limits.shedding import sample
from watersmeet.rows.columns import CODE
from watersmeet.spec.budget import Budget, Overflow
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64())])
STREAM = LocalStream(SCHEMA, time="t", delay=timedelta(0))


def rows(count: int, second: int, *, keys: int = 500, seed: int = 0) -> pa.Table:
    random = np.random.default_rng((second, seed))
    start = int(START.timestamp()) + second
    times = start * 1_000_000 + np.sort(random.integers(0, 1_000_000, count))
    columns = {
        "k": random.integers(0, keys, count),
        "t": pa.array(times).view(INSTANT),
        "n": np.arange(count) + second * 1_000_000,
    }
    return pa.table(columns, SCHEMA)


def run(
    budget: Budget | None,
    tmp_path: Path,
    *,
    a: int,
    b: int,
    seconds: int,
    within: Any,
    keys: int = 500,
    **given: Any,
) -> tuple[list[pa.Table], list[EquiCounters], LocalJoin]:
    """The results and counters of so many batches of a second."""
    join = LocalJoin(
        {"a": STREAM, "b": STREAM},
        on="k",
        within=within,
        budget=budget,
        folder=str(tmp_path / str(budget)),
        **given,
    )
    results, counters = [], []
    for second in range(seconds):
        batch = {"a": rows(a, second, keys=keys), "b": rows(b, second, keys=keys, seed=1)}
        results.append(join.batch(**batch))
        counters.append(join.counters)
    return results, counters, join


def all_rows(tables: list[pa.Table]) -> Counter[tuple[Any, ...]]:
    return multiset(pa.concat_tables(tables))


WITHIN = timedelta(seconds=5)


class TestTooFast:
    def test_each_stream_gets_half_of_the_rate_and_what_remains_is_as_expected(
        self, tmp_path: Path
    ) -> None:
        full, _, _ = run(None, tmp_path, a=800, b=200, seconds=30, within=WITHIN)
        budget = Budget(rate=100, overflow="shed")
        results, counters, _ = run(budget, tmp_path, a=800, b=200, seconds=30, within=WITHIN)
        # Each stream is let in at 50 rows a second, from the first micro-batch on.
        first = [stream.rows - stream.shed for stream in counters[0].streams]
        assert first == pytest.approx([50, 50], abs=25)
        kept = [np.mean([c.streams[i].rows - c.streams[i].shed for c in counters]) for i in (0, 1)]
        assert kept == pytest.approx([50, 50], rel=0.1)
        # What remains is a part of the full result, about as large as stated.
        assert not all_rows(results) - all_rows(full)
        stated = sum(c.results for c in counters[10:]) / sum(c.full_results for c in counters[10:])
        remains = sum(t.num_rows for t in results[10:]) / sum(t.num_rows for t in full[10:])
        assert stated == pytest.approx(50 / 800 * 50 / 200, rel=0.2)
        assert remains == pytest.approx(stated, rel=0.35)

    def test_a_stream_slower_than_its_half_is_not_shed(self, tmp_path: Path) -> None:
        budget = Budget(rate=500, overflow="shed")
        _, counters, _ = run(budget, tmp_path, a=100, b=2000, seconds=15, within=WITHIN)
        assert sum(c.streams[0].shed for c in counters) == 0
        kept = [c.streams[1].rows - c.streams[1].shed for c in counters[5:]]
        assert np.mean(kept) == pytest.approx(400, rel=0.15)

    def test_nothing_is_shed_while_the_rate_suffices(self, tmp_path: Path) -> None:
        budget = Budget(rate=100_000, overflow="shed")
        results, counters, _ = run(budget, tmp_path, a=300, b=200, seconds=5, within=WITHIN)
        full, _, _ = run(None, tmp_path, a=300, b=200, seconds=5, within=WITHIN)
        assert all_rows(results) == all_rows(full)
        assert all(c.results == c.full_results for c in counters)

    def test_a_measured_rate_sheds_when_the_join_is_too_slow_for_its_input(
        self, tmp_path: Path
    ) -> None:
        # Rows of a millionth of a second each: no join keeps up with that.
        join = LocalJoin(
            {"a": STREAM, "b": STREAM},
            on="k",
            within=WITHIN,
            budget=Budget(rate="measured", overflow="shed"),
            folder=str(tmp_path),
        )
        shed = 0
        for batch in range(6):
            times = pa.array(np.arange(batch * 500, batch * 500 + 500)).view(INSTANT)
            table = pa.table({"k": range(500), "t": times, "n": range(500)}, SCHEMA)
            join.batch(a=table, b=table)
            shed += sum(stream.shed for stream in join.counters.streams)
        assert shed > 1000

    @pytest.mark.parametrize("budget", [Budget(rate=60, overflow="shed")])
    def test_a_batch_that_runs_again_sheds_the_same_rows(
        self, tmp_path: Path, budget: Budget
    ) -> None:
        _, _, join = run(budget, tmp_path, a=500, b=300, seconds=6, within=WITHIN, shards=3)
        saved = [dict(store.values) for store in join.stores]
        watermark = join.watermark
        # In another order, and cut otherwise by the network: the rows are the same.
        batch = {"a": rows(500, 6), "b": rows(300, 6, seed=1)}
        again = {name: table.take(np.arange(len(table))[::-1]) for name, table in batch.items()}
        once = join.batch(**batch)
        for store, values in zip(join.run.stores, saved, strict=True):
            store.values = values
        join.run.watermark = watermark
        twice = join.batch(**again)
        assert once.num_rows > 0
        assert multiset(once) == multiset(twice)

    @pytest.mark.parametrize("shards", [1, 8, 40])
    @pytest.mark.parametrize("keys", [500, 1])
    def test_the_rate_is_that_of_all_shards_and_skew_does_not_matter(
        self, tmp_path: Path, shards: int, keys: int
    ) -> None:
        def kept(number: int) -> tuple[list[float], int]:
            budget, folder = Budget(rate=100, overflow="shed"), tmp_path / str(number)
            given: dict[str, Any] = {
                "a": 800,
                "b": 200,
                "seconds": 12,
                "within": WITHIN,
                "keys": keys,
            }
            results, counters, _ = run(budget, folder, shards=number, **given)
            counted = [[s.rows - s.shed for s in c.streams] for c in counters]
            return np.mean(counted, axis=0).tolist(), sum(t.num_rows for t in results)

        (rates, results), (_, of_one) = kept(shards), kept(1)
        assert rates == pytest.approx([50, 50], rel=0.1)
        assert results == of_one > 0

    def test_a_stream_has_the_rate_that_a_silent_one_leaves(self, tmp_path: Path) -> None:
        budget = Budget(rate=100, overflow="shed")
        join = LocalJoin(
            {"a": STREAM, "b": STREAM}, on="k", within=WITHIN, budget=budget, folder=str(tmp_path)
        )

        def kept(second: int, b: int) -> float:
            join.batch(a=rows(5000, second), b=rows(b, second, seed=1))
            return join.counters.streams[0].rows - join.counters.streams[0].shed

        # One that has brought nothing yet needs no part of the rate;
        assert [kept(second, b=0) for second in range(4)] == pytest.approx([100] * 4, rel=0.25)
        # if it brings rows, it has its half, also if it brings them now and then;
        alternating = [kept(second, b=5000 * (second % 2)) for second in range(4, 16)]
        assert np.mean(alternating[2:]) == pytest.approx(50, rel=0.15)
        # and when it has fallen silent, that is the other's again.
        silent = [kept(second, b=0) for second in range(16, 60)]
        assert np.mean(silent[30:]) == pytest.approx(100, rel=0.1)

    def test_rows_with_the_same_key_and_time_are_not_all_kept_or_all_shed(
        self, tmp_path: Path
    ) -> None:
        # Given rows of which a hundred at a time are equal, but for one column at most,
        def batch(second: int, *, alike: bool) -> pa.Table:
            table = rows(10, second)
            repeated = table.take(np.repeat(np.arange(10), 100))
            numbers = pa.array(np.zeros(1000, int) if alike else np.arange(1000))
            return repeated.set_column(2, "n", numbers)

        for alike in (True, False):
            # when they are ten times too many,
            budget = Budget(rate=100, overflow="shed")
            join = LocalJoin(
                {"a": STREAM, "b": STREAM},
                on="k",
                within=WITHIN,
                budget=budget,
                folder=str(tmp_path / str(alike)),
            )
            kept = []
            for second in range(10):
                join.batch(a=batch(second, alike=alike))
                kept.append(1000 - join.counters.streams[0].shed)
            # then a tenth of each is kept.
            assert kept[1:] == pytest.approx([100] * 9, rel=0.5)
            assert np.mean(kept) == pytest.approx(100, rel=0.1)

    def test_what_remains_is_as_expected_where_streams_share_keys_and_times(
        self, tmp_path: Path
    ) -> None:
        # Given two streams with the same rows, each of which matches one of the other,
        def totals(budget: Budget | None) -> tuple[int, int]:
            join = LocalJoin(
                {"a": STREAM, "b": STREAM},
                on="k",
                within=WITHIN,
                budget=budget,
                folder=str(tmp_path / str(budget)),
            )
            found = full = 0
            for second in range(10):
                same = rows(2000, second, keys=10**9)
                found += join.batch(a=same, b=same).num_rows
                full += join.counters.full_results
            return found, full

        found, stated = totals(Budget(rate=800, overflow="shed"))
        full, _ = totals(None)
        assert found == pytest.approx(full * 0.2 * 0.2, rel=0.25)
        assert stated == pytest.approx(full, rel=0.25)

    def test_a_sample_is_as_large_as_it_should_be_and_grows_with_its_share(self) -> None:
        batch = pa.RecordBatch.from_pydict({CODE: pa.array(range(100_000), pa.int64())})
        kept = {share: sample(batch, share, seed=0) for share in (0.0, 0.1, 0.5, 1.0)}
        assert [len(rows) for rows in kept.values()] == pytest.approx([0, 1e4, 5e4, 1e5], rel=0.05)
        fewer, more = (set(kept[share].column(CODE).to_pylist()) for share in (0.1, 0.5))
        assert fewer < more


class TestTooLittleMemory:
    BUDGET = Budget(memory="100 kB", overflow="shed")

    def test_windows_shrink_to_the_memory_the_slower_streams_last(self, tmp_path: Path) -> None:
        within = timedelta(seconds=60)
        full, _, whole = run(None, tmp_path, a=20, b=400, seconds=60, within=within)
        results, counters, join = run(self.BUDGET, tmp_path, a=20, b=400, seconds=60, within=within)
        held = [window.memory for window in join.run.state(0).windows]
        assert sum(held) <= 100_000 < sum(window.memory for window in whole.run.state(0).windows)
        slow, fast = join.run.state(0).windows
        assert slow.rows == 60 * 20, "the slower stream is kept whole"
        assert 0 < fast.rows < 60 * 400 / 2
        assert not all_rows(results) - all_rows(full)
        # The last batches: about the stated share of the full result.
        stated = sum(c.results for c in counters[50:]) / sum(c.full_results for c in counters[50:])
        remains = sum(t.num_rows for t in results[50:]) / sum(t.num_rows for t in full[50:])
        assert stated < 0.9
        assert remains == pytest.approx(stated, rel=0.25)

    @pytest.mark.parametrize(("shards", "keys"), [(8, 500), (40, 1)])
    def test_shards_share_the_memory_as_they_share_the_rows(
        self, tmp_path: Path, shards: int, keys: int
    ) -> None:
        # Given several shards, and rows of many keys or of a single one,
        given: dict[str, Any] = {
            "a": 400,
            "b": 100,
            "seconds": 16,
            "within": timedelta(seconds=10),
            "keys": keys,
        }
        full, _, _ = run(None, tmp_path, **given)
        results, counters, join = run(self.BUDGET, tmp_path, shards=shards, **given)
        # when their state is twice the budget, then it fills most of that, not one fortieth of it,
        held = sum(w.memory for number in range(shards) for w in join.run.state(number).windows)
        assert 70_000 < held <= 100_000
        # the rows that left early are counted, and what is missing is about what is stated.
        streams = [stream for c in counters for stream in c.streams]
        came, left = sum(s.rows for s in streams), sum(s.shed + s.expired for s in streams)
        assert sum(s.shed for s in streams) > 0
        assert came - left == sum(join.state_rows())
        stated = sum(c.results for c in counters) / sum(c.full_results for c in counters)
        remains = sum(t.num_rows for t in results) / sum(t.num_rows for t in full)
        assert stated < 0.9
        assert remains == pytest.approx(stated, rel=0.15)

    def test_rate_and_memory_together(self, tmp_path: Path) -> None:
        budget = replace(self.BUDGET, rate=100)
        full, _, _ = run(None, tmp_path, a=200, b=300, seconds=40, within=timedelta(seconds=30))
        results, counters, join = run(
            budget, tmp_path, a=200, b=300, seconds=40, within=timedelta(seconds=30)
        )
        assert sum(window.memory for window in join.run.state(0).windows) <= 100_000
        kept = [sum(s.rows - s.shed for s in c.streams) for c in counters[10:]]
        assert np.mean(kept) == pytest.approx(100, rel=0.2)
        assert not all_rows(results) - all_rows(full)

    def test_a_batch_larger_than_the_memory_is_no_trouble(self, tmp_path: Path) -> None:
        _, _, join = run(self.BUDGET, tmp_path, a=20_000, b=10, seconds=2, within=WITHIN)
        assert sum(window.memory for window in join.run.state(0).windows) <= 100_000

    def test_fail_stops_before_the_budget_is_passed(self, tmp_path: Path) -> None:
        budget = replace(self.BUDGET, overflow="fail")
        with pytest.raises(OverBudgetError) as raised:
            run(budget, tmp_path, a=20, b=400, seconds=60, within=timedelta(seconds=60))
        message = str(raised.value)
        assert "the budget leaves it 100 kB" in message
        assert "rows of a in" in message
        assert "overflow='spill' or 'shed'" in message

    def test_fail_says_nothing_while_there_is_room(self, tmp_path: Path) -> None:
        budget = Budget(memory="10 MB", overflow="fail")
        results, _, _ = run(budget, tmp_path, a=20, b=400, seconds=10, within=WITHIN)
        full, _, _ = run(None, tmp_path, a=20, b=400, seconds=10, within=WITHIN)
        assert all_rows(results) == all_rows(full)

    def test_the_process_stays_within_the_budget(self, tmp_path: Path) -> None:
        def grown(name: str, *budget: str) -> dict[str, int]:
            command = [sys.executable, "-m", "tests.joins.equi.limits.budget_query"]
            done = subprocess.run(
                [*command, str(tmp_path / name), *budget],
                capture_output=True,
                check=True,
                text=True,
            )
            return json.loads(done.stdout)

        spilling, free = grown("spilling", "64 MB"), grown("free")
        assert spilling["results"] == free["results"] > 0
        assert free["state"] > 3 * 64_000_000
        assert free["grown"] > 2 * 64_000_000, "without a budget it grows"
        assert spilling["grown"] < 64_000_000


@pytest.mark.parametrize("overflow", ["spill", "shed"])
@pytest.mark.parametrize("streams", ["ab", "abc"])
def test_whatever_the_budget_nothing_is_made_up(overflow: Overflow, streams: str) -> None:
    memory = st.sampled_from([300, 2_000, 20_000])
    rated = overflow == "shed" and len(streams) == 2
    rate = st.sampled_from([None, 0.5, 3]) if rated else st.none()
    hows = ["inner", "semi"] if len(streams) == 2 else ["inner"]

    @examples(40)
    @given(run=runs(hows, streams), memory=memory, rate=rate)
    def check(run: Run, memory: int, rate: float | None) -> None:
        join = run.join
        if overflow == "shed" and (join.within is None or not all(_timed(join))):
            return
        budget = Budget(memory=memory, rate=rate, overflow=overflow)
        with limited(**run.limits):
            outcome = LocalWay().run(
                replace(join, budget=budget),
                run.batches,
                shards=run.shards,
                before=run.before,
                cut=run.cut,
            )
        expected = multiset(join.expected(run.batches))
        actual = multiset(outcome.result)
        assert not actual - expected
        if overflow == "spill":
            assert actual == expected

    check()


def _timed(join: Join) -> list[bool]:
    return [stream.time is not None for stream in join.streams.values()]
