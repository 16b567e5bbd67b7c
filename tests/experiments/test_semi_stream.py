"""The runs of the semi-stream experiments measure what they say."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.semi_stream.datasets import synthetic
from experiments.semi_stream.runs import ROW_BYTES, at_memory, at_rows

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


def test_rows_wait_for_half_a_cycle_without_a_cache() -> None:
    run = at_rows(SMALL, 100, cached=False, partitions=10, cycles=4)
    waiting = (run.memory - SMALL.table.nbytes / 10) / ROW_BYTES
    matching = np.isin(
        SMALL.keys(np.random.default_rng(1), 10_000), SMALL.table["key"].to_numpy()
    ).mean()
    assert waiting == pytest.approx(100 * 10 / 2 * matching, rel=0.25)
    assert run.hits == 0


def test_a_run_takes_as_many_rows_as_fit_into_its_memory() -> None:
    memory = 0.2 * SMALL.table.nbytes
    ssbj = at_memory(SMALL, memory, cached=True)
    mesh = at_memory(SMALL, memory, cached=False)
    assert mesh.memory == pytest.approx(memory, rel=0.2)
    assert ssbj.memory == pytest.approx(memory, rel=0.3)
    assert ssbj.hits > 0.2
    assert ssbj.rows > 1.2 * mesh.rows
