"""Service rate and memory are divided so that most results come out, as the window paper says."""

from __future__ import annotations

import math

import pytest

from watersmeet.cost.window import output_rate, rates_within, shares, windows_within


def test_equal_shares_win_in_figure_8() -> None:
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


def test_the_slower_stream_gets_all_memory_in_figure_9() -> None:
    kept = windows_within(1000, flows=(10, 50), windows=(math.inf, math.inf))
    assert kept == (100, 0)
    best = output_rate(10, 50, kept[0], kept[1], σ=0.005)
    for part in (0, 100, 167, 500, 833, 999):
        other = output_rate(10, 50, part / 10, (1000 - part) / 50, σ=0.005)
        assert other < best


def test_the_division_of_rate_and_memory_is_the_best_there_is() -> None:
    λ, T, μ, memory, widths = (80.0, 30.0), (60.0, 20.0), 20.0, 300.0, (1.0, 2.0)

    def output(first: float) -> float:
        rates = first, min(λ[1], μ - first)
        flows = [rate * width for rate, width in zip(rates, widths, strict=True)]
        a, b = windows_within(memory, flows, T)
        return output_rate(*rates, a, b, 1)

    chosen = rates_within(λ, T, μ, memory, widths)
    assert sum(chosen) <= μ + 1e-9
    assert output(chosen[0]) >= max(output(μ * i / 1000) for i in range(1001)) * 0.99


def test_what_is_left_for_the_second_stream_is_never_negative() -> None:
    rates = rates_within((10.2, 0.1715176050213656), (1.0, 1.0), 1 / 3, 1, (60, 60))
    assert min(rates) >= 0
