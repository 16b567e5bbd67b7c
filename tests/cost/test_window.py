"""The cost model gives the paper's own numbers, and the engine's the right preferences."""

from __future__ import annotations

import math

import pytest

from watersmeet.cost.engine import Direction, Weights, keeping_indexed, keeping_plain
from watersmeet.cost.window import (
    Workload,
    crossover,
    full_join,
    hash_join,
    nested_loops,
    nested_loops_lazy,
    output_rate,
    output_rate_divided,
    rates_within,
    shares,
    windows_within,
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


class TestThePaper:
    def test_ten_keys_at_an_overhead_of_1_3_cross_over_at_6_7(self) -> None:
        assert crossover(10, 1.3) == pytest.approx(6.7, abs=0.05)

    @pytest.mark.parametrize(("keys", "rate"), [(10, 70), (20, 140)])
    def test_nested_loops_take_over_where_figures_2_and_3_say(self, keys: int, rate: int) -> None:
        assert first_rate(keys, "HNJ", "HHJ") == pytest.approx(rate, rel=0.06)

    @pytest.mark.parametrize("keys", [10, 20])
    def test_the_other_two_full_joins_never_win_while_b_is_faster(self, keys: int) -> None:
        for λ_b in range(10, 200, 10):
            load = Workload(λ_a=10, λ_b=λ_b, T_a=60, T_b=60, keys_a=keys, keys_b=keys)
            best = min(FULL_JOINS, key=lambda name: full_join(name, load))
            assert best in ("HHJ", "HNJ")

    def test_a_full_join_is_the_sum_of_its_directions(self) -> None:
        load = Workload(λ_a=3, λ_b=7, T_a=11, T_b=13, keys_a=17, keys_b=19, C_n=0.5, C_h=0.65)
        a_to_b = {"H": hash_join(3, 7, 13, 19, 0.65), "N": nested_loops(3, 7, 13, 0.5)}
        b_to_a = {"H": hash_join(7, 3, 11, 17, 0.65), "N": nested_loops(7, 3, 11, 0.5)}
        for name in FULL_JOINS:
            assert full_join(name, load) == pytest.approx(b_to_a[name[0]] + a_to_b[name[1]])

    def test_equation_4_as_it_is_printed(self) -> None:
        load = Workload(λ_a=3, λ_b=7, T_a=11, T_b=13, keys_a=17, keys_b=19, C_n=0.5, C_h=0.65)
        printed = (3 + 7) * (13 * 7 / 19 + 11 * 3 / 17 + 1) * 0.65
        assert full_join("HHJ", load) == pytest.approx(printed)

    def test_lazy_invalidation_is_cheaper_where_b_is_faster(self) -> None:
        assert nested_loops_lazy(10, 100, 60, 0.5) < nested_loops(10, 100, 60, 0.5)

    def test_equal_shares_win_in_figure_8(self) -> None:
        strategies = {
            "proportional": (8, 2),
            "inverse": (2, 8),
            "windows": (9, 1),
            "windows inverse": (1, 9),
            "equal": shares(80, 20, μ=10),
        }
        rates = {name: output_rate(a, b, 9, 1, σ=0.02) for name, (a, b) in strategies.items()}
        assert max(rates, key=rates.__getitem__) == "equal"
        assert rates["proportional"] == pytest.approx(rates["inverse"])
        assert strategies["equal"] == (5, 5)

    def test_the_slower_stream_gets_all_memory_in_figure_9(self) -> None:
        kept = windows_within(1000, flows=(10, 50), windows=(math.inf, math.inf))
        assert kept == (100, 0)
        best = output_rate(10, 50, *kept, σ=0.005)
        for part in (0, 100, 167, 500, 833, 999):
            other = output_rate(10, 50, part / 10, (1000 - part) / 50, σ=0.005)
            assert other < best

    def test_figure_11_has_two_maxima_and_two_minima(self) -> None:
        def rate(x: float, A: float) -> float:
            return output_rate_divided(x, A, μ=10, M=100, σ=0.01)

        assert rate(0, 100) == rate(1, 0) == 10  # σ μ M, all that is possible
        assert rate(0, 0) == rate(1, 100) == 0
        grid = [rate(x / 20, A) for x in range(21) for A in range(0, 101, 5)]
        assert (max(grid), min(grid)) == (10, 0)

    def test_the_division_of_rate_and_memory_is_the_best_there_is(self) -> None:
        λ, T, μ, memory, widths = (80.0, 30.0), (60.0, 20.0), 20.0, 300.0, (1.0, 2.0)

        def output(first: float) -> float:
            rates = first, min(λ[1], μ - first)
            flows = [rate * width for rate, width in zip(rates, widths, strict=True)]
            return output_rate(*rates, *windows_within(memory, flows, T), 1)

        chosen = rates_within(λ, T, μ, memory, widths)
        assert sum(chosen) <= μ + 1e-9
        assert output(chosen[0]) >= max(output(μ * i / 1000) for i in range(1001)) * 0.99

    def test_what_is_left_for_the_second_stream_is_never_negative(self) -> None:
        rates = rates_within((10.2, 0.1715176050213656), (1.0, 1.0), 1 / 3, 1, (60, 60))
        assert min(rates) >= 0


class TestTheEngine:
    WEIGHTS = Weights(sort=70, merge=20, search=100, scan=3, hit=160, call=200_000)

    def preferred(self, **given: float) -> str:
        d = Direction(**{"probes": 1000, "probing": 1, "keys": 1e6, **given})
        indexed, plain = (way(d, self.WEIGHTS) for way in (keeping_indexed, keeping_plain))
        return "indexed" if indexed < plain else "plain"

    def test_a_large_window_that_is_probed_all_the_time_wants_an_index(self) -> None:
        assert self.preferred(rows=10_000, stored=10_000_000) == "indexed"

    def test_a_window_that_is_hardly_ever_probed_does_not(self) -> None:
        given = {"probes": 10, "probing": 0.01}
        assert self.preferred(rows=10_000, stored=10_000_000, **given) == "plain"

    def test_nor_does_a_window_of_a_few_large_batches(self) -> None:
        assert self.preferred(rows=500_000, stored=1_000_000) == "plain"

    def test_few_keys_speak_for_an_index(self) -> None:
        assert self.preferred(rows=100_000, stored=2_000_000, keys=1e7) == "plain"
        assert self.preferred(rows=100_000, stored=2_000_000, keys=100) == "indexed"

    def test_what_is_never_probed_costs_nothing_plain(self) -> None:
        d = Direction(probes=0, probing=0, rows=100, stored=1000, keys=10)
        assert keeping_plain(d, self.WEIGHTS) == 0
