"""What the metadata paper says about memory holds here too, on any machine."""

from __future__ import annotations

import pytest

from experiments.metadata.news import ALGORITHMS, Rolling, trace


@pytest.mark.parametrize("algorithm", ["1-NP, immediate", "1-NP, batch", "SHJ", "XJoin"])
@pytest.mark.parametrize("pattern", ["ordered", "random"])
def test_every_algorithm_finds_every_result(algorithm: str, pattern: str) -> None:
    load = Rolling(items=80, each=10, pattern=pattern)
    assert trace(load, algorithm).results[-1] == 80 * 10


def test_punctuations_keep_the_state_small_and_a_hash_join_keeps_all() -> None:
    load = Rolling(items=150, each=10)
    stored = {name: max(trace(load, name).stored) for name in ALGORITHMS if name != "1-NC"}
    assert stored["1-NP, immediate"] <= 12
    assert stored["1-NP, batch"] <= 110
    assert stored["SHJ"] == stored["XJoin"] == 150 * 11


def test_clusters_keep_the_state_small_without_punctuations() -> None:
    done = trace(Rolling(items=100, each=10, pattern="clustered"), "1-NC")
    assert done.results[-1] == 1000
    assert max(done.stored) <= 4
