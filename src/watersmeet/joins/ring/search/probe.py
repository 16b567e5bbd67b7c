"""Probing rows probe the segments of a stream: from the candidates to the pairs that match.

A :class:`Probe` goes from segment to segment. It decides how the candidates of one are put into
blocks, and a :class:`RingCascade` compares each block::

    there are formulas for all that is compared, and long runs       formula blocks
    every match is needed, the candidates are runs, and values
        are only numbers, and the runs are long                      number blocks
        are wide, or many rows meet the same run                     tile blocks
    otherwise                                                        position blocks

The matches are the same whichever it is. What matches is counted by the fan-out, which may leave
out the rest of a row's matches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.conditions.cascade import Cascade, PredicateStatistics
from watersmeet.conditions.predicate import Predicate
from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.blocks import Block, PairRows, PositionBlock, RunBlock, TileBlock
from watersmeet.joins.ring.search.candidates import Candidates, Demand
from watersmeet.joins.ring.search.fan_out import RingFanOut
from watersmeet.joins.ring.search.number_blocks import (
    FormulaBlock,
    FormulaRuns,
    NumberBlock,
    Scratch,
)
from watersmeet.joins.ring.search.probing_rows import ProbingRows
from watersmeet.joins.ring.search.progress_log import ProgressLog
from watersmeet.joins.ring.state import RingState
from watersmeet.rows.columns import Bools, Positions
from watersmeet.rows.output import Side
from watersmeet.segments.intervals import together
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry

#: Comparisons that take longer than this, in seconds, are worth a note in the metrics.
LONG = 30.0


@dataclass(frozen=True)
class Matches:
    """Pairs that match: positions of probing rows, and of the rows of a stored segment."""

    entry: Entry
    stored: Segment
    mine: Positions
    theirs: Positions

    def sides(self, probing: ProbingRows, stream: int) -> dict[int, Side]:
        """The pairs as combinations: what probes, and the stored rows of a stream."""
        sides = {of: (rows, self.mine) for of, rows in probing.sides.items()}
        return {**sides, stream: (self.stored.rows, self.theirs)}


class Probe:
    """Finds what matches; lives for a step."""

    def __init__(self, layout: RingLayout, state: RingState, counters: RingCounters) -> None:
        self._layout = layout
        self._state = state
        self._counters = counters
        self._log = ProgressLog(layout, state.shard, counters)
        self._cascade = RingCascade(layout, state.measured, counters, self._log)
        self._scratch = Scratch()

    def matches(
        self,
        probing: ProbingRows,
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
        self._log.expect(probing, entries)
        fan_out = RingFanOut(self._layout, probing, self._counters)
        due, overlaps = self._layout.conditions.due(probing.sides, stream)
        candidates = Candidates(self._layout, probing, stream, overlaps, self._state.measured)
        bounds = int(earliest.min()), int(latest.max())
        for entry in entries:
            if entry.min_time > bounds[1] or entry.max_time < bounds[0]:
                continue
            stored = window.open(entry)
            self._counters.probes += len(probing)
            rows = PairRows(self._layout, due, probing, stream, stored.rows)
            demand = Demand(self._layout, window, entry, once, fan_out)
            for mine, theirs in self._found(rows, candidates, stored, demand):
                allowed = fan_out.admit(mine)
                mine, theirs = mine[allowed], theirs[allowed]
                if len(mine):
                    yield Matches(entry, stored, mine, theirs)
        fan_out.finish()

    def finish(self) -> None:
        """Count what the step's comparisons took."""
        self._cascade.finish()

    def _found(
        self, rows: PairRows, candidates: Candidates, stored: Segment, demand: Demand
    ) -> Iterator[Pairs]:
        """The pairs of probing rows and those of a segment that match, block by block."""
        size, due = self._layout.output.piece_rows, rows.due
        runs = None
        if due and (rows.formulas or demand.all):
            runs = candidates.runs(stored, long=rows.numeric)
            runs = None if runs is None else demand.among(runs)
        if runs is None:
            pairs = candidates.pairs(stored, size)
        elif (formula_runs := FormulaRuns.of(rows, runs)) is not None:
            yield from self._matches_by_formula(due, formula_runs, demand)
            pairs = formula_runs.others(size)
        elif demand.all and (blocks := self._blocks(rows, runs)) is not None:
            yield from self._matches_of_blocks(due, blocks)
            return
        else:
            pairs = runs.pairs(size)
        for mine, theirs in rows.pieces(pairs):
            mine, theirs = demand.pairs(mine, theirs)
            if due and len(mine):
                block = PositionBlock(rows.sides(mine, theirs))
                matched = self._cascade.satisfying(due, block)
                mine, theirs = mine[matched], theirs[matched]
            yield mine, theirs

    def _blocks(self, rows: PairRows, runs: Runs) -> Iterator[RunBlock] | None:
        """Pairs that are in runs, block by block; None if they had better be gathered."""
        if rows.numeric:
            return NumberBlock.blocks(rows, runs, self._scratch)
        tiles = rows.tiles(runs)
        return None if tiles is None else TileBlock.blocks(rows, runs, tiles)

    def _matches_of_blocks(self, due: Sequence[int], blocks: Iterator[RunBlock]) -> Iterator[Pairs]:
        """What matches of runs; few matches of many blocks are put together."""
        found = ((block, self._cascade.satisfying(due, block)) for block in blocks)
        pairs = (block.pairs(places) for block, places in found if len(places))
        return together(pairs, self._layout.output.piece_rows)

    def _matches_by_formula(
        self, due: Sequence[int], runs: FormulaRuns, demand: Demand
    ) -> Iterator[Pairs]:
        """What matches of ordinary rows; few matches of many blocks are put together."""
        size = self._layout.output.piece_rows
        masks = ((each, self._cascade.mask(due, each)) for each in runs.blocks(size, demand.tile))
        found = ((block, demand.places(block.tile, mask)) for block, mask in masks)
        pairs = (block.pairs(places) for block, places in found if len(places))
        # While they were put together, other matches may have been taken.
        return (demand.pairs(*some) for some in together(pairs, size))


class RingCascade:
    """Applies the predicates of a join to blocks, in the order that costs least
    (:mod:`watersmeet.conditions.cascade`), and counts what is compared. What is measured of a
    predicate is kept from step to step, and fades. The cascade lives for a step.

    Example: of two predicates that take equally long, one holds for half of the pairs and one for a
    tenth. Of a block of 1,000 pairs, the second compares all, and the first the 100 that are left.
    """

    def __init__(
        self,
        layout: RingLayout,
        measured: Sequence[PredicateStatistics],
        counters: RingCounters,
        log: ProgressLog,
    ) -> None:
        self._layout = layout
        self._cascade = Cascade(measured)
        self._counters = counters
        self._log = log
        for known in measured:
            known.fade()

    def satisfying(self, due: Sequence[int], block: Block) -> Positions:
        """Which of the combinations satisfy the predicates of these numbers, by position."""

        def holding(number: int, left: Positions | None) -> Positions:
            part = block if left is None else block.at(left)
            return self._holding(self._layout.conditions.predicates[number], part)

        self._count(len(block))
        found = self._cascade.satisfying(due, len(block), holding)
        self._log.write()
        return found

    def mask(self, due: Sequence[int], block: FormulaBlock) -> Bools:
        """The same, by probing row and place in the run, where formulas say all. Each is computed
        for all pairs: that is cheaper than to gather those that are left."""
        self._count(len(block))
        mask: Bools | None = None
        for number in due:
            formula = self._layout.conditions.predicates[number].formula
            assert formula is not None, "all that is due is a formula"
            began = time.perf_counter()
            holds = block.mask(formula)
            self._cascade.measure(number, len(block), int(np.count_nonzero(holds)), began)
            mask = holds if mask is None else mask & holds
        assert mask is not None, "there is a predicate to apply"
        self._log.write()
        return mask

    def finish(self) -> None:
        """Count the time that predicates took; if it was long, note which of them took it."""
        counters, seconds = self._counters, self._cascade.seconds
        total = sum(seconds)
        counters.predicate_ms += round(total * 1000)
        if total < LONG:
            return
        slowest = max(range(len(seconds)), key=seconds.__getitem__)
        counters.notes.append(
            f"{counters.pairs:,} pairs were compared in {total:,.0f} s, in {counters.blocks:,} "
            f"blocks; {self._layout.conditions.predicates[slowest].text} took "
            f"{seconds[slowest] / total:.0%} of the time"
        )

    def _count(self, pairs: int) -> None:
        self._counters.pairs += pairs
        self._counters.blocks += 1

    def _holding(self, predicate: Predicate, block: Block) -> Positions:
        """Where a predicate holds."""
        columns = [
            block.column(of, self._layout.streams[of].rows.stored[name], again=predicate.forgets)
            for of, name in predicate.columns
        ]
        return predicate.satisfying(columns)
