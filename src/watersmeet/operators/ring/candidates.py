"""Candidates: which stored rows a probing row is to be compared with.

Stored rows are searched by all that has an order: by time, because of the windows, and by the
overlaps of the condition, ranges of prices or boxes for example. Each is a dimension of one search
(:mod:`watersmeet.state.overlaps`), which looks along the one or two that select most. What it finds
satisfies all of them. So predicates see only what these let through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from watersmeet.operators.ring.layout import RingLayout
from watersmeet.operators.ring.probing import Probing
from watersmeet.rows.bounds import Bounds
from watersmeet.rows.columns import times_of
from watersmeet.rows.overlaps import Overlap
from watersmeet.state.lines import Pairs
from watersmeet.state.overlaps import Prepared, Searching
from watersmeet.state.runs import Runs
from watersmeet.state.segment import Segment


class Candidates:
    """Searches segments of a stream for what may match probing rows: by time, and by the
    ``overlaps`` of these numbers."""

    def __init__(
        self, layout: RingLayout, probing: Probing, stream: int, overlaps: Sequence[int]
    ) -> None:
        self._layout = layout
        self._stream = stream
        self.overlaps = tuple(overlaps)
        self.count = len(probing)
        self._overlaps = [layout.conditions.overlaps[number] for number in overlaps]
        times = Bounds(*probing.bounds(layout.streams[stream].window))
        spans = (self._probing_bounds(probing, each) for each in self._overlaps)
        self._searching = Searching(self.count, [times, *spans])

    def pairs(self, stored: Segment, size: int) -> Iterator[Pairs]:
        """Positions of probing rows and of stored ones, at most ``size`` at a time."""
        yield from self._prepared(stored).search(self._searching, size)

    def runs(self, stored: Segment, *, long: bool) -> Runs | None:
        """The same pairs as runs, if that is what they are, and ``long`` ones, if only these are of
        use."""
        return self._prepared(stored).runs(self._searching, long=long)

    def _prepared(self, stored: Segment) -> Prepared:
        return stored.kept(self.overlaps, lambda: self._prepare(stored.rows))

    def _prepare(self, rows: pa.RecordBatch) -> Prepared:
        times = Bounds.points(times_of(rows))
        spans = [self._span_bounds(each, self._stream, rows) for each in self._overlaps]
        return Prepared(len(rows), [times, *spans])

    def _probing_bounds(self, probing: Probing, overlap: Overlap) -> Bounds:
        [other] = overlap.streams - {self._stream}
        return self._span_bounds(overlap, other, probing.sides[other])

    def _span_bounds(self, overlap: Overlap, stream: int, rows: pa.RecordBatch) -> Bounds:
        span, stored = overlap.span(stream), self._layout.streams[stream].rows.stored
        return span.bounds([rows.column(stored[name]) for name in span.columns])
