"""Running averages of what a shard measures: rows of a step, rates, bytes, nanoseconds.

The load changes over the day, so old measurements must not count for ever. An average is
*exponential*: a new measurement counts with a *weight*, and all earlier ones together with the
rest. One number is kept, and no list of measurements.

    average after = average before + weight x (measurement - average before)

After n further measurements, an old one counts (1 - weight)^n times as much as in the beginning:
with a weight of 0.2 half as much after three, with 0.1 after seven. A small weight is steady, a
large one follows quickly.

The first measurement is the average as it is. An average that starts from zero would be too low for
a long time.
"""

from __future__ import annotations


def moving_average(before: float | None, now: float, *, weight: float) -> float:
    """The average with a new measurement; ``before`` is None if it is the first.

    >>> average = None
    >>> for rows in (100, 200, 200, 0):
    ...     average = moving_average(average, rows, weight=0.5)
    ...     print(average)
    100
    150.0
    175.0
    87.5

    With a weight of one, only the newest measurement counts.

    >>> moving_average(40.0, 8, weight=1)
    8.0
    """
    assert 0 < weight <= 1, "a new measurement counts, and no more than as a whole"
    return now if before is None else before + weight * (now - before)
