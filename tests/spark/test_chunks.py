"""Capsules become chunks of bounded size, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from watersmeet.rows.columns import CODE
from watersmeet.rows.ipc import write_ipc
from watersmeet.spark import processor
from watersmeet.spark.exits import Results
from watersmeet.spark.processor import Processor
from watersmeet.state.cache import SegmentCache
from watersmeet.testing import LocalJoin, LocalStream


def payload(code: int, width: int) -> bytes:
    sink = pa.BufferOutputStream()
    rows = {CODE: pa.array([code], pa.int64()), "#1": ["x" * width]}
    write_ipc(pa.RecordBatch.from_pydict(rows), sink)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def frames(capsules: list[tuple[int, bytes | None]], each: int) -> Iterator[pd.DataFrame]:
    for start in range(0, len(capsules), each):
        yield pd.DataFrame(capsules[start : start + each], columns=["stream", "payload"])


@pytest.mark.parametrize("each", [1, 4, 100])
def test_a_chunk_takes_at_most_the_limit_or_is_one_capsule(
    each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given capsules of both streams, some of them wider than a chunk, and heartbeats,
    stream = LocalStream(pa.schema([("k", pa.int64()), ("text", pa.string())]))
    join = LocalJoin({"a": stream, "b": stream}, on="k", unbounded=True).join
    widths = [100, 700, 5000, 200, 200, 5000, 5000, 10, 10]
    capsules: list[tuple[int, bytes | None]] = [
        (code % 2, payload(code, width)) for code, width in enumerate(widths)
    ]
    capsules[3:3] = [(0, None), (1, None)]
    cache = SegmentCache(str(tmp_path), 0)
    step = Processor(join, Results(join.output), cache, [0], streaming=True, timers=False)
    limit = 2 * len(payload(0, 100)) + 800
    monkeypatch.setattr(processor, "CHUNK_BYTES", limit)
    # when they come in frames of any size,
    chunks = list(step._chunks(frames(capsules, each)))
    # then they are handed on in order, and no chunk is larger than it must be.
    codes = [[rows.column(CODE).to_pylist() for rows in chunk if rows] for chunk in chunks]
    assert codes == [[[0], [1]], [[2]], [[4], [3]], [[5]], [[6]], [[8], [7]]]
