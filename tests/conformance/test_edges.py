"""Rows exactly at, a microsecond inside and a microsecond outside each bound."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.strategies import INSTANT
from watersmeet.spec.limits import Limits
from watersmeet.spec.tuning import Tuning
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64())])
START = 1_700_000_000_000_000
#: The windows of a and b, in microseconds.
W_A, W_B = 2_000_000, 1_000_000
WINDOWS = {"a": W_A, "b": W_B, "c": W_B}


def rows(*times: int, key: int = 1) -> pa.Table:
    """One row for each time, all of one key; they are numbered."""
    instants = pa.array([START + time for time in times], pa.int64()).view(INSTANT)
    return pa.table([[key] * len(times), instants, list(range(len(times)))], schema=SCHEMA)


def joined(folder: Path, how: str = "inner", names: str = "ab", **tuning: Any) -> LocalJoin:
    stream = LocalStream(SCHEMA, time="t", delay=timedelta(0))
    return LocalJoin(
        dict.fromkeys(names, stream),
        on="k",
        within={name: timedelta(microseconds=WINDOWS[name]) for name in names},
        how=how,
        tuning=Tuning(**{"index": "always", **tuning}),
        folder=str(folder),
    )


#: Times of b, relative to one of a: before, at and after both bounds, and in between.
AROUND = [-W_B - 1, -W_B, -W_B + 1, 0, W_A - 1, W_A, W_A + 1]
MATCHING = [1, 2, 3, 4, 5]


@pytest.mark.parametrize("index", ["always", "never"])
@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("extra", [0, 50])
def test_both_ends_belong_to_the_window(tmp_path: Path, index: str, first: str, extra: int) -> None:
    """Whichever stream is stored first, with few new rows and with many."""
    join = joined(tmp_path, index=index)
    middle = 10 * W_A
    far = [100 * W_A + number for number in range(extra)]
    given = {"a": rows(middle, *far), "b": rows(*(middle + time for time in AROUND))}
    results = join.batch(**{first: given.pop(first)}).to_pylist()
    results += join.batch(**given).to_pylist()
    assert sorted(row["b_n"] for row in results) == MATCHING


@pytest.mark.parametrize("index", ["always", "never"])
@pytest.mark.parametrize("last", ["a", "b"])
def test_so_it_is_for_segments_of_a_single_row(
    tmp_path: Path, index: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment that only touches a bound is probed."""
    monkeypatch.setattr(LocalJoin, "limits", Limits(fan=100))
    join = joined(tmp_path, index=index)
    middle = 10 * W_A
    one, several = rows(middle), rows(*(middle + time for time in AROUND))
    batches = [{"b": several.slice(n, 1)} for n in range(len(AROUND))]
    batches.insert(len(batches) if last == "a" else 0, {"a": one})
    results = [row for batch in batches for row in join.batch(**batch).to_pylist()]
    assert sorted(row["b_n"] for row in results) == MATCHING


@pytest.mark.parametrize("driver", ["a", "b", "c"])
def test_so_it_is_for_many_streams(tmp_path: Path, driver: str) -> None:
    join = joined(tmp_path, names="abc")
    middle = 10 * W_A
    batches = {
        "a": rows(middle),
        "b": rows(*(middle + time for time in AROUND)),
        "c": rows(middle),
    }
    last = batches.pop(driver)
    join.batch(**batches)
    results = join.batch(**{driver: last}).to_pylist()
    # A row of b may be W_A behind a, but no more than W_B behind c.
    fitting = [n for n in MATCHING if abs(AROUND[n]) <= W_B]
    assert sorted(row["b_n"] for row in results) == fitting


@pytest.mark.parametrize("index", ["always", "never"])
@pytest.mark.parametrize("invalidation", ["active", "lazy"])
@pytest.mark.parametrize(
    ("names", "waiting"), [("ab", "a"), ("ab", "b"), ("abc", "a"), ("abc", "c")]
)
def test_a_row_stays_as_long_as_it_can_match(
    tmp_path: Path, index: str, invalidation: str, names: str, waiting: str
) -> None:
    join = joined(tmp_path, index=index, names=names, invalidation=invalidation)
    watermark = 10 * W_A
    # Given a segment of rows, the newest of which expires a microsecond after the watermark,
    until = watermark - WINDOWS[waiting]
    join.batch(**{waiting: rows(until - 5, until, until + 1)})
    join.batch(**{name: rows(watermark, key=2) for name in names})
    # when the watermark has come so far that all but that one have expired,
    join.batch()
    # then it still matches the first rows that are not late.
    first = rows(watermark + 1)
    results = join.batch(**{name: first for name in names if name != waiting}).to_pylist()
    assert [row[f"{waiting}_n"] for row in results] == [2]


@pytest.mark.parametrize(
    ("how", "names", "waiting"),
    [
        ("left", "ab", "a"),
        ("full", "ab", "a"),
        ("anti", "ab", "a"),
        ("right", "ab", "b"),
        ("full", "ab", "b"),
        ("left", "abc", "a"),
    ],
)
def test_a_row_is_unmatched_at_its_deadline_and_not_before(
    tmp_path: Path, how: str, names: str, waiting: str
) -> None:
    join = joined(tmp_path, how=how, names=names)
    watermark = 10 * W_A
    until = watermark - WINDOWS[waiting]
    join.batch(**{waiting: rows(until - 1, until, until + 1)})
    join.batch(**{name: rows(watermark, key=2) for name in names})
    found = join.pause().column("n" if how == "anti" else f"{waiting}_n").to_pylist()
    assert sorted(found) == [0, 1]
    # The third comes with the next watermark, and none of them again.
    join.batch(**{name: rows(watermark + 1000, key=3) for name in names})
    found = join.pause().column("n" if how == "anti" else f"{waiting}_n").to_pylist()
    assert found == [2]


def test_a_row_is_late_at_the_watermark_and_not_after_it(tmp_path: Path) -> None:
    join = joined(tmp_path)
    join.batch(a=rows(W_A), b=rows(W_A))
    join.batch(a=rows(W_A - 1, W_A, W_A + 1))
    assert join.counters.streams[0].late == 2
