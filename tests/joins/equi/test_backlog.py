"""A micro-batch of many chunks, as after a standstill: what is in memory does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.strategies import INSTANT
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.spec.limits import Limits
from watersmeet.state import bitmaps
from watersmeet.state.manifest import total_memory
from watersmeet.testing import LocalJoin, LocalStream

CHUNK_ROWS, WIDTH = 500, 200
OPEN_BYTES = 400_000


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitmaps, "MEMORY", 4 * CHUNK_ROWS)


def joined(names: str, how: str, folder: Path) -> LocalJoin:
    streams = {
        name: LocalStream(
            pa.schema([("k", pa.int64()), (f"{name}_t", INSTANT), (f"{name}_text", pa.string())]),
            time=f"{name}_t",
            delay="1 minute",
        )
        for name in names
    }
    small = Limits(open_bytes=OPEN_BYTES, buffered_memory=100_000)
    return LocalJoin(streams, on="k", within="1 hour", how=how, folder=str(folder), limits=small)


def chunk(join: LocalJoin, number: int) -> list[pa.RecordBatch | None]:
    """New rows of every stream; each matches one of every other stream, but for the last tenth."""
    keys = np.arange(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)
    given = []
    for position, stream in enumerate(join.spec.streams):
        own = np.where(np.arange(CHUNK_ROWS) % 10 == 9, -keys * 10 - position - 1, keys)
        times = pa.array(1_704_067_200_000_000 + keys).view(INSTANT)
        texts = pa.array(["x" * WIDTH] * CHUNK_ROWS)
        names = ["k", f"{stream.name}_t", f"{stream.name}_text"]
        table = pa.Table.from_arrays([pa.array(own), times, texts], names)
        given.append(join.encoded(position, table))
    return given


@pytest.mark.parametrize(
    ("names", "how"), [("ab", "inner"), ("ab", "full"), ("abc", "inner"), ("abc", "left")]
)
def test_what_is_open_does_not_grow_with_the_backlog(tmp_path: Path, names: str, how: str) -> None:
    # Given a join without a budget,
    join = joined(names, how, tmp_path)
    state, counters = join.run.state(0), EquiCounters.zero(len(names))
    before, open_bytes, allocated = pa.total_allocated_bytes(), [], []

    def chunks() -> Iterator[list[pa.RecordBatch | None]]:
        for number in range(30):
            open_bytes.append(state.windows[0].opened.nbytes)
            allocated.append(pa.total_allocated_bytes() - before)
            yield chunk(join, number)

    # when one micro-batch brings far more than may be open at a time,
    results = sum(len(batch) for batch in join.join.step(chunks(), None, state, counters))
    state.commit()
    # then open segments never took more, and nothing else held on to rows,
    assert sum(total_memory(window.entries) for window in state.windows) > 10 * OPEN_BYTES
    assert OPEN_BYTES / 2 < max(open_bytes) <= OPEN_BYTES
    assert max(allocated) < 2 * OPEN_BYTES
    # and the result is complete.
    assert results == 30 * CHUNK_ROWS * 9 // 10
    rest = {"inner": 0, "full": 2, "left": 1}[how] * 30 * CHUNK_ROWS // 10
    assert join.finish().num_rows == rest


def test_bitmaps_that_left_memory_are_read_again(tmp_path: Path) -> None:
    join = joined("ab", "full", tmp_path)
    state, counters = join.run.state(0), EquiCounters.zero(2)
    both = [chunk(join, number) for number in range(12)]
    # Given rows of a in many segments, of which those of b, which come later, mark most,
    alone = [[rows, None] for rows, _ in both]
    matching = [[None, rows] for _, rows in both]
    results = sum(len(b) for b in join.join.step([*alone, *matching], None, state, counters))
    state.commit()
    assert results == 12 * CHUNK_ROWS * 9 // 10
    # then no more than what may stay is loaded, and no mark is lost.
    for window in state.windows:
        assert sum(map(len, window._bitmaps._loaded.values())) <= bitmaps.MEMORY
    assert join.finish().num_rows == 2 * 12 * CHUNK_ROWS // 10
