"""A staged table that is damaged is noticed: no row is answered wrongly, and it is staged anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import StagedTableError
from watersmeet.rows.columns import CODE
from watersmeet.rows.shard import Shard
from watersmeet.table.files import check, write_with_checksum
from watersmeet.table.staged_table import StagedTable, combine, stage

SHARED = ["index.arrow", "filter", "fences"]


def emptied(content: bytes) -> bytes:
    return b""


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def shortened(content: bytes) -> bytes:
    """A file that lacks a few bytes; fences are cut within a number."""
    return content[:-5]


def zeroed(content: bytes) -> bytes:
    return bytes(len(content))


def flipped(content: bytes) -> bytes:
    """One bit is another one."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def small(folder: Path, keys: range = range(5000)) -> StagedTable:
    """A table in two shards, of several partitions each."""
    rows = pa.RecordBatch.from_pydict({CODE: pa.array(keys, pa.int64())})
    return stage(rows, str(folder), shards=2, partition=5000)


def damage(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))


@pytest.mark.parametrize("how", [emptied, halved, shortened, zeroed, flipped])
@pytest.mark.parametrize("name", SHARED)
def test_a_damaged_file_of_all_partitions_is_never_read(
    tmp_path: Path, name: str, how: Callable[[bytes], bytes]
) -> None:
    # Given a table of which a file is damaged,
    staged = small(tmp_path)
    damage(tmp_path / "1" / name, how)
    # when the shard is read, then that is said, and other shards are as they were.
    with pytest.raises(StagedTableError, match=f"1/{name}.*checksum"):
        staged.shard(Shard(1, 2))
    assert (staged.shard(Shard(0, 2)).home(np.arange(5000)) >= 0).any()
    # The table is not taken again, also if the file was as long as before.
    assert not staged.intact()
    assert not staged.serves(Shard(1, 2))


@pytest.mark.parametrize("how", [emptied, halved, shortened, zeroed])
def test_a_table_with_a_partition_that_cannot_be_read_is_not_taken_again(
    tmp_path: Path, how: Callable[[bytes], bytes]
) -> None:
    staged = small(tmp_path)
    shard = staged.shard(Shard(1, 2))
    damage(tmp_path / "1" / "1.arrow", how)
    with pytest.raises(StagedTableError, match="1/1.arrow"):
        shard.partition(1)
    assert not staged.intact()


@pytest.mark.parametrize("how", [emptied, halved, shortened])
@pytest.mark.parametrize("name", [*SHARED, "0.arrow", "1.arrow"])
@pytest.mark.parametrize("layered", [False, True])
def test_a_table_with_a_file_that_was_cut_is_not_intact(
    tmp_path: Path, name: str, how: Callable[[bytes], bytes], layered: bool
) -> None:
    staged = small(tmp_path / "a")
    if layered:
        more = small(tmp_path / "b", range(5000, 5010))
        (tmp_path / "both").mkdir()
        staged = combine(str(tmp_path / "both"), [staged, more])
    assert staged.intact()
    assert staged.serves(Shard(1, 2))
    damage(tmp_path / "a" / "1" / name, how)
    assert not staged.intact()
    assert not staged.serves(Shard(1, 2))


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"format": 4}', '{"format": 4, "size": {}}'])
@pytest.mark.parametrize("layered", [False, True])
def test_a_table_whose_summary_is_damaged_is_not_intact(
    tmp_path: Path, said: str, layered: bool
) -> None:
    staged = small(tmp_path / "a")
    if layered:
        (tmp_path / "both").mkdir()
        staged = combine(str(tmp_path / "both"), [staged])
    (tmp_path / "a" / "table.json").write_text(said)
    assert staged.size() is None
    assert not staged.intact()
    with pytest.raises(StagedTableError, match="not complete"):
        staged.shard(Shard(0, 2))


def test_an_empty_shard_is_checked_too(tmp_path: Path) -> None:
    staged = small(tmp_path, range(0))
    assert staged.intact()
    damage(tmp_path / "0" / "filter", emptied)
    assert not staged.intact()


def test_a_file_of_several_pieces_is_checked_as_a_whole(tmp_path: Path) -> None:
    path, content = tmp_path / "filter", np.random.default_rng(1).bytes((5 << 20) // 2)
    write_with_checksum(str(path), content)
    assert check(str(path)) == len(content)
    assert path.read_bytes().startswith(content)
    for place in (0, 1 << 20, (2 << 20) + 7, len(content) - 1, len(content)):
        written = bytearray(content + path.read_bytes()[len(content) :])
        written[place] ^= 0x80
        other = tmp_path / "other" / "filter"
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(written)
        with pytest.raises(StagedTableError, match="checksum"):
            check(str(other))
    # A file is not taken for another one.
    fences = tmp_path / "fences"
    fences.write_bytes(path.read_bytes())
    with pytest.raises(StagedTableError, match="checksum"):
        check(str(fences))


def test_all_is_on_the_disk_before_a_table_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a note of each file that is synced, and with how many bytes,
    synced: dict[int, int] = {}
    syncing, replacing = os.fsync, os.replace

    def noted(descriptor: int) -> None:
        syncing(descriptor)
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size

    def replaced(source: str, target: str) -> None:
        # when a table is staged, then a file gets its name when it is on the disk,
        status = os.stat(source)
        assert synced.get(status.st_ino) == status.st_size, target
        if os.path.basename(target) == "table.json":
            files = [path.stat() for path in tmp_path.rglob("*") if path.is_file()]
            assert len(files) > 8
            assert all(synced.get(file.st_ino) == file.st_size for file in files)
        replacing(source, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", replaced)
    small(tmp_path)
    # and it is complete when all of it is.
    assert json.loads((tmp_path / "table.json").read_text())["files"] == sum(
        path.stat().st_size for path in tmp_path.rglob("*/*") if path.is_file()
    )
