"""A step's load: what it brings, and what enters the averages."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.conformance.join import at
from tests.conformance.strategies import INSTANT
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.limits.load import Load
from watersmeet.testing import LocalJoin, LocalStream

STREAM = LocalStream(pa.schema([("k", pa.int64()), ("t", INSTANT)]), time="t", delay="0 seconds")


def test_rows_and_their_times_enter_the_averages(tmp_path: Path) -> None:
    join = LocalJoin({"a": STREAM, "b": STREAM}, on="k", within="1 minute", folder=str(tmp_path))
    layout, state, counters = join.join.layout, join.run.state(0), EquiCounters.zero(2)
    load = Load(StepContext(layout, state, counters))
    assert load.paused
    times = pa.array([at(0), at(4), at(2)], INSTANT)
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), times], ["#code", "#time"])
    assert load.admit(0, rows) is rows, "without a budget nothing is shed"
    assert not load.paused
    assert [load.probed(0), load.probed(1)] == [False, True]
    counters.results = 5
    load.learn()
    assert [(flow.rows, flow.present, flow.rate) for flow in state.flows] == [
        (3.0, 1.0, 0.75),
        (0.0, 0.0, None),
    ]
    assert counters.full_results == 5
    assert state.service is not None
