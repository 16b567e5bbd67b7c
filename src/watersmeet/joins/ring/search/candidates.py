"""Candidates: which stored rows a probing row is to be compared with.

Stored rows are searched by all that has an order: by time, because of the windows, and by the
overlaps of the condition, ranges of prices or boxes for example. Each is a dimension of one search
(:mod:`watersmeet.segments.intervals`), which looks along the one or two that select most. What it
finds satisfies all of them. So predicates see only what these let through. Rows that a condition in
SQL over their stream alone excludes have no time, so to speak, and are not found either.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.conditions.bounds import Bounds
from watersmeet.conditions.cascade import PredicateStatistics
from watersmeet.conditions.overlaps import Overlap, Span
from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.probing import Probing
from watersmeet.rows.columns import Bools, times_of
from watersmeet.segments.intervals import NewIntervals, StoredIntervals
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs
from watersmeet.segments.segment import Segment


class Candidates:
    """Searches segments of a stream for what may match probing rows: by time, and by the
    ``overlaps`` of these numbers. What conditions over one stream let through is ``measured``."""

    def __init__(
        self,
        layout: RingLayout,
        probing: Probing,
        stream: int,
        overlaps: Sequence[int],
        measured: Sequence[PredicateStatistics],
    ) -> None:
        self._layout = layout
        self._stream = stream
        self._measured = measured
        self.overlaps = tuple(overlaps)
        self.count = len(probing)
        chosen = [layout.conditions.overlaps[number] for number in overlaps]
        self._spans = [each.span(stream) for each in chosen]
        able = None
        if len(probing.sides) == 1:  # of partial results, it was asked when their rows met
            [(of, rows)] = probing.sides.items()
            able = self._able(of, rows)
        times = Bounds(*probing.bounds(layout.streams[stream].window), able)
        spans = (self._probing_bounds(probing, each) for each in chosen)
        self._searching = NewIntervals(self.count, [times, *spans])

    def pairs(self, stored: Segment, size: int) -> Iterator[Pairs]:
        """Positions of probing rows and of stored ones, at most ``size`` at a time."""
        yield from self._prepared(stored).search(self._searching, size)

    def runs(self, stored: Segment, *, long: bool) -> Runs | None:
        """The same pairs as runs, if that is what they are, and ``long`` ones, if only these are of
        use."""
        return self._prepared(stored).runs(self._searching, long=long)

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

    def _probing_bounds(self, probing: Probing, overlap: Overlap) -> Bounds:
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
