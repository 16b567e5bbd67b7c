"""Candidates: which stored rows a probing row is to be compared with.

Stored rows are searched by all that has an order: by time, because of the windows, and by the
overlaps of the condition, ranges of prices or boxes for example. Each is a dimension of one search
(:mod:`watersmeet.state.overlaps`), which looks along the one or two that select most. What it finds
satisfies all of them. So predicates see only what these let through.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from watersmeet.operators.ring.layout import RingLayout
from watersmeet.operators.ring.probing import Probing
from watersmeet.rows.bounds import Bounds
from watersmeet.rows.columns import times_of
from watersmeet.rows.overlaps import Overlap, Span
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
        chosen = [layout.conditions.overlaps[number] for number in overlaps]
        self._spans = [each.span(stream) for each in chosen]
        times = Bounds(*probing.bounds(layout.streams[stream].window))
        spans = (self._probing_bounds(probing, each) for each in chosen)
        self._searching = Searching(self.count, [times, *spans])

    def pairs(self, stored: Segment, size: int) -> Iterator[Pairs]:
        """Positions of probing rows and of stored ones, at most ``size`` at a time."""
        yield from self._prepared(stored).search(self._searching, size)

    def runs(self, stored: Segment, *, long: bool) -> Runs | None:
        """The same pairs as runs, if that is what they are, and ``long`` ones, if only these are of
        use."""
        return self._prepared(stored).runs(self._searching, long=long)

    def _prepared(self, stored: Segment) -> Prepared:
        return stored.kept(self._name, lambda: self._prepare(stored.rows))

    @cached_property
    def _name(self) -> Hashable:
        """What prepared rows depend on, besides the rows: other searches, also those of other
        streams and queries, may have the same segment open."""
        return tuple((*self._stored(span), *span.computed) for span in self._spans)

    def _prepare(self, rows: pa.RecordBatch) -> Prepared:
        times = Bounds.points(times_of(rows))
        return Prepared(len(rows), [times, *(self._bounds(span, rows) for span in self._spans)])

    def _probing_bounds(self, probing: Probing, overlap: Overlap) -> Bounds:
        [other] = overlap.streams - {self._stream}
        return self._bounds(overlap.span(other), probing.sides[other])

    def _bounds(self, span: Span, rows: pa.RecordBatch) -> Bounds:
        return span.bounds([rows.column(name) for name in self._stored(span)])

    def _stored(self, span: Span) -> list[str]:
        """The names that the columns have in stored rows that a span is computed from."""
        stored = self._layout.streams[span.stream].rows.stored
        return [stored[name] for name in span.columns]
