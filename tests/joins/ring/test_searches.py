"""Joins by other conditions over the same rows: what is made of a segment for a search serves no
other search. Equal rows of another query, of another stream, or under another condition, are one
segment of the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests.conformance.join import at
from tests.conformance.strategies import INSTANT
from watersmeet.conditions.overlaps import Comparison, Rank
from watersmeet.conditions.predicate import SqlPredicate, input_name
from watersmeet.conditions.terms import Term
from watersmeet.testing import LocalBackend, LocalJoin, LocalStream

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("t", INSTANT)])
#: A segment of so many rows is kept open by a process.
ROWS = 2_000
VALUES = 100_000
MOST = 50


def near(column: str, one: int = 0, other: int = 1) -> Term:
    """Two streams' values of a column are close. That is searched, and not evaluated."""

    def rank(stream: int, plus: int = 0) -> Rank:
        value = pl.col(input_name(stream, column)) + plus
        return Rank(f"{stream}.{column} + {plus}", stream, (column,), "int", value)

    low = Comparison(rank(other, -MOST), rank(one), exact=True)
    high = Comparison(rank(one), rank(other, MOST), exact=True)
    read = ((one, column), (other, column))
    first, second = (pl.col(input_name(*each)) for each in read)
    close = (first - second).abs() <= MOST
    return Term(SqlPredicate(f"near by {column}", read, close), comparisons=(low, high))


TERMS = {"x": near("x"), "y": near("y"), "next x": near("x", 1, 2)}


@pytest.fixture(autouse=True)
def translated() -> Any:
    """Conditions are called by their names."""
    with mock.patch.object(LocalBackend, "translate", lambda _, sql: (TERMS[sql],)):
        yield


def batches(stream: int) -> list[pa.Table]:
    dice = np.random.default_rng(stream)
    return [
        pa.table(
            {"x": dice.integers(0, VALUES, ROWS), "y": dice.integers(0, VALUES, ROWS)}
        ).append_column(SCHEMA.field("t"), pa.array([at(batch)] * ROWS, INSTANT))
        for batch in range(3)
    ]


def joined(folder: Path, names: str, where: Any, **options: Any) -> LocalJoin:
    streams = {name: LocalStream(SCHEMA, time="t", delay="1 hour") for name in names}
    return LocalJoin(streams, where=where, within="1 hour", folder=str(folder), **options)


def found(column: str, left: list[pa.Table], right: list[pa.Table]) -> int:
    """How many pairs of rows are close, by comparing them all."""
    one, other = (
        np.concatenate([table.column(column).to_numpy() for table in side])
        for side in (left, right)
    )
    return int((np.abs(one[:, None] - other) <= MOST).sum())


def test_two_queries_that_run_side_by_side_search_the_same_rows_by_columns_of_their_own(
    tmp_path: Path,
) -> None:
    left, right = batches(1), batches(2)
    queries = {column: joined(tmp_path, "ab", [column]) for column in "xy"}
    results = dict.fromkeys(queries, 0)

    for a, b in zip(left, right, strict=True):
        for column, query in queries.items():
            results[column] += len(query.batch(a=a, b=b))

    assert results == {column: found(column, left, right) for column in "xy"}


def test_a_query_that_goes_on_with_another_condition_searches_stored_rows_by_that(
    tmp_path: Path,
) -> None:
    left, right = batches(1), batches(2)
    before = joined(tmp_path, "ab", ["x"])
    for a, b in zip(left[:2], right[:2], strict=True):
        before.batch(a=a, b=b)

    after = joined(tmp_path, "ab", ["y"], restart=before)

    expected = found("y", left, right) - found("y", left[:2], right[:2])
    assert len(after.batch(a=left[2], b=right[2])) == expected


def test_streams_of_equal_rows_are_searched_each_for_its_own_neighbours(tmp_path: Path) -> None:
    every = batches(1)
    query = joined(tmp_path, "abc", ["x", "next x"])

    results = sum(len(query.batch(a=rows, b=rows, c=rows)) for rows in every)

    values = np.concatenate([table.column("x").to_numpy() for table in every])
    close = (np.abs(values[:, None] - values) <= MOST).sum(axis=1)
    assert results == int((close**2).sum())  # those of a and of c that a row of b has
