"""Packing rows into capsules, without a JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.rows.columns import CODE, HOME, PUNCTUATION, TIME, concat
from watersmeet.rows.inflow import Inflow
from watersmeet.rows.ipc import from_ipc
from watersmeet.rows.route import ByKey, Everywhere, StoredInOne
from watersmeet.rows.shard import shard_numbers
from watersmeet.spark.query import capsule as module
from watersmeet.spark.query.capsule import CAPSULE_BYTES, Pack, payloads, told_input
from watersmeet.spark.query.shards import shard_ids


def rows_of(codes: list[int | None], **columns: list[object]) -> pa.RecordBatch:
    times = pa.array(range(len(codes)), pa.int64()).view(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({CODE: pa.array(codes, pa.int64()), TIME: times, **columns})


def packed(pack: Pack, *batches: pa.RecordBatch) -> dict[int, list[pa.RecordBatch]]:
    """The record batches in the capsules of each shard, but for empty ones."""
    opened: dict[int, list[pa.RecordBatch]] = {}
    for capsules in pack(iter(batches)):
        for capsule in capsules.to_pylist():
            if capsule["payload"] is None:
                continue
            rows = from_ipc(capsule["payload"])
            greatest = max(row[TIME] for row in rows.to_pylist())
            assert (capsule["stream"], capsule["event_time"]) == (pack.stream, greatest)
            opened.setdefault(capsule["shard"], []).append(rows)
    return opened


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_row_is_in_one_capsule_of_its_shard(count: int) -> None:
    ids = tuple(shard_ids(count))
    batches = [rows_of(list(range(start, start + 50))) for start in range(0, 500, 50)]
    opened = packed(Pack(1, ByKey(), ids), *batches)
    for shard, parts in opened.items():
        assert set(shard_numbers(concat(parts).column(CODE), count)) == {ids.index(shard)}
    codes = [code for parts in opened.values() for code in concat(parts).column(CODE).to_pylist()]
    assert sorted(codes) == list(range(500))


@pytest.mark.parametrize("count", [1, 2])
def test_capsules_stay_small_because_spark_hands_over_many_at_once(count: int) -> None:
    random = np.random.default_rng(1)
    texts = pa.array([random.bytes(1000) for _ in range(2000)], pa.binary())
    rows = rows_of(list(range(2000)), text=texts)
    opened = packed(Pack(0, ByKey(), tuple(shard_ids(count))), rows)
    parts = [part for parts in opened.values() for part in parts]
    assert max(part.nbytes for part in parts) <= CAPSULE_BYTES
    assert len(parts) <= rows.nbytes / CAPSULE_BYTES + 2 * count
    assert sum(map(len, parts)) == 2000


def test_a_row_larger_than_a_capsule_has_one_of_its_own() -> None:
    rows = rows_of([1, 2, 3], text=[b"x" * (3 * CAPSULE_BYTES)] * 3)
    assert [len(part) for part in packed(Pack(0, ByKey(), (0,)), rows)[0]] == [1, 1, 1]


def test_a_wide_row_among_narrow_ones_does_not_make_a_capsule_of_many_wide_ones() -> None:
    # Given rows of which the last ten are so wide that three of them fill a capsule,
    widths = [1] * 990 + [CAPSULE_BYTES // 3 - 100] * 10
    rows = rows_of(list(range(1000)), text=[b"x" * width for width in widths])
    parts = packed(Pack(0, ByKey(), (0,)), rows)[0]
    assert all(part.nbytes <= CAPSULE_BYTES for part in parts)
    assert [len(part) for part in parts] == [992, 3, 3, 2]


def test_rows_for_every_shard_come_in_batches_of_bounded_size() -> None:
    # Given batches of capsules of at most 64 kB, and rows for each of fifty shards,
    rows = rows_of([1, 2, 3], text=[b"x" * 10_000, b"x" * 200_000, b"y"])
    pack = Pack(0, Everywhere(), tuple(range(50)), limit=64 << 10)
    # when they are packed, then only a single wide row makes a larger batch,
    batches = list(pack.packed(rows))
    full = [len(batch) - batch.column("payload").null_count for batch in batches]
    sizes = [batch.nbytes for batch in batches]
    assert all(size <= 70 << 10 or many == 1 for size, many in zip(sizes, full, strict=True))
    # and every shard gets every row.
    codes: dict[int, list[int]] = {shard: [] for shard in range(50)}
    for sent in (sent for batch in batches for sent in batch.to_pylist()):
        if sent["payload"] is not None:
            codes[sent["shard"]] += from_ipc(sent["payload"]).column(CODE).to_pylist()
    assert codes == {shard: [1, 2, 3] for shard in range(50)}


def test_a_task_deals_rows_of_equal_content_by_count(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given rows that are all alike, and a task that packs a few at a time,
    monkeypatch.setattr(module, "PACK_ROWS", 7)
    ids = tuple(shard_ids(4))
    batches = [rows_of([5]) for _ in range(100)]
    # when they are dealt by count, then each shard stores as many of them, and gets all.
    opened = packed(Pack(0, StoredInOne(), ids, counted=True), *batches)
    stored = {shard: concat(parts).column(HOME).to_pylist() for shard, parts in opened.items()}
    assert [len(stored[shard]) for shard in ids] == [100] * 4
    assert [sum(stored[shard]) for shard in ids] == [25] * 4


def test_a_punctuation_of_many_keys_goes_to_every_shard() -> None:
    ids = tuple(shard_ids(2))
    flags = pa.array([False, True, True, False])
    opened = packed(Pack(0, ByKey(), ids), rows_of([1, None, 2, None], **{PUNCTUATION: flags}))
    everywhere = [
        sum(row[CODE] is None and row[PUNCTUATION] for row in concat(opened[shard]).to_pylist())
        for shard in ids
    ]
    assert everywhere == [1, 1]
    assert sum(len(part) for parts in opened.values() for part in parts) == 3 + 2


def test_payloads_are_written_one_behind_the_other() -> None:
    parts = [rows_of([1, 2]), None, rows_of([]), rows_of([3])]
    written = payloads(parts)
    written.validate(full=True)
    read = [None if value is None else from_ipc(value) for value in written.to_pylist()]
    assert read == parts


def test_a_task_tells_every_shard_what_it_has_packed_for_all_of_them() -> None:
    # Given two tasks that pack rows of stream 1 for four shards,
    pack = Pack(1, ByKey(), tuple(shard_ids(4)), told=True)
    tasks = [[rows_of([1, 2, 3]), rows_of([4])], [rows_of([None, 6])], []]
    sent = [
        capsule for task in tasks for batch in pack(iter(task)) for capsule in batch.to_pylist()
    ]
    # when an operator gets them, then every shard learns of all rows, and none but these.
    for shard in pack.ids:
        inflow = Inflow()
        for capsule in sent:
            if capsule["shard"] == shard and capsule["stream"] == told_input(1):
                inflow.merge(Inflow.from_bytes(capsule["payload"]))
        assert (inflow.rows, inflow.oldest, inflow.newest) == (6, 0, 2)
    told = [capsule for capsule in sent if capsule["stream"] == told_input(1)]
    assert len(told) == 2 * 4
    assert all(capsule["event_time"] is None for capsule in told)
