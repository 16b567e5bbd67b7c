"""The runs of the semi-stream experiments measure what they say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from experiments.semi_stream import figures
from experiments.semi_stream.datasets import synthetic
from experiments.semi_stream.model import loop_seconds, most_rows, zipf_gain, zipf_memory
from experiments.semi_stream.runs import ROW_BYTES, Measured, at_memory, at_rows, least, most

SMALL = synthetic(4000, 1.0)


def test_keys_follow_zipfs_law_and_some_match_nothing_or_several_rows() -> None:
    keys = SMALL.keys(np.random.default_rng(0), 20_000)
    counts = np.sort(np.unique(keys, return_counts=True)[1])[::-1]
    harmonic = (1 / np.arange(1, 4001)).sum()
    assert counts[:3] == pytest.approx(20_000 / harmonic / np.arange(1, 4), rel=0.1)
    of_key = np.bincount(SMALL.table["key"].to_numpy(), minlength=4000)
    assert (of_key == 0).any()
    assert (of_key > 1).any()
    assert SMALL.table.nbytes / 4000 == 120
    # The shares are those of the keys as they are drawn, of those that the table has.
    m, p = SMALL.matching
    assert m.sum() == 4000
    assert np.isin(keys, SMALL.table["key"].to_numpy()).mean() == pytest.approx(p.sum(), abs=0.02)


def test_rows_wait_for_half_a_cycle_without_a_cache() -> None:
    run = at_rows(SMALL, 100, cached=False, partitions=10, cycles=4)
    assert run.waiting == pytest.approx(
        least(SMALL, run.cycle, run.partitions, cached=False), rel=0.25
    )
    assert run.waiting / ROW_BYTES == pytest.approx(1000 / 2 * SMALL.matching[1].sum(), rel=0.3)
    assert run.hits == 0


def test_a_run_takes_as_many_rows_as_fit_into_its_memory() -> None:
    memory = 0.2 * SMALL.table.nbytes
    ssbj = at_memory(SMALL, memory, cached=True)
    mesh = at_memory(SMALL, memory, cached=False)
    assert mesh.memory == pytest.approx(memory, rel=0.2)
    assert ssbj.memory == pytest.approx(memory, rel=0.3)
    assert ssbj.hits > 0.2
    assert ssbj.rows > 1.2 * mesh.rows
    # Nothing takes more than the bound, but for chance.
    room = memory - ssbj.buffer
    for run, cached in ((ssbj, True), (mesh, False)):
        assert run.cycle < 1.25 * most(SMALL, room, run.partitions, cached=cached)
    assert ssbj.cpu > 0
    assert ssbj.clock > 0
    assert ssbj.read > 0


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_the_closed_form_is_the_bound_for_zipfs_law(share: float) -> None:
    keys = 50_000
    shares = 1 / np.arange(1, keys + 1)
    shares /= shares.sum()
    memory = share * keys * 120
    rows = most_rows(np.ones(keys), shares, memory, v_R=120, v_S=20)
    assert rows * 20 / memory == pytest.approx(zipf_gain(keys, share), rel=0.01)
    # At MESHJOIN's rate, the memory is the least one for so many rows.
    needed = np.minimum(120, memory / 20 * shares * 20).sum()
    assert needed / memory == pytest.approx(zipf_memory(keys, share), rel=0.01)


@pytest.fixture
def scaled_down(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in (("ROWS", 4000), ("SHARES", (0.5,)), ("ARRIVALS", (100,))):
        monkeypatch.setattr(figures, name, value)
    yield
    for cached in (figures._synthetic, figures._by_memory, figures._by_rate):
        cached.cache_clear()


@pytest.mark.usefixtures("scaled_down")
def test_a_claim_has_what_was_measured_and_what_is_possible() -> None:
    [rate] = figures.rate_by_memory().claims
    assert not rate.holds
    assert "rows of a cycle" in rate.measured
    assert rate.bound.endswith(" times")
    goals = {claim.where: claim for claim in figures.goals().claims}
    assert "Computed, not measured" in goals["goal: rate, by the clock of this machine"].remark
    assert goals["goal: rate, against MESHJOIN as published"].holds
    memory = figures.memory_by_rate()
    assert memory.figure is not None
    assert memory.claims[0].where == "figure 4 (a)"


def test_the_costs_of_an_iteration_are_fitted_by_equation_2() -> None:
    # Given iterations that take what the equation says, for costs of all kinds,
    dice = np.random.default_rng(5)
    costs = {"c_IO": 3e6, "c_H": 90, "c_O": 40, "c_B": 8, "c_E": 30, "c_S": 5, "c_A": 20}
    runs = []
    for _ in range(8):
        b, rows, hits = dice.uniform(1000, 9000), dice.uniform(100, 50_000), dice.random()
        clock = loop_seconds(b, rows * hits, rows * (1 - hits), **costs)
        runs.append(Measured(rows, hits, clock, clock, 0, 0, 0, 10, b, 0))
    # when costs are fitted to some of them, then they give the seconds of the others.
    fitted = figures.fitted_costs(runs[:5])
    for run in runs[5:]:
        assert figures.calculated(run, fitted) == pytest.approx(run.clock)
