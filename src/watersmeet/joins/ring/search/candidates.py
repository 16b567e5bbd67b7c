"""Candidates: which stored rows is a probing row compared with?

Two things leave out pairs before a predicate sees them:

- The *search* (:class:`Candidates`). Stored rows are searched by all that has an order: by time,
  because of the windows, and by the overlaps of the condition, ranges of prices or boxes for
  example. Each is a dimension of one search (:mod:`watersmeet.segments.intervals`), which looks
  along the one or two that select most. What it finds satisfies all of them. Rows that a condition
  in SQL over their stream alone excludes are not found either: they have no interval of times.
- The *demand* (:class:`Demand`). Most joins need every pair that matches. But a limit of matches
  leaves out the rest of what a row matches, and in a semi or anti join a row needs one match only.
  So the demand becomes less as matches are found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.conditions.bounds import Bounds
from watersmeet.conditions.cascade import PredicateStatistics
from watersmeet.conditions.overlaps import Overlap, Span
from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.fan_out import RingFanOut
from watersmeet.joins.ring.search.probing_rows import ProbingRows
from watersmeet.rows.columns import Bools, Positions, times_of
from watersmeet.segments.intervals import NewIntervals, StoredIntervals
from watersmeet.segments.lines import Pairs
from watersmeet.segments.probe import spread
from watersmeet.segments.runs import Runs, Tile
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry
from watersmeet.state.window import Window


class Candidates:
    """Searches segments of a stream for what may match probing rows: by time, and by the
    ``overlaps`` of these numbers. What conditions let through is ``measured``.

    Example: rows of stream a wait 5 seconds and rows of b 10, and ``abs(a.x - b.x) <= 2`` is an
    overlap. Then each row of a has two intervals, and each row of b has two points::

        rows of a:  times  x               rows of b:  time  x
                 0  10-25   3-7                     0   9    6     too early for all
                 1  10-25   6-10                    1  12    6     in both of rows 0 and 1
                 2  21-36   7-11                    2  24    9     in both of rows 1 and 2

    The candidates are (0, 1), (1, 1), (1, 2) and (2, 2). By time alone (0, 2) would be one too.
    """

    def __init__(
        self,
        layout: RingLayout,
        probing: ProbingRows,
        stream: int,
        overlaps: Sequence[int],
        measured: Sequence[PredicateStatistics],
    ) -> None:
        self._layout = layout
        self._stream = stream
        self._measured = measured
        self._overlaps = overlaps
        self._count = len(probing)
        chosen = [layout.conditions.overlaps[number] for number in overlaps]
        self._spans = [each.span(stream) for each in chosen]
        able = None
        if len(probing.sides) == 1:  # of partial results, it was asked when their rows met
            [(of, rows)] = probing.sides.items()
            able = self._able(of, rows)
        times = Bounds(*probing.bounds(layout.streams[stream].window), able)
        spans = (self._probing_bounds(probing, each) for each in chosen)
        self._searching = NewIntervals(self._count, [times, *spans])

    def pairs(self, stored: Segment, size: int) -> Iterator[Pairs]:
        """Positions of probing rows and of stored ones, at most ``size`` at a time. Their share of
        all pairs is what is known of the overlaps."""
        found = 0
        for mine, theirs in self._prepared(stored).search(self._searching, size):
            found += len(mine)
            yield mine, theirs
        self._measure(found, self._count * len(stored))

    def runs(self, stored: Segment, *, long: bool) -> Runs | None:
        """The same pairs as runs, if that is what they are, and ``long`` ones, if only these are of
        use."""
        longer = self._layout.limits.long_run if long else 0
        return self._prepared(stored).runs(self._searching, longer=longer)

    def _measure(self, found: int, every: int) -> None:
        for number in self._overlaps:
            measured = self._measured[len(self._layout.conditions.predicates) + number]
            measured.pairs += every
            # Of several, each lets through the same share.
            measured.passed += every * (found / every) ** (1 / len(self._overlaps))

    def _prepared(self, stored: Segment) -> StoredIntervals:
        return stored.kept(self._name, lambda: self._prepare(stored.rows))

    @cached_property
    def _name(self) -> Hashable:
        """What prepared rows depend on, besides the rows: other searches, also those of other
        streams and queries, may have the same segment open."""
        spans = ((*self._stored(span.stream, span.columns), *span.computed) for span in self._spans)
        alone = (
            (*self._read(self._stream, predicate), predicate.computed)
            for _, predicate in self._layout.conditions.row_filters(self._stream)
        )
        return tuple(spans), tuple(alone)

    def _prepare(self, rows: pa.RecordBatch) -> StoredIntervals:
        times = Bounds.points(times_of(rows), self._able(self._stream, rows))
        return StoredIntervals(
            len(rows), [times, *(self._bounds(span, rows) for span in self._spans)]
        )

    def _probing_bounds(self, probing: ProbingRows, overlap: Overlap) -> Bounds:
        [other] = overlap.streams - {self._stream}
        return self._bounds(overlap.span(other), probing.sides[other])

    def _bounds(self, span: Span, rows: pa.RecordBatch) -> Bounds:
        names = self._stored(span.stream, span.columns)
        return span.bounds([rows.column(name) for name in names])

    def _able(self, stream: int, rows: pa.RecordBatch) -> Bools | None:
        """Which rows of a stream can match at all; None: all."""
        able: Bools | None = None
        for number, predicate in self._layout.conditions.row_filters(stream):
            holds = predicate.mask([rows.column(name) for name in self._read(stream, predicate)])
            self._measured[number].add(len(rows), int(np.count_nonzero(holds)), 0.0)
            able = holds if able is None else able & holds
        return able

    def _stored(self, stream: int, columns: Sequence[str]) -> list[str]:
        """The names that columns of a stream have in stored rows."""
        stored = self._layout.streams[stream].rows.stored
        return [stored[name] for name in columns]

    def _read(self, stream: int, predicate: SqlPredicate) -> list[str]:
        """The same, of what a predicate over one stream reads."""
        return self._stored(stream, [name for _, name in predicate.columns])


class Demand:
    """Which pairs of probing rows and a stored segment need to be compared, as of now.

    ``once``: the probing rows that have matched already, if one match is enough for each. If none
    is given and one is enough, it is the stored rows that need one match: those that have had it
    are gone. ``tile`` and ``places`` are about runs with all of whose pairs formulas are computed.

    Example: of a semi join, with the stored rows 1 and 2 of a tile, where a formula holds for ::

                  row 1  row 2
        probing 0    1      0        the place of the first match of row 1 is 0, that of row 2 is
        probing 1    1      1        3: the places are 0 and 3, and in later tiles of the same run
                                     nothing is in demand
    """

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
        #: Is every pair that matches needed, whatever has been found already?
        self.all = not self._one and fan_out.cap is None

    def among(self, runs: Runs) -> Runs:
        """The runs of the rows that need a match."""
        if self._once is not None:
            runs = runs.among(new=~self._once)
        if self._entry.gone:
            runs = runs.among(stored=~self._window.gone(self._entry))
        return runs

    def pairs(self, mine: Positions, theirs: Positions) -> Pairs:
        """Those of some pairs whose rows need a match."""
        kept: Bools | slice
        if self._entry.gone:
            kept = ~self._window.gone(self._entry)[theirs]
            mine, theirs = mine[kept], theirs[kept]
        if self._once is not None:
            kept = ~self._once[mine]
            mine, theirs = mine[kept], theirs[kept]
        kept = self._fan_out.below_cap(mine)
        return mine[kept], theirs[kept]

    def tile(self, tile: Tile) -> Tile:
        """The part of a tile that is to be compared."""
        if self.all:
            return tile
        rows = tile.rows
        if self._once is not None:
            rows = rows[~self._once[rows]]
        elif self._one and not self._unmatched[tile.low : tile.high].any():
            rows = rows[:0]
        rows = rows[self._fan_out.below_cap(rows)]
        return replace(tile, rows=rows)

    def places(self, tile: Tile, mask: Bools) -> Positions:
        """The places of a tile's matches that are needed: where one is enough for a row, not more,
        and where some are, hardly more. ``mask`` says of each probing row which it matches."""
        if self._one and self._once is None:
            left = self._unmatched[tile.low : tile.high]
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

    @cached_property
    def _unmatched(self) -> Bools:
        """The stored rows that need a match, by their place in the order of the runs, which has no
        more rows than the segment."""
        return np.ones(self._entry.rows, dtype=np.bool_)
