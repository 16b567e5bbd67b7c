"""What a window join costs a second, in the paper's model and symbols:

    λ_a, λ_b    rows a second of streams A and B
    T_a, T_b    seconds for which their windows keep a row
    |A|, |B|    hash buckets of a window, about the number of its distinct keys
    C_n, C_h    cost of touching one row in nested loops, in a hash table
    σ           selectivity of a window
    μ, M        rows a second that the system can serve, and rows that fit into memory

A join has two *directions*, and each can be costed alone: "A to B" is what it takes for A's new
rows to probe B's window, and to keep B's window. A full join's name tells how the windows are
stored, A's first: HNJ is a hash table for A, nested loops for B.

The engine's own model has the same form, with other constants (:mod:`watersmeet.cost.engine`). What
the engine takes from the paper as it is, the division of what is scarce, is in
:mod:`watersmeet.cost.window`.
"""

from __future__ import annotations

import math
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


# --- section 4.3: what comes out


def output_rate_divided(x: float, A: float, μ: float, M: float, σ: float) -> float:
    """Results a second if stream A gets the share x of the service rate and A of the M
    rows of memory. Equation 14: it is greatest at (x=0, A=M) and (x=1, A=0).

    >>> [output_rate_divided(x, A, μ=10, M=100, σ=0.01) for x, A in ((0, 100), (1, 0), (0.5, 50))]
    [10.0, 10.0, 5.0]
    """
    return σ * (x * μ * M - (2 * x - 1) * μ * A)
