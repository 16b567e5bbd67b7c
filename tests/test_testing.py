"""LocalJoin: what it takes and what it refuses. What it computes: see conformance/."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.errors import StreamNameError
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


def test_a_batch_for_an_unknown_stream_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    stream = LocalStream(SCHEMA, time="t", delay="0 seconds")
    join = LocalJoin(
        {"views": stream, "clicks": stream}, on="k", within="1 second", folder=str(tmp_path)
    )
    with pytest.raises(StreamNameError, match="'view' is not one of .* Did you mean 'views'"):
        join.batch(view=SCHEMA.empty_table())


def test_timestamps_of_any_zone_and_unit_are_taken(tmp_path) -> None:  # type: ignore[no-untyped-def]
    zoned = pa.schema([("k", pa.int64()), ("t", pa.timestamp("ms", "Europe/Vienna"))])
    stream = LocalStream(zoned, time="t", delay="0 seconds")
    join = LocalJoin({"a": stream, "b": stream}, on="k", within="1 second", folder=str(tmp_path))
    rows = pa.table([[1], [1000]], schema=zoned)
    result = join.batch(a=rows, b=rows)
    assert result.column("event_time").cast(pa.int64()).to_pylist() == [1_000_000]
