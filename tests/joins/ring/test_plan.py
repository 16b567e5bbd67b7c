"""Calls of joins without a key: what a right one means, what is refused, and how explain reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import polars as pl
import pytest

import watersmeet as wm
from tests.plan.asking import explain, plan_join
from watersmeet.conditions.overlaps import Comparison, Rank
from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.conditions.terms import Term
from watersmeet.cost.slices import SliceWeights
from watersmeet.errors import (
    BudgetError,
    JoinTypeError,
    PlanError,
    PredicateError,
    PunctuationError,
    StrategyError,
    UnboundedStateError,
    WindowError,
)
from watersmeet.joins.ring.plan import RingPlan
from watersmeet.spec.stream import Column, StreamSpec
from watersmeet.testing import LocalBackend

SECOND = 1_000_000


def stream(name: str, **known: Any) -> StreamSpec:
    columns = Column("n", "bigint"), Column("at", "timestamp")
    return StreamSpec(name, columns, streaming=True, time="at", delay=2 * SECOND, **known)


def similar(*tables: Any) -> Any:
    raise AssertionError("a plan compares nothing")


def near(*names: str) -> wm.PredicateFunction:
    return wm.predicate(similar, *names)


#: A machine on which comparing is dear, and one on which sending is.
COMPARES = SliceWeights(compare=50_000, send=1_000, byte=1, step=1e6)
SENDS = SliceWeights(compare=20, send=1e6, byte=1_000, step=1e6)


@dataclass(frozen=True)
class Machine(LocalBackend):
    """A backend on a machine with known weights."""

    known: SliceWeights = COMPARES

    def slice_weights(self) -> SliceWeights:
        return self.known


def plan(
    *streams: StreamSpec,
    names: str = "ab",
    shards: int = 4,
    weights: SliceWeights = COMPARES,
    **arguments: Any,
) -> RingPlan:
    """A call that is right in all that the test does not say."""
    given = {"where": near(*names[:2]), "within": "10 seconds", **arguments}
    backend = Machine(shards, "nowhere", known=weights)
    planned = plan_join(streams or [stream(name) for name in names], backend, **given)
    assert isinstance(planned, RingPlan)
    return planned


def refusal(error: type[PlanError], *streams: StreamSpec, **arguments: Any) -> str:
    with pytest.raises(PlanError) as caught:
        plan(*streams, **arguments)
    assert type(caught.value) is error
    return str(caught.value)


def test_a_plain_call_is_planned_in_full() -> None:
    planned = plan()
    assert planned.spec.conditions == ("similar(a, b)",)
    assert planned.spec.windows == (10 * SECOND, 10 * SECOND)
    assert [column.name for column in planned.spec.output] == [
        "a_n",
        "a_at",
        "b_n",
        "b_at",
        "event_time",
    ]
    assert (planned.policy.slices, planned.policy.reach) == (4, 4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"names": "abcdefghij"}, PlanError, "at most 9; 10 given"),
        ({"how": "full"}, JoinTypeError, "how='full' needs a key"),
        ({"how": "left", "names": "abc"}, PredicateError, "with how='left' of 3 streams"),
        ({"how": "semi", "names": "abc"}, JoinTypeError, "is for two streams"),
        ({"within": None}, UnboundedStateError, "within: missing"),
        ({"tuning": wm.Tuning(slices="many")}, StrategyError, "not a whole number"),  # type: ignore[arg-type]
        ({"within": None, "how": "left", "unbounded": True}, WindowError, "how='left'"),
        ({"violations": "drop"}, PunctuationError, "this join has none"),
        ({"emit_punctuations": True}, PunctuationError, "this join has none"),
        ({"budget": wm.Budget(rate=5, overflow="shed")}, BudgetError, "slow the source"),
        ({"budget": wm.Budget(memory="5 MB", overflow="shed")}, BudgetError, "'spill' or 'fail'"),
        ({"tuning": "fast"}, StrategyError, "is not a wm.Tuning"),
        ({"tuning": wm.Tuning(index="always")}, StrategyError, "is for joins with a key"),
        ({"tuning": wm.Tuning(slices=5)}, StrategyError, "more than spark.sql.shuffle.partitions"),
        (
            {"tuning": wm.Tuning(draining=5)},
            StrategyError,
            "to go on with one of more, set as many",
        ),
        ({"tuning": wm.Tuning(slices=0)}, StrategyError, "slices=0 must be at least 1"),
        ({"tuning": wm.Tuning(draining=1.5)}, StrategyError, "is not a whole number"),  # type: ignore[arg-type]
        ({"tuning": wm.Tuning(order=["a", "b"])}, StrategyError, "for three and more streams"),
        (
            {"names": "abc", "tuning": wm.Tuning(order=["a", "b"])},
            StrategyError,
            "must name every stream once: a, b, c",
        ),
    ],
)
def test_a_mistake_is_named(
    arguments: dict[str, Any], error: type[PlanError], message: str
) -> None:
    assert message in refusal(error, **arguments)


def test_promises_about_keys_are_refused() -> None:
    assert "stream 'a'" in refusal(PunctuationError, stream("a", unique=True), stream("b"))


def test_tuning_for_joins_without_a_key_is_refused_with_one() -> None:
    backend = LocalBackend(4, "nowhere")
    with pytest.raises(StrategyError, match="slices=2 is for joins without a key"):
        plan_join(
            [stream("a"), stream("b")],
            backend,
            on="n",
            within="1 second",
            tuning=wm.Tuning(slices=2),
        )


class TestOrder:
    def names(self, planned: RingPlan) -> str:
        return "".join(planned.spec.streams[place].name for place in planned.policy.order)

    def test_a_driver_meets_what_conditions_connect(self) -> None:
        # Given a star with its centre at c, the centre comes first: so all meet it first.
        star = [near("c", other) for other in "abd"]
        planned = plan(names="abcd", where=star)
        assert self.names(planned)[0] == "c"
        assert planned.policy.cross_products == ()

    def test_the_smallest_stream_comes_first_of_those(self) -> None:
        triangle = [near("a", "b"), near("b", "c"), near("a", "c")]
        rates = {"a": 1_000.0, "b": 10.0, "c": 100.0}
        streams = [stream(name, rows_per_second=rate) for name, rate in rates.items()]
        assert self.names(plan(*streams, where=triangle)) == "bca"

    def test_an_unavoidable_cross_product_is_told_with_its_size(self) -> None:
        chain = [near(*two) for two in ("ab", "bc", "cd")]
        streams = [stream(name, rows_per_second=10.0) for name in "abcd"]
        planned = plan(*streams, where=chain)
        [(driver, met, pairs)] = planned.policy.cross_products
        assert {driver, met} <= {0, 1, 2, 3}
        # 10 rows a second meet those of 10 seconds and the delay of 2.
        assert pairs == 10 * 10 * 12
        assert "WARNING: cross product" in explain(planned)
        assert "1,200 pairs a second" in explain(planned)

    def test_it_can_be_asked_for(self) -> None:
        planned = plan(names="abc", tuning=wm.Tuning(order=["c", "a", "b"]))
        assert self.names(planned) == "cab"
        assert "in the order that was asked for" in explain(planned)


def test_explain_shows_what_is_searched_and_what_is_compared() -> None:
    low, high = (Rank(f"{n}.n", i, ("n",), "int", pl.col(f"{i}.n")) for i, n in enumerate("ab"))
    searched = Term(
        SqlPredicate("a.n <= b.n", ((0, "n"), (1, "n")), pl.col("0.n") <= pl.col("1.n")),
        comparisons=(Comparison(low, high, exact=True),),
    )
    with mock.patch.object(Machine, "translate", return_value=(searched,)):
        planned = plan(where=["a.n <= b.n", near("a", "b")])
        unlimited = plan(where=["a.n <= b.n", near("a", "b")], within=None, unbounded=True)
    text = explain(planned)
    assert "goal 'memory' changes nothing here" in explain(plan(goal="memory"))
    asked: dict[str, Any] = {"goal": "early", "tuning": wm.Tuning(slices=2)}
    assert "changes nothing here: the number of slices was asked for" in explain(plan(**asked))
    assert "changes nothing" not in explain(plan(goal="early", tuning=wm.Tuning(slices="auto")))
    assert "by time" not in explain(unlimited)
    assert "stored rows are searched, in each slice, by time and by" in text
    assert "what is found: compared by predicates" in text
    assert [each.text for each in planned.conditions.predicates] == ["similar(a, b)"]
    assert planned.spec.conditions == ("a.n <= b.n", "similar(a, b)")
    # Most pairs are never compared: how fast rows must come is not known.
    assert "never waits" not in text


def test_explain_shows_which_conditions_are_asked_of_rows_of_one_stream() -> None:
    few = Term(SqlPredicate("a.n < 3", ((0, "n"),), pl.col("0.n") < 3))
    with mock.patch.object(Machine, "translate", return_value=(few,)):
        text = explain(plan(where=["a.n < 3", near("a"), near("a", "b")]))
    asked, compared = text.index("match nothing, and are not compared"), text.index("compared by")
    assert asked < text.rindex("a.n < 3") < compared
    # A function may take long: it is asked of pairs.
    assert compared < text.rindex("similar(a)")


def test_a_condition_that_is_searched_by_and_evaluated_counts_once() -> None:
    def partial(*, exact: bool) -> tuple[float, ...]:
        """What hops add if a search for ``a.n <= b.n`` finds these rows only, or others too."""
        low, high = (Rank(f"{n}.n", i, ("n",), "int", pl.col(f"{i}.n")) for i, n in enumerate("ab"))
        less = SqlPredicate("a.n <= b.n", ((0, "n"), (1, "n")), pl.col("0.n") <= pl.col("1.n"))
        term = Term(less, comparisons=(Comparison(low, high, exact=exact),))
        with mock.patch.object(Machine, "translate", return_value=(term,)):
            planned = plan(names="abc", where=["a.n <= b.n", near("b", "c")])
        assert len(planned.conditions.predicates) == (1 if exact else 2)
        return planned.policy.partial

    assert partial(exact=False) == partial(exact=True)


def test_streams_that_no_condition_connects_are_told() -> None:
    planned = plan(where=near("a"))
    assert planned.unconnected is not None
    assert "no condition compares a or b with another stream" in planned.unconnected
    assert f"WARNING: {planned.unconnected}" in explain(planned)
    assert "compares c with" in str(plan(names="abc", where=near("a", "b")).unconnected)
    assert plan(where=near("a", "b")).unconnected is None


def test_explain_shows_slices_hops_and_state() -> None:
    text = explain(plan(how="left", tuning=wm.Tuning(slices=2, draining=3)))
    assert "when the input ends (availableNow, a pause)" in text
    assert "is more than 12 s later than all others" in text
    assert "(similar(a, b))" in text
    assert "a row of a matches rows of b from 10 s before it to 10 s after it" in text
    assert "slices: 2 of 4 shards" in text
    assert "still sent to 3" in text
    assert "hop 1 stores b: probed by new rows of a" in text
    assert "hop 2 stores a: probed by new rows of b" in text
    assert "unmatched rows of a: emitted when the watermark reaches a.at + 10 s" in text
    assert "expected state: 12,000 rows for every 1,000 rows/s" in text


class TestSlices:
    AUTO = wm.Tuning(slices="auto")

    def test_where_comparing_is_dear_all_are_used(self) -> None:
        assert plan(shards=16, tuning=self.AUTO).policy.slices == 16

    def test_where_sending_is_dear_few_are_used(self) -> None:
        slow = stream("a", rows_per_second=1), stream("b", rows_per_second=1)
        planned = plan(*slow, shards=16, weights=SENDS, tuning=self.AUTO)
        assert planned.policy.slices < 8
        assert planned.policy.reach == planned.policy.slices

    def test_a_declared_cost_counts(self) -> None:
        slow = stream("a", rows_per_second=1), stream("b", rows_per_second=1)

        def planned(**cost: str) -> RingPlan:
            where = wm.predicate(similar, "a", "b", **cost)  # type: ignore[arg-type]
            return plan(*slow, where=where, shards=16, tuning=self.AUTO, weights=SENDS)

        cheap, dear = planned(), planned(cost="2 ms")
        assert cheap.policy.slices < dear.policy.slices == 16
        assert "assumed: 2 ms to compare a pair" in explain(dear)
        with pytest.raises(PredicateError, match="less than a microsecond"):
            planned(cost="0 us")

    def test_more_slices_help_output_longer_than_latency(self) -> None:
        slow = stream("a", rows_per_second=10), stream("b", rows_per_second=10)
        early, most = (
            plan(*slow, shards=64, tuning=self.AUTO, goal=goal).policy.slices
            for goal in ("early", "throughput")
        )
        assert 1 < early < most

    def test_for_latency_fewer_are_used_where_all_is_declared_and_it_is_clear(self) -> None:
        slow = stream("a", rows_per_second=10), stream("b", rows_per_second=10)

        def slices(*streams: StreamSpec, goal: str = "early", **cost: str) -> int:
            where = wm.predicate(similar, "a", "b", **cost)  # type: ignore[arg-type]
            return plan(*streams, where=where, shards=64, goal=goal, weights=SENDS).policy.slices

        assert slices(*slow, cost="10 us") < 32
        # Too few cost more than too many: a guess is not enough, and output grows with each.
        assert slices(stream("a"), stream("b"), cost="10 us") == 64
        assert slices(*slow) == 64
        assert slices(*slow, cost="10 us", goal="throughput") == 64

    def test_the_budget_is_divided_by_those_that_may_hold_rows(self) -> None:
        budget = wm.Budget(memory="64 MB")
        few = plan(shards=16, budget=budget, tuning=wm.Tuning(slices=2)).policy
        draining = plan(shards=16, budget=budget, tuning=wm.Tuning(slices=2, draining=8)).policy
        assert (few.memory, draining.memory) == (64_000_000 // 2, 64_000_000 // 8)
        assert few.on(16, reach=8).memory == draining.memory
        assert few.on(4).memory == few.memory

    @pytest.mark.parametrize(
        ("tuning", "then"),
        [
            (wm.Tuning(slices=4), (4, 4)),
            (wm.Tuning(slices=2, draining=4), (2, 4)),
            (None, (8, 8)),
        ],
        ids=["as many as the session has shards", "as many drain", "all"],
    )
    def test_a_checkpoint_with_more_shards_has_as_many_as_were_asked_for(
        self, tuning: wm.Tuning | None, then: tuple[int, int]
    ) -> None:
        policy = plan(shards=4, tuning=tuning).policy.on(8)
        assert (policy.slices, policy.reach) == then

    def test_without_it_all_are_used_and_explain_shows_the_curve(self) -> None:
        slow = stream("a", rows_per_second=1), stream("b", rows_per_second=1)
        planned = plan(*slow, shards=16, weights=SENDS)
        assert planned.policy.slices == 16
        text = explain(planned)
        assert planned.policy.expected_slices is not None
        best = planned.policy.expected_slices.best
        assert f"by the cost model, {best} for goal 'throughput'; to take it" in text
        assert "output, as a multiple of one slice's, by slices: 1: 1, " in text
        assert "20 ns to compare a pair, 1 ms to send a row of 16 bytes" in text
        # Equation 6 is about the number that runs: twice as many rows a second with half the work.
        few = plan(*slow, shards=16, weights=SENDS, tuning=wm.Tuning(slices=8))
        assert received(planned) == pytest.approx(2 * received(few))
        assert "with 16 slices, each never waits if it receives" in text
        assert "with 8 slices, each never waits if it receives" in explain(few)


def received(planned: RingPlan) -> float:
    expected = planned.policy.expected_slices
    assert expected is not None
    assert expected.bandwidth is not None
    return expected.bandwidth


def test_explain_shows_what_a_budget_means() -> None:
    text = explain(plan(budget=wm.Budget(memory="1 GB", fanout=100, overflow="fail")))
    assert "memory: 1 GB, 250 MB for each shard: the query stops" in text
    assert "at most 100 matches of one row in one slice" in text
    semi = explain(plan(how="semi", budget=wm.Budget(fanout=100, overflow="fail")))
    assert "fan-out: no limit, as a row comes once at most (semi join)" in semi


def test_batch_dataframes_need_no_windows() -> None:
    untimed = [replace(stream(name), streaming=False, time=None, delay=None) for name in "ab"]
    text = explain(plan(*untimed, within=None, how="anti"))
    assert "unmatched rows of a: emitted at the end of the run" in text
