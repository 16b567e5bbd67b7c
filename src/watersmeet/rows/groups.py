"""Groups of equal values, by position."""

from __future__ import annotations

import numpy as np

from watersmeet.rows.columns import Ints, Positions


def groups(values: Ints | Positions, *, stable: bool = False) -> tuple[Positions, Ints, Ints]:
    """The positions of values in ascending order; where in it the group of each value begins; and
    how large the group is. If the order is ``stable``, equal values stay in their order, which
    takes four times as long.

    >>> [each.tolist() for each in groups(np.array([7, 5, 7]), stable=True)]
    [[1, 0, 2], [0, 1], [1, 2]]
    """
    order = np.argsort(values, kind="stable" if stable else None)
    ordered = values[order]
    first = np.flatnonzero(np.append(len(values) > 0, ordered[1:] != ordered[:-1]))
    return order, first, np.diff(first, append=len(values))


def equal_before(values: Ints | Positions) -> Ints:
    """For each value, how many equal ones come before it.

    >>> equal_before(np.array([7, 5, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order, first, sizes = groups(values, stable=True)
    counts = np.empty(len(values), dtype=np.int64)
    counts[order] = np.arange(len(values)) - np.repeat(first, sizes)
    return counts
