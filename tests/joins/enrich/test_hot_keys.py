"""The cache: keys with all of their rows, found, counted, and lost without harm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.joins.enrich.cache.hot_keys import HotKeys, _counts, discard
from watersmeet.joins.enrich.cache.misses import MissCounts
from watersmeet.rows.columns import CODE, codes_of
from watersmeet.state.cache import SegmentCache


def rows_of(codes: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {CODE: pa.array(codes, pa.int64()), "#1": [f"{code}/{i}" for i, code in enumerate(codes)]}
    )


def files(folder: Path) -> SegmentCache:
    return SegmentCache(str(folder), capacity=1 << 30)


def cache(folder: Path, keys: dict[int, int], *, partition: int = 100) -> HotKeys:
    codes, rows = (np.array([*some], np.int64) for some in (keys, keys.values()))
    master = rows_of([code for code, count in keys.items() for _ in range(count)])
    counts = np.zeros_like(codes)
    HotKeys.write(files(folder), "hot", codes, rows, counts, [master], partition=partition)
    hot = HotKeys.open(files(folder), "hot")
    assert hot is not None
    return hot


def test_all_rows_of_a_key_are_candidates_through_all_partitions(tmp_path: Path) -> None:
    hot = cache(tmp_path, {2: 1, 5: 0, 7: 30, 9: 2})
    assert len(hot.partitions) > 2
    stream = rows_of([1, 2, 5, 7, 7, 9, 10])
    cached, keys = hot.find(codes_of(stream))
    assert cached.tolist() == [False, True, True, True, True, True, False]
    found: dict[int, list[str]] = {}
    for there in hot.ranges(np.flatnonzero(cached), keys):
        values = there.master.rows.column("#1").to_pylist()
        for row, low, high in zip(there.mine.tolist(), there.low, there.high, strict=True):
            found.setdefault(row, []).extend(values[low:high])
    sevens = [f"7/{i}" for i in range(1, 31)]
    assert found == {1: ["2/0"], 3: sevens, 4: sevens, 5: ["9/31", "9/32"]}


def test_counts_are_kept_for_the_next_step(tmp_path: Path) -> None:
    hot = cache(tmp_path, {2: 1, 5: 0, 7: 3})
    hot.count(np.array([0, 0, 2, 2, 2]))
    hot.count(np.array([1]))
    again = HotKeys.open(files(tmp_path), "hot")
    assert again is not None
    assert again.counts.tolist() == [2, 1, 3]


def test_a_cache_that_lost_a_file_is_no_cache(tmp_path: Path) -> None:
    cache(tmp_path, {2: 1, 7: 30})
    files(tmp_path).discard("hot-1")
    assert HotKeys.open(files(tmp_path), "hot") is None


def test_without_a_folder_there_is_no_cache_and_counting_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SegmentCache, "folder", None)
    codes = np.array([2, 7])
    master = [rows_of([2, 7])]
    HotKeys.write(files(tmp_path), "hot", codes, codes // codes, codes, master, partition=100)
    assert HotKeys.open(files(tmp_path), "hot") is None
    assert _counts(files(tmp_path), "hot", 3).tolist() == [0, 0, 0]
    misses = MissCounts(None, None, limit=100)
    misses.note(codes, codes)
    assert [len(counted) for counted in misses.counts()] == [0, 0, 0]
    discard(files(tmp_path), "hot")


def test_an_open_cache_outlives_its_files(tmp_path: Path) -> None:
    hot = cache(tmp_path, {2: 1, 7: 30})
    discard(files(tmp_path), "hot")
    assert not [*tmp_path.glob("*/*")]
    assert HotKeys.open(files(tmp_path), "hot") is None
    assert sum(map(len, hot.master(np.array([False, True])))) == 30


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_a_cache_is_not_kept_open_when_its_step_is_over(tmp_path: Path) -> None:
    def mapped() -> bool:
        return str(tmp_path) in Path("/proc/self/maps").read_text()

    hot = cache(tmp_path, {2: 1, 7: 30})
    assert mapped()
    # Others will take its place, and each would stay in memory.
    del hot
    assert not mapped()


def test_keys_take_the_bytes_of_their_own_rows(tmp_path: Path) -> None:
    hot = cache(tmp_path, {2: 1, 5: 0, 7: 30, 9: 2})
    assert len(hot.partitions) > 2
    # A row has a code, an offset and a text: "2/0", "7/1" to "7/9", "7/10" to "7/30", "9/31".
    assert hot.sizes().tolist() == [15, 0, 9 * 15 + 21 * 16, 2 * 16]


def test_no_more_codes_are_noted_than_there_is_room_for(tmp_path: Path) -> None:
    misses = MissCounts(str(tmp_path / "came"), str(tmp_path / "barren"), limit=24)
    for codes, barren in (([1, 2], [2]), ([2, 3], [3]), ([4], [4])):
        misses.note(np.array(codes), barren=np.array(barren))
    assert misses.full
    # Those that were noted together are there together.
    counted = [counted.tolist() for counted in misses.counts()]
    assert counted == [[1, 2, 3], [1, 2, 1], [False, True, True]]
    misses.clear()
    assert not misses.full
