"""Copies of partitions on the host: made when they pay, used, and lost without harm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tests.joins.enrich.enrichment import Enrichment
from tests.oracle import assert_same_rows
from watersmeet.cost.disk_phase import Reading
from watersmeet.joins.enrich.reader import Copies
from watersmeet.joins.enrich.spec import EnrichTuning
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.table.staged_table import stage
from watersmeet.testing import LocalEnrich, LocalStream

MASTER = pa.table({"k": [*range(100)] * 2, "x": [*range(200)]})
STREAM = pa.table({"k": [*range(0, 100, 3)], "n": [*range(34)]})


def enrichment(access: str) -> Enrichment:
    policy = {"resident": 0, "partition": 400, "cache": 0, "queue": 1, "copies": True}
    tuning = EnrichTuning(cache=False, access=access)  # type: ignore[arg-type]
    stream = LocalStream(STREAM.schema)
    return Enrichment(stream, MASTER, "k", policy=policy, further={"tuning": tuning})


def without_partitions(local: LocalEnrich) -> None:
    """Nothing of the staged table is left but its index."""
    for file in Path(local.staged.folder).glob("0/[0-9]*.arrow"):
        file.unlink()


def test_partitions_that_were_read_are_copied_and_the_copies_are_used(tmp_path: Path) -> None:
    given = enrichment("scan")
    local = given.start(str(tmp_path))
    first = local.batch(STREAM)
    assert (local.counters.copied, local.counters.scanned) == (0, len(local.staged.shard(Shard())))
    without_partitions(local)
    again = local.batch(STREAM)
    assert (local.counters.copied, local.counters.scanned) == (len(local.staged.shard(Shard())), 0)
    assert_same_rows(first, given.expected([STREAM]))
    assert_same_rows(again, first)


def test_copies_that_are_lost_are_made_again(tmp_path: Path) -> None:
    local = enrichment("scan").start(str(tmp_path))
    first = local.batch(STREAM)
    for file in Path(local.run.folder).glob("*/*.segment"):
        file.unlink()
    assert_same_rows(local.batch(STREAM), first)
    assert local.counters.copied == 0
    assert_same_rows(local.batch(STREAM), first)
    assert local.counters.scanned == 0


def test_copies_of_a_table_that_was_staged_before_under_the_same_path_are_not_used(
    tmp_path: Path,
) -> None:
    # Given copies of some partitions of a table, which is deleted,
    given = enrichment("scan")
    local = given.start(str(tmp_path))
    first = local.batch(STREAM.slice(0, 10))
    assert 0 < local.counters.scanned < len(local.staged.shard(Shard()))
    shutil.rmtree(local.staged.folder)
    # when the same rows are staged again, those of a key in another order,
    reverse = local._encoded(1, MASTER.take([*reversed(range(len(MASTER)))]))
    partition = local.plan.policy.partition + 50
    stage(reverse, local.staged.folder, shards=1, partition=partition)
    # then no copy is mixed with the partitions that are there now.
    assert_same_rows(local.batch(STREAM.slice(0, 10)), first)
    assert local.counters.copied == 0


@pytest.mark.parametrize("enough", [False, True])
def test_a_partition_is_copied_when_seeks_in_it_have_cost_as_much_as_that(
    tmp_path: Path, enough: bool
) -> None:
    local = enrichment("seek").start(str(tmp_path))
    table = local.staged.shard(Shard())
    copies = Copies(table, SegmentCache(str(tmp_path / "copies"), 1 << 30))
    reading = Reading(seek=1.0, hit=1.0, read=7.0, copy=3.0)
    half = int(table.bytes[1] * 5)
    partition = table.partition(1)
    assert not copies.pays(1, half, reading)
    assert copies.pays(1, half + (1 if enough else -1), reading) == enough
    if enough:
        copies.make(1, partition)
    assert copies.has(pa.array([0, 1, 2]).to_numpy()).tolist() == [False, enough, False]
    copy = copies.open(1)
    assert (copy is not None) == enough
    assert copy is None or copy.rows.equals(partition.rows)
