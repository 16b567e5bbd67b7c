"""Rows probe the slices of a stream: candidates by time and by overlaps, in blocks, then the
predicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.operators.ring.block import (
    Block,
    Crossed,
    Gathered,
    RunBlock,
    Scratch,
    Strung,
    Tiled,
)
from watersmeet.operators.ring.candidates import Candidates
from watersmeet.operators.ring.cascade import RingCascade
from watersmeet.operators.ring.counters import RingCounters
from watersmeet.operators.ring.fan_out import FanOut
from watersmeet.operators.ring.layout import RingLayout
from watersmeet.operators.ring.meeting import Meeting
from watersmeet.operators.ring.probing import Probing
from watersmeet.operators.ring.progress import Progress
from watersmeet.operators.ring.state import RingState
from watersmeet.rows.columns import Bools, Positions
from watersmeet.rows.output import Side
from watersmeet.state.lines import Pairs
from watersmeet.state.manifest import Entry
from watersmeet.state.overlaps import together
from watersmeet.state.runs import Runs
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
        self._cascade = RingCascade(layout, state.measured, counters)
        self._progress = Progress(layout, state.shard, counters)
        self._scratch = Scratch()

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
        self._progress.expect(probing, entries)
        fan_out = FanOut(self._layout, probing, self._counters)
        due, overlaps = self._layout.conditions.due(probing.sides, stream)
        candidates = Candidates(self._layout, probing, stream, overlaps)
        # Does each row meet all, whatever it has found already?
        all_met = once is None and self._layout.how not in ("semi", "anti") and fan_out.cap is None
        bounds = int(earliest.min()), int(latest.max())
        for entry in entries:
            if entry.min_time > bounds[1] or entry.max_time < bounds[0]:
                continue
            stored = window.open(entry)
            self._counters.probes += len(probing)
            meeting = Meeting(self._layout, due, probing, stream, stored.rows)
            blocks = None
            if due and all_met and not entry.gone:
                runs = candidates.runs(stored, long=meeting.numeric)
                blocks = self._blocks_of_runs(meeting, runs)
            if blocks is not None:
                for mine, theirs in self._matching_runs(due, blocks):
                    fan_out.admit(mine)
                    yield Matches(entry, stored, mine, theirs)
                continue
            pairs = candidates.pairs(stored, self._layout.output.piece_rows)
            pairs = self._counted(pairs, overlaps, probing, stored)
            for mine, theirs in meeting.pieces(pairs):
                gone = window.gone(entry) if entry.gone else None
                wanted = _wanted(gone, once, mine, theirs)
                mine, theirs = mine[wanted], theirs[wanted]
                below = fan_out.below_cap(mine)
                mine, theirs = mine[below], theirs[below]
                if due and len(mine):
                    matched = self._matching(due, Gathered(meeting.sides(mine, theirs)))
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

    def _blocks_of_runs(
        self, meeting: Meeting, runs: Runs | None
    ) -> Iterator[RunBlock | Crossed] | None:
        """Pairs that are in runs, block by block; None if they had better be gathered."""
        if runs is None:
            return None
        if meeting.numeric:
            crossed = meeting.crossings(runs)
            if crossed is not None:
                return Crossed.blocks(meeting, runs, crossed)
            return Strung.blocks(meeting, runs, self._scratch)
        tiles = meeting.tiles(runs)
        return None if tiles is None else Tiled.blocks(meeting, runs, tiles)

    def _matching_runs(
        self, due: Sequence[int], blocks: Iterator[RunBlock | Crossed]
    ) -> Iterator[Pairs]:
        """What matches of runs; few matches of many blocks are put together."""
        found = ((block, self._matching(due, block)) for block in blocks)
        pairs = (block.pairs(places) for block, places in found if len(places))
        return together(pairs, self._layout.output.piece_rows)

    def _matching(self, due: Sequence[int], block: Block | Crossed) -> Positions:
        """The candidates for which all predicates hold that compare them."""
        self._counters.pairs += len(block)
        self._counters.blocks += 1
        if isinstance(block, Crossed):
            found = self._cascade.crossed(due, block)
        else:
            found = self._cascade.satisfying(due, block)
        self._progress.tell()
        return found


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
