"""Where codes are in a partition, with few of its pages touched.

A binary search jumps through the whole column: for each code it waits for some twenty places, one
after the other, each of them in another part of memory, or of a disk. So every 64th code is kept
apart, as a *fence*. The fences of a partition are few, and stay at hand. Between two of them are 64
codes: half a kilobyte of the column, in one page, or two. All codes that are looked for are halved
towards together, so the memory is asked for many places at a time.

Invariant: the first row whose code is at least c is behind the last fence that is less than c, and
not behind the next one.
"""

from __future__ import annotations

import numpy as np

from watersmeet.rows.columns import Ints

#: From fence to fence: a power of two.
STEP = 64


def fences_of(codes: Ints) -> Ints:
    """The fences of codes that ascend.

    >>> fences_of(np.arange(130)).tolist()
    [0, 64, 128]
    """
    return codes[::STEP]


def fence_count(rows: Ints) -> Ints:
    """How many fences partitions of so many rows have.

    >>> fence_count(np.array([1, 64, 65])).tolist()
    [1, 1, 2]
    """
    return -(-rows // STEP)


def first_at_least(stored: Ints, fences: Ints, codes: Ints) -> Ints:
    """For each of some codes, the first of the stored ones, which ascend, that is not less; their
    number if there is none.

    >>> stored = np.arange(0, 400, 2)
    >>> first_at_least(stored, fences_of(stored), np.array([-1, 0, 7, 398, 500])).tolist()
    [0, 0, 4, 199, 200]
    """
    first: Ints = np.maximum(np.searchsorted(fences, codes) - 1, 0) * STEP
    step = STEP // 2
    while step:
        first += step * (stored.take(first + (step - 1), mode="clip") < codes)
        step //= 2
    first += stored.take(first, mode="clip") < codes
    return np.minimum(first, len(stored))
