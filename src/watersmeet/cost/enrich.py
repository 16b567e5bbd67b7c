"""What a semi-stream join costs, and which master rows it caches.

The paper's model (Naeem, Weber, Lutteroth: A Memory-Optimal Many-To-Many Semi-Stream Join), in
its symbols. R is the table (the master data), S the stream:

    M           memory, in bytes
    R_t         rows of the table; b of them are a partition, one is read in each iteration
    h_R, h_S    rows in the cache H_R, and stream rows that wait in H_S
    w_N, w_S    stream rows of an iteration that the cache answers, and that the disk phase does
    v_R, v_S    bytes of a master row, and of a stream row; v_P of a pointer in the queue
    m, n        of one key: its master rows, and its stream rows in one cycle through the table
    f           fudge factor of the hash tables
    s_f         switching factor; 1 is best (figure 6 (a))
    c_...       nanoseconds: c_IO to read a partition, c_H to look a row up, c_O to make the
                output of one, c_B to switch one into the cache, c_E to remove one from H_S, c_S to
                read one from the stream, c_A to append one to H_S

The arguments m, n and f_count may be arrays: each key is decided on its own.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from watersmeet.rows.columns import Bools

Numbers = npt.NDArray[np.integer] | npt.NDArray[np.floating] | float

# --- theorem 2: the cache inequality


def belongs_into_cache(m: Numbers, n: Numbers, v_R: float, v_S: float, s_f: float = 1.0) -> Bools:
    """Does a key take less memory in the cache than in the disk phase? Algorithm 1, line 33.

    The paper's example (figure 3), with rows of one size: three stream rows wait for each of two
    keys, with four and with two master rows. A key without a master row takes no memory there.

    >>> belongs_into_cache(np.array([4, 2, 0]), np.array([3, 3, 1]), v_R=1, v_S=1).tolist()
    [False, True, True]
    """
    fits: Bools = np.asarray(n * np.float64(v_S) > s_f * np.float64(v_R) * m)
    return fits


def leaves_cache(
    m: Numbers, f_count: Numbers, cycles: float, v_R: float, v_S: float, s_f: float = 1.0
) -> Bools:
    """Is a cached key, which came ``f_count`` times in so many cycles, too rare? Line 46.

    >>> leaves_cache(np.array([1, 1, 0]), np.array([70, 50, 0]), cycles=10, v_R=120, v_S=20)
    array([False,  True,  True])
    """
    rare: Bools = np.asarray(m * np.float64(v_R) >= s_f * np.float64(v_S) * f_count / cycles)
    return rare


def densest(sizes: Numbers, worth: Numbers, room: float) -> Bools:
    """Which keys to keep if not all fit: those that are worth most for a byte.

    >>> densest(np.array([4, 1, 2]), np.array([4, 3, 5]), room=3).tolist()
    [False, True, True]
    """
    sizes, worth = np.asarray(sizes, np.float64), np.asarray(worth, np.float64)
    order = np.argsort(-worth / np.maximum(sizes, 1e-9), kind="stable")
    kept = np.zeros(len(sizes), dtype=np.bool_)
    kept[order] = np.cumsum(sizes[order]) <= room
    return kept


# --- theorem 1: the least memory, and how much the cache can save at all


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


def memory(
    b: float,
    h_R: float,
    w_S: float,
    R_t: float,
    *,
    v_R: float,
    v_S: float,
    v_P: float = 4,
    f: float = 1.0,
) -> float:
    """Bytes of the disk buffer, of H_R, of the queue and of H_S. Equation 1.

    >>> memory(b=1000, h_R=0, w_S=50, R_t=100_000, v_R=120, v_S=20)
    240000.0
    """
    return (b + h_R * f) * v_R + w_S * (R_t / b) * (v_P + f * v_S)


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
