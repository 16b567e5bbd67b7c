"""Rows that wait: not too long, not past the watermark, and not for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.join import at
from tests.conformance.strategies import INSTANT
from tests.joins.enrich.enrichment import UNHURRIED, Enrichment
from tests.oracle import assert_same_rows
from watersmeet.joins.enrich.cursor import Cursor
from watersmeet.joins.enrich.spec import EnrichTuning
from watersmeet.rows.columns import TIME, codes_of
from watersmeet.rows.shard import Shard
from watersmeet.testing import LocalEnrich, LocalStream

STREAM = pa.schema([("k", pa.int64()), ("t", INSTANT)])
MASTER = pa.table({"k": [*range(100)], "x": [*range(100)]})
SMALL = UNHURRIED | {"cache": 0, "resident": 0, "partition": 100}


def waiting(
    delay: str = "0 seconds", master: pa.Table = MASTER, partition: int = 100, **further: Any
) -> Enrichment:
    further = {"max_wait": "8 batches"} | further
    policy = SMALL | {"partition": partition}
    stream = LocalStream(STREAM, time="t", delay=delay)
    return Enrichment(stream, master, on="k", policy=policy, further=further)


def rows(keys: Any, second: float | None) -> pa.Table:
    return pa.table({"k": pa.array([*keys], pa.int64()), "t": [at(second)] * len(keys)}, STREAM)


def started(given: Enrichment, folder: Path) -> LocalEnrich:
    """After some steps: costs have been measured, and rows may wait."""
    local = given.start(str(folder))
    for second in range(3):
        local.batch(rows(range(100), second))
    assert local.run.state(0).progress.pace
    return local


def test_rows_wait_for_their_partition_and_no_longer_than_allowed(tmp_path: Path) -> None:
    given = waiting(delay="100 seconds")
    local = started(given, tmp_path)
    partitions = len(local.staged.shard(Shard()))
    assert partitions > 8
    # Given a hundred rows at a time, an eighth of the table is read in each step,
    came: dict[int, int] = {}
    longest = 0
    for step in range(20):
        found = local.batch(rows(range(100), 10 + step))
        for row in found.to_pylist():
            second = int((row["t"] - at(10)).total_seconds())
            if second >= 0:
                longest = max(longest, step - second)
                came[second] = came.get(second, 0) + 1
        assert local.counters.oldest_wait <= 8
        assert local.counters.sought + local.counters.scanned <= partitions // 8 + 2
    # and each row is answered within eight steps.
    assert longest <= 8
    assert longest >= 5
    assert all(came[second] == 100 for second in range(11))


@pytest.mark.parametrize(("every", "cached"), [(1, True), (2, False)])
def test_a_key_is_cached_if_its_waiting_rows_take_more(
    tmp_path: Path, every: int, cached: bool
) -> None:
    # Given a cycle of eight steps, rows that take 72 bytes while they wait, for half of it, and
    # master rows of 200,
    wide = {f"s{i}": pa.array([0] * 100) for i in range(6)}
    stream = pa.table({"k": [*range(100)], **wide, "t": pa.array([at(0)] * 100, INSTANT)})
    master = pa.table({name: [*range(100)] for name in ("k", *(f"x{i}" for i in range(24)))})
    given = Enrichment(
        LocalStream(stream.schema, time="t", delay="100 seconds"),
        master,
        on="k",
        policy=SMALL | {"cache": 1 << 20, "partition": 1450},
        further={"max_wait": "8 batches", "tuning": EnrichTuning(access="scan")},
    )
    local = given.start(str(tmp_path))
    # when a key comes eight times in a cycle, then it is cached, and stays: 288 bytes are more.
    # Four times are not, though they would be if they waited for a whole cycle.
    for step in range(100):
        came = stream.take([*range(step % every, 100, every)])
        times = pa.array([at(10 + step)] * len(came), INSTANT)
        local.batch(came.set_column(came.schema.get_field_index("t"), "t", times))
    progress = local.run.state(0).progress
    assert -(-len(local.staged.shard(Shard())) // (progress.pace or 1)) == 8
    assert progress.cycle > 11
    # (Where few partitions are waited for, the keys of one may be counted twice in a cycle.)
    assert local.counters.cached_keys in (range(93, 101) if cached else range(50))


def test_of_several_shards_the_oldest_wait_is_reported(tmp_path: Path) -> None:
    # Given four shards in which rows wait,
    local = waiting(delay="100 seconds").start(str(tmp_path), shards=4)
    longest = 0
    for second in range(25):
        local.batch(rows(range(100), second))
        longest = max(longest, local.counters.oldest_wait)
    # then the longest wait of any is what the query reports.
    assert 4 <= longest <= 8


def test_a_step_without_rows_answers_all(tmp_path: Path) -> None:
    given = waiting()
    local = started(given, tmp_path)
    first = local.batch(rows(range(100), 10))
    assert local.waiting() > 50
    second = local.batch()
    assert local.waiting() == 0
    both = pa.concat_tables([first, second])
    assert both.filter(pa.compute.equal(both["t"], at(10))).num_rows == 100


def test_rows_that_will_not_move_the_watermark_do_not_wait(tmp_path: Path) -> None:
    # Given a watermark of 10 seconds,
    local = started(waiting(), tmp_path)
    local.batch(rows([1], 10))
    local.batch()
    # when rows come that are not newer, Spark will run no other micro-batch for them,
    assert local.batch(rows(range(100), 10)).num_rows == 100
    # so none of them waits; but those wait that come with a newer one.
    local.batch(rows(range(100), 11))
    local.batch(rows(range(100), 12))
    assert local.waiting() > 0


def test_rows_do_not_wait_if_another_stream_holds_the_watermark_back(tmp_path: Path) -> None:
    local = started(waiting(), tmp_path)
    local.batch(rows(range(100), 10))
    assert local.waiting() > 0
    local.run.watermark = 5_000_000
    local.batch(rows(range(100), 11))
    assert local.waiting() == 0


@pytest.mark.parametrize("delay", [0, 2, 5])
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_no_row_is_late_for_what_follows(tmp_path: Path, how: str, delay: int) -> None:
    # What follows in a query drops rows at or behind the watermark of the batch before.
    given = waiting(delay=f"{delay} seconds")
    given = Enrichment(given.stream, MASTER, "k", how, policy=SMALL, further=given.further)
    local, before, waited = started(given, tmp_path), None, 0
    for step in range(16):
        now = local.run.watermark
        found = local.batch(rows(range(0, 130, 3), 10 + step))
        waited += local.counters.waited
        if before is not None and found.num_rows:
            assert pa.compute.min(found["t"]).cast(pa.int64()).as_py() > before
        before = now
    assert waited > 0


def test_a_row_that_is_late_or_has_no_time_does_not_wait(tmp_path: Path) -> None:
    local = started(waiting(), tmp_path)
    local.batch(rows([1], 50))
    local.batch(rows([1], 51))
    some = pa.concat_tables([rows([10, 11], 20), rows([12], None), rows([13], 52)])
    found = local.batch(some)
    assert {10, 11, 12} <= set(found["k"].to_pylist())


def test_cheap_reading_is_done_at_once(tmp_path: Path) -> None:
    given = waiting()
    policy = SMALL | {"at_once": 1e12}
    local = Enrichment(given.stream, MASTER, "k", policy=policy, further=given.further).start(
        str(tmp_path)
    )
    for second in range(5):
        assert local.batch(rows(range(100), second)).num_rows == 100


def test_a_key_that_cannot_be_in_the_table_does_not_wait(tmp_path: Path) -> None:
    given = waiting()
    given = Enrichment(given.stream, MASTER, "k", "anti", policy=SMALL, further=given.further)
    local = given.start(str(tmp_path))
    for second in range(3):
        local.batch(rows(range(100), second))
    assert local.run.state(0).progress.pace
    assert local.batch(rows([-1, 1000], 10)).num_rows == 2


def test_waiting_rows_are_not_lost_in_a_restart_with_another_table(tmp_path: Path) -> None:
    given = waiting()
    local = started(given, tmp_path)
    local.batch(rows(range(100), 10))
    left = local.waiting()
    assert left > 50
    # Given a table with other rows, and partitions of another size,
    other = pa.table({"k": [*range(100)], "x": [*range(1000, 1100)]})
    again = Enrichment(
        given.stream, other, "k", policy=SMALL | {"partition": 1000}, further=given.further
    )
    new = again.start(str(tmp_path), restart=local, staged=local.stage(other))
    # when the query goes on with it, then rows that waited are answered from it.
    found = new.batch()
    assert found.num_rows == left
    assert min(found["x"].to_pylist()) >= 1000


def test_the_wait_may_be_a_time(tmp_path: Path) -> None:
    given = waiting(delay="100 seconds", max_wait="1 hour")
    local = started(given, tmp_path)
    results = [local.batch(rows(range(100), 10 + step)) for step in range(10)]
    assert local.waiting() > 100
    # A step in a test takes milliseconds, so that an hour is very many of them: one partition is
    # read in each.
    assert local.run.state(0).progress.pace == 1
    found = pa.concat_tables([*results, local.batch()])
    found = found.filter(pa.compute.greater_equal(found["t"], at(10)))
    assert_same_rows(found, given.expected([rows(range(100), 10 + step) for step in range(10)]))


def test_a_wait_that_is_a_time_holds_again_at_once_after_a_pause(tmp_path: Path) -> None:
    # Given rows that may wait for many steps, as these take milliseconds,
    local = waiting(delay="100 seconds", max_wait="10 seconds").start(str(tmp_path))
    for second in range(5):
        local.batch(rows(range(100), second))
    state = local.run.state(0)
    assert state.progress.pace == 1
    # when the query goes on after eight hours,
    assert state.progress.began_ms is not None
    state.progress.began_ms -= 8 * 3600 * 1000
    state.commit()
    local.batch(rows(range(100), 5))
    # then they may wait again.
    assert local.run.state(0).progress.pace == 1
    local.batch(rows(range(100), 6))
    assert local.waiting() > 50


SECOND = 1_000_000


@pytest.mark.parametrize(
    ("before", "watermark", "greatest", "wakes"),
    [
        (100, 90, 101, True),  # the watermark has followed the step before, and will move
        (100, 90, 100, False),  # nothing new moves it
        (100, 89, 101, False),  # it has not followed: something else holds it back
        (100, 95, 106, True),  # rows of another shard have moved it further
        (100, 95, 101, False),  # and this one is behind them
        (None, None, 11, True),  # the first rows of all
        (None, None, None, False),  # no row had a time
    ],
)
def test_rows_wait_only_if_the_watermark_is_sure_to_move(
    tmp_path: Path, before: int | None, watermark: int | None, greatest: int | None, wakes: bool
) -> None:
    local = waiting(delay="10 seconds").start(str(tmp_path))
    state = local.run.state(0)
    cursor = Cursor(local.layout, local.staged.shard(Shard()), state)
    state.progress.greatest = None if before is None else before * SECOND
    if greatest is not None:
        cursor.note(pa.record_batch({TIME: pa.array([greatest * SECOND], INSTANT)}))
    assert cursor._wakes_again(None if watermark is None else watermark * SECOND) == wakes


def test_the_cursor_goes_round_the_partitions_that_rows_wait_for(tmp_path: Path) -> None:
    # Given a table of four partitions with a row each, at a pace of one,
    given = waiting(delay="100 seconds", master=MASTER.slice(0, 4), partition=1)
    local = given.start(str(tmp_path))
    state, table = local.run.state(0), local.staged.shard(Shard())
    assert len(table) == 4
    progress = state.progress
    progress.pace, answered, passed = 1, [], []
    # when rows come in four steps, and none in the fifth,
    for step, keys in enumerate([[1, 3], [0], [0, 2], [1], []], start=1):
        cursor, progress.step = Cursor(local.layout, table, state), step
        if keys:
            new = local._encoded(0, rows(keys, step))
            cursor.note(new)
            state.waiting.add(new, step)
        due = cursor.due(None, None, leaving=np.array([]), paused=not keys, renewed=False)
        answered.append([int(code) for some in state.waiting.take(due) for code in codes_of(some)])
        passed.append((progress.cursor, cursor.wrapped))
    # then it is the turn of the next partition that any of them waits for, and of all at the end.
    assert answered == [[1], [3], [0, 0], [1], [2]]
    assert passed == [(2, False), (0, False), (1, False), (2, True), (2, True)]
