"""Rows exactly at, a microsecond inside and a microsecond outside each bound."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conformance.strategies import INSTANT
from watersmeet.spec.tuning import Tuning
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64())])
START = 1_700_000_000_000_000
#: The windows of a and b, in microseconds.
W_A, W_B = 2_000_000, 1_000_000


def rows(*times: int, key: int = 1) -> pa.Table:
    """One row for each time, all of one key; they are numbered."""
    instants = pa.array([START + time for time in times], pa.int64()).view(INSTANT)
    return pa.table([[key] * len(times), instants, list(range(len(times)))], schema=SCHEMA)


def joined(folder: Path, how: str = "inner", index: str = "always", names: str = "ab") -> LocalJoin:
    stream = LocalStream(SCHEMA, time="t", delay=timedelta(0))
    windows = {"a": W_A, "b": W_B, "c": W_B}
    return LocalJoin(
        dict.fromkeys(names, stream),
        on="k",
        within={name: timedelta(microseconds=windows[name]) for name in names},
        how=how,
        tuning=Tuning(index=index),  # type: ignore[arg-type]
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
def test_a_row_stays_as_long_as_it_can_match(tmp_path: Path, index: str) -> None:
    join = joined(tmp_path, index=index)
    watermark = 10 * W_A
    # Given a segment of rows of a, the newest of which expires a microsecond after the watermark,
    until = watermark - W_A
    join.batch(a=rows(until - 5, until, until + 1))
    join.batch(a=rows(watermark), b=rows(watermark))
    # when the watermark has come so far that all but that one have expired,
    join.batch()
    # then it still matches the first row that is not late.
    results = join.batch(b=rows(watermark + 1)).to_pylist()
    assert sorted(row["a_n"] for row in results if row["a_t"].microsecond) == [2]


@pytest.mark.parametrize("how", ["left", "anti"])
def test_a_row_is_unmatched_at_its_deadline_and_not_before(tmp_path: Path, how: str) -> None:
    join = joined(tmp_path, how=how)
    watermark = 10 * W_A
    until = watermark - W_A
    join.batch(a=rows(until - 1, until, until + 1), b=rows(0))
    join.batch(a=rows(watermark), b=rows(watermark, key=2))
    unmatched = join.batch().column("n" if how == "anti" else "a_n").to_pylist()
    assert sorted(unmatched) == [0, 1]


def test_a_row_is_late_at_the_watermark_and_not_after_it(tmp_path: Path) -> None:
    join = joined(tmp_path)
    join.batch(a=rows(W_A), b=rows(W_A))
    join.batch(a=rows(W_A - 1, W_A, W_A + 1))
    assert join.counters.streams[0].late == 2
