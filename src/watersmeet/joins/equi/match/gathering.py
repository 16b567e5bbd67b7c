"""The matches of new rows in all other streams, gathered a bounded amount at a time.

Invariant: what is gathered at a time, of all streams together, takes at most a piece
(:mod:`watersmeet.rows.output`). It is measured by the rows that are gathered, not by the new ones.

Rule: matches are first *located*: segment, position and time, a few bytes each, however wide their
rows are. Then the rows at those positions are copied into one batch for each stream: for as many
new rows at a time as fit.

A new row whose matches alone exceed a piece (a thousand documents, or a key with millions of rows)
is processed by itself: each *block* of its matches in one stream with each block in the next. A
block is in one segment, and refers to the segment's own rows: nothing is copied.

**Example.** A match in b takes 100 bytes and one in c 300 bytes, of which 32 say where it is. A
piece has 1,000 bytes::

    new row   matches in b   in c    bytes
          0              2      1      500   copied together: a batch of three rows of b, and one
          1              1      1      400   of two rows of c
          2              5      2    1,100   by itself: each block of b's matches with each of c's
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.limits.fan_out import EquiFanOut
from watersmeet.joins.equi.match.combination_probe import SegmentMatches, WindowMatches
from watersmeet.rows.columns import Bools, Ints, Positions, concat
from watersmeet.rows.stored_keys import same_keys
from watersmeet.rows.widths import cuts, row_bytes
from watersmeet.segments.index import Index, sort_order
from watersmeet.segments.probe import spread
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry

_ALL = 2**62
#: The bytes that it takes to locate a match, besides those of its row.
_LOCATED = 32
#: Located matches take a quarter of a piece at most. So if rows are not unusually wide, all matches
#: that are located together can be copied together.
_LOCATED_PART = 4


@dataclass(frozen=True)
class GatheredMatches:
    """The matches of some new rows in one stream. New row r has those from ``starts[r - first]``
    on, in order of ``times``; match m is row ``places[m]`` of ``rows``. No row takes more than
    ``widest``. If row 4 matches at 11 and 14, and row 5 at 12, then ``first`` is 4, ``starts`` are
    0, 2 and 3, and ``times`` are 11, 14 and 12."""

    stream: int
    rows: pa.RecordBatch
    first: int
    starts: Ints
    times: Ints
    places: Positions
    widest: int

    def count(self, rows: Ints) -> Ints:
        """How many matches each of these new rows has."""
        return self.starts[rows - self.first + 1] - self.starts[rows - self.first]


@dataclass(frozen=True)
class _Located:
    """Matches in one segment: the new rows that they belong to, in order, and their own positions
    and times. No row takes more than ``widest``."""

    entry: Entry
    owners: Ints
    positions: Positions
    times: Ints
    widest: int

    @property
    def most(self) -> int:
        """What it takes to locate the matches and to copy their rows, at most."""
        return (_LOCATED + self.widest) * len(self.owners)

    def between(self, first: int, last: int) -> slice:
        """Which matches belong to the new rows from the first to the last."""
        start, stop = np.searchsorted(self.owners, [first, last + 1]).tolist()
        return slice(start, stop)


class MatchGathering:
    """Gathers the matches of new rows of one stream, found in the ``windows`` of others.

    ``fan_out`` counts the results of new rows. A row that has reached its cap needs no more
    matches."""

    def __init__(
        self,
        layout: EquiLayout,
        fresh: Segment,
        windows: Sequence[WindowMatches],
        fan_out: EquiFanOut | None = None,
    ) -> None:
        self._layout = layout
        self._fresh = fresh
        self._windows = windows
        self._fan_out = fan_out

    def gather(self, rows: Ints) -> Iterator[tuple[Sequence[GatheredMatches], Ints]]:
        """The matches of some new rows at a time, stream by stream, and which rows these are. A
        row comes once; or, if it is processed by itself, once for each combination of blocks."""
        located = _LOCATED * np.sum([window.counts[rows] for window in self._windows], axis=0)
        limit = self._layout.output.piece_bytes // _LOCATED_PART
        for run in cuts(located, len(rows), limit):
            if located[run].sum() > limit:
                yield from self._in_blocks(int(rows[run][0]))
            else:
                yield from self._in_batches(rows[run])

    def in_every_stream(self) -> Bools:
        """Which new rows have a match in every stream for certain: with the same key, not only the
        same code. (Of keys that share a code, it may not notice all.)"""
        count = len(self._fresh)
        everywhere = np.ones(count, dtype=np.bool_)
        for window in self._windows:
            matched = window.counts > 0
            if not self._layout.exact:
                matched = np.zeros(count, dtype=np.bool_)
                for matches in window.segments:
                    rows, _ = self._with_same_keys(window, matches, matches.rows, matches.low)
                    matched[rows] = True
            everywhere &= matched
        return everywhere

    # -- many new rows at a time ----------------------------------------------------

    def _in_batches(self, rows: Ints) -> Iterator[tuple[Sequence[GatheredMatches], Ints]]:
        """The matches of some new rows, copied into one batch for each stream."""
        located = [self._locate(window, rows) for window in self._windows]
        limit = self._layout.output.piece_bytes
        if sum(found.most for of_stream in located for found in of_stream) <= limit:
            yield self._copy(located, rows)
            return
        widths = self._widths(located, rows)
        for run in cuts(widths, len(rows), limit):
            if widths[run].sum() > limit:
                yield from self._in_blocks(int(rows[run][0]))
            else:
                yield self._copy(located, rows[run])

    def _locate(self, window: WindowMatches, rows: Ints) -> list[_Located]:
        """Where the matches of some new rows are in one stream."""
        first, last = int(rows[0]), int(rows[-1])
        wanted = np.zeros(last - first + 1, dtype=np.bool_)
        wanted[rows - first] = True
        located = []
        for matches in window.segments:
            start, stop = np.searchsorted(matches.rows, [first, last + 1])
            kept = start + np.flatnonzero(wanted[matches.rows[start:stop] - first])
            for number, places in spread(matches.low[kept], matches.high[kept], _ALL):
                owners = matches.rows[kept][number]
                both = self._with_same_keys(window, matches, owners, places)
                located.append(_located(window, matches, *both))
        return located

    def _widths(self, located: Sequence[Sequence[_Located]], rows: Ints) -> Ints:
        """The bytes that the matches of each new row take, in all streams together."""
        first, count = int(rows[0]), int(rows[-1]) - int(rows[0]) + 1
        total = np.zeros(count)
        for window, of_stream in zip(self._windows, located, strict=True):
            for found in of_stream:
                stored = window.window.open(found.entry).rows
                widths = _LOCATED + np.broadcast_to(
                    row_bytes(stored, found.positions), len(found.positions)
                )
                total += np.bincount(found.owners - first, widths, minlength=count)
        return total[rows - first].astype(np.int64)

    def _copy(
        self, located: Sequence[Sequence[_Located]], rows: Ints
    ) -> tuple[Sequence[GatheredMatches], Ints]:
        """The matches of some new rows, and which rows these are."""
        both = zip(self._windows, located, strict=True)
        return [self._copy_window(window, found, rows) for window, found in both], rows

    def _copy_window(
        self, window: WindowMatches, located: Sequence[_Located], rows: Ints
    ) -> GatheredMatches:
        """The matches of some new rows in one stream, as one batch."""
        first, last = int(rows[0]), int(rows[-1])
        owners, times, batches = [np.empty(0, np.int64)], [np.empty(0, np.int64)], []
        for found in located:
            some = found.between(first, last)
            stored = window.window.open(found.entry).rows
            batches.append(stored.take(pa.array(found.positions[some])))
            owners.append(found.owners[some])
            times.append(found.times[some])
        owner, instants = np.concatenate(owners), np.concatenate(times)
        order = sort_order(owner, instants)
        starts = np.zeros(last - first + 2, dtype=np.int64)
        np.cumsum(np.bincount(owner - first, minlength=len(starts) - 1), out=starts[1:])
        widest = max((found.widest for found in located), default=0)
        copied = concat(batches) if batches else self._fresh.rows.slice(0, 0)
        return GatheredMatches(window.stream, copied, first, starts, instants[order], order, widest)

    # -- one new row at a time ------------------------------------------------------

    def _in_blocks(
        self, row: int, *before: GatheredMatches
    ) -> Iterator[tuple[Sequence[GatheredMatches], Ints]]:
        """The matches of one new row, in every combination of a block of each stream."""
        if len(before) == len(self._windows):
            yield before, np.array([row])
            return
        for block in self._blocks(self._windows[len(before)], row):
            if self._is_capped(row):
                return
            yield from self._in_blocks(row, *before, block)

    def _blocks(self, window: WindowMatches, row: int) -> Iterator[GatheredMatches]:
        """The matches of one new row in one stream: in blocks with some, or one without any."""
        size, found = self._layout.output.piece_rows, False
        for matches in window.segments:
            at = np.searchsorted(matches.rows, [row, row + 1])
            low, high = matches.low[slice(*at)], matches.high[slice(*at)]
            for _, places in spread(low, high, size):
                owners = np.full(len(places), row)
                _, places = self._with_same_keys(window, matches, owners, places)
                if len(places):
                    found = True
                    yield self._block(window, matches, row, places)
        if not found:
            nothing = np.empty(0, dtype=np.int64)
            rows, starts = self._fresh.rows.slice(0, 0), np.zeros(2, dtype=np.int64)
            yield GatheredMatches(window.stream, rows, row, starts, nothing, nothing, 0)

    def _block(
        self, window: WindowMatches, matches: SegmentMatches, row: int, places: Ints
    ) -> GatheredMatches:
        """Matches in one segment. (They have one code, so they are in order of time.)"""
        segment, index = _opened(window, matches)
        starts = np.array([0, len(places)])
        times, positions = index.times[places], index.order[places]
        return GatheredMatches(
            window.stream, segment.rows, row, starts, times, positions, segment.widest
        )

    def _is_capped(self, row: int) -> bool:
        """Has a new row made all the results that it may?"""
        if self._fan_out is None:
            return False
        position = self._fresh.index.order[row : row + 1]
        return not len(position[self._fan_out.below_cap(position)])

    def _with_same_keys(
        self, window: WindowMatches, matches: SegmentMatches, owners: Ints, places: Ints
    ) -> tuple[Ints, Ints]:
        """The matches, given as new rows and places in the index of a segment, with equal keys."""
        if self._layout.exact:
            return owners, places
        segment, index = _opened(window, matches)
        mine, theirs = self._fresh.index.order[owners], index.order[places]
        rows, widest = (self._fresh.rows, segment.rows), self._fresh.widest + segment.widest
        equal = same_keys(self._layout, *rows, mine, theirs, widest=widest)
        return (owners, places) if equal.all() else (owners[equal], places[equal])


def _opened(window: WindowMatches, matches: SegmentMatches) -> tuple[Segment, Index]:
    """A segment, and the index in which its matches were found."""
    segment = window.window.open(matches.entry)
    return segment, segment.index if matches.built is None else matches.built


def _located(
    window: WindowMatches, matches: SegmentMatches, owners: Ints, places: Ints
) -> _Located:
    """The matches at some places of a segment's index."""
    segment, index = _opened(window, matches)
    positions, times = index.order[places], index.times[places]
    return _Located(matches.entry, owners, positions, times, segment.widest)
