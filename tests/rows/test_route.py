"""Rows go where their content says, in whatever order they come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.rows.columns import CODE, TIME, value_name
from watersmeet.rows.route import ByKey, Route, StoredInOne
from watersmeet.rows.types import UTC

N = value_name(1)


def rows(count: int) -> pa.RecordBatch:
    """Every other row has a null key."""
    codes = [None if number % 2 else number for number in range(count)]
    times = pa.array(np.arange(count) * 1_000_000).view(UTC)
    nested = pa.array([[number] for number in range(count)])
    return pa.RecordBatch.from_pydict(
        {CODE: pa.array(codes, pa.int64()), TIME: times, N: np.arange(count), "#2": nested}
    )


def shard_of(route: Route, given: pa.RecordBatch) -> dict[int, int]:
    """For each row, by its number, the shard that stores it."""
    return {
        row[N]: shard
        for shard, part in route.deal(given, 3)
        for row in part.to_pylist()
        if row.get("#home", True)
    }


@pytest.mark.parametrize("route", [ByKey(), StoredInOne()], ids=str)
def test_rows_with_a_null_key_go_by_their_content_not_by_their_position(route: Route) -> None:
    given = rows(300)
    shuffled = given.take(pa.array(np.random.default_rng(1).permutation(300)))
    assert shard_of(route, given) == shard_of(route, shuffled)
    nulls = [shard for number, shard in shard_of(route, given).items() if number % 2]
    assert all(sizes > 30 for sizes in np.bincount(nulls, minlength=3)), "they are spread"


def test_rows_that_have_nothing_but_a_null_key_have_a_shard() -> None:
    given = pa.RecordBatch.from_pydict({CODE: pa.array([None, None], pa.int64())})
    assert sum(len(part) for _, part in ByKey().deal(given, 3)) == 2
