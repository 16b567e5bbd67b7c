"""A condition alone: what of it becomes the key and the windows, and that nothing of it is lost.

The terms are given as Spark's translation gives them (tests/spark/sql/test_terms.py); no JVM."""

from __future__ import annotations

import atexit
import functools
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.strategies import examples, until_shown
from tests.plan.asking import explain, plan_join
from tests.plan.test_explain import CLICKS, VIEWS, EightShards
from watersmeet.conditions.conjunction import Conditions
from watersmeet.conditions.overlaps import Comparison, Rank
from watersmeet.conditions.predicate import SqlPredicate, input_name
from watersmeet.conditions.terms import ColumnOf, Equality, Gap, Term
from watersmeet.errors import PlanError, PredicateError, UnboundedStateError, WindowError
from watersmeet.joins.equi.plan import EquiPlan
from watersmeet.joins.ring.plan import RingPlan
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.spec.stream import Column, StreamSpec
from watersmeet.testing import LocalBackend, LocalJoin, LocalStream

SECOND = 1_000_000
MINUTE = 60 * SECOND
VIEWED, CLICKED, SOLD = (0, "viewed_at"), (1, "clicked_at"), (2, "sold_at")
SALES = StreamSpec(
    "sales",
    (Column("ad_id", "int"), Column("ref", "int"), Column("sold_at", "timestamp")),
    streaming=True,
    time="sold_at",
    delay=0,
)


def term(text: str, *columns: ColumnOf, **known: Any) -> Term:
    return Term(SqlPredicate(text, columns, pl.lit(True)), **known)


def equal(left: ColumnOf, right: ColumnOf) -> Term:
    return term(f"{left} = {right}", left, right, equality=Equality(left, right))


def apart(later: ColumnOf, earlier: ColumnOf, most: int, *, exact: bool = True) -> Term:
    gap = Gap(later, earlier, most, exact)
    return term(f"{later} - {earlier} <= {most}", later, earlier, gaps=(gap,))


KEY = equal((0, "ad_id"), (1, "ad_id"))
WITHIN = apart(CLICKED, VIEWED, 5 * MINUTE), apart(VIEWED, CLICKED, 0)
DEARER = term("clicks.bid > views.price", (1, "bid"), (0, "price"))


class Translated(EightShards):
    """A backend that has translated the condition already."""

    def __init__(self, *terms: Term) -> None:
        self.terms = terms

    def translate(self, sql: str) -> tuple[Term, ...]:
        return self.terms


def planned(*terms: Term, streams: Any = (VIEWS, CLICKS), **options: Any) -> EquiPlan:
    return plan_join(streams, Translated(*terms), **{"where": "the condition", **options})


def test_equalities_become_keys_and_gaps_of_times_windows() -> None:
    plan = planned(KEY, *WITHIN, DEARER)

    assert plan.spec.keys == (("ad_id",), ("ad_id",))
    assert plan.spec.windows == (5 * MINUTE, 0)
    assert plan.spec.where == "clicks.bid > views.price"
    assert plan.predicate is not None
    assert plan.predicate.columns == ((1, "bid"), (0, "price"))


def test_a_condition_of_nothing_but_keys_and_windows_leaves_nothing_to_evaluate() -> None:
    plan = planned(KEY, *WITHIN)

    assert plan.predicate is None
    assert plan.spec.where is None


def test_explain_says_what_was_recognised() -> None:
    between = "clicks.clicked_at BETWEEN views.viewed_at AND views.viewed_at + INTERVAL 5 MINUTES"
    halves = [term(between, gaps=gap.gaps) for gap in WITHIN]
    text = explain(planned(KEY, *halves, DEARER))

    assert (
        f"""\
├─ read from where
│  ├─ {KEY.text}: key
│  ├─ {between}: windows
│  └─ clicks.bid > views.price: evaluated
"""
        in text
    )
    assert "clicks.clicked_at - views.viewed_at <= 5 min" in text


def test_what_a_window_does_not_express_is_evaluated_too() -> None:
    one_to_five = apart(CLICKED, VIEWED, 5 * MINUTE), apart(VIEWED, CLICKED, -MINUTE)
    plan = planned(KEY, *one_to_five)

    assert plan.spec.windows == (5 * MINUTE, 0)
    assert plan.spec.where == one_to_five[1].text
    assert plan.reading[1:] == (
        f"{one_to_five[0].text}: windows",
        f"{one_to_five[1].text}: windows, evaluated",
    )


def test_a_gap_that_is_not_exact_bounds_the_state_and_is_evaluated() -> None:
    month = apart(CLICKED, VIEWED, 31 * 86_400 * SECOND, exact=False)
    plan = planned(KEY, month, apart(VIEWED, CLICKED, 0))

    assert plan.spec.windows == (31 * 86_400 * SECOND, 0)
    assert plan.spec.where == month.text


def test_the_narrower_of_two_limits_is_the_window() -> None:
    narrow = apart(CLICKED, VIEWED, MINUTE)
    for terms in ((KEY, *WITHIN, narrow), (KEY, narrow, *WITHIN)):
        plan = planned(*terms)

        assert plan.spec.windows == (MINUTE, 0)
        assert plan.spec.where is None


def test_columns_of_a_type_that_cannot_be_a_key_are_compared() -> None:
    lasting = Column("lasting", "interval day to second")
    streams = [replace(stream, columns=(*stream.columns, lasting)) for stream in (VIEWS, CLICKS)]
    as_long = equal((0, "lasting"), (1, "lasting"))
    plan = planned(KEY, *WITHIN, as_long, streams=streams)

    assert plan.spec.keys == (("ad_id",), ("ad_id",))
    assert plan.spec.where == as_long.text


def test_limits_of_other_columns_than_the_times_are_evaluated() -> None:
    other = apart((1, "shown_at"), VIEWED, MINUTE)
    plan = planned(KEY, *WITHIN, other)

    assert plan.spec.windows == (5 * MINUTE, 0)
    assert plan.spec.where == other.text


def test_a_limit_on_one_side_only_is_no_window_and_the_error_names_the_other() -> None:
    missing = "where does not limit clicks.clicked_at - views.viewed_at"
    with pytest.raises(UnboundedStateError, match=missing):
        planned(KEY, apart(VIEWED, CLICKED, 0))
    with pytest.raises(WindowError, match=missing):
        planned(KEY, apart(VIEWED, CLICKED, 0), how="left", unbounded=True)

    plan = planned(KEY, apart(VIEWED, CLICKED, 0), unbounded=True)
    assert plan.spec.windows == (None, None)
    assert plan.spec.where == apart(VIEWED, CLICKED, 0).text


def test_a_second_column_of_a_stream_is_compared_and_no_key() -> None:
    second = equal((0, "ad_id"), (1, "other_ad"))
    clicks = replace(CLICKS, columns=(*CLICKS.columns, Column("other_ad", "bigint")))
    plan = planned(KEY, *WITHIN, second, streams=(VIEWS, clicks))

    assert plan.spec.keys == (("ad_id",), ("ad_id",))
    assert plan.spec.where == second.text


def test_equal_columns_of_three_streams_are_one_key() -> None:
    b_c = equal((1, "ad_id"), (2, "ref"))
    times = [
        apart(later, earlier, MINUTE)
        for later, earlier in ((CLICKED, VIEWED), (VIEWED, CLICKED), (SOLD, CLICKED))
    ]
    soon = apart(CLICKED, SOLD, 0)
    plan = planned(KEY, b_c, *times, soon, streams=(VIEWS, CLICKS, SALES))

    assert plan.spec.keys == (("ad_id",), ("ad_id",), ("ref",))
    # By way of the clicks, a sale is at most two minutes after a view.
    assert plan.spec.windows == (2 * MINUTE, MINUTE, MINUTE)
    assert plan.spec.where == " AND ".join([times[0].text, soon.text])


def test_a_key_of_two_of_three_streams_is_none() -> None:
    plan = planned(KEY, streams=(VIEWS, CLICKS, SALES), within="1 minute")

    assert isinstance(plan, RingPlan)
    assert plan.spec.conditions == (KEY.text,)


def test_without_an_equality_it_is_a_join_without_a_key() -> None:
    plan = planned(*WITHIN, DEARER)

    assert isinstance(plan, RingPlan)
    assert plan.spec.windows == (5 * MINUTE, 0)
    assert plan.spec.conditions == (DEARER.text,)
    assert plan.reading[-1] == f"{DEARER.text}: evaluated"


@pytest.mark.parametrize(
    ("exact", "key", "read"),
    [(True, (), "searched"), (False, (), "searched, evaluated"), (True, (KEY,), "evaluated")],
)
def test_what_has_an_order_is_searched_where_there_is_no_key(
    exact: bool, key: tuple[Term, ...], read: str
) -> None:
    bid, price = (1, "bid"), (0, "price")
    low, high = (Rank(named(of), of[0], (of[1],), "double", column(of)) for of in (price, bid))
    dearer = term(DEARER.text, bid, price, comparisons=(Comparison(low, high, exact=exact),))
    plan = planned(*key, *WITHIN, dearer)

    assert plan.reading[-1] == f"{DEARER.text}: {read}"


def test_a_condition_of_nothing_but_windows_compares_nothing() -> None:
    plan = planned(*WITHIN)

    assert isinstance(plan, RingPlan)
    assert (plan.spec.where, plan.conditions) == (None, Conditions())


def test_without_a_condition_the_error_names_what_is_missing() -> None:
    with pytest.raises(PlanError, match="on: missing. Name the column"):
        planned(where=None)


def test_what_on_and_within_say_is_not_looked_for_in_the_condition() -> None:
    terms = KEY, *WITHIN, DEARER
    both = planned(*terms, on="ad_id", within="1 hour")
    assert both.spec.windows == (3_600 * SECOND,) * 2
    assert both.spec.where == "the condition"
    assert both.reading == ()
    assert both.predicate is not None
    assert "clicks.bid > views.price" in both.predicate.text
    assert KEY.text in both.predicate.text

    keyed = planned(*terms, on="ad_id")
    assert keyed.spec.windows == (5 * MINUTE, 0)
    assert keyed.spec.where == f"{KEY.text} AND clicks.bid > views.price"

    timed = planned(*terms, within="1 hour")
    assert timed.spec.keys == (("ad_id",), ("ad_id",))
    assert timed.spec.windows == (3_600 * SECOND,) * 2


@pytest.mark.parametrize("on", [None, "ad_id"])
def test_a_condition_of_a_left_join_of_many_streams_is_refused(on: str | None) -> None:
    with pytest.raises(PredicateError, match="it would not be clear which match"):
        planned(KEY, streams=(VIEWS, CLICKS, SALES), how="left", on=on)


def test_a_key_alone_is_the_condition_of_a_left_join_of_many_streams() -> None:
    streams, sold = (VIEWS, CLICKS, SALES), equal((2, "ref"), (0, "ad_id"))
    plan = planned(KEY, sold, streams=streams, how="left", within="1 minute")
    assert plan.spec.keys == (("ad_id",), ("ad_id",), ("ref",))
    assert plan.spec.where is None
    # A sale that matches a click which matches no view matches nothing in such a join.
    by_click = equal((2, "ref"), (1, "ad_id"))
    with pytest.raises(
        PredicateError, match=r"as in 'views\.k = clicks\.k AND views\.k = sales\.k'"
    ):
        planned(KEY, by_click, streams=streams, how="left", within="1 minute")


def test_a_condition_that_always_holds_matches_all_that_the_windows_allow() -> None:
    plan = planned(within="1 minute", where="true")
    assert isinstance(plan, RingPlan)
    assert (plan.spec.where, plan.conditions) == (None, Conditions())
    assert plan.warnings() == []
    keyed = planned(within="1 minute", where="true", on="ad_id")
    assert isinstance(keyed, EquiPlan)
    assert keyed.predicate is None


# --- random conditions, beside the same in DuckDB


@dataclass(frozen=True)
class Said:
    """A term, and the same in DuckDB's SQL."""

    sql: str
    term: Term


SCHEMA = pa.schema(
    [("id", pa.int64()), ("k", pa.int64()), ("l", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
)
START = datetime(2024, 1, 1, tzinfo=UTC)


def column(of: ColumnOf) -> pl.Expr:
    return pl.col(input_name(*of))


def named(of: ColumnOf) -> str:
    return f"{'abc'[of[0]]}.{of[1]}"


def said_equal(left: ColumnOf, right: ColumnOf) -> Said:
    sql = f"{named(left)} = {named(right)}"
    predicate = SqlPredicate(sql, (left, right), column(left) == column(right))
    return Said(sql, Term(predicate, equality=Equality(left, right)))


def said_apart(later: int, earlier: int, seconds: int, exact: bool) -> Said:
    one, other = (later, "at"), (earlier, "at")
    sql = f"epoch_us({named(one)}) - epoch_us({named(other)}) <= {seconds * SECOND}"
    fits = (column(one) - column(other)).dt.total_microseconds() <= seconds * SECOND
    if exact:
        gap = Gap(one, other, seconds * SECOND, exact)
        return Said(sql, Term(SqlPredicate(sql, (one, other), fits), gaps=(gap,)))
    # What is known of the times is less than what the term says.
    odd = (later, "id")
    sql = f"({sql} AND {named(odd)} % 2 = 1)"
    predicate = SqlPredicate(sql, (one, other, odd), fits & (column(odd) % 2 == 1))
    return Said(sql, Term(predicate, gaps=(Gap(one, other, (seconds + 2) * SECOND, exact),)))


def said_less(one: int, other: int) -> Said:
    left, right = (one, "l"), (other, "l")
    sql = f"{named(left)} <= {named(right)}"
    predicate = SqlPredicate(sql, (left, right), column(left) <= column(right))
    low, high = (Rank(named(of), of[0], (of[1],), "int", column(of)) for of in (left, right))
    return Said(sql, Term(predicate, comparisons=(Comparison(low, high, exact=True),)))


@st.composite
def conditions(draw: st.DrawFn, streams: int) -> list[Said]:
    """Most have a key of all streams, and limits of all times, if only by way of others."""
    neighbours = [(i, j) for i in range(streams) for j in range(streams) if abs(i - j) == 1]
    keyed, mostly = st.sampled_from(["k", "k", "k", "l"]), st.sampled_from([True] * 9 + [False])
    seconds = st.integers(-2, 6) if streams == 2 else st.integers(1, 9)
    said = [
        said_equal((i, draw(keyed)), (i + 1, draw(keyed)))
        for i in range(streams - 1)
        if draw(mostly)
    ]
    said += [
        said_apart(i, j, draw(seconds), draw(st.integers(0, 3)) > 0)
        for i, j in neighbours
        if draw(mostly)
    ]
    pairs = st.sampled_from([(0, streams - 1), (streams - 1, 0)])
    further = st.one_of(
        st.tuples(pairs, keyed, keyed).map(
            lambda given: said_equal((given[0][0], given[1]), (given[0][1], given[2]))
        ),
        pairs.map(lambda pair: said_less(*pair)),
    )
    said += draw(st.lists(further, max_size=2))
    return list(draw(st.permutations(said))) or [said_less(0, 1)]


def tables(streams: int, seed: int) -> dict[str, pa.Table]:
    """Rows of few different keys and times, some of them null."""
    random = np.random.default_rng(seed)

    def column(most: int) -> list[int | None]:
        values = random.integers(0, most, 12).tolist()
        return [value if random.random() < 0.9 else None for value in values]

    given = {}
    for name in "abc"[:streams]:
        rows = int(random.integers(0, 13))
        at = [None if s is None else START + timedelta(seconds=s) for s in column(12)]
        columns = {"id": list(range(12)), "k": column(3), "l": column(3), "at": at}
        given[name] = pa.table(columns, SCHEMA).slice(0, rows)
    return given


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all: it takes far longer to open than to ask."""
    atexit.register(database.cache_clear)
    return duckdb.connect(config={"threads": 1})


def expected(given: dict[str, pa.Table], said: list[Said], how: str) -> Counter[tuple[Any, ...]]:
    """The pairs or triples of ids, by DuckDB."""
    on = " AND ".join(each.sql for each in said)
    first, *others = given
    joins = [f"{how} JOIN {name} ON {on if name == others[-1] else 'true'}" for name in others]
    shown = [first] if how in ("semi", "anti") else list(given)
    ids = ", ".join(f"{name}.id" for name in shown)
    with database().cursor() as cursor:
        for name, table in given.items():
            cursor.register(name, table)
        return Counter(cursor.sql(f"SELECT {ids} FROM {first} {' '.join(joins)}").fetchall())


def found(
    given: dict[str, pa.Table],
    said: list[Said],
    how: str,
    cut: int,
    folder: Path,
    shown: Counter[str],
) -> Counter[tuple[Any, ...]] | None:
    """The same by a join; None if it cannot be planned."""
    streams = {name: LocalStream(SCHEMA, time="at", delay=timedelta(days=1)) for name in given}
    terms = tuple(each.term for each in said)
    with mock.patch.object(LocalBackend, "translate", return_value=terms):
        try:
            join = LocalJoin(
                streams,
                where="the condition",
                how=how,
                unbounded=True,
                folder=str(folder),
            )
        except PlanError:
            return None
    if isinstance(join.plan, RingPlan):
        shown["ring"] += 1
        shown["searched"] += len(join.plan.conditions.overlaps) > 0
    parts = [
        {name: t.slice(0, cut) for name, t in given.items()},
        {n: t.slice(cut) for n, t in given.items()},
    ]
    results = [*(join.batch(**part) for part in parts), join.finish()]
    names = ["id"] if how in ("semi", "anti") else [f"{name}_id" for name in given]
    counted: Counter[tuple[Any, ...]] = Counter()
    for result in results:
        counted.update(zip(*(result.column(name).to_pylist() for name in names), strict=True))
    return counted


@pytest.mark.parametrize("streams", [2, 3])
def test_a_condition_alone_gives_what_it_gives_in_sql(streams: int, tmp_path: Path) -> None:
    shown: Counter[str] = Counter()

    @examples(120 if streams == 2 else 60)
    @given(
        seed=st.integers(0, 2**32),
        said=conditions(streams),
        how=st.sampled_from(JOIN_NAMES if streams == 2 else ["inner"]),
        cut=st.integers(0, 12),
    )
    def check(seed: int, said: list[Said], how: str, cut: int) -> None:
        rows = tables(streams, seed)
        results = found(rows, said, how, cut, tmp_path, shown)
        if results is None:
            shown["refused"] += 1
            return
        assert results == expected(rows, said, how)
        shown["results"] += sum(results.values())

    until_shown(
        check,
        lambda: (
            shown["results"] > 100
            and shown["ring"] > shown["searched"] > 0
            and shown["refused"] >= 3 - streams
        ),
        "results, joins with a key and without one, refusals",
    )
