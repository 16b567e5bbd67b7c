"""Comparisons as overlaps: what is put together, and what it says."""

from __future__ import annotations

import pickle
from types import ModuleType

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.conformance.strategies import examples
from watersmeet.conditions.overlaps import Comparison, Rank, Span, overlaps_of
from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.conditions.terms import Term, conjunction, searched

STREAMS = "abc"


def rank(name: str, kind: str = "int", *, below: bool = False) -> Rank:
    """A column as it is: ``"a.x"``."""
    stream = STREAMS.index(name[0])
    return Rank(name, stream, (name[2:],), kind, pl.col(f"{stream}.{name[2:]}"), below)


def at_most(low: str, high: str, **known: bool) -> Comparison:
    return Comparison(rank(low), rank(high, below=known.get("strict", False)), exact=True)


def texts(*comparisons: Comparison) -> list[str]:
    return [overlap.text for overlap in overlaps_of(comparisons)]


def test_a_range_is_one_overlap_of_a_point() -> None:
    (overlap,) = overlaps_of([at_most("b.lo", "a.x"), at_most("a.x", "b.hi")])
    assert overlap.streams == {0, 1}
    point = overlap.span(0).bounds([pa.array([3, None])])
    assert point.low is point.high
    assert point.known is not None
    assert point.known.tolist() == [True, False]
    assert overlap.span(1).columns == ("lo", "hi")


def test_two_intervals_are_one_overlap() -> None:
    both = at_most("a.lo", "b.hi", strict=True), at_most("b.lo", "a.hi", strict=True)
    assert texts(*both) == ["a.lo < b.hi and b.lo < a.hi"]


def test_comparisons_that_share_a_value_are_put_together_first() -> None:
    given = [
        at_most("b.left", "a.x"),
        at_most("b.top", "a.y"),
        at_most("a.y", "b.bottom"),
        at_most("a.x", "b.right"),
        at_most("a.x", "c.y"),
    ]
    assert sorted(texts(*given)) == [
        "a.x <= b.right and b.left <= a.x",
        "a.x <= c.y",
        "a.y <= b.bottom and b.top <= a.y",
    ]


def test_two_points_are_shown_as_equal() -> None:
    assert texts(at_most("a.x", "b.y"), at_most("b.y", "a.x")) == ["a.x = b.y"]


def test_numbers_of_different_kinds_are_not_put_together() -> None:
    days = Comparison(rank("b.day", "date"), rank("a.day", "date"), exact=True)
    assert len(texts(at_most("a.x", "b.y"), days)) == 2


def test_a_strict_end_is_the_number_before() -> None:
    span = Span(0, None, rank("a.x", below=True))
    bounds = span.bounds([pa.array([5, -(2**63), None])])
    assert bounds.high is not None
    assert bounds.known is not None
    assert bounds.high[0] == 4
    assert bounds.known.tolist() == [True, False, False]


def test_a_value_and_the_number_before_it_are_no_point() -> None:
    span = Span(0, rank("a.x"), rank("a.x", below=True))
    bounds = span.bounds([pa.array([5])])
    assert bounds.low is not bounds.high


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_it_travels_to_workers(pickler: ModuleType) -> None:
    overlaps = overlaps_of([at_most("b.lo", "a.x"), at_most("a.x", "b.hi")])
    copy = pickler.loads(pickler.dumps(overlaps))
    assert copy == overlaps
    point = copy[0].span(0).bounds([pa.array([3])])
    assert point.low is point.high


NAMES = [f"{stream}.{column}" for stream in "ab" for column in "xyz"]


@examples(60)
@given(
    pairs=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.booleans()).filter(
            lambda pair: pair[0][0] != pair[1][0]
        ),
        max_size=6,
    ),
    seed=st.integers(0, 2**32),
)
def test_overlaps_say_what_their_comparisons_say(
    pairs: list[tuple[str, str, bool]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    values = {
        name: pa.array(random.integers(0, 6, 40), mask=random.random(40) < 0.1) for name in NAMES
    }
    holds = np.ones(40, dtype=np.bool_)
    for low, high, strict in pairs:
        less = pl.col("low") < pl.col("high") if strict else pl.col("low") <= pl.col("high")
        frame = pl.DataFrame(
            {"low": pl.from_arrow(values[low]), "high": pl.from_arrow(values[high])}
        )
        holds &= frame.select(less.fill_null(False)).to_series().to_numpy()

    found = np.ones(40, dtype=np.bool_)
    every = np.arange(40)
    for overlap in overlaps_of([at_most(a, b, strict=strict) for a, b, strict in pairs]):
        one, other = (
            span.bounds([values[f"{STREAMS[span.stream]}.{name}"] for name in span.columns])
            for span in (overlap.first, overlap.second)
        )
        found &= one.overlap(every, other, every)
        for side in (one, other):
            found &= True if side.known is None else side.known
    assert found.tolist() == holds.tolist()


def term(text: str, *comparisons: Comparison) -> Term:
    predicate = SqlPredicate(text, ((0, text),), pl.col(f"0.{text}"))
    return Term(predicate, comparisons=comparisons)


def test_what_a_search_decides_is_not_evaluated_and_the_rest_is() -> None:
    loose = Comparison(rank("a.x", "sum"), rank("b.x", "sum"), exact=False)
    terms = [term("exact", at_most("a.x", "b.y")), term("loose", loose), term("other")]
    overlaps, rest = searched(terms)
    assert len(overlaps) == 2
    assert [left.text for left in rest] == ["loose", "other"]


def test_terms_together_are_one_predicate() -> None:
    assert conjunction([]) is None
    both = conjunction([term("p"), term("q"), term("p")])
    assert both is not None
    assert both.text == "p AND q"
    assert both.columns == ((0, "p"), (0, "q"))
    given = [pa.array([True, True, None]), pa.array([True, False, True])]
    assert both.mask(given).tolist() == [True, False, False]
