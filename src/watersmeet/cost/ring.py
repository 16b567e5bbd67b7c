"""What a join with any predicates costs when its state is sliced over nodes.

The paper's model (Wang, Rundensteiner: Scalable Stream Join Processing with Expensive Predicates),
section 5, in its symbols:

    λ_i, W_i    rows a second of stream i, and the seconds for which its window keeps them
    S_k         selectivity of the k-th probing step: the share of pairs that match
    T_j         seconds to compare a pair of rows
    T_i, T_p    seconds to insert a row into a state, and to purge one
    T_s         seconds to send a row to one node, and to receive it there
    T_n         seconds that one hop between two nodes takes
    N, M        nodes in the ring; streams

A new row probes the other streams in an order. ``windows[k]`` is λW of the stream that it probes
in step k, the rows stored there; ``selectivities[k]`` the share of them that matches.

**Where this departs from the paper.** Equation 1, as printed, counts the matches of every step;
equation 2 follows from it only if it counts the pairs that are compared, which are the matches of
the step before times the next window. Pairs are counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul


def arriving(windows: Sequence[float], selectivities: Sequence[float]) -> list[float]:
    """How many rows (the new row itself, then intermediate results) probe each window.

    >>> arriving([100, 200, 50], [0.1, 0.05, 0.2])
    [1.0, 10.0, 100.0]
    """
    matches = [window * share for window, share in zip(windows, selectivities, strict=True)]
    return list(accumulate(matches[:-1], mul, initial=1.0))


def pairs(windows: Sequence[float], selectivities: Sequence[float]) -> float:
    """Pairs of rows that are compared for one new row.

    >>> pairs([100, 200, 50], [0.1, 0.05, 0.2])
    7100.0
    """
    probing = arriving(windows, selectivities)
    return sum(rows * window for rows, window in zip(probing, windows, strict=True))


@dataclass(frozen=True)
class Times:
    """How long single steps take, in seconds."""

    T_j: float
    T_s: float
    T_n: float
    T_i: float = 0.0
    T_p: float = 0.0


def centralized(windows: Sequence[float], selectivities: Sequence[float], times: Times) -> float:
    """L_C: the work for one new row on a single node. Equation 1.

    >>> centralized([500, 500], [0.01, 0.01], Times(T_j=0.001, T_s=0, T_n=0))
    3.0
    """
    return times.T_i + times.T_p + times.T_j * pairs(windows, selectivities)


def sliced(
    windows: Sequence[float], selectivities: Sequence[float], times: Times, N: float
) -> float:
    """L_PSP: the work for one new row on all nodes together: the new row and every
    intermediate result are also sent to each of them. Equations 1 and 2.

    >>> times = Times(T_j=0.001, T_s=0.0005, T_n=0)
    >>> sliced([500, 500], [0.01, 0.01], times, N=10)
    3.03
    """
    sent = sum(arriving(windows, selectivities))
    return centralized(windows, selectivities, times) + times.T_s * N * sent


def latency(
    windows: Sequence[float], selectivities: Sequence[float], times: Times, N: float
) -> float:
    """τ: seconds from a new row to its results, on average. Nodes compare while rows travel, so
    the longer of both counts. Equation 5.

    >>> times = Times(T_j=0.001, T_s=0.0005, T_n=0.01)
    >>> [round(latency([500, 500], [0.01, 0.01], times, N), 2) for N in (1, 5, 10, 20)]
    [3.0, 0.62, 0.35, 0.69]
    """
    M = len(windows) + 1
    work = sliced(windows, selectivities, times, N) / N
    return (N - 1) / 2 * times.T_n + max(work, M * N * times.T_n)


def bandwidth(tuple_size: float, T_j: float, windows: Sequence[float], N: float) -> float:
    """Bytes a second that a node must receive so that it never waits for rows: a row must
    arrive while the one before is compared with the smallest slice. Equation 6.

    >>> bandwidth(tuple_size=60_000, T_j=0.001, windows=[500, 1000], N=10)
    1200000.0
    """
    return tuple_size / (T_j * min(windows) / N)
