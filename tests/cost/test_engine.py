"""The engine's cost model has the right preferences."""

from __future__ import annotations

from watersmeet.cost.engine import Direction, Weights, indexed_cost, plain_cost

WEIGHTS = Weights(sort=70, merge=20, search=100, scan=3, hit=160, call=200_000)


def preferred(**given: float) -> str:
    d = Direction(**{"probes": 1000, "probing": 1, "keys": 1e6, **given})
    indexed, plain = (way(d, WEIGHTS) for way in (indexed_cost, plain_cost))
    return "indexed" if indexed < plain else "plain"


def test_a_large_window_that_is_probed_all_the_time_wants_an_index() -> None:
    assert preferred(rows=10_000, stored=10_000_000) == "indexed"


def test_a_window_that_is_hardly_ever_probed_does_not() -> None:
    given = {"probes": 10, "probing": 0.01}
    assert preferred(rows=10_000, stored=10_000_000, **given) == "plain"


def test_nor_does_a_window_of_a_few_large_batches() -> None:
    assert preferred(rows=500_000, stored=1_000_000) == "plain"


def test_few_keys_speak_for_an_index() -> None:
    assert preferred(rows=100_000, stored=2_000_000, keys=1e7) == "plain"
    assert preferred(rows=100_000, stored=2_000_000, keys=100) == "indexed"


def test_what_is_never_probed_costs_nothing_plain() -> None:
    d = Direction(probes=0, probing=0, rows=100, stored=1000, keys=10)
    assert plain_cost(d, WEIGHTS) == 0
