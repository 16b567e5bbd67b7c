"""A predicate over Arrow columns."""

from __future__ import annotations

import datetime as dt
import pickle
import time
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from watersmeet.conditions.predicate import AllOf, FunctionPredicate, SqlPredicate
from watersmeet.errors import PredicateFunctionError

PRICE_BELOW_BID = SqlPredicate(
    "views.price < clicks.bid", ((0, "price"), (1, "bid")), pl.col("0.price") < pl.col("1.bid")
)

NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


def test_null_is_not_a_match() -> None:
    mask = PRICE_BELOW_BID.mask([pa.array([1, 3, None, 1]), pa.array([2, 2, 2, None])])
    assert mask.dtype == np.bool_
    assert mask.tolist() == [True, False, False, False]


def test_arrays_and_chunked_arrays_mix() -> None:
    mask = PRICE_BELOW_BID.mask([pa.chunked_array([[1], [5, 1]]), pa.array([2, 2, 2])])
    assert mask.tolist() == [True, False, True]


def test_no_candidates_give_an_empty_mask() -> None:
    empty = pa.chunked_array([], type=pa.int64())
    assert PRICE_BELOW_BID.mask([empty, empty]).tolist() == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([Decimal("1.10"), Decimal("1.20")], pa.decimal128(10, 2)),
        (["a", "b"], pa.string()),
        ([b"a", b"b"], pa.binary()),
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], pa.date32()),
        ([dt.timedelta(0), dt.timedelta(1)], pa.duration("us")),
        ([NOON, NOON + dt.timedelta(1)], pa.timestamp("us", tz="Europe/Vienna")),
    ],
)
def test_every_ordered_type_compares(values: list[object], kind: pa.DataType) -> None:
    low, high = pa.array(values, kind), pa.array(values[::-1], kind)
    assert PRICE_BELOW_BID.mask([low, high]).tolist() == [True, False]


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_it_travels_to_workers(pickler: ModuleType) -> None:
    copy = pickler.loads(pickler.dumps(PRICE_BELOW_BID))
    assert copy == PRICE_BELOW_BID
    assert hash(copy) == hash(PRICE_BELOW_BID)
    assert copy.mask([pa.array([1]), pa.array([2])]).tolist() == [True]


def test_the_wrong_number_of_columns_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="needs 2 columns, not 1"):
        PRICE_BELOW_BID.mask([pa.array([1])])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([True, False, True]), [True, False, True]),
        (np.ma.array([True, True, False], mask=[False, True, False]), [True, False, False]),
        (pa.array([True, None, False]), [True, False, False]),
        ([None, True, None], [False, True, False]),
        (pa.chunked_array([[True], [False, None]]), [True, False, False]),
    ],
    ids=["numpy", "masked", "arrow", "list", "chunks"],
)
def test_what_a_function_may_return(given: Any, expected: list[bool]) -> None:
    predicate = FunctionPredicate("f(a)", ((0, "x"),), lambda a: given, (0,))
    assert predicate.mask([pa.array([1, 2, 3])]).tolist() == expected
    assert predicate.satisfying([pa.array([1, 2, 3])]).tolist() == np.flatnonzero(expected).tolist()


def test_a_function_cannot_change_rows_that_are_compared_again() -> None:
    # Given functions that work in place, on memory that Arrow would let them write to,
    def of_texts(a: pa.Table) -> np.ndarray:
        np.frombuffer(a["s"].chunk(0).buffers()[2], np.uint8)[:] = 0
        return np.ones(len(a), dtype=np.bool_)

    def of_lists(a: pa.Table) -> np.ndarray:
        np.frombuffer(a["xs"].chunk(0).values.buffers()[1], np.int64)[:] = 0
        return np.ones(len(a), dtype=np.bool_)

    texts, lists = pa.array(["abc", "de"]), pa.chunked_array([[[1, 2]], [[3]]])
    for name, function, rows in (("s", of_texts, texts), ("xs", of_lists, lists)):
        # when they are applied, then the error names them, and the rows are as they were.
        predicate = FunctionPredicate(f"{function.__name__}(a)", ((0, name),), function, (0,))
        with pytest.raises(
            PredicateFunctionError, match=rf"where: {function.__name__}\(a\): .*only"
        ):
            predicate.mask([rows])
    assert texts.to_pylist() == ["abc", "de"]
    assert lists.to_pylist() == [[1, 2], [3]]


def test_of_several_those_come_first_that_reject_most_for_their_time() -> None:
    # Given a function that takes long and rejects nothing, and one that is quick and rejects most,
    seen = {"slow": 0, "quick": 0}

    def slow(a: pa.Table) -> np.ndarray:
        seen["slow"] += len(a)
        time.sleep(0.001)
        return np.ones(len(a), dtype=np.bool_)

    def quick(a: pa.Table) -> np.ndarray:
        seen["quick"] += len(a)
        return a["x"].to_numpy() % 100 == 0

    functions = [FunctionPredicate(f.__name__, ((0, "x"),), f, (0,)) for f in (slow, quick)]
    both = AllOf(tuple(functions))
    # when they are applied to many rows, whatever the order in which they are given,
    numbers = pa.array(range(10_000))
    found = [both.satisfying([numbers]).tolist() for _ in range(3)]
    # then the slow one sees few, and the result is that of both.
    assert found == [list(range(0, 10_000, 100))] * 3
    assert seen["quick"] == 3 * 10_000
    assert seen["slow"] < 600
    assert pickle.loads(pickle.dumps(AllOf((PRICE_BELOW_BID,)))) == AllOf((PRICE_BELOW_BID,))
