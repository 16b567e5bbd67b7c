"""Rows probe the slices of a stream: candidates by time and by overlaps, in blocks, then the
predicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.ring.candidates import Candidates
from watersmeet.operators.ring.cascade import Cascade
from watersmeet.operators.ring.counters import RingCounters
from watersmeet.operators.ring.fan_out import FanOut
from watersmeet.operators.ring.layout import RingLayout
from watersmeet.operators.ring.probing import Probing
from watersmeet.operators.ring.state import RingState
from watersmeet.rows.columns import Bools, Positions
from watersmeet.rows.output import Side
from watersmeet.rows.widths import row_bytes
from watersmeet.state.lines import Pairs
from watersmeet.state.manifest import Entry
from watersmeet.state.segment import Segment


@dataclass(frozen=True)
class Matches:
    """Pairs that match: positions of probing rows, and of the rows of a stored segment."""

    entry: Entry
    stored: Segment
    mine: Positions
    theirs: Positions

    def sides(self, probing: Probing, stream: int) -> dict[int, Side]:
        """The pairs as combinations: what probes, and the stored rows of a stream."""
        sides = {of: (rows, self.mine) for of, rows in probing.sides.items()}
        return {**sides, stream: (self.stored.rows, self.theirs)}


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
        conditions, overlaps = self._layout.conditions.due(probing.sides, stream)
        candidates = Candidates(self._layout, probing, stream, overlaps)
        bounds = int(earliest.min()), int(latest.max())
        for entry in entries:
            if entry.min_time > bounds[1] or entry.max_time < bounds[0]:
                continue
            stored = window.open(entry)
            self._counters.probes += len(probing)
            size = self._layout.output.piece_rows
            pairs = self._counted(candidates.pairs(stored, size), overlaps, probing, stored)
            for mine, theirs in self._blocks(conditions, probing, stream, stored.rows, pairs):
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

    def _counted(
        self, pairs: Iterator[Pairs], overlaps: Sequence[int], probing: Probing, stored: Segment
    ) -> Iterator[Pairs]:
        """The same candidates; how many there were of all pairs is what is known of the
        overlaps."""
        found = 0
        for mine, theirs in pairs:
            found += len(mine)
            yield mine, theirs
        every = len(probing) * len(stored)
        for number in overlaps:
            measured = self._state.measured[len(self._layout.conditions.predicates) + number]
            measured.pairs += every
            # Of several, each lets through the same share.
            measured.passed += every * (found / every) ** (1 / len(overlaps))

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

    def _blocks(
        self,
        conditions: Sequence[int],
        probing: Probing,
        stream: int,
        rows: pa.RecordBatch,
        pairs: Iterator[Pairs],
    ) -> Iterator[tuple[Positions, Positions]]:
        """Pairs that are compared at a time: as many as there is room for, of the columns that
        predicates read."""
        read: dict[int, dict[str, None]] = {of: {} for of in (*probing.sides, stream)}
        for number in conditions:
            for of, name in self._layout.conditions.predicates[number].columns:
                read[of][self._layout.streams[of].rows.stored[name]] = None
        sides = {**probing.sides, stream: rows}
        compared = {of: sides[of].select(list(names)) for of, names in read.items()}
        widest = sum(map(_widest, compared.values()))
        one = next(iter(probing.sides))
        for mine, theirs in pairs:
            block: dict[int, Side] = {of: (side, mine) for of, side in compared.items()}
            block[stream] = compared[stream], theirs
            for piece in self._layout.output.pieces(block, widest=widest):
                yield piece[one][1], piece[stream][1]


def _widest(rows: pa.RecordBatch) -> int:
    """The bytes that no row exceeds."""
    return int(np.max(row_bytes(rows, np.arange(len(rows))), initial=0))


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
