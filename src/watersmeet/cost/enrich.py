"""Which master rows a semi-stream join caches, and how much memory its stream rows take.

The paper's model (Naeem, Weber, Lutteroth: A Memory-Optimal Many-To-Many Semi-Stream Join), in
its symbols. R is the table (the master data), S the stream:

    M           memory, in bytes
    R_t         rows of the table; b of them are a partition, one is read in each iteration
    h_R, h_S    rows in the cache H_R, and stream rows that wait in H_S
    w_S         stream rows of an iteration that the disk phase answers
    v_R, v_S    bytes of a master row, and of a stream row; v_P of a pointer in the queue
    m, n        of one key: its master rows, and its stream rows in one cycle through the table
    f           fudge factor of the hash tables
    s_f         switching factor; 1 is best (figure 6 (a))

The arguments m, n and f_count may be arrays: each key is decided on its own.
"""

from __future__ import annotations

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
