"""Results for stream rows, given where the master rows of their keys are.

Invariant: a row is answered once, in one call, from one version of the table: all of its matches,
or that it has none, are known when the call is over.

**Candidates** are pairs of a stream row and a master row with equal codes. Which of them are
compared depends on the join:

    every pair       of a join whose result has a row for each match: all master rows of a key
    until a match    of one that asks only whether there is a match: first each row gets a few,
                     then those that have none yet get more and more
    the valid one    of a join *as of* a time: the newest version of the row's key that is not newer
                     than the row

Partitions are in the order of (code, time), so the versions of a key are in order too, through all
partitions. They are looked at from the last partition to the first, and the first version that is
found for a row is the newest one. (A table for such joins has all rows of a key in one layer.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.layout import STREAM, TABLE, EnrichLayout
from watersmeet.rows.columns import TIME, Bools, Ints, Positions, times_of
from watersmeet.rows.output import Sides
from watersmeet.rows.stored_keys import same_keys
from watersmeet.rows.widths import row_bytes
from watersmeet.segments.probe import bisect, spread
from watersmeet.segments.segment import Segment
from watersmeet.table.lookup import MasterRanges

#: What becomes of rows without a match, given as positions.
Unmatched = Callable[[pa.RecordBatch, Ints], Iterator[pa.RecordBatch]]
#: Master rows; positions of stream rows, and positions of master rows with equal codes.
Candidates = tuple[Segment, Positions, Positions]

#: A row that needs one match is first compared with so many master rows, if there is a condition.
_FIRST = 16


class Stopwatch:
    """Adds up the time between ``with`` and the end of its block, in nanoseconds."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self._began = 0

    def __enter__(self) -> None:
        self._began = time.perf_counter_ns()

    def __exit__(self, *failure: object) -> None:
        self.nanoseconds += time.perf_counter_ns() - self._began

    def timed(self, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same results; the time in which they are made counts."""
        while True:
            with self:
                made = next(results, None)
            if made is None:
                return
            yield made


def answers(
    layout: EnrichLayout,
    rows: pa.RecordBatch,
    ranges: Iterable[MasterRanges],
    *,
    only: Bools | None = None,
    unmatched: Unmatched | None = None,
    watch: Stopwatch | None = None,
) -> Iterator[pa.RecordBatch]:
    """The results of stream rows, given where their master rows were found; with ``only``, of
    those for which it is true, and master rows are of these alone. What becomes of rows without a
    match depends on the join, unless ``unmatched`` says so. The watch runs while results are made,
    not while others use them."""
    watch = watch or Stopwatch()
    matched = np.zeros(len(rows), dtype=np.bool_)
    widest = int(np.max(row_bytes(rows, np.arange(len(rows))), initial=0))
    for master, mine, theirs in _candidates(layout, rows, ranges, matched):
        sides: Sides = {STREAM: (rows, mine), TABLE: (master.rows, theirs)}
        confirmed = layout.confirmed(sides, widest + master.widest)
        yield from watch.timed(_pairs(layout, confirmed, matched))
        del master, sides, confirmed  # a partition that is not needed any more is not kept mapped
    if layout.how.emits_first_match:
        yield from layout.output.alone(STREAM, rows, np.flatnonzero(matched))
    without = np.flatnonzero(~matched if only is None else only & ~matched)
    if unmatched is not None:
        yield from unmatched(rows, without)
    elif layout.preserved:
        yield from layout.output.alone(STREAM, rows, without)


def _pairs(
    layout: EnrichLayout, confirmed: Iterator[Sides], matched: Bools
) -> Iterator[pa.RecordBatch]:
    """What pairs that match add to the result. Notes which stream rows they are of."""
    for sides in confirmed:
        matched[sides[STREAM][1]] = True
        if layout.pairs:
            yield from layout.output.rows(sides)


# -- which pairs are compared --------------------------------------------------------


def _candidates(
    layout: EnrichLayout, rows: pa.RecordBatch, ranges: Iterable[MasterRanges], matched: Bools
) -> Iterator[Candidates]:
    """The candidates of stream rows, in pieces. Partitions come in order; of a join as of a
    time, backwards. Between two pieces, the caller notes which rows have ``matched``."""
    if layout.as_of:
        yield from _valid(layout, rows, ranges)
        return
    for there in ranges:
        pieces = _every(layout, there) if layout.pairs else _until_matched(layout, there, matched)
        for row, place in pieces:
            yield there.master, row, place
        del there, pieces  # so that its partition is not mapped any more when the next one is


def _every(layout: EnrichLayout, there: MasterRanges) -> Iterator[tuple[Positions, Positions]]:
    """All pairs, in pieces."""
    for row, place in spread(there.low, there.high, layout.output.piece_rows):
        yield there.mine[row], place


def _until_matched(
    layout: EnrichLayout, there: MasterRanges, matched: Bools
) -> Iterator[tuple[Positions, Positions]]:
    """Pairs of each row until it has matched, in pieces."""
    mine, low, high = there.mine, there.low, there.high
    # Without a condition, the first master row of a code matches, unless keys only share it.
    width = 1 if layout.predicate is None else _FIRST
    while True:
        left = (low < high) & ~matched[mine]
        mine, low, high = mine[left], low[left], high[left]
        if not len(mine):
            return
        # Few or many master rows: at most four times as many pairs are made as necessary.
        until = np.minimum(low + width, high)
        for row, place in spread(low, until, layout.output.piece_rows):
            yield mine[row], place
        low, width = until, 4 * width


def _valid(
    layout: EnrichLayout, rows: pa.RecordBatch, ranges: Iterable[MasterRanges]
) -> Iterator[Candidates]:
    """For each stream row, the newest version of its key that is not newer than the row."""
    times = times_of(rows)
    # A row without a time is newer than nothing.
    open_: Bools = rows.column(TIME).is_valid().to_numpy(zero_copy_only=False)
    for there in ranges:
        chosen = open_[there.mine]
        mine, low = there.mine[chosen], there.low[chosen]
        master = there.master.rows
        high = bisect(times_of(master), low, there.high[chosen], times[mine], side="right")
        while len(mine):
            inside = high > low
            mine, low, high = mine[inside], low[inside], high[inside] - 1
            # Codes are equal. Where keys are not, an older row may be the right one.
            equal = same_keys(layout, rows, master, mine, high)
            open_[mine[equal]] = False
            yield there.master, mine[equal], high[equal]
            mine, low, high = mine[~equal], low[~equal], high[~equal]
        del there, master
