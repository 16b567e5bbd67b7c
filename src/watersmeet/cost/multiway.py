"""What it costs to probe windows in some order (multiway paper, section 3.1).

A new row that finds no match in one window probes no further one. So the window in which fewest
rows find a match comes first.
"""

from __future__ import annotations

from collections.abc import Sequence


def probes(order: Sequence[int], match_rates: Sequence[float]) -> float:
    """Windows that a new row probes, on average; ``match_rates[i]`` is the share of new rows
    that find a match in stream i's window.

    >>> probes([1, 2], match_rates=[1.0, 0.5, 0.1])
    1.5
    >>> probes([2, 1], match_rates=[1.0, 0.5, 0.1])
    1.1
    """
    total, left = 0.0, 1.0
    for stream in order:
        total += left
        left *= match_rates[stream]
    return total


def most_selective_first(
    driver: int, match_rates: Sequence[float], *, through: int | None = None
) -> list[int]:
    """The other streams, beginning with the one in which fewest rows find a match. If all streams
    are matched ``through`` one stream, that one comes first.

    >>> most_selective_first(0, [1.0, 0.5, 0.1, 0.5])
    [2, 1, 3]
    >>> most_selective_first(3, [0.9, 0.5, 0.1, 1.0], through=0)
    [0, 2, 1]
    """
    others = [stream for stream in range(len(match_rates)) if stream != driver]
    return sorted(others, key=lambda stream: (stream != through, match_rates[stream]))
