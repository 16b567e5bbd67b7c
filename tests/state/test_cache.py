"""The local cache may lose anything at any time, and must never be the cause of an error."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.rows.columns import CODE
from watersmeet.state.cache import _UNSEEN, IDLE_SECONDS, SegmentCache, default_folder
from watersmeet.state.segment import Segment


def segment(rows: int = 100) -> Segment:
    codes = pa.array(range(rows), pa.int64())
    return Segment.of(pa.RecordBatch.from_pydict({CODE: codes, "text": pa.array(["x"] * rows)}))


@pytest.fixture
def cache(tmp_path: Path) -> SegmentCache:
    return SegmentCache(str(tmp_path / "cache"), 1 << 30)


def file(cache: SegmentCache, name: str) -> Path:
    return Path(cache.folder) / f"{name}.arrow"


def test_what_is_saved_is_loaded(cache: SegmentCache) -> None:
    saved = segment()
    cache.save("one", saved)
    loaded = cache.load("one")
    assert loaded is not None
    assert loaded.rows.equals(saved.rows)
    assert loaded.index.codes.tolist() == saved.index.codes.tolist()
    assert cache.load("other") is None
    assert [path.name for path in Path(cache.folder).iterdir()] == ["one.arrow"]


def test_what_is_discarded_is_gone_and_discarding_twice_is_no_error(cache: SegmentCache) -> None:
    cache.save("one", segment())
    cache.discard("one")
    cache.discard("one")
    assert cache.load("one") is None


def test_deleting_a_file_that_is_mapped_is_harmless(cache: SegmentCache) -> None:
    cache.save("one", segment(10_000))
    loaded = cache.load("one")
    shutil.rmtree(cache.folder)
    assert loaded is not None
    assert loaded.index.codes.sum() == sum(range(10_000))
    assert loaded.rows.column("text").to_pylist() == ["x"] * 10_000
    assert cache.load("one") is None
    cache.save("one", segment())
    assert cache.load("one") is not None


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_a_miss(cache: SegmentCache, kept: float) -> None:
    cache.save("one", segment())
    os.truncate(file(cache, "one"), int(file(cache, "one").stat().st_size * kept))
    assert cache.load("one") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"ARROW1", b"no Arrow file at all" * 100, b"ARROW1\0\0" + b"\xff" * 1000 + b"ARROW1"],
)
def test_a_file_with_something_else_is_a_miss(cache: SegmentCache, content: bytes) -> None:
    cache.save("one", segment())
    file(cache, "one").write_bytes(content)
    assert cache.load("one") is None


def test_an_arrow_file_of_another_kind_is_a_miss(cache: SegmentCache) -> None:
    other = pa.RecordBatch.from_pydict({"a": [1], "b": ["x"], "c": [None], "d": [2]})
    os.makedirs(cache.folder)
    for batches in ([other], []):
        with pa.ipc.new_file(str(file(cache, "one")), other.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        assert cache.load("one") is None


def test_a_damaged_footer_is_no_error(cache: SegmentCache) -> None:
    cache.save("one", segment())
    content = bytearray(file(cache, "one").read_bytes())
    misses = 0
    for position in range(len(content) - 300, len(content)):
        damaged = content.copy()
        damaged[position] ^= 0xFF
        file(cache, "one").write_bytes(damaged)
        misses += cache.load("one") is None
    assert misses > 100


def test_the_least_recently_used_leaves_first(cache: SegmentCache) -> None:
    # Given room for three segments, of which the first has just been read,
    cache.save("size", segment())
    room = 3 * file(cache, "size").stat().st_size
    cache.discard("size")
    small = SegmentCache(cache.folder, room)
    for age, name in ((300, "one"), (200, "two"), (100, "three")):
        small.save(name, segment())
        os.utime(file(cache, name), (time.time() - age,) * 2)
    assert small.load("one") is not None
    # when a fourth comes,
    small.save("four", segment())
    # then the one that was used least recently is gone.
    assert [small.load(name) is not None for name in ("one", "two", "three", "four")] == [
        True,
        False,
        True,
        True,
    ]


def test_nothing_is_kept_beyond_the_capacity(cache: SegmentCache) -> None:
    none = SegmentCache(cache.folder, 0)
    none.save("one", segment())
    assert none.load("one") is None
    assert list(Path(cache.folder).iterdir()) == []


def test_files_of_queries_that_are_gone_are_deleted(cache: SegmentCache) -> None:
    cache.save("old", segment())
    leftover = Path(cache.folder) / "crashed.arrow.123.tmp"
    leftover.write_bytes(b"half")
    long_ago = time.time() - IDLE_SECONDS - 60
    os.utime(file(cache, "old"), (long_ago, long_ago))
    os.utime(leftover, (long_ago, long_ago))
    _UNSEEN.clear()  # as in a new process
    cache.save("new", segment())
    assert [path.name for path in Path(cache.folder).iterdir()] == ["new.arrow"]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    cache = SegmentCache(str(blocked / "cache"), 1 << 30)
    cache.save("one", segment())
    assert cache.load("one") is None
    cache.discard("one")


def test_others_may_not_read_the_folder(cache: SegmentCache) -> None:
    cache.save("one", segment())
    assert Path(cache.folder).stat().st_mode & 0o777 == 0o700


def test_the_default_folder_is_this_users_on_this_boot() -> None:
    assert f"watersmeet-{os.getuid()}-" in default_folder()
    assert default_folder() == default_folder()


def test_the_folder_is_looked_at_only_now_and_then(cache: SegmentCache) -> None:
    # Given a folder that has just been looked at,
    cache.save("one", segment())
    long_ago = time.time() - IDLE_SECONDS - 60
    os.utime(file(cache, "one"), (long_ago, long_ago))
    # when little is written, an idle file stays;
    cache.save("two", segment())
    assert file(cache, "one").exists()
    # when a hundredth of the capacity has been written since, it goes.
    _UNSEEN[cache] = cache.capacity // 100
    cache.save("three", segment())
    assert not file(cache, "one").exists()
