"""Python functions as conditions: what is refused, when, and how a failing one reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from watersmeet.errors import PredicateError, PredicateFunctionError, UnknownColumnError
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


def less(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less(a["n"], b["n"])


def joined(where: Any, folder: Path, how: str = "inner") -> LocalJoin:
    streams = {"a": LocalStream(SCHEMA), "b": LocalStream(SCHEMA)}
    return LocalJoin(streams, on="k", where=where, how=how, unbounded=True, folder=str(folder))


def rows(*values: int) -> pa.Table:
    return pa.table({"k": [1] * len(values), "n": values}, SCHEMA)


@pytest.mark.parametrize("how", ["inner", "semi"])
@pytest.mark.parametrize(
    "function",
    [
        less,
        lambda a, b: np.asarray(a["n"]) < np.asarray(b["n"]),
        lambda a, b: [x < y for x, y in zip(a["n"].to_pylist(), b["n"].to_pylist(), strict=True)],
    ],
    ids=["Arrow", "numpy", "list"],
)
def test_it_decides_what_matches(tmp_path: Path, how: str, function: Callable[..., Any]) -> None:
    join = joined(wm.predicate(function, "a", "b"), tmp_path, how)
    result = join.batch(a=rows(1, 5), b=rows(3))
    assert result.column("n" if how == "semi" else "a_n").to_pylist() == [1]


def test_it_gets_the_columns_it_asks_for(tmp_path: Path) -> None:
    seen = []

    def looking(a: pa.Table, b: pa.Table) -> pa.Array:
        seen.append((a.column_names, b.column_names))
        return pa.array([True] * len(a))

    join = joined(wm.predicate(looking, "a", "b", columns={"a": ["n"]}), tmp_path)
    join.batch(a=rows(1), b=rows(2))
    assert seen == [(["n"], ["k", "n"])]


@pytest.mark.parametrize(
    ("arguments", "columns", "message"),
    [
        (("less", "a", "b"), None, "'less' is not a function"),
        ((less,), None, "are not names of streams"),
        ((less, "a", "a"), None, "names a stream twice"),
        ((less, "a"), None, "each of the 1 streams a: missing a required argument: 'b'"),
        ((lambda a: a, "a", "b"), None, "each of the 2 streams a, b: too many positional"),
        ((less, "a", "b"), 3, "columns=3 is not a dict"),
        ((less, "a", "b"), {"a": "n"}, "columns['a']='n' is not a list of columns"),
        ((less, "a", "b"), {"a": []}, "columns['a']=[] is not a list of columns"),
        ((less, "a", "b"), {"c": ["n"]}, "the function does not get 'c', but a, b"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[Any, ...], columns: Any, message: str
) -> None:
    with pytest.raises(PredicateError) as error:
        wm.predicate(*arguments, columns=columns)
    assert message in str(error.value)


def test_streams_and_columns_are_looked_up_when_the_join_is_planned(tmp_path: Path) -> None:
    with pytest.raises(PredicateError, match="'x' is not one of the streams a, b"):
        joined(wm.predicate(less, "a", "x"), tmp_path)
    with pytest.raises(UnknownColumnError, match=r"where=less\(a, b\): .* has no column 'm'"):
        joined(wm.predicate(less, "a", "b", columns={"a": ["m"]}), tmp_path)


def test_sql_needs_spark_and_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(PredicateError, match="where='a.n < b.n': SQL needs Spark.*wm.predicate"):
        joined("a.n < b.n", tmp_path)


def failing(a: pa.Table, b: pa.Table) -> pa.Array:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (failing, "failing(a, b): it raised ZeroDivisionError: by zero"),
        (lambda a, b: pa.array([1] * len(a)), "it returned values of type int64"),
        (lambda a, b: pa.array([True, False, True]), "it returned 3 values for 1 rows"),
        (lambda a, b: 7, "it returned a int"),
        (lambda a, b: np.ones(len(a), dtype=np.complex128), "it returned a ndarray: "),
        (lambda a, b: [1 << 70], "it returned a list: "),
        (lambda a, b: (1 // 0 for _ in range(len(a))), "a generator: ZeroDivisionError: "),
    ],
)
def test_a_failing_function_stops_the_step_and_a_corrected_one_goes_on(
    tmp_path: Path, function: Callable[..., Any], message: str
) -> None:
    join = joined(wm.predicate(function, "a", "b"), tmp_path)
    join.batch(a=rows(1))
    with pytest.raises(PredicateFunctionError) as error:
        join.batch(b=rows(3))
    assert message in str(error.value)
    assert "[{'k': 1, 'n': 1}], [{'k': 1, 'n': 3}]" in str(error.value)
    again = LocalJoin(
        {"a": LocalStream(SCHEMA), "b": LocalStream(SCHEMA)},
        on="k",
        where=wm.predicate(less, "a", "b"),
        unbounded=True,
        restart=join,
    )
    assert again.batch(b=rows(3)).num_rows == 1


def test_null_is_no_match(tmp_path: Path) -> None:
    join = joined(wm.predicate(lambda a, b: pa.nulls(len(a)), "a", "b"), tmp_path)
    assert join.batch(a=rows(1), b=rows(2)).num_rows == 0
