"""Aligned tuple routing (ATR, section 7 of the paper): which rows go into which segments.

Time is cut into segments of length T. One stream is the **master**: its rows are partitioned, each
is in the segment of its own time and nowhere else. The others are **slaves**: a slave's row is
copied into every segment that has times within a window W of it. So all rows that a master's row
may meet are in its segment, and a result is made once: in the segment of its master's row.

The paper wants W much smaller than T. A slave's row is in 1 + 2 W / T segments on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

#: T / W, where the paper says no more than that it is large: a fifth of a slave's rows is copied.
WINDOWS = 10


def first_and_last(
    time: Any, reach: Any, segment: float, floor: Callable[[Any], Any] = math.floor
) -> tuple[Any, Any]:
    """The first segment that has times so close to this one, and the last. Of numbers, or, with
    Spark's ``floor``, of columns.

    >>> first_and_last(105, 10, segment=100)
    (0, 1)
    >>> first_and_last(105, 0, segment=100)
    (1, 1)
    """
    return floor((time - reach) / segment), floor((time + reach) / segment)
