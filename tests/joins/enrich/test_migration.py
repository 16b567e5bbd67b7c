"""Which keys are cached, and when: the paper's inequality, for each key on its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.ways import Disturbance
from tests.joins.enrich.enrichment import Enrichment, disturbed
from tests.oracle import assert_same_rows
from watersmeet.joins.enrich.cache import migration
from watersmeet.joins.enrich.spec import EnrichTuning
from watersmeet.joins.enrich.state import INCREMENTING, PHASE_OUT, SWITCHING, Progress
from watersmeet.rows.shard import Shard
from watersmeet.table import partitions
from watersmeet.table.lookup import ascending
from watersmeet.testing import LocalEnrich, LocalStream

STREAM = pa.schema([("k", pa.int64()), ("n", pa.int64())])
#: A stream row takes 16 bytes, a master row 24: so a key with m master rows must come more than
#: 1.5 m times in a cycle.
MASTER = pa.table(
    {
        "k": [k for k in range(60) for _ in range(k % 4)],
        "x": [k for k in range(60) for _ in range(k % 4)],
        "y": [k for k in range(60) for _ in range(k % 4)],
    }
)
SMALL = {"cache": 100_000, "queue": 1, "resident": 0, "partition": 300}


def enrichment(how: str = "inner", **policy: Any) -> Enrichment:
    return Enrichment(LocalStream(STREAM), MASTER, on="k", how=how, policy=SMALL | policy)


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "n": [*range(len(keys))]}, STREAM)


def progress(local: LocalEnrich) -> Progress:
    return local.run.state(0).progress


def cached(local: LocalEnrich) -> dict[int, int]:
    """The keys in the cache, with how many master rows each has."""
    name = progress(local).hot
    if name is None:
        return {}
    codes, counts = local.run.state(0).keys_of(name)
    return dict(zip(codes.tolist(), counts.tolist(), strict=True))


def test_a_key_enters_if_that_takes_less_memory(tmp_path: Path) -> None:
    # Given keys that come 1 to 6 times in a cycle, which is one batch here,
    local = enrichment().start(str(tmp_path))
    dice = np.random.default_rng(3)
    keys = [key for key in range(60) for _ in range(int(dice.integers(1, 7)))]
    # when the cycle has ended, and two steps more,
    for batch in (rows(*keys), rows(), rows()):
        local.batch(batch)
    # then those are cached that the inequality chooses. (A key without any master row is found
    # out by the filter, unless that lets it through; so 0, 4, 8, ... need no place.)
    wanted = {key: key % 4 for key, n in Counter(keys).items() if n * 16 > key % 4 * 24}
    assert {key: m for key, m in cached(local).items() if m} == {
        k: m for k, m in wanted.items() if m
    }
    assert cached(local).keys() <= wanted.keys()
    assert 10 < len(cached(local)) < 50


def test_the_phases_follow_one_another(tmp_path: Path) -> None:
    local = enrichment().start(str(tmp_path))
    seen = []
    for _ in range(4):
        local.batch(rows(1, 1, 1))
        seen.append((progress(local).phase, local.counters.hits))
    # What is chosen in a step takes effect two steps later.
    assert seen == [(SWITCHING, 0), (PHASE_OUT, 0), (INCREMENTING, 3), (INCREMENTING, 3)]


@pytest.mark.parametrize("disturbance", Disturbance, ids=lambda d: d.name.lower())
@pytest.mark.parametrize("phase", [INCREMENTING, SWITCHING, PHASE_OUT])
@pytest.mark.parametrize("how", ["left", "semi"])
def test_a_disturbance_in_any_phase_is_not_seen(
    tmp_path: Path, how: str, phase: str, disturbance: Disturbance
) -> None:
    given = enrichment(how)
    local, results, batches, times = given.start(str(tmp_path)), [], [], 0
    for number in range(9):
        batch = rows(1, 1, 1, number // 4, number // 4, number // 4 + 1, 4)
        if number and progress(local).phase == phase:
            local = disturbed(local, given, batch, disturbance)
            times += 1
        results.append(local.batch(batch))
        batches.append(batch)
    assert times
    assert cached(local)[1] == 1
    assert_same_rows(pa.concat_tables(results), given.expected(batches))


def test_a_key_without_master_rows_is_cached_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a key that the table does not have, but that the filter lets through,
    monkeypatch.setattr(partitions, "FILTER_BITS", 1)
    given = enrichment("left", partition=1 << 20)
    local = given.start(str(tmp_path))
    home = local.staged.shard(Shard()).home(np.arange(60))
    passed = [key for key in range(0, 60, 4) if home[key] >= 0]
    # when it has come once, which is more memory than nothing,
    results = [local.batch(rows(passed[0])) for _ in range(4)]
    # then it is cached, with no row, and rows of it are unmatched without reading the table.
    assert cached(local) == {passed[0]: 0}
    assert local.counters.hits == 1
    assert local.counters.sought + local.counters.scanned == 0
    assert [table.num_rows for table in results] == [1] * 4


def test_a_key_that_has_become_rare_leaves_in_the_tenth_cycle(tmp_path: Path) -> None:
    # Given a cycle for each batch, and two keys that are cached,
    local = enrichment().start(str(tmp_path))
    for _ in range(3):
        local.batch(rows(*[1] * 5, *[5] * 5, 2))
    assert cached(local).keys() >= {1, 5}
    # when one of them does not come any more,
    while progress(local).cycle < 10:
        assert cached(local).keys() >= {1, 5}
        local.batch(rows(*[1] * 5, 2, 3))
    for _ in range(2):
        local.batch(rows(*[1] * 5, 2, 3))
    # then it has left after the tenth cycle, unless it came often enough before; at the latest
    # after the twentieth.
    while progress(local).cycle < 20:
        local.batch(rows(*[1] * 5, 2, 3))
    for _ in range(2):
        local.batch(rows(*[1] * 5, 2, 3))
    assert 1 in cached(local)
    assert 5 not in cached(local)


def test_if_not_all_fit_the_most_frequent_for_a_byte_are_cached(tmp_path: Path) -> None:
    # A key takes 24 bytes and 24 for each of its rows: there is room for two of one row.
    local = enrichment(cache=100).start(str(tmp_path))
    for _ in range(3):
        local.batch(rows(*[1] * 9, *[5] * 8, *[9] * 7, *[2] * 9))
    assert cached(local) == {1: 1, 5: 1}
    assert local.counters.cached_bytes <= 100


def test_a_key_that_alone_exceeds_the_room_is_never_cached(tmp_path: Path) -> None:
    table = pa.table({"k": [7] * 500, "x": [0] * 500, "y": [0] * 500})
    given = Enrichment(LocalStream(STREAM), table, on="k", policy=SMALL | {"cache": 5000})
    local = given.start(str(tmp_path))
    for _ in range(4):
        assert local.batch(rows(*[7] * 2000)).num_rows == 2000 * 500
    assert cached(local) == {}


def test_wide_keys_are_chosen_by_their_own_bytes_and_copied_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given 40 frequent keys whose rows are much wider than most,
    texts = ["x" * 1000 if k < 40 else "y" for k in range(4000)]
    table = pa.table({"k": range(4000), "x": texts})
    policy = SMALL | {"cache": 20_000, "piece": 8000, "partition": 10_000}
    given = Enrichment(LocalStream(STREAM), table, on="k", policy=policy)
    local, copied = given.start(str(tmp_path)), []

    def noted(rows: pa.RecordBatch) -> pa.RecordBatch:
        copied.append(rows.nbytes)
        return ascending(rows)

    monkeypatch.setattr(migration, "ascending", noted)
    # when they are cached, some at first and others later,
    batches = [rows(*[*range(8 * number, 40)] * 20) for number in (4, 4, 4, 0, 0, 0)]
    results = [local.batch(batch) for batch in batches]
    # then they are as many as there is room for, and few are copied at a time.
    assert len(cached(local)) >= 15
    assert local.counters.cached_bytes <= 20_000
    assert max(copied) <= 8000
    assert_same_rows(pa.concat_tables(results), given.expected(batches))


@pytest.mark.parametrize("phase", [INCREMENTING, SWITCHING, PHASE_OUT])
def test_keys_leave_if_the_memory_is_less_than_before(tmp_path: Path, phase: str) -> None:
    # Given cached keys, in any phase,
    local, batches, results = enrichment().start(str(tmp_path)), [], []

    def answered(*keys: int) -> None:
        batches.append(rows(*keys))
        results.append(local.batch(batches[-1]))

    for _ in range(3):
        answered(*[1, 5, 9, 13] * 5)
    assert len(cached(local)) == 4
    while progress(local).phase != phase or len(batches) < 5:
        answered(*[1, 5, 9, 13] * 5, *[17 + 4 * len(batches)] * 5)
    # when the query goes on with less memory,
    less = enrichment(cache=100)
    local = less.start(str(tmp_path), restart=local)
    # then the cache is never larger than that.
    for _ in range(4):
        answered(*[1, 5, 9, 13] * 5)
        assert local.counters.cached_bytes <= 100
        assert len(cached(local)) == 2
    assert_same_rows(pa.concat_tables(results), less.expected(batches))


def test_a_table_that_fits_is_a_main_memory_join(tmp_path: Path) -> None:
    given = enrichment(resident=1 << 20)
    local = given.start(str(tmp_path))
    for _ in range(4):
        local.batch(rows(1, 1, 1))
    assert cached(local) == {}
    assert progress(local).cycle == 0
    assert not [*Path(local.run.folder).glob("*tally*")]


def test_meshjoin_has_no_cache(tmp_path: Path) -> None:
    given = enrichment()
    given = Enrichment(
        given.stream,
        given.master,
        on="k",
        policy=SMALL,
        further={"tuning": EnrichTuning(cache=False)},
    )
    local = given.start(str(tmp_path))
    for _ in range(4):
        local.batch(rows(1, 1, 1))
    assert (local.counters.hits, local.counters.cached_keys) == (0, 0)


def test_the_first_cycles_are_short(tmp_path: Path) -> None:
    # Given room for many rows to wait, so that a cycle is long,
    local = enrichment(queue=16 * 100).start(str(tmp_path))
    ended = []
    for number in range(20):
        before = progress(local).cycle
        local.batch(rows(*range(10, 20)))
        if progress(local).cycle > before:
            ended.append(number)
    # when batches of ten rows come, then cycles are longer and longer, up to a hundred rows.
    assert ended[:2] == [0, 3]
    assert np.diff(ended)[1] > np.diff(ended)[0]
