"""From where master rows are to pairs of a stream row and a master row with equal codes.

Usually all master rows of a key are candidates. Where it matters only whether there is a match, a
stream row has no more of them once it has one: first each row gets a few, then those that have none
yet get more and more. In a join *as of* a time, each stream row has one
at most: the newest version of its key that is not newer than the row. Partitions are in the order
of (code, time), so the versions of a key are in order too, through all partitions. They are looked
at from the last partition to the first, and the first version that is found for a row is the
newest one. (A table for such joins has all rows of a key in one layer.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.layout import EnrichLayout
from watersmeet.rows.columns import TIME, Bools, Positions, times_of
from watersmeet.rows.stored_keys import same_keys
from watersmeet.segments.probe import bisect, spread
from watersmeet.segments.segment import Segment
from watersmeet.table.lookup import Found

#: A row that needs one match is first compared with so many master rows, if there is a condition.
_FIRST = 16

#: Master rows; positions of stream rows, and positions of master rows with equal codes.
Candidates = tuple[Segment, Positions, Positions]


def candidates(
    layout: EnrichLayout, rows: pa.RecordBatch, found: Iterable[Found], matched: Bools
) -> Iterator[Candidates]:
    """The candidates of stream rows, in pieces. Partitions come in order; of a join as of a
    time, backwards. Between two pieces, the caller notes which rows have ``matched``."""
    if layout.as_of:
        yield from _valid(layout, rows, found)
        return
    for there in found:
        pieces = _every(layout, there) if layout.pairs else _until_matched(layout, there, matched)
        for row, place in pieces:
            yield there.master, row, place
        del there, pieces  # so that its partition is not mapped any more when the next one is


def _every(layout: EnrichLayout, there: Found) -> Iterator[tuple[Positions, Positions]]:
    """All pairs, in pieces."""
    for row, place in spread(there.low, there.high, layout.output.piece_rows):
        yield there.mine[row], place


def _until_matched(
    layout: EnrichLayout, there: Found, matched: Bools
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
    layout: EnrichLayout, rows: pa.RecordBatch, found: Iterable[Found]
) -> Iterator[Candidates]:
    """For each stream row, the newest version of its key that is not newer than the row."""
    times = times_of(rows)
    # A row without a time is newer than nothing.
    open_: Bools = rows.column(TIME).is_valid().to_numpy(zero_copy_only=False)
    for there in found:
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
