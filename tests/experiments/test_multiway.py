"""The multiway paper's datasets are as it says, and every policy finds all their results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments import report
from experiments.multiway import figures
from experiments.multiway.datasets import DATASETS, UNITS, b_model
from experiments.multiway.runs import (
    FIRST_HALF,
    LAST,
    WAYS,
    Load,
    Measured,
    Trace,
    measured,
    micro_batches,
    trace,
)


@pytest.mark.parametrize("name", DATASETS)
def test_the_selectivities_are_those_of_table_2(name: str) -> None:
    dataset = DATASETS[name]
    rows, joined = dataset.rows, dataset.joined
    pairs = [joined(a, b) / (rows[a] * rows[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    whole = [
        dataset.results / (joined(a, b) * rows[c]) for a, b, c in ((0, 1, 2), (0, 2, 1), (1, 2, 0))
    ]
    if name in ("V", "VI"):
        assert pairs == pytest.approx([1e-5, 1e-5, 1e-5])
        assert whole == pytest.approx([1e-4, 1e-4, 1e-4])
        assert [dataset.results / count for count in rows] == [100, 10, 1]
    else:
        assert pairs == pytest.approx([5e-9, 1e-6, 5e-6])
        assert whole == pytest.approx([1e-3, 5e-6, 1e-6])
        assert dataset.results / np.prod(rows, dtype=float) == pytest.approx(5e-12)


@pytest.mark.parametrize("name", DATASETS)
def test_streams_share_the_shared_keys_alone_and_come_in_order(name: str) -> None:
    dataset = DATASETS[name].divided(50)
    keys, times = zip(*(dataset.stream(position) for position in range(3)), strict=True)
    counts = [np.bincount(values[values < dataset.shared]) for values in keys]
    assert [set(count) for count in counts] == [{each} for each in dataset.each]
    own = [values[values >= dataset.shared] for values in keys]
    every = np.concatenate(own)
    assert len(np.unique(every)) == len(every)
    assert tuple(map(len, times)) == dataset.rows
    for one in times:
        assert (np.diff(one) >= 0).all()
        assert one[0] >= 0
        assert 0.9 * UNITS < one[-1] < UNITS


def test_a_stream_that_alternates_is_three_times_as_fast_in_every_other_quarter() -> None:
    _, times = DATASETS["I"].divided(10).stream(2)
    quarters = [np.ptp(part) for part in np.array_split(times, 4)]
    assert quarters == pytest.approx([UNITS / 8, 3 * UNITS / 8] * 2, rel=0.01)


@pytest.mark.parametrize("b", [0.2, 0.5, 0.8])
def test_a_b_model_keeps_the_volume(b: float) -> None:
    volumes = b_model(1000, 8, b, np.random.default_rng(1))
    assert len(volumes) == 256
    assert volumes.sum() == pytest.approx(1000)
    assert volumes[:128].sum() == pytest.approx(1000 * b)


def test_a_b_model_gets_burstier_as_b_departs_from_a_half() -> None:
    spread = [b_model(1, 8, b, np.random.default_rng(1)).std() for b in (0.5, 0.6, 0.7, 0.8, 0.9)]
    assert spread[0] == 0
    assert (np.diff(spread) > 0).all()
    assert b_model(1, 8, 0.2, np.random.default_rng(1)).std() == pytest.approx(spread[3])


def test_micro_batches_hold_every_row_once() -> None:
    dataset = DATASETS["V"].divided(100)
    batches = list(micro_batches(dataset, 10))
    assert len(batches) == 10
    counts = [sum(len(batch[position]) for batch in batches) for position in range(3)]
    assert tuple(counts) == dataset.rows


@pytest.mark.parametrize("name", DATASETS)
def test_every_policy_finds_every_result(name: str) -> None:
    dataset = DATASETS[name].divided(500)
    assert {trace(dataset, 2, way).results for way in WAYS} == {dataset.results}


def test_values_are_relative_to_the_timestamp_policy() -> None:
    def run(seconds: float, at: list[float], out: list[float]) -> Trace:
        return Trace(np.full(10, seconds), [(np.array(at), np.array(out))] * 10)

    one = Measured({"timestamp": [run(2, [1, 2], [5, 10])], "other": [run(1, [0.5], [10])]})
    assert one.time("timestamp") == 1
    assert one.time("other", FIRST_HALF) == 0.5
    assert [one.share("timestamp", at) for at in (0.4, 0.5, 1)] == [0, 0.5, 1]
    assert [one.share("other", at, LAST) for at in (0.2, 0.25)] == [0, 1]
    assert one.share("timestamp", 1, relative_to="other") == 0.5


def test_all_claims_and_figures_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(divided=500, repetitions=1)
    one = measured("V", "1M", load)
    monkeypatch.setattr(figures, "measured", lambda name, period, load: one)

    outcomes = [experiment(load) for experiment in figures.ALL]

    claims = report.run("multiway", [_giving(outcome) for outcome in outcomes], tmp_path)
    assert len({(claim.where, claim.claimed) for claim in claims}) == len(claims)
    assert all(claim.measured for claim in claims)
    names = {path.stem for path in tmp_path.glob("*.png")}
    others = {"table-04", "table-05", "early", "short-runs"}
    assert names == {f"figure-0{number}" for number in range(5, 9)} | others


def _giving(outcome: report.Outcome) -> Callable[[], report.Outcome]:
    def experiment() -> report.Outcome:
        """as it came out"""
        return outcome

    return experiment
