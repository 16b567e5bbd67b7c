"""What was asked for, and what it comes to: decided once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.plan.asking import equi_spec
from watersmeet.cost.engine import Weights
from watersmeet.joins.equi.policy import PURGE_AFTER, EquiPolicy, IndexPolicy, equi_policy
from watersmeet.spec.budget import Budget, ShardBudget
from watersmeet.spec.stream import Column, Punctuation, StreamSpec
from watersmeet.spec.tuning import Tuning

SECOND = 1_000_000
WEIGHTS = Weights(sort=70, merge=20, search=100, scan=3, hit=160, call=200_000)


def stream(name: str, **known: Any) -> StreamSpec:
    columns = (Column("k", "bigint"), Column("t", "timestamp"))
    return StreamSpec(name, columns, streaming=True, time="t", delay=SECOND, **known)


def policy(*streams: StreamSpec, **options: Any) -> EquiPolicy:
    given = streams or (stream("a"), stream("b"))
    spec = equi_spec(given, on="k", within="10 seconds", **options)
    return equi_policy(spec, shards=4, cores=2, weights=lambda: WEIGHTS)


def test_nothing_is_measured_unless_something_depends_on_it() -> None:
    def never() -> Weights:
        raise AssertionError("the weights were asked for")

    spec = equi_spec([stream("a"), stream("b")], on="k", within="10 seconds")
    chosen = equi_policy(spec, shards=1, cores=1, weights=never)
    assert chosen.index == (IndexPolicy(indexed=True, adaptive=True),) * 2


def test_declared_rates_decide_the_first_index_and_say_why() -> None:
    slow = stream("slow", rows_per_second=10.0, distinct_keys=5.0)
    fast = stream("fast", rows_per_second=1e6, distinct_keys=1e6)
    of_slow, of_fast = policy(slow, fast).index
    assert (of_slow.adaptive, of_fast.adaptive) == (True, True)
    assert not of_fast.indexed
    many = [stream(name, rows_per_second=4e5, distinct_keys=400.0) for name in "ab"]
    assert all(index.indexed for index in policy(*many).index)
    assert "250,000 new rows and 2 probes a micro-batch" in of_fast.why


def test_the_first_index_is_chosen_by_the_rates_that_a_budget_leaves() -> None:
    # As in section 4.2 of the window paper: of 5 and 100 rows a second, 50 can be served.
    slow = stream("slow", rows_per_second=5_000.0, distinct_keys=400.0)
    fast = stream("fast", rows_per_second=100_000.0, distinct_keys=400.0)
    budget = Budget(rate=50_000, overflow="shed")
    of_slow, of_fast = policy(slow, fast, budget=budget).index
    assert "1,250 new rows and 11,250 probes a micro-batch" in of_slow.why
    assert "11,250 new rows and 1,250 probes a micro-batch" in of_fast.why


def test_what_is_asked_for_is_not_changed() -> None:
    chosen = policy(tuning=Tuning(index={"a": "never", "b": "auto"}, invalidation="lazy"))
    assert chosen.index[0] == IndexPolicy(indexed=False, adaptive=False)
    assert chosen.index[1] == IndexPolicy(indexed=True, adaptive=True)
    assert chosen.invalidation == "lazy"


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, PURGE_AFTER),
        ({"goal": "memory"}, 1),
        ({"goal": "early"}, 1),
        ({"goal": "memory", "tuning": Tuning(purge_after=7)}, 7),
    ],
)
def test_the_goal_says_when_rows_are_purged(options: dict[str, Any], count: int) -> None:
    ending = stream("b", punctuation=Punctuation("k < 0"))
    assert policy(stream("a"), ending, **options).purge_after == count


@pytest.mark.parametrize(
    ("goal", "driver"),
    [
        ("throughput", "initial-output-size"),
        ("memory", "consumption-rate"),
        ("early", "initial-output-size"),
    ],
)
def test_the_goal_chooses_the_driver_of_many_streams(goal: str, driver: str) -> None:
    three = stream("a"), stream("b"), stream("c")
    assert policy(*three, goal=goal).schedule.streams == driver
    fixed = policy(*three, goal=goal, tuning=Tuning(driver="output-rate"))
    assert fixed.schedule.streams == "output-rate"
    assert policy(goal=goal).schedule.streams == "priority"


def test_a_budget_is_divided_by_the_shards() -> None:
    shed = Budget(memory=4000, rate=100, overflow="shed")
    # A step has what is left by those beside it; what the state may take, and how fast rows may
    # come, is for all shards together.
    assert policy(budget=shed).budget == ShardBudget("shed", memory=2000, total=4000, rate=100.0)
    measured = replace(shed, rate="measured")
    expected = ShardBudget("shed", memory=2000, total=4000, measured=True)
    assert policy(budget=measured).budget == expected


def test_early_results_from_memory_need_a_budget_that_spills() -> None:
    assert policy(budget=Budget(memory=4000), goal="early").in_stages
    assert not policy(budget=Budget(memory=4000)).in_stages
    assert not policy(budget=Budget(memory=4000, overflow="fail"), goal="early").in_stages
    assert not policy(goal="early").in_stages


def test_another_number_of_shards_shares_the_same_budget() -> None:
    budget = ShardBudget("shed", memory=1000, total=4000, rate=50.0, fanout=9)
    assert budget.shared(4, 2) == replace(budget, memory=2000)
    assert budget.shared(4, 8) == replace(budget, memory=500)
    assert ShardBudget("spill").shared(4, 8) == ShardBudget("spill")
