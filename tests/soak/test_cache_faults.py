"""Files of a cache are deleted and damaged; a disk is full."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from soak import cache_faults


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    (folder / "of somebody").mkdir(parents=True)
    for number in range(8):
        file = folder / "of somebody" / f"{number}.arrow"
        file.write_bytes(bytes([number]) * 20_000)
        os.utime(file, (1000, 1000))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("in_place", [True, False])
def test_half_of_the_files_are_damaged(cache: Path, in_place: bool) -> None:
    before = contents(cache)
    opened = [file.open("rb") for file in sorted((cache / "of somebody").iterdir())]
    assert cache_faults.damage(cache, random.Random(4), in_place=in_place) == 4
    after = contents(cache)
    assert after.keys() == before.keys()
    assert sum(after[name] != before[name] for name in before) == 4
    # What is open stays as it was, unless it is damaged in place, which keeps the time too.
    assert [file.read() == before[Path(file.name).name] for file in opened].count(
        False
    ) == 4 * in_place
    kept = [file.stat().st_mtime == 1000 for file in (cache / "of somebody").iterdir()]
    assert all(kept) == in_place
    for file in opened:
        file.close()


def test_every_way_changes_a_file() -> None:
    content = bytes(range(1, 256)) * 100
    damaged = {cache_faults._damaged(content, random.Random(seed)) for seed in range(40)}
    assert content not in damaged
    assert {len(each) < len(content) for each in damaged} == {True, False}


def test_some_files_are_deleted_or_all(cache: Path) -> None:
    left = set()
    for seed in range(6):
        before = len(contents(cache))
        gone = cache_faults.delete(cache, random.Random(seed))
        left.add(len(contents(cache)))
        assert len(contents(cache)) == before - gone
    assert 0 in left
    assert cache_faults.delete(cache, random.Random(0)) == 0, "there is nothing any more"


def test_a_full_disk_is_seen_by_its_command_alone(tmp_path: Path) -> None:
    if not cache_faults.can_fill_a_disk(tmp_path):
        pytest.skip("this user may not mount a disk")
    program = f"""
import os, sys
from soak.cache_faults import FULL_DISK_BYTES, is_full
from pathlib import Path
folder = Path({str(tmp_path)!r})
assert not is_full(os.getpid(), folder)
try:
    (folder / "too much").write_bytes(bytes(2 * FULL_DISK_BYTES))
except OSError as error:
    assert "No space left" in str(error)
assert is_full(os.getpid(), folder)
"""
    command = [*cache_faults.full_disk(tmp_path), sys.executable, "-c", program]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    assert list(tmp_path.iterdir()) == []
