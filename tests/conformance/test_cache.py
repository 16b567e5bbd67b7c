"""Whatever happens to the local cache, the result is right, and what happened is counted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.join import START, Batch, Join
from tests.conformance.strategies import INSTANT
from tests.oracle import assert_same_rows
from watersmeet.state.cache import file
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("v", pa.float64())])
ROWS, PAGE = 5_000, 4096


@pytest.fixture
def join() -> Join:
    stream = LocalStream(SCHEMA, time="t", delay=timedelta(seconds=10))
    return Join({"a": stream, "b": stream}, on="k", within=timedelta(minutes=1), how="left")


def batches(count: int) -> Iterator[Batch]:
    """Micro-batches of 10 seconds. Every row of a has a match in the one that follows."""
    for number in range(count):
        keys = np.arange(ROWS) + ROWS * number
        times = int(START.timestamp() * 1e6) + 10_000_000 * number + np.arange(ROWS)
        yield {
            name: pa.table([keys - behind, pa.array(times).view(INSTANT), keys % 3.0], SCHEMA)
            for name, behind in (("a", 0), ("b", ROWS))
        }


def zero_half(content: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """Every other page, the footer not among them."""
    damaged = bytearray(content)
    for start in range(PAGE, len(content) - 2 * PAGE, 2 * PAGE):
        damaged[start : start + PAGE] = bytes(PAGE)
    return bytes(damaged)


def overwrite(content: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """A few bytes, somewhere."""
    size = int(random.integers(1, PAGE))
    start = int(random.integers(0, len(content) - size))
    return content[:start] + random.bytes(size) + content[start + size :]


def exchange(content: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """The half of another file."""
    return content[: len(content) // 2] + other[len(content) // 2 :]


def replace(content: bytes, other: bytes, random: np.random.Generator) -> bytes:
    """All of another file."""
    return other


def truncate(content: bytes, other: bytes, random: np.random.Generator) -> bytes:
    return content[: int(random.integers(0, len(content)))]


@pytest.mark.parametrize("damage", [zero_half, overwrite, exchange, replace, truncate])
def test_damaged_files_are_read_from_the_store(
    join: Join, tmp_path: Path, damage: Callable[[bytes, bytes, np.random.Generator], bytes]
) -> None:
    random = np.random.default_rng(7)
    run = LocalJoin(join.streams, folder=str(tmp_path), **join.options)
    given = [*batches(4), *join.closing()]
    results, damaged = [], 0
    for batch in given:
        # Given that every file is damaged before every micro-batch,
        paths = sorted(tmp_path.glob("*/*.segment"))
        contents = [path.read_bytes() for path in paths]
        for path, content, other in zip(paths, contents, contents[1:] + contents[:1], strict=True):
            path.write_bytes(damage(content, other, random))
        file.forget()  # as another process finds the files
        results.append(run.batch(**batch))
        # then none is used, and that is counted,
        damaged += run.counters.cache_damaged
        assert run.counters.cache_misses == run.counters.cache_damaged
        assert run.counters.cache_hits == 0
    assert damaged > 5
    # and the result is right.
    result = pa.concat_tables(results)
    assert result.num_rows > 4 * ROWS
    assert_same_rows(result, join.expected(given))


def test_a_full_disk_costs_time_and_is_noted(
    join: Join, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, mode: str) -> pa.NativeFile:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def notes(run: LocalJoin) -> list[str]:
        return [note for note in run.counters.notes if "local cache" in note]

    run = LocalJoin(join.streams, folder=str(tmp_path), **join.options)
    given = [*batches(4), *join.closing()]
    results = [run.batch(**given[0])]
    assert (run.counters.cache_unsaved, notes(run)) == (0, [])
    monkeypatch.setattr(pa, "OSFile", full)
    for batch in given[1:4]:
        results.append(run.batch(**batch))
        assert run.counters.cache_unsaved > 0
        (note,) = notes(run)
        assert os.strerror(errno.ENOSPC) in note
    results += [run.batch(**batch) for batch in given[4:]]
    assert_same_rows(pa.concat_tables(results), join.expected(given))
    assert not list(tmp_path.glob("*/*.tmp"))
