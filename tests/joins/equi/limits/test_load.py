"""A step's load: what it brings, and what enters the averages."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.conformance.join import at
from tests.conformance.strategies import INSTANT
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.limits.load import Load
from watersmeet.spec.budget import Budget
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
    assert [(flow.rows, flow.present) for flow in state.flows] == [(3.0, 1.0), (0.0, 0.0)]
    assert counters.full_results == 5
    assert state.service is not None


@pytest.mark.parametrize(
    ("memory", "rows", "said"),
    [
        ("100 kB", 10, "memory of 100 kB is too little to work with"),
        ("1 MB", 10, None),
        ("1 MB", 500_000, "Give at least memory='1.12 MB'"),
    ],
)
def test_a_budget_that_is_far_too_small_is_noted_once(
    tmp_path: Path, memory: str, rows: int, said: str | None
) -> None:
    join = LocalJoin(
        {"a": STREAM, "b": STREAM},
        on="k",
        within="1 minute",
        budget=Budget(memory=memory),
        folder=str(tmp_path),
    )
    batch = pa.table({"k": range(rows), "t": pa.array([at(0)] * rows, INSTANT)}, STREAM.schema)
    join.batch(a=batch)
    notes = join.counters.notes
    assert [said in note for note in notes] == [True] if said else notes == []
    join.batch()
    assert join.counters.notes == []


def test_only_rows_that_are_not_shed_enter_the_averages(tmp_path: Path) -> None:
    # By the rates that are left, it is chosen which windows have an index (window paper, 4.2).
    join = LocalJoin(
        {"a": STREAM, "b": STREAM},
        on="k",
        within="1 minute",
        budget=Budget(rate=10, overflow="shed"),
        folder=str(tmp_path),
    )
    times = pa.array([at(second / 100) for second in range(2000)], INSTANT)
    join.batch(a=pa.table({"k": range(2000), "t": times}, STREAM.schema))
    [a, b] = join.run.state(0).flows
    assert a.rows == 2000 - join.counters.streams[0].shed == pytest.approx(200, rel=0.2)
    assert b.rows == 0
