"""Rows probe the slices of a stream: candidates by time, in blocks, then the predicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.ring.candidates import candidates
from watersmeet.operators.ring.cascade import Cascade, due
from watersmeet.operators.ring.counters import RingCounters
from watersmeet.operators.ring.fan_out import FanOut
from watersmeet.operators.ring.layout import RingLayout
from watersmeet.operators.ring.probing import Probing
from watersmeet.operators.ring.state import RingState
from watersmeet.rows.columns import Bools
from watersmeet.rows.output import Positions, piece_rows
from watersmeet.state.manifest import Entry
from watersmeet.state.segment import Segment


@dataclass(frozen=True)
class Matches:
    """Pairs that match: positions of probing rows, and of the rows of a stored segment."""

    entry: Entry
    stored: Segment
    mine: Positions
    theirs: Positions


class Probe:
    """Finds what matches; lives for a step."""

    def __init__(self, layout: RingLayout, state: RingState, counters: RingCounters) -> None:
        self._layout = layout
        self._state = state
        self._counters = counters
        self._cascade = Cascade(layout, state.measured, counters)

    def matches(
        self,
        probing: Probing,
        stream: int,
        entries: Sequence[Entry],
        *,
        once: Bools | None = None,
    ) -> Iterator[Matches]:
        """What probing rows match in stored segments of a stream, block by block. ``once``: rows
        that need no further match, as of now."""
        window, length = self._state.slice_of(stream), self._layout.streams[stream].window
        earliest, latest = probing.bounds(length)
        if not len(probing):
            return
        names = " and ".join(self._layout.streams[s].name for s in probing.sides)
        fan_out = FanOut(self._layout.policy.budget, probing, names, self._counters)
        conditions = due(self._layout.predicates, probing.sides, stream)
        bounds = int(earliest.min()), int(latest.max())
        for entry in entries:
            if entry.min_time > bounds[1] or entry.max_time < bounds[0]:
                continue
            stored = window.open(entry)
            self._counters.probes += len(probing)
            size = self._block(conditions, probing, stream, stored.rows)
            for mine, theirs in candidates(probing, stored, length, size):
                gone = window.gone(entry) if entry.gone else None
                wanted = _wanted(gone, once, mine, theirs)
                mine, theirs = mine[wanted], theirs[wanted]
                below = fan_out.below_cap(mine)
                mine, theirs = mine[below], theirs[below]
                matched = self._matching(conditions, probing, stream, stored.rows, mine, theirs)
                mine, theirs = mine[matched], theirs[matched]
                allowed = fan_out.admit(mine)
                mine, theirs = mine[allowed], theirs[allowed]
                if len(mine):
                    yield Matches(entry, stored, mine, theirs)
        fan_out.finish()

    def finish(self) -> None:
        """Count what the step's comparisons took."""
        self._cascade.finish()

    def _matching(
        self,
        conditions: Sequence[int],
        probing: Probing,
        stream: int,
        rows: pa.RecordBatch,
        mine: Positions,
        theirs: Positions,
    ) -> Positions | slice:
        """The candidates for which all predicates hold that compare them."""
        if not len(mine) or not conditions:
            return slice(None)
        self._counters.pairs += len(mine)
        self._counters.blocks += 1
        sides = {number: (side, mine) for number, side in probing.sides.items()}
        sides[stream] = rows, theirs
        return self._cascade.satisfying(conditions, sides)

    def _block(
        self, conditions: Sequence[int], probing: Probing, stream: int, rows: pa.RecordBatch
    ) -> int:
        """How many pairs are compared at a time: as many as the columns that predicates read have
        room for."""
        sides = {**probing.sides, stream: rows}
        read: dict[int, dict[str, None]] = {}
        for number in conditions:
            for of, name in self._layout.predicates[number].columns:
                stored = self._layout.streams[of].rows.stored[name]
                read.setdefault(of, {})[stored] = None
        batches = [sides[of].select(list(names)) for of, names in read.items()]
        return piece_rows(*batches, limit=self._layout.piece)


def _wanted(
    gone: Bools | None, once: Bools | None, mine: Positions, theirs: Positions
) -> Bools | slice:
    """The candidates that still count: whose stored row is not gone, and whose probing row needs
    a match."""
    if gone is None and once is None:
        return slice(None)
    wanted = np.ones(len(mine), dtype=np.bool_)
    if gone is not None:
        wanted &= ~gone[theirs]
    if once is not None:
        wanted &= ~once[mine]
    return wanted
