"""The local cache may lose anything at any time. It must never be the cause of an error, nor of a
wrong row."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.rows.columns import CODE
from watersmeet.segments.segment import Segment
from watersmeet.state import cache as module
from watersmeet.state.cache import SegmentCache, eviction, file
from watersmeet.state.cache.checksum import checksum

PAGE = 4096


def segment(rows: int = 100, first: int = 0) -> Segment:
    codes = pa.array(range(first, first + rows), pa.int64())
    return Segment.of(pa.RecordBatch.from_pydict({CODE: codes, "text": pa.array(["x"] * rows)}))


@pytest.fixture
def cache(tmp_path: Path) -> SegmentCache:
    file.forget()
    return SegmentCache(str(tmp_path / "cache"), 1 << 30)


def folder_of(cache: SegmentCache) -> Path:
    assert cache.folder is not None
    return Path(cache.folder)


def file_of(cache: SegmentCache, name: str) -> Path:
    return folder_of(cache) / f"{name}.segment"


def names(cache: SegmentCache) -> list[str]:
    return sorted(path.name for path in folder_of(cache).iterdir())


def as_a_new_process() -> None:
    file.forget()
    module._unseen.clear()
    eviction._swept.clear()


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


# -- what is there -------------------------------------------------------------


def test_what_is_saved_is_loaded(cache: SegmentCache) -> None:
    saved = segment()
    cache.save("one", saved)
    for forgotten in (False, True):
        if forgotten:
            as_a_new_process()
        loaded = cache.load("one")
        assert loaded is not None
        assert loaded.rows.equals(saved.rows)
        assert loaded.index.codes.tolist() == saved.index.codes.tolist()
    assert cache.load("other") is None
    assert names(cache) == ["one.segment"]
    assert (cache.counts.damaged, cache.counts.unsaved, cache.counts.notes) == (0, 0, [])


def test_what_is_discarded_is_gone_and_discarding_twice_is_no_error(cache: SegmentCache) -> None:
    cache.save("one", segment())
    cache.discard("one")
    cache.discard("one")
    assert cache.load("one") is None


def test_deleting_a_file_that_is_mapped_is_harmless(cache: SegmentCache) -> None:
    cache.save("one", segment(10_000))
    loaded = cache.load("one")
    shutil.rmtree(folder_of(cache))
    assert loaded is not None
    assert loaded.index.codes.sum() == sum(range(10_000))
    assert loaded.rows.column("text").to_pylist() == ["x"] * 10_000
    assert cache.load("one") is None
    cache.save("one", segment())
    assert cache.load("one") is not None


def test_only_the_user_may_read_the_files(cache: SegmentCache) -> None:
    before = os.umask(0)
    try:
        cache.save("one", segment())
    finally:
        os.umask(before)
    assert folder_of(cache).stat().st_mode & 0o777 == 0o700
    assert file_of(cache, "one").stat().st_mode & 0o777 == 0o600


def test_the_folder_is_found_where_the_cache_is_used(cache: SegmentCache) -> None:
    cache.save("one", segment())
    sent = pickle.dumps(cache)
    assert b"watersmeet-" not in sent, "no folder of this host and user"
    assert pickle.loads(sent).load("one") is not None


# -- damage --------------------------------------------------------------------


def damages(content: bytes, other: bytes, random: np.random.Generator) -> Iterator[bytes]:
    """The content with its footer intact, but for a page or a few bytes anywhere before it."""
    body = content.rindex(b"ARROW1") - 2048
    for size in (1, 512, PAGE, 5 * PAGE):
        start = int(random.integers(0, body - size))
        for filling in (bytes(size), random.bytes(size), other[start : start + size]):
            yield content[:start] + filling + content[start + size :]
    for start in range(0, body - PAGE, PAGE):
        yield content[:start] + bytes(PAGE) + content[start + PAGE :]


def test_any_damaged_page_is_a_miss(cache: SegmentCache) -> None:
    # Given a file, and another one with other rows,
    saved = segment(10_000).indexed()
    cache.save("one", saved)
    cache.save("two", segment(10_000, first=7).indexed())
    path = file_of(cache, "one")
    content, other = path.read_bytes(), file_of(cache, "two").read_bytes()
    misses = 0
    for _ in range(3):
        for damaged in damages(content, other, np.random.default_rng(misses)):
            # when any part of it is something else,
            path.write_bytes(damaged)
            as_a_new_process()
            loaded = cache.load("one")
            # then it is not read, but deleted;
            if damaged == content:
                assert loaded is not None
            else:
                misses += 1
                assert loaded is None
                assert not path.exists()
    assert cache.counts.damaged == misses > 150
    # and what is saved in its place is read.
    cache.save("one", saved)
    loaded = cache.load("one")
    assert loaded is not None
    assert loaded.rows.equals(saved.rows)


def test_damage_is_seen_by_the_process_that_has_read_the_file(cache: SegmentCache) -> None:
    for rows in (100, 100_000):  # kept open, and not
        cache.save("one", segment(rows).indexed())
        assert cache.load("one") is not None
        path = file_of(cache, "one")
        content = bytearray(path.read_bytes())
        content[500:600] = bytes(100)
        time.sleep(0.02)  # file systems know times to a few milliseconds
        path.write_bytes(content)
        assert cache.load("one") is None


def test_a_file_is_checked_once_a_process(
    cache: SegmentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def counting(content: pa.Buffer, label: str) -> bytes:
        checked.append(label)
        return checksum(content, label)

    monkeypatch.setattr(file, "checksum", counting)
    cache.save("one", segment(100_000).indexed())
    # The process that writes a file knows it; another one checks it once,
    for known in (1, 2):
        for _ in range(3):
            assert cache.load("one") is not None
        assert len(checked) == known
        as_a_new_process()
    # also when the time of its last use is set meanwhile.
    path, now = file_of(cache, "one"), time.time()
    os.utime(path, (now - 300, now - 600))
    touch = mock.Mock(wraps=os.utime)
    monkeypatch.setattr(os, "utime", touch)
    for _ in range(3):
        assert cache.load("one") is not None
        assert path.stat().st_atime > now - 10
    assert path.stat().st_mtime < now - 500
    assert touch.call_count == 1
    assert len(checked) == 3


def test_what_a_process_remembers_is_bounded(
    cache: SegmentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "CHECKED_FILES", 5)
    monkeypatch.setattr(file, "OPEN_FILES", 3)
    for number in range(10):
        cache.save(str(number), segment())
        assert cache.load(str(number)) is not None
    assert len(file._checked) == 5
    assert len(file._open) == 3
    assert all(cache.load(str(number)) is not None for number in range(10))


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_a_miss(cache: SegmentCache, kept: float) -> None:
    cache.save("one", segment())
    path = file_of(cache, "one")
    os.truncate(path, int(path.stat().st_size * kept))
    assert cache.load("one") is None
    assert cache.counts.damaged == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"ARROW1", b"no Arrow file at all" * 100, b"ARROW1\0\0" + b"\xff" * 1000 + b"ARROW1"],
)
def test_a_file_with_something_else_is_a_miss(cache: SegmentCache, content: bytes) -> None:
    cache.save("one", segment())
    file_of(cache, "one").write_bytes(content)
    assert cache.load("one") is None


def test_another_segments_file_is_a_miss(cache: SegmentCache) -> None:
    cache.save("one", segment(first=1))
    cache.save("two", segment(first=2))
    shutil.copy(file_of(cache, "two"), file_of(cache, "one"))
    assert cache.load("one") is None
    assert cache.load("two") is not None


def test_a_damaged_footer_is_no_error(cache: SegmentCache) -> None:
    cache.save("one", segment())
    content = bytearray(file_of(cache, "one").read_bytes())
    for position in range(len(content) - 300, len(content)):
        damaged = content.copy()
        damaged[position] ^= 0xFF
        file_of(cache, "one").write_bytes(damaged)
        as_a_new_process()
        assert cache.load("one") is None


def test_a_link_or_a_folder_in_place_of_a_file_is_a_miss(
    cache: SegmentCache, tmp_path: Path
) -> None:
    cache.save("one", segment())
    outside = tmp_path / "outside"
    file_of(cache, "one").rename(outside)
    file_of(cache, "one").symlink_to(outside)
    as_a_new_process()
    assert cache.load("one") is None
    file_of(cache, "two").mkdir()
    assert cache.load("two") is None
    # What is saved replaces the link, not what it points to.
    content = outside.read_bytes()
    cache.save("one", segment(200))
    assert not file_of(cache, "one").is_symlink()
    assert outside.read_bytes() == content


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_file_of_another_user_is_a_miss(cache: SegmentCache) -> None:
    cache.save("one", segment())
    os.chown(file_of(cache, "one"), 65534, 65534)
    assert cache.load("one") is None


# -- eviction ------------------------------------------------------------------


def test_the_least_recently_used_leaves_first(cache: SegmentCache) -> None:
    # Given room for three segments, of which the first has just been read,
    cache.save("size", segment())
    room = 3 * file_of(cache, "size").stat().st_size
    cache.discard("size")
    small = SegmentCache(cache.configured, room)
    for seconds, name in ((300, "one"), (200, "two"), (100, "three")):
        small.save(name, segment())
        age(file_of(cache, name), seconds)
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
    none = SegmentCache(cache.configured, 0)
    none.save("one", segment())
    assert none.load("one") is None
    assert names(cache) == []


def test_files_of_queries_that_are_gone_are_deleted(cache: SegmentCache) -> None:
    cache.save("old", segment())
    age(file_of(cache, "old"), eviction.IDLE_SECONDS + 60)
    as_a_new_process()
    cache.save("new", segment())
    assert names(cache) == ["new.segment"]


def test_files_of_others_are_left_alone(cache: SegmentCache, tmp_path: Path) -> None:
    # Given files of a user's in the configured folder, and even in our own,
    strangers = [
        folder / name
        for folder in (folder_of(cache).parent, folder_of(cache))
        for name in ("photo.jpg", "table.arrow", "notes.tmp", "weights-1.json", "x.y.segment")
    ]
    for path in strangers:
        path.write_bytes(bytes(1000))
    # and links with a name of ours, to something else,
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.segment").write_bytes(b"kept")
    links = [folder_of(cache) / name for name in ("file.segment", "folder.segment")]
    links[0].symlink_to(outside / "kept.segment")
    links[1].symlink_to(outside)
    for path in (*strangers, *links, outside / "kept.segment"):
        age(path, 10 * eviction.IDLE_SECONDS)
    # when everything of ours is evicted,
    as_a_new_process()
    SegmentCache(cache.configured, 0).save("one", segment())
    # then they are all there.
    assert not file_of(cache, "one").exists()
    assert all(path.exists() for path in strangers)
    assert all(link.is_symlink() for link in links)
    assert (outside / "kept.segment").read_bytes() == b"kept"


def test_temporary_files_of_dead_writers_are_deleted(cache: SegmentCache) -> None:
    # Given temporary files of a writer that was killed, of one that lives, and one too old,
    folder = folder_of(cache)
    killed, old = (folder / f"{name}.segment.abcdefgh.tmp" for name in ("killed", "old"))
    killed.write_bytes(b"half")
    with file.whole_file(str(folder / "alive.segment")) as alive, old.open("wb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        age(old, eviction.WRITING_SECONDS + 60)
        # when files are evicted,
        as_a_new_process()
        cache.save("new", segment())
        # then of these only what may still be written stays,
        assert names(cache) == [os.path.basename(alive), "new.segment"]
        # however little room there is.
        eviction.evict(str(folder), 0)
        assert names(cache) == [os.path.basename(alive)]
    assert names(cache) == ["alive.segment"]


def test_folders_of_earlier_boots_are_deleted_when_they_are_idle(cache: SegmentCache) -> None:
    # Given folders of other boots: in use (on another host), idle, with a user's file, a link,
    uid, parent = os.geteuid(), folder_of(cache).parent
    used, idle, mixed = (parent / f"watersmeet-{uid}-{name}" for name in ("used", "idle", "mixed"))
    for folder in (used, idle, mixed):
        folder.mkdir(mode=0o700)
        for name in ("one.segment", "two.segment.abcdefgh.tmp"):
            (folder / name).write_bytes(b"something")
            age(folder / name, eviction.IDLE_SECONDS + 60)
    (used / "one.segment").touch()
    (mixed / "photo.jpg").touch()
    outside = parent / "outside"
    outside.mkdir(mode=0o700)
    (outside / "one.segment").touch()
    age(outside / "one.segment", eviction.IDLE_SECONDS + 60)
    link = parent / f"watersmeet-{uid}-link"
    link.symlink_to(outside)
    # when a process first evicts files, then what is idle there is deleted.
    as_a_new_process()
    cache.save("new", segment())
    assert not idle.exists()
    assert [path.name for path in used.iterdir()] == ["one.segment"]
    assert [path.name for path in mixed.iterdir()] == ["photo.jpg"]
    assert [path.name for path in link.iterdir()] == ["one.segment"]


def test_the_folder_is_looked_at_only_now_and_then(cache: SegmentCache) -> None:
    # Given a folder that has just been looked at,
    cache.save("one", segment())
    age(file_of(cache, "one"), eviction.IDLE_SECONDS + 60)
    # when little is written, an idle file stays;
    cache.save("two", segment())
    assert file_of(cache, "one").exists()
    # when a hundredth of the capacity has been written since, it goes.
    module._unseen[str(folder_of(cache))] = cache.capacity // 100
    cache.save("three", segment())
    assert not file_of(cache, "one").exists()


# -- no room -------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setattr("tempfile.tempdir", str(blocked))
    cache = SegmentCache(str(blocked / "cache"), 1 << 30)
    cache.save("one", segment())
    assert cache.load("one") is None
    cache.discard("one")
    assert cache.counts.unsaved == 1
    (note,) = cache.counts.notes
    assert note.startswith("there is no local cache")


class Disk:
    """A disk for so many bytes in a folder: a writer beyond that leaves half of a file, and fails
    as on a full disk."""

    def __init__(self, folder: Path, size: int, patch: pytest.MonkeyPatch, number: int) -> None:
        self.folder, self.size, self.number = folder, size, number
        self.writer = pa.OSFile
        patch.setattr(pa, "OSFile", self)

    def __call__(self, path: str, mode: str) -> pa.NativeFile:
        used = sum(entry.stat().st_size for entry in self.folder.iterdir())
        if used >= self.size:
            Path(path).write_bytes(bytes(100))
            raise OSError(self.number, os.strerror(self.number))
        return self.writer(path, mode)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_evicts_and_tries_again(
    cache: SegmentCache, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    # Given a disk that is full after ten files, far below the cache's capacity,
    cache.save("0", segment())
    size = file_of(cache, "0").stat().st_size
    Disk(folder_of(cache), 10 * size, monkeypatch, number)
    for name in range(1, 40):
        age(file_of(cache, str(name - 1)), 100 - name)
        cache.save(str(name), segment())
        # then every segment is saved all the same,
        assert cache.load(str(name)) is not None
        # nothing is left of the tries that failed,
        assert all(path.suffix == ".segment" for path in folder_of(cache).iterdir())
    # and those that were used least recently have left.
    kept = sorted(int(path.stem) for path in folder_of(cache).iterdir())
    assert kept == list(range(40 - len(kept), 40))
    assert 7 <= len(kept) <= 10
    assert (cache.counts.unsaved, cache.counts.notes) == (0, [])


def test_room_is_made_for_what_comes_and_a_tenth_more(tmp_path: Path) -> None:
    # Given ten files of a hundred bytes, the last ones used most recently,
    for number in range(10):
        path = tmp_path / f"{number}.segment"
        path.write_bytes(bytes(100))
        age(path, 100 - number)
    # when the disk has no room for 150 bytes,
    eviction.evict(str(tmp_path), capacity=10_000, room=150)
    # then a tenth of what is there leaves, and so much more.
    assert sorted(path.stem for path in tmp_path.iterdir()) == [str(n) for n in range(3, 10)]


def test_a_disk_without_any_room_is_noted(
    cache: SegmentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save("one", segment())
    Disk(folder_of(cache), 0, monkeypatch, errno.ENOSPC)
    for name in ("two", "three"):
        cache.save(name, segment())
        assert cache.load(name) is None
    assert names(cache) == []
    assert cache.counts.unsaved == 2
    (note,) = cache.counts.notes
    assert str(folder_of(cache)) in note
    assert os.strerror(errno.ENOSPC) in note


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte, where it may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    cache = SegmentCache(str(small_disk), 1 << 30)
    # Segments of about 80 KB: the disk is full after twelve.
    for number in range(30):
        cache.save(str(number), segment(6_000))
        assert cache.load(str(number)) is not None
    assert 5 <= len(names(cache)) <= 12
    assert cache.counts.unsaved == 0
    # One that never fits leaves nothing behind.
    cache.save("large", segment(100_000))
    assert cache.load("large") is None
    assert cache.counts.unsaved == 1
    assert not [name for name in names(cache) if name.endswith(".tmp")]
    (note,) = cache.counts.notes
    assert os.strerror(errno.ENOSPC) in note
    # Others have filled the disk: there is no room even without our files.
    (small_disk / "others").write_bytes(bytes((1 << 20) - 4 * PAGE))
    cache.save("one", segment(6_000))
    assert cache.counts.unsaved == 2
    assert (small_disk / "others").exists()
