"""What is stored stays bounded on a run without end, and goes when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.join import Join, at
from tests.conformance.strategies import INSTANT, LESS
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.state.store import MemoryStore
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT)])


def numbers(how: str, *, within: float | None, delay: float = 0) -> Join:
    stream = LocalStream(SCHEMA, time="t", delay=timedelta(seconds=delay))
    window = None if within is None else timedelta(seconds=within)
    return Join({"a": stream, "b": stream}, on="k", within=window, how=how)


def local(join: Join, folder: Path, **options: Any) -> LocalJoin:
    return LocalJoin(join.streams, folder=str(folder), **join.options, **options)


def steps(join: Join, run: LocalJoin, count: int, *, rows: int) -> Iterator[int]:
    """A batch a second, of so many rows a stream, evenly spread in time; no key matches."""
    for second in range(count):
        times = [at(second + i / rows) for i in range(rows)]
        run.batch(
            **join.batch(
                a=[(i, time) for i, time in enumerate(times)],
                b=[(-i - 1, time) for i, time in enumerate(times)],
            )
        )
        yield second


def segments(run: LocalJoin) -> int:
    manifests = [json.loads(store.values["manifest"]) for store in run.stores]
    return sum(len(window["entries"]) for manifest in manifests for window in manifest["windows"])


def segments_outside(run: LocalJoin) -> int:
    """The segments whose rows are not in the manifest itself. Only those are cached."""
    manifests = [json.loads(store.values["manifest"]) for store in run.stores]
    return sum(
        not manifest["small"].keys() >= set(entry["parts"])
        for manifest in manifests
        for window in manifest["windows"]
        for entry in window["entries"]
    )


def files(folder: Path) -> list[Path]:
    """The segments in the cache."""
    return list(folder.glob("*/*.segment"))


def names(store: MemoryStore) -> list[str]:
    """What is stored under a name of its own, or in the manifest."""
    return [*store.values, *json.loads(store.values["manifest"])["small"]]


def store_values(run: LocalJoin) -> int:
    return sum(len(names(store)) for store in run.stores)


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_the_state_is_bounded_by_the_window(tmp_path: Path, how: str) -> None:
    # Given a window of 16 seconds, a delay of 4, and 5 rows a second and stream,
    join = numbers(how, within=16, delay=4)
    run = local(join, tmp_path)
    # when the streams run for many windows,
    for _ in steps(join, run, 120, rows=5):
        # then a row stays for its window, an eighth of it, the delay, and the two batches
        # after which a watermark takes effect.
        assert max(run.state_rows()) <= 5 * (16 * (1 + 1 / 8) + 4 + 2)
        assert segments(run) <= 2 * (8 + 3 + 2 * 3)
        assert store_values(run) <= segments(run) + 1
        assert len(files(tmp_path)) == segments_outside(run)


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_rows_that_meet_and_do_not_match_leave_nothing_behind(tmp_path: Path, how: str) -> None:
    schema = pa.schema([*SCHEMA, ("n", pa.int64())])
    stream = LocalStream(schema, time="t", delay=timedelta(0))
    within = timedelta(seconds=3)
    join = Join({"a": stream, "b": stream}, on="k", within=within, how=how, where=LESS)
    run = local(join, tmp_path)
    for second in range(40):
        run.batch(**join.batch(a=[(1, at(second), 5)], b=[(1, at(second), 0)]))
        assert store_values(run) <= segments(run) + 1


@pytest.mark.parametrize(("within", "delay"), [(0, 10), (1, 30), (0.001, 5)])
def test_the_state_is_bounded_if_the_delay_is_longer_than_the_window(
    tmp_path: Path, within: float, delay: float
) -> None:
    join = numbers("left", within=within, delay=delay)
    run = local(join, tmp_path)
    for _ in steps(join, run, 100, rows=3):
        assert max(run.state_rows()) <= 3 * (2 * (within + delay) + 2)
        assert segments(run) <= 2 * (delay + within + 3)


def test_small_batches_are_merged_without_a_window(tmp_path: Path) -> None:
    join = numbers("inner", within=None)
    run = local(join, tmp_path)
    for second in steps(join, run, 200, rows=2):
        assert run.state_rows() == [2 * (second + 1)] * 2
        # Three of each size: 2, 8, 32, 128 and 512 rows.
        assert segments(run) <= 2 * 3 * 5


def test_a_row_from_the_future_does_not_keep_the_others(tmp_path: Path) -> None:
    # Given a stream with one wrong clock in every batch, and another whose clocks are right,
    join = numbers("inner", within=16)
    run = local(join, tmp_path)
    # when both run for many windows,
    for second in range(100):
        times = [at(second), at(second), at(second), at(second + 10**7)]
        b = [(-1, at(second))]
        run.batch(**join.batch(a=list(enumerate(times)), b=b))
    # then no more is stored than the window and the rows of the future.
    assert run.state_rows()[0] <= 4 * (16 * (1 + 1 / 8) + 2) + 100


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_nothing_is_left_when_everything_has_expired(tmp_path: Path, how: str) -> None:
    # Given state with marks, merges and several shards,
    join = numbers(how, within=8, delay=2)
    run = local(join, tmp_path, shards=3)
    for second in range(30):
        time = at(second)
        rows = [(i % 4, time) for i in range(second % 7)]
        run.batch(**join.batch(a=rows, b=rows[:2]))
    assert sum(run.state_rows()) > 0
    # when time passes,
    for batch in join.closing():
        run.batch(**batch)
    # then only the manifests are left.
    assert run.state_rows() == [0, 0]
    assert [names(store) for store in run.stores] == [["manifest"]] * 3
    assert files(tmp_path) == []


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_a_row_leaves_in_the_batch_that_proves_it_useless(tmp_path: Path, how: str) -> None:
    # Given rows at 0 that wait for 10 seconds,
    join = numbers(how, within=10)
    run = local(join, tmp_path)
    run.batch(**join.batch(a=[(1, at(0))], b=[(2, at(0))]))
    # when the watermark is a millisecond short of 10, they stay; when it is 10, they go.
    for second, stored in ((9.999, [1, 1]), (10, [1, 1]), (10, [0, 0])):
        run.batch(**join.batch(a=[(None, at(second))], b=[(None, at(second))]))
        assert run.state_rows() == stored


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_a_matched_row_is_forgotten(tmp_path: Path, how: str) -> None:
    # Given ten rows that wait,
    join = numbers(how, within=100)
    run = local(join, tmp_path)
    run.batch(**join.batch(a=[(key, at(0)) for key in range(10)]))
    assert run.state_rows() == [10, 0]
    # when five of them have matched, they do not count any more, but are still there;
    run.batch(**join.batch(b=[(key, at(1)) for key in range(5)]))
    assert run.state_rows() == [5, 5]
    assert rows_there(run) == 10
    # when it is more than half, they have left,
    run.batch(**join.batch(b=[(5, at(1))]))
    assert run.state_rows() == [4, 6]
    assert rows_there(run) == 4
    # and so is one that matches as it arrives.
    run.batch(**join.batch(a=[(0, at(2)), (77, at(2))]))
    assert run.state_rows() == [5, 6]
    for batch in join.closing():
        run.batch(**batch)
    assert [names(store) for store in run.stores] == [["manifest"]]


def test_a_merge_forgets_matched_rows(tmp_path: Path) -> None:
    join = numbers("semi", within=100, delay=1)
    run = local(join, tmp_path)
    for key in range(3):
        run.batch(**join.batch(a=[(10 * key, at(0)), (10 * key + 1, at(0))]))
        run.batch(**join.batch(b=[(10 * key, at(0))]))
    assert (run.state_rows(), rows_there(run)) == ([3, 3], 6)
    run.batch(**join.batch(a=[(100, at(0)), (101, at(0))]))
    assert (run.state_rows(), rows_there(run)) == ([5, 3], 5)


def rows_there(run: LocalJoin) -> int:
    """Rows of the first stream in the store, whether they count or not."""
    return sum(entry.rows for entry in run.run.state(0).windows[0].entries)


def test_late_rows_leave_no_trace(tmp_path: Path) -> None:
    join = numbers("full", within=5)
    run = local(join, tmp_path)
    run.batch(**join.batch(a=[(None, at(100))], b=[(None, at(100))]))
    run.batch(**join.batch(a=[(1, at(100)), (None, at(99))], b=[(1, at(98))]))
    assert run.state_rows() == [0, 0]
    assert [counters.late for counters in run.counters.streams] == [2, 1]
    assert [counters.rows for counters in run.counters.streams] == [2, 1]
    assert run.counters.results == 0


def test_counters_tell_what_a_step_did(tmp_path: Path) -> None:
    join = numbers("left", within=5)
    run = local(join, tmp_path)
    run.batch(**join.batch(a=[(1, at(0)), (2, at(0)), (None, at(0))], b=[(1, at(1))]))
    a, b = run.counters.streams
    assert (a.rows, a.unmatchable, a.late, b.rows) == (3, 1, 0, 1)
    assert run.counters.results == 2
    for batch in join.closing():
        run.batch(**batch)
    a, b = run.counters.streams
    assert (a.expired, b.expired) == (2, 1)
    assert run.counters.results == 1
