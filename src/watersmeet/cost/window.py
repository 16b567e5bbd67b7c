"""How to divide service rate and memory between the streams of a window join, if there is too
little.

The paper's model (Kang, Naughton, Viglas: Evaluating Window Joins over Unbounded Streams), sections
4.1 to 4.3, in its symbols:

    λ_a, λ_b    rows a second of streams A and B
    T_a, T_b    seconds for which their windows keep a row
    σ           selectivity of the windows
    μ           rows a second that the system can serve

The cost of a join, section 3 of the paper, is in :mod:`watersmeet.cost.engine`, with the constants
of this engine.
"""

from __future__ import annotations

from collections.abc import Sequence


def output_rate(λ_a: float, λ_b: float, T_a: float, T_b: float, σ: float) -> float:
    """Results a second. Equation 9.

    >>> output_rate(10, 20, T_a=60, T_b=60, σ=0.1)
    2400.0
    """
    return σ * λ_a * λ_b * (T_a + T_b)


def shares(λ_a: float, λ_b: float, μ: float) -> tuple[float, float]:
    """The rates at which to serve two streams that together are too fast: half of the
    service rate each, or a stream's own rate where that is lower. Equations 10 and 11.

    >>> shares(80, 20, μ=10)
    (5.0, 5.0)
    >>> shares(5, 100, μ=50)
    (5, 45)
    >>> shares(5, 20, μ=50)
    (5, 20)
    """
    if λ_a + λ_b <= μ:
        return λ_a, λ_b
    if λ_a < μ / 2:
        return λ_a, μ - λ_a
    if λ_b < μ / 2:
        return μ - λ_b, λ_b
    return μ / 2, μ / 2


def windows_within(
    memory: float, flows: Sequence[float], windows: Sequence[float]
) -> tuple[float, ...]:
    """For how many seconds to keep each stream's rows in so much memory; ``flows`` is the memory
    that a second of each stream takes. Equations 12 and 13: the output grows with the sum of the
    windows, so memory goes first to the stream whose second is cheapest (the slower one).

    >>> windows_within(1000, flows=(10, 50), windows=(float("inf"), float("inf")))
    (100.0, 0.0)
    >>> windows_within(1000, flows=(10, 50), windows=(60, 60))
    (60, 8.0)
    """
    kept = [0.0] * len(flows)
    for i in sorted(range(len(flows)), key=lambda i: flows[i]):
        kept[i] = windows[i] if flows[i] == 0 else min(windows[i], memory / flows[i])
        memory -= kept[i] * flows[i]
    return tuple(kept)


def rates_within(
    λ: tuple[float, float], T: tuple[float, float], μ: float, memory: float, widths: Sequence[float]
) -> tuple[float, float]:
    """The rates at which to serve two streams when both the service rate and the memory
    are too small; ``widths`` is the memory of a row.

    Equation 14 assumes that the rows in a window do not depend on the rate of its stream. So its
    maxima lie where one stream has all the rate and the other all the memory. But a window can only
    hold rows that were let in during its own time. So the maximum is searched between these
    corners.

    >>> rates_within((80, 80), (10, 10), μ=10, memory=1000, widths=(1, 1))  # enough memory
    (5.0, 5.0)
    >>> rates_within((80, 80), (1000, 1000), μ=10, memory=100, widths=(1, 1))
    (0.1, 9.9)
    """
    if sum(λ) <= μ:
        return λ

    def output(first: float) -> float:
        rates = first, min(λ[1], μ - first)
        flows = [rate * width for rate, width in zip(rates, widths, strict=True)]
        T_a, T_b = windows_within(memory, flows, T)
        return output_rate(rates[0], rates[1], T_a, T_b, σ=1)

    lowest, highest = max(0.0, μ - λ[1]), min(λ[0], μ)
    # Rounding must not carry the last one past the highest: what is left for the other
    # stream would be negative.
    grid = [min(highest, lowest + (highest - lowest) * i / 100) for i in range(101)]
    best = max(output(first) for first in grid)
    # Of equally good divisions, the most even one.
    tied = [first for first in grid if output(first) >= best * (1 - 1e-9)]
    chosen = min(tied, key=lambda first: round(abs(first - μ / 2), 9))
    return chosen, min(λ[1], μ - chosen)
