"""Matches of new rows in many streams are gathered a bounded amount at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.match.gathering import MatchGathering
from watersmeet.spec.budget import Budget
from watersmeet.spec.limits import Limits
from watersmeet.testing import LocalJoin, LocalStream

LIMIT = 1 << 20
SMALL = Limits(piece_bytes=LIMIT)


def joined(folder: Path, key: pa.DataType, how: str = "inner", **options: Any) -> LocalJoin:
    """Three streams of texts, without times."""
    streams = {
        name: LocalStream(pa.schema([("k", key), (f"{name}_text", pa.string())])) for name in "abc"
    }
    given: dict[str, Any] = {"on": "k", "how": how, "unbounded": True, "folder": str(folder)}
    given["limits"] = SMALL
    return LocalJoin(streams, **(given | options))


def rows(join: LocalJoin, name: str, keys: Any, width: int) -> pa.Table:
    """A row for each key, with a text of that width."""
    kind = join.join.layout.inputs["abc".index(name)].types["k"]
    texts = pa.array(["x" * width] * len(keys), pa.string())
    return pa.table({"k": pa.array(keys).cast(kind), f"{name}_text": texts})


def results(join: LocalJoin, name: str, table: pa.Table) -> tuple[int, EquiCounters, int]:
    """How many results new rows of a stream make, what is counted, and the most memory that Arrow
    takes while a result is there, if each is let go before the next one is made."""
    position, counters = "abc".index(name), EquiCounters.zero(3)
    chunk: list[pa.RecordBatch | None] = [None] * 3
    chunk[position] = join.encoded(position, table)
    before, count, most = pa.total_allocated_bytes(), 0, 0
    for batch in join.join.step([chunk], None, join.run.state(0), counters):
        count += len(batch)
        most = max(most, pa.total_allocated_bytes() - before)
        del batch
    return count, counters, most


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """For each time that something is gathered: how many matches of each stream."""
    seen: list[list[int]] = []
    original = MatchGathering.gather

    def watched(self: MatchGathering, chosen: np.ndarray) -> Iterator[Any]:
        for matches, some in original(self, chosen):
            seen.append([len(of_stream.places) for of_stream in matches])
            yield matches, some

    monkeypatch.setattr(MatchGathering, "gather", watched)
    return seen


@pytest.mark.parametrize("key", [pa.int64(), pa.string()], ids=["exact keys", "hashed keys"])
def test_what_is_gathered_is_measured_by_the_stored_rows(tmp_path: Path, key: pa.DataType) -> None:
    # Given 20 stored rows of 10 kB for each of 50 keys, and one row of the third stream,
    join = joined(tmp_path, key)
    for _ in range(4):
        join.batch(b=rows(join, "b", list(range(50)) * 5, 10_000), c=rows(join, "c", [], 1))
    join.batch(c=rows(join, "c", list(range(50)), 1))
    # when 500 narrow rows match all of them: 100 MB of results,
    count, _, most = results(join, "a", rows(join, "a", list(range(50)) * 10, 1))
    # then what is there at a time is some pieces of one megabyte.
    assert count == 50 * 10 * 20
    assert most < 4 * LIMIT


@pytest.mark.parametrize("key", [pa.int64(), pa.string()], ids=["exact keys", "hashed keys"])
def test_a_row_with_more_matches_than_fit_is_processed_in_blocks(
    tmp_path: Path, key: pa.DataType, gathered: list[list[int]]
) -> None:
    # Given a key with 40,000 stored rows, in several segments, and one with few,
    join = joined(tmp_path, key)
    for _ in range(2):
        join.batch(b=rows(join, "b", [7] * 20_000, 1), c=rows(join, "c", [7, 8], 1))
    join.batch(b=rows(join, "b", [8], 1))
    # when a row of each comes,
    gathered.clear()
    count, counters, most = results(join, "a", rows(join, "a", [7, 8], 1))
    # then no result is missing, although never more than 16,384 matches were there at a time.
    assert count == 40_000 * 2 + 2
    assert (counters.largest.fanout, counters.largest.key) == (80_000, "7")
    assert max(max(numbers) for numbers in gathered) <= LIMIT // 16
    assert most < 4 * LIMIT


def test_documents_are_not_copied_to_be_combined(tmp_path: Path) -> None:
    # Given documents that are wider than a piece,
    join = joined(tmp_path, pa.int64())
    join.batch(b=rows(join, "b", [7] * 8, 2 * LIMIT), c=rows(join, "c", [7] * 2, 3 * LIMIT))
    # when a row matches 8 and 2 of them,
    count, _, most = results(join, "a", rows(join, "a", [7], 1))
    # then there is one result at a time.
    assert count == 16
    assert most < 2 * (2 + 3) * LIMIT


@pytest.mark.parametrize("cap", [1, 50, 20_000])
def test_a_row_that_has_reached_its_cap_needs_no_more_matches(
    tmp_path: Path, cap: int, gathered: list[list[int]]
) -> None:
    join = joined(tmp_path, pa.int64(), budget=Budget(fanout=cap, overflow="shed"))
    for _ in range(4):
        join.batch(b=rows(join, "b", [7] * 20_000, 1), c=rows(join, "c", [7], 1))
    gathered.clear()
    count, counters, _ = results(join, "a", rows(join, "a", [7], 1))
    assert (count, counters.capped) == (cap, 1)
    assert [numbers[0] for numbers in gathered] == [LIMIT // 16]  # the first of two blocks


def test_a_left_join_does_not_gather_what_was_emitted(
    tmp_path: Path, gathered: list[list[int]]
) -> None:
    # Given a row that has matched in every stream, and one that lacks a match,
    instant = pa.timestamp("us", "UTC")
    streams = {
        name: LocalStream(
            pa.schema([("k", pa.string()), (f"{name}_t", instant)]), f"{name}_t", "0 s"
        )
        for name in "abc"
    }
    join = LocalJoin(streams, on="k", within="1 second", how="left", folder=str(tmp_path))
    hour = 3_600_000_000

    def at(name: str, *keys: str, time: int = hour) -> pa.Table:
        times = pa.array([time] * len(keys), pa.int64()).view(instant)
        return pa.Table.from_arrays([pa.array(keys), times], ["k", f"{name}_t"])

    assert join.batch(a=at("a", "x", "y"), b=at("b", "x", "x", "y"), c=at("c", "x")).num_rows == 2
    join.batch(**{name: at(name, "later", time=2 * hour) for name in "abc"})
    # when the watermark has passed both,
    gathered.clear()
    assert join.batch().column("k").to_pylist() == ["y"]
    # then only what the second one matches was gathered.
    assert gathered == [[1, 0]]
