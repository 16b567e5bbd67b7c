"""Windows change the way they are held when the streams do, and not for a moment's whim."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.join import START
from tests.conformance.strategies import INSTANT
from watersmeet.cost import calibration
from watersmeet.cost.engine import Weights
from watersmeet.joins.equi.flow import Flow
from watersmeet.joins.equi.limits.load import switch_indexes
from watersmeet.spec.tuning import Tuning
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT)])
STREAM = LocalStream(SCHEMA, time="t", delay=timedelta(0))


@pytest.fixture(autouse=True)
def machine() -> Iterator[None]:
    """A machine whose weights are known."""
    weights = Weights(sort=70, merge=20, search=100, scan=10, hit=160, call=20_000)
    with mock.patch.object(calibration, "weights", return_value=weights):
        yield


def rows(count: int, second: int) -> pa.Table:
    random = np.random.default_rng(second)
    start = int(START.timestamp()) + second
    times = start * 1_000_000 + np.sort(random.integers(0, 1_000_000, count))
    return pa.table(
        {"k": random.integers(0, 1 << 40, count), "t": pa.array(times).view(INSTANT)}, SCHEMA
    )


def joined(tmp_path: Path, **options: Any) -> LocalJoin:
    within = timedelta(seconds=30)
    streams = {"slow": STREAM, "fast": STREAM}
    return LocalJoin(streams, on="k", within=within, folder=str(tmp_path), **options)


def held(join: LocalJoin) -> list[bool]:
    return [flow.indexed for flow in join.run.state(0).flows]


def test_a_change_of_rate_makes_a_window_change_and_the_note_says_why(tmp_path: Path) -> None:
    # Given a fast stream whose window is probed in every batch,
    join, notes = joined(tmp_path), {}
    for second in range(60):
        join.batch(slow=rows(200, second), fast=rows(30_000, second))
        notes[second] = join.counters.notes
    assert held(join)[1], "an index pays"
    # when the slow stream falls almost silent,
    for second in range(60, 120):
        join.batch(slow=rows(0 if second % 20 else 1, second), fast=rows(30_000, second))
        notes[second] = join.counters.notes
    # then the fast one's window does without an index, once,
    assert not held(join)[1]
    said = [note for second in range(60, 120) for note in notes[second] if "fast" in note]
    assert len(said) == 1
    assert said[0].startswith("fast is stored plain from now on: ")
    assert "ms a micro-batch instead of" in said[0]
    assert "new rows and" in said[0]
    # and gets it again when the slow stream is back.
    for second in range(120, 160):
        join.batch(slow=rows(200, second), fast=rows(30_000, second))
    assert held(join)[1]


def test_a_fixed_choice_is_kept_and_says_nothing(tmp_path: Path) -> None:
    join = joined(tmp_path, tuning=Tuning(index={"slow": "never", "fast": "always"}))
    for second in range(12):
        join.batch(slow=rows(1, second), fast=rows(2_000, second))
        assert join.counters.notes == []
    assert held(join) == [False, True]
    state = join.run.state(0)
    assert not any(entry.indexed for entry in state.windows[0].entries)
    assert all(entry.indexed for entry in state.windows[1].entries)


def test_lazy_invalidation_waits_for_a_probe_but_not_for_ever(tmp_path: Path) -> None:
    lazy, active = (
        joined(tmp_path / "l", tuning=Tuning(invalidation="lazy")),
        joined(tmp_path / "a"),
    )
    for join in (lazy, active):
        join.batch(slow=rows(1, 0), fast=rows(100, 0))
        for second in range(1, 90):
            join.batch(slow=rows(1, second), fast=rows(100, second) if second < 40 else None)
    # The fast stream was silent for long, so the watermark stands; both hold its last rows.
    assert active.state_rows()[1] <= lazy.state_rows()[1]
    # Only the slow stream goes on: nothing probes its own window, and still it is bounded.
    assert lazy.state_rows()[0] <= 3 * active.state_rows()[0]


def test_a_window_switches_after_three_micro_batches_in_a_row() -> None:
    """Two, and then one that speaks against it, are not enough."""
    weights = Weights(sort=70, merge=20, search=100, scan=10, hit=160, call=20_000)
    flows = [Flow(rows=0.0, present=0.0, keys=10.0), Flow(rows=30_000.0, present=1.0, keys=1e9)]
    windows = [mock.Mock(rows=0), mock.Mock(rows=900_000)]

    def decide(*, probed: bool) -> list[str]:
        flows[0].rows, flows[0].present = (200.0, 1.0) if probed else (0.0, 0.0)
        notes = switch_indexes(["slow", "fast"], flows, windows, weights)
        return [note for note in notes if note.startswith("fast")]

    assert [decide(probed=False), decide(probed=False)] == [[], []]
    assert decide(probed=True) == []
    assert [decide(probed=False), decide(probed=False)] == [[], []]
    [note] = decide(probed=False)
    assert note.startswith("fast is stored plain from now on")
    assert not flows[1].indexed
