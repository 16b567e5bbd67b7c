"""What a window join costs, and what it yields when there is not enough of something.

The paper's model (Kang, Naughton, Viglas: Evaluating Window Joins over Unbounded
Streams), in its symbols. Costs are per second of the streams' time:

    λ_a, λ_b    rows a second of streams A and B
    T_a, T_b    seconds for which their windows keep a row; A = λ_a T_a, B = λ_b T_b rows
    |A|, |B|    hash buckets of a window, about the number of its distinct keys
    σ_a, σ_b    selectivity of a window, 1 / |A|, 1 / |B|; σ = min(σ_a, σ_b)
    C_n, C_h    cost of touching one row in nested loops, in a hash table
    μ           rows a second that the system can serve
    M           rows that fit into memory

A join has two *directions*, and each can be costed alone: "A to B" is what it takes
for A's new rows to probe B's window, and to keep B's window. A full join's name tells how
the windows are stored, A's first: HNJ is a hash table for A, nested loops for B.

The engine here is vectorised: it handles a micro-batch at a time, and sorted segments
take the place of the hash table. Its constants, and one more that is no longer
negligible (the cost of a call), are in :class:`Weights`; :func:`keeping_indexed` and
:func:`keeping_plain` have the model's form for it. Where it departs from the paper is said
there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# --- section 3: one direction


def nested_loops(λ_a: float, λ_b: float, T_b: float, C_n: float) -> float:
    """A to B by nested loops: every new A is compared with all of B; a new B is
    appended, and one leaves. Equations 1 and 2.

    >>> nested_loops(10, 70, T_b=60, C_n=0.5)
    21070.0
    """
    return (λ_a * T_b * λ_b + 2 * λ_b) * C_n


def nested_loops_lazy(λ_a: float, λ_b: float, T_b: float, C_n: float) -> float:
    """The same, B's expired rows being looked for (by bisection) when A probes.

    >>> nested_loops_lazy(10, 70, T_b=60, C_n=0.5) < nested_loops(10, 70, T_b=60, C_n=0.5)
    True
    """
    search = math.floor(math.log2(math.ceil(λ_b / λ_a)) + 1)
    return λ_a * (T_b * λ_b + search) * C_n + λ_b * C_n


def hash_join(λ_a: float, λ_b: float, T_b: float, keys_b: float, C_h: float) -> float:
    """A to B by a hash table: a new A is compared with one hash bucket of B; a new B is
    put into one, and the bucket is searched for the B that leaves. Equation 3.

    >>> round(hash_join(10, 70, T_b=60, keys_b=10, C_h=0.65))
    21886
    """
    bucket = T_b * λ_b / keys_b
    return (λ_a * bucket + λ_b * (bucket + 1)) * C_h


# --- section 3.3: both directions


@dataclass(frozen=True)
class Workload:
    """Two streams, their windows and their keys, and the costs of touching a row.

    >>> load = Workload(λ_a=10, λ_b=100, T_a=60, T_b=60, keys_a=10, keys_b=10)
    >>> min(("HHJ", "HNJ", "NHJ", "NNJ"), key=lambda name: full_join(name, load))
    'HNJ'
    """

    λ_a: float
    λ_b: float
    T_a: float
    T_b: float
    keys_a: float
    keys_b: float
    C_n: float = 0.5
    C_h: float = 0.65


def full_join(name: str, load: Workload) -> float:
    """The cost of HHJ, HNJ, NHJ or NNJ: the sum of its directions. Equations 4 to 6."""
    held_a, held_b = name[0], name[1]
    w = load
    if held_b == "H":
        a_to_b = hash_join(w.λ_a, w.λ_b, w.T_b, w.keys_b, w.C_h)
    else:
        a_to_b = nested_loops(w.λ_a, w.λ_b, w.T_b, w.C_n)
    if held_a == "H":
        return a_to_b + hash_join(w.λ_b, w.λ_a, w.T_a, w.keys_a, w.C_h)
    return a_to_b + nested_loops(w.λ_b, w.λ_a, w.T_a, w.C_n)


def crossover(keys_b: float, overhead: float) -> float:
    """How many times as fast as A stream B must be for nested loops to win, A to B;
    ``overhead`` is C_h / C_n. Equations 7 and 8.

    >>> round(crossover(10, 1.3), 1)
    6.7
    """
    return (keys_b - overhead) / overhead


# --- sections 4.1 to 4.3: what comes out


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
    """How long to keep each stream's rows in so much memory; ``flows`` is the memory
    that a second of each stream takes. Equations 12 and 13: the output grows with the
    sum of the windows, so the stream whose second is cheapest (the slower one) comes first.

    >>> windows_within(1000, flows=(10, 50), windows=(math.inf, math.inf))
    (100.0, 0.0)
    >>> windows_within(1000, flows=(10, 50), windows=(60, 60))
    (60, 8.0)
    """
    kept = [0.0] * len(flows)
    for i in sorted(range(len(flows)), key=lambda i: flows[i]):
        kept[i] = windows[i] if flows[i] == 0 else min(windows[i], memory / flows[i])
        memory -= kept[i] * flows[i]
    return tuple(kept)


def output_rate_divided(x: float, A: float, μ: float, M: float, σ: float) -> float:
    """Results a second if stream A gets the share x of the service rate and A of the M
    rows of memory. Equation 14: it is greatest at (x=0, A=M) and (x=1, A=0).

    >>> [output_rate_divided(x, A, μ=10, M=100, σ=0.01) for x, A in ((0, 100), (1, 0), (0.5, 50))]
    [10.0, 10.0, 5.0]
    """
    return σ * (x * μ * M - (2 * x - 1) * μ * A)


def rates_within(
    λ: tuple[float, float], T: tuple[float, float], μ: float, memory: float, widths: Sequence[float]
) -> tuple[float, float]:
    """The rates at which to serve two streams when both the service rate and the memory
    are too small; ``widths`` is the memory of a row.

    Equation 14 takes a window's rows as free of its stream's rate, so that its maxima
    lie where one stream has all the rate and the other all the memory. A window can
    only hold what was let in, in at most its own time; so the maximum is looked for
    between the corners.

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
