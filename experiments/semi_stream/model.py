"""What a semi-stream join costs, in the paper's model, and how much its cache can save at all.

The symbols are those of :mod:`watersmeet.cost.enrich`, which has what the engine decides by; and

    b               rows of the table that are read in each iteration
    w_N, w_S        stream rows of an iteration that the cache answers, and that the disk phase does
    K               keys
    c_...           nanoseconds: c_IO to read a partition, c_H to look a row up, c_O to make the
                    output of one, c_B to switch one into the cache, c_E to remove one from H_S,
                    c_S to read one from the stream, c_A to append one to H_S
"""

from __future__ import annotations

import math

import numpy as np

from watersmeet.cost.enrich import Numbers

# --- theorem 1: the least memory


def least_memory(m: Numbers, n: Numbers, v_R: float, v_S: float) -> float:
    """Bytes of H_R and H_S if every key is where it takes less. Theorem 1.

    The paper's example again: of the keys with four and with two master rows, three stream rows
    wait of the one, and the other is cached.

    >>> least_memory(np.array([4, 2, 0]), np.array([3, 3, 1]), v_R=1, v_S=1)
    5.0
    """
    return float(np.minimum(np.asarray(m) * float(v_R), np.asarray(n) * float(v_S)).sum())


def most_rows(m: Numbers, p: Numbers, M: float, *, v_R: float, v_S: float) -> float:
    """The stream rows of one cycle for which M bytes are the least memory; p is the share of them
    that has each key. Theorem 1, solved for n = rows x p; infinite if the whole table fits.

    Of half of the rows the key is cached, for 40 bytes; the others wait, 6 rows of 10 bytes.
    Without the cache it would be 10 rows.

    >>> most_rows(np.ones(3), np.array([0.5, 0.25, 0.25]), 100, v_R=40, v_S=10)
    12.0
    """
    m, p = np.asarray(m, np.float64), np.asarray(p, np.float64)
    # From so many rows on a key is cached; before, it takes memory for its rows.
    from_rows = m * v_R / (p * v_S)
    order = np.argsort(from_rows)
    cached = np.cumsum(m[order]) * v_R
    waiting = np.maximum(p.sum() - np.cumsum(p[order]), 0.0) * v_S
    used = cached + from_rows[order] * waiting
    keys = int(np.searchsorted(used, M))
    if keys == len(used):
        return math.inf
    if keys == 0:
        return float(M / (p.sum() * v_S))
    return float((M - cached[keys - 1]) / waiting[keys - 1])


def zipf_gain(K: float, c: float) -> float:
    """r: how many times the rows of MESHJOIN SSBJ can take in, at most, in the same memory.

    For K keys of one master row each, a stream with Zipf's law (skew 1), and hash tables that may
    take the share c of the bytes of the table, c < 1. r solves r (1 + ln(H / (r c))) = H, where H
    is the harmonic number of K. It depends neither on v_R nor on v_S, nor on whether a row waits
    for a whole cycle or for half of one.

    *Proof.* Of N rows in a cycle, N / (H i) are of the i-th key. MESHJOIN keeps them all, so that
    N_0 v_S = c K v_R. SSBJ takes N = r N_0. By theorem 2 it caches the keys for which v_R is less
    than N v_S / (H i) = v_R r c K / (H i): the first i* = r c K / H. A cached key takes v_R, any
    other v_R i* / i. The sum over i, with a logarithm for the sum of 1 / i, is
    v_R i* (1 + ln(K / i*)), and by theorem 1 no choice of keys takes less. It is to be c K v_R:
    that is the equation. If rows wait for half a cycle, v_S is halved in both. With the fudge
    factor f and the queue of equation 1, v_R and v_S are f v_R and f v_S + v_P; the disk buffer is
    taken off the memory before.

    The time of a cycle is left out: r bounds the service rate where reading the table takes most
    of it. Elsewhere rows take time too (equation 2).

    >>> [round(zipf_gain(K, c), 1) for K in (6e4, 5e6, 1e8) for c in (0.01, 0.1, 0.3)]
    [1.5, 2.4, 3.4, 2.1, 3.3, 4.7, 2.5, 3.9, 5.5]
    """
    H = _harmonic(K)
    low, high = 1.0, H
    while high - low > 1e-12 * H:
        r = (low + high) / 2
        low, high = (r, high) if r * (1 + math.log(H / (r * c))) < H else (low, r)
    return low


def zipf_memory(K: float, c: float) -> float:
    """The share of MESHJOIN's memory that SSBJ needs, at least, for the same rows; MESHJOIN's are
    the share c of the bytes of the table. As in :func:`zipf_gain`, with r = 1: the first c K / H
    keys are cached, and v_R (c K / H) (1 + ln(H / c)) is to be divided by c K v_R.

    The paper's tables, and what MESHJOIN would have to take of them for a ratio of 3:

    >>> [round(1 / zipf_memory(2e7, c), 1) for c in (0.01, 0.1, 1.0)]
    [2.1, 2.8, 4.5]
    """
    H = _harmonic(K)
    return (1 + math.log(H / c)) / H


def _harmonic(K: float) -> float:
    """The sum of 1 / i for i up to K.

    >>> round(_harmonic(4), 3)
    2.083
    """
    return math.log(K) + 0.5772156649015329 + 1 / (2 * K) - 1 / (12 * K * K)


# --- section 3.2.1: memory


def waiting_rows(
    M: float,
    b: float,
    h_R: float,
    R_t: float,
    *,
    v_R: float,
    v_S: float,
    v_P: float = 4,
    f: float = 1.0,
) -> float:
    """w_S: how many stream rows an iteration may add to H_S. Equation 1, solved for it.

    >>> waiting_rows(240_000, b=1000, h_R=0, R_t=100_000, v_R=120, v_S=20)
    50.0
    """
    left = M - (b + h_R * f) * v_R
    return max(0.0, left) / ((R_t / b) * (v_P + f * v_S))


# --- section 3.2.2: time


def loop_seconds(
    b: float,
    w_N: float,
    w_S: float,
    *,
    c_IO: float,
    c_H: float,
    c_O: float,
    c_B: float,
    c_E: float,
    c_S: float,
    c_A: float,
) -> float:
    """Seconds of one iteration; c_IO is that of a whole partition. Equation 2.

    >>> loop_seconds(1000, 800, 200, c_IO=1e6, c_H=100, c_O=50, c_B=10, c_E=20, c_S=5, c_A=30)
    0.001255
    """
    partition = c_IO + b * (c_H + c_B)
    nanoseconds = partition + w_N * (c_S + c_H + c_O) + w_S * (c_E + c_S + c_A + c_O)
    return round(nanoseconds * 1e-9, 12)


def service_rate(w_N: float, w_S: float, c_loop: float) -> float:
    """μ: stream rows a second. Equation 3; it must not be below the arrival rate (equation 4).

    >>> service_rate(800, 200, c_loop=0.0005)
    2000000.0
    """
    return (w_N + w_S) / c_loop
