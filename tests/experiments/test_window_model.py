"""The window paper's model gives the paper's own numbers."""

from __future__ import annotations

import pytest

from experiments.window.model import (
    Workload,
    crossover,
    full_join,
    hash_join,
    nested_loops,
    nested_loops_lazy,
    output_rate_divided,
)

FULL_JOINS = ("HHJ", "HNJ", "NHJ", "NNJ")


def first_rate(keys: float, wins: str, loses: str) -> int:
    """The least λ_b, in steps of one, from which one full join is cheaper than another,
    with the other values as in figures 2 and 3."""
    for λ_b in range(10, 1000):
        load = Workload(λ_a=10, λ_b=λ_b, T_a=60, T_b=60, keys_a=keys, keys_b=keys)
        if full_join(wins, load) < full_join(loses, load):
            return λ_b
    raise AssertionError("never")


def test_ten_keys_at_an_overhead_of_1_3_cross_over_at_6_7() -> None:
    assert crossover(10, 1.3) == pytest.approx(6.7, abs=0.05)


@pytest.mark.parametrize(("keys", "rate"), [(10, 70), (20, 140)])
def test_nested_loops_take_over_where_figures_2_and_3_say(keys: int, rate: int) -> None:
    assert first_rate(keys, "HNJ", "HHJ") == pytest.approx(rate, rel=0.06)


@pytest.mark.parametrize("keys", [10, 20])
def test_the_other_two_full_joins_never_win_while_b_is_faster(keys: int) -> None:
    for λ_b in range(10, 200, 10):
        load = Workload(λ_a=10, λ_b=λ_b, T_a=60, T_b=60, keys_a=keys, keys_b=keys)
        best = min(FULL_JOINS, key=lambda name: full_join(name, load))
        assert best in ("HHJ", "HNJ")


def test_a_full_join_is_the_sum_of_its_directions() -> None:
    load = Workload(λ_a=3, λ_b=7, T_a=11, T_b=13, keys_a=17, keys_b=19, C_n=0.5, C_h=0.65)
    a_to_b = {"H": hash_join(3, 7, 13, 19, 0.65), "N": nested_loops(3, 7, 13, 0.5)}
    b_to_a = {"H": hash_join(7, 3, 11, 17, 0.65), "N": nested_loops(7, 3, 11, 0.5)}
    for name in FULL_JOINS:
        assert full_join(name, load) == pytest.approx(b_to_a[name[0]] + a_to_b[name[1]])


def test_equation_4_as_it_is_printed() -> None:
    load = Workload(λ_a=3, λ_b=7, T_a=11, T_b=13, keys_a=17, keys_b=19, C_n=0.5, C_h=0.65)
    printed = (3 + 7) * (13 * 7 / 19 + 11 * 3 / 17 + 1) * 0.65
    assert full_join("HHJ", load) == pytest.approx(printed)


def test_lazy_invalidation_is_cheaper_where_b_is_faster() -> None:
    assert nested_loops_lazy(10, 100, 60, 0.5) < nested_loops(10, 100, 60, 0.5)


def test_figure_11_has_two_maxima_and_two_minima() -> None:
    def rate(x: float, A: float) -> float:
        return output_rate_divided(x, A, μ=10, M=100, σ=0.01)

    assert rate(0, 100) == rate(1, 0) == 10  # σ μ M, all that is possible
    assert rate(0, 0) == rate(1, 100) == 0
    grid = [rate(x / 20, A) for x in range(21) for A in range(0, 101, 5)]
    assert (max(grid), min(grid)) == (10, 0)
