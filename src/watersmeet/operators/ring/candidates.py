"""Candidates: which stored rows a probing row is to be compared with.

Stored rows are searched by time: those that may match by their windows are one range of a segment
in the order of time, found by binary search. All pairs in these ranges are candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from watersmeet.operators.ring.probing import Probing
from watersmeet.rows.columns import Positions
from watersmeet.state.probe import spread
from watersmeet.state.segment import Segment


def candidates(
    probing: Probing, stored: Segment, window: int | None, size: int
) -> Iterator[tuple[Positions, Positions]]:
    """Pairs of positions, of a probing row and of a stored one, at most ``size`` at a time.
    ``window`` is that of the stored rows' stream."""
    earliest, latest = probing.bounds(window)
    times, order = stored.by_time
    low = np.searchsorted(times, earliest, side="left")
    high = np.searchsorted(times, latest, side="right")
    met = np.flatnonzero(low < high)
    for number, place in spread(low[met], high[met], size):
        yield met[number], place if order is None else order[place]
