"""What is still wanted of the pairs of probing rows with those of a stored segment.

Often that is all of them. But a limit of matches may leave out the rest of what a row matches, and
in a semi or anti join a row needs one match only: then a stored row is gone, and a probing row is
marked (``once``). So what is wanted becomes less as matches are found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.crossing import Crossed
from watersmeet.joins.ring.search.fan_out import RingFanOut
from watersmeet.rows.columns import Bools, Positions
from watersmeet.segments.lines import Pairs
from watersmeet.segments.probe import spread
from watersmeet.segments.runs import Runs
from watersmeet.state.manifest import Entry
from watersmeet.state.window import Window


class Wanted:
    """Pairs of a probe and a segment. ``once``: the probing rows that need no further match, as of
    now, if one is enough for each."""

    def __init__(
        self,
        layout: RingLayout,
        window: Window,
        entry: Entry,
        once: Bools | None,
        fan_out: RingFanOut,
    ) -> None:
        self._window = window
        self._entry = entry
        self._once = once
        self._fan_out = fan_out
        #: Is one match enough for a row?
        self._one = not layout.how.combines
        #: Is every pair that matches wanted, whatever has been found already?
        self.all = not self._one and fan_out.cap is None
        #: The stored rows that need a match, by their place in the runs that are crossed.
        self._unmatched: Bools | None = None

    def among(self, runs: Runs) -> Runs:
        """The runs of the rows that are wanted."""
        if self._once is not None:
            runs = runs.among(new=~self._once)
        if self._entry.gone:
            runs = runs.among(stored=~self._window.gone(self._entry))
        return runs

    def pairs(self, mine: Positions, theirs: Positions) -> Pairs:
        """Those of some pairs that are wanted."""
        kept: Bools | slice
        if self._entry.gone:
            kept = ~self._window.gone(self._entry)[theirs]
            mine, theirs = mine[kept], theirs[kept]
        if self._once is not None:
            kept = ~self._once[mine]
            mine, theirs = mine[kept], theirs[kept]
        kept = self._fan_out.below_cap(mine)
        return mine[kept], theirs[kept]

    def crossed(self, block: Crossed) -> Crossed:
        """What is wanted of a block, before it is compared."""
        if self.all:
            return block
        rows = block.tile.rows
        if self._once is not None:
            rows = rows[~self._once[rows]]
        elif self._one and not self._left(block).any():
            rows = rows[:0]
        rows = rows[self._fan_out.below_cap(rows)]
        return replace(block, tile=replace(block.tile, rows=rows))

    def matches(self, block: Crossed, mask: Bools) -> Positions:
        """The places of a block's matches, if they are wanted: where one is enough for a row, not
        more, and where some are, hardly more."""
        if self._one and self._once is None:
            left = self._left(block)
            places = np.flatnonzero(mask.any(axis=0) & left)
            left[places] = False
            first: Positions = mask[:, places].argmax(axis=0) * mask.shape[1] + places
            return first
        places, cap = np.flatnonzero(mask), self._fan_out.cap
        # One more than that: then it shows that there are more.
        most = 1 if self._one else None if cap is None else cap + 1
        if most is None or len(places) <= most:
            return places
        starts = np.searchsorted(places, np.arange(len(mask) + 1) * mask.shape[1])
        some = spread(starts[:-1], np.minimum(starts[1:], starts[:-1] + most), len(places))
        return np.concatenate([places[chosen] for _, chosen in some])

    def _left(self, block: Crossed) -> Bools:
        """The stored rows of a block that need a match."""
        if self._unmatched is None:
            self._unmatched = np.ones(len(block.crossing.runs.order), dtype=np.bool_)
        return self._unmatched[block.tile.low : block.tile.high]
