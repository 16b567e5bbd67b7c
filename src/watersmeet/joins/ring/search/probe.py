"""Rows probe the slices of a stream: candidates by time and by overlaps, in blocks, then the
predicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.block import (
    Block,
    Gathered,
    RunBlock,
    Scratch,
    Strung,
    Tiled,
)
from watersmeet.joins.ring.search.candidates import Candidates
from watersmeet.joins.ring.search.cascade import RingCascade
from watersmeet.joins.ring.search.crossing import Crossed, Crossing
from watersmeet.joins.ring.search.fan_out import RingFanOut
from watersmeet.joins.ring.search.meeting import Meeting
from watersmeet.joins.ring.search.probing import Probing
from watersmeet.joins.ring.search.progress import Progress
from watersmeet.joins.ring.search.wanted import Wanted
from watersmeet.joins.ring.state import RingState
from watersmeet.rows.columns import Bools, Positions
from watersmeet.rows.output import Side
from watersmeet.segments.intervals import together
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry


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
        fan_out = RingFanOut(self._layout, probing, self._counters)
        due, overlaps = self._layout.conditions.due(probing.sides, stream)
        candidates = Candidates(self._layout, probing, stream, overlaps, self._state.measured)
        bounds = int(earliest.min()), int(latest.max())
        for entry in entries:
            if entry.min_time > bounds[1] or entry.max_time < bounds[0]:
                continue
            stored = window.open(entry)
            self._counters.probes += len(probing)
            meeting = Meeting(self._layout, due, probing, stream, stored.rows)
            wanted = Wanted(self._layout, window, entry, once, fan_out)
            for mine, theirs in self._found(meeting, candidates, stored, wanted):
                allowed = fan_out.admit(mine)
                mine, theirs = mine[allowed], theirs[allowed]
                if len(mine):
                    yield Matches(entry, stored, mine, theirs)
        fan_out.finish()

    def finish(self) -> None:
        """Count what the step's comparisons took."""
        self._cascade.finish()

    def _found(
        self, meeting: Meeting, candidates: Candidates, stored: Segment, wanted: Wanted
    ) -> Iterator[Pairs]:
        """The pairs of a meeting that match, block by block."""
        size, due = self._layout.output.piece_rows, meeting.due
        runs = None
        if due and (meeting.formulas or wanted.all):
            runs = candidates.runs(stored, long=meeting.numeric)
            runs = None if runs is None else wanted.among(runs)
        if runs is None:
            pairs = self._counted(candidates.pairs(stored, size), candidates, stored)
        elif (crossing := Crossing.of(meeting, runs)) is not None:
            yield from self._crossed(due, crossing, wanted)
            pairs = crossing.others(size)
        elif wanted.all and (blocks := self._blocks_of_runs(meeting, runs)) is not None:
            yield from self._matching_runs(due, blocks)
            return
        else:
            pairs = runs.pairs(size)
        for mine, theirs in meeting.pieces(pairs):
            mine, theirs = wanted.pairs(mine, theirs)
            if due and len(mine):
                matched = self._matching(due, Gathered(meeting.sides(mine, theirs)))
                mine, theirs = mine[matched], theirs[matched]
            yield mine, theirs

    def _counted(
        self, pairs: Iterator[Pairs], candidates: Candidates, stored: Segment
    ) -> Iterator[Pairs]:
        """The same candidates; how many there were of all pairs is what is known of the
        overlaps."""
        found = 0
        for mine, theirs in pairs:
            found += len(mine)
            yield mine, theirs
        overlaps, every = candidates.overlaps, candidates.count * len(stored)
        for number in overlaps:
            measured = self._state.measured[len(self._layout.conditions.predicates) + number]
            measured.pairs += every
            # Of several, each lets through the same share.
            measured.passed += every * (found / every) ** (1 / len(overlaps))

    def _blocks_of_runs(self, meeting: Meeting, runs: Runs) -> Iterator[RunBlock] | None:
        """Pairs that are in runs, block by block; None if they had better be gathered."""
        if meeting.numeric:
            return Strung.blocks(meeting, runs, self._scratch)
        tiles = meeting.tiles(runs)
        return None if tiles is None else Tiled.blocks(meeting, runs, tiles)

    def _matching_runs(self, due: Sequence[int], blocks: Iterator[RunBlock]) -> Iterator[Pairs]:
        """What matches of runs; few matches of many blocks are put together."""
        found = ((block, self._matching(due, block)) for block in blocks)
        pairs = (block.pairs(places) for block, places in found if len(places))
        return together(pairs, self._layout.output.piece_rows)

    def _crossed(self, due: Sequence[int], crossing: Crossing, wanted: Wanted) -> Iterator[Pairs]:
        """What matches of rows that are crossed; few matches of many blocks are put together."""
        size = self._layout.output.piece_rows
        blocks = filter(len, map(wanted.crossed, crossing.blocks(size)))
        masks = ((block, self._mask(due, block)) for block in blocks)
        found = ((block, wanted.matches(block, mask)) for block, mask in masks)
        pairs = (block.pairs(places) for block, places in found if len(places))
        # While they were put together, other matches may have been taken.
        return (wanted.pairs(*some) for some in together(pairs, size))

    def _mask(self, due: Sequence[int], block: Crossed) -> Bools:
        """For which pairs all formulas hold."""
        self._counters.pairs += len(block)
        self._counters.blocks += 1
        mask = self._cascade.crossed(due, block)
        self._progress.tell()
        return mask

    def _matching(self, due: Sequence[int], block: Block) -> Positions:
        """The candidates for which all predicates hold that compare them."""
        self._counters.pairs += len(block)
        self._counters.blocks += 1
        found = self._cascade.satisfying(due, block)
        self._progress.tell()
        return found
