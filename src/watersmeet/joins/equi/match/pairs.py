"""Joins of two streams: new rows of one probe the other's window, then are stored.

**Stored or not.** A new row is not stored if it cannot match any more: it has found its only
match, its key is closed in the other stream, or a semi or anti join needs only its first match.
Such a row of a preserved stream that has not matched is emitted at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.match.pair_probe import PairProbe
from watersmeet.joins.equi.promises.promised_keys import Promised
from watersmeet.rows.columns import Bools
from watersmeet.segments.segment import Segment


class PairMatcher:
    """Matches rows of two streams; lives for a step."""

    def __init__(
        self, context: StepContext, promised: Promised, probe: PairProbe, debts: Debts
    ) -> None:
        self._context = context
        self._promised = promised
        self._probe = probe
        self._debts = debts

    def arrive(self, stream: int, fresh: Segment) -> Iterator[pa.RecordBatch]:
        """The results that new rows make with stored ones; then the new rows are stored."""
        context, probe = self._context, self._probe
        resident, deferred = self._debts.split(probe.overlapping(stream, fresh))
        matched, useless = (np.zeros(len(fresh), dtype=np.bool_) for _ in range(2))
        yield from probe.results(stream, fresh, resident, matched, useless)
        if not deferred:
            useless |= self._promised.closed_in_other(stream, fresh)
        if probe.leaves_when_matched[stream]:
            useless |= matched
        if context.layout.preserved[stream]:
            unmatched = np.flatnonzero(useless & ~matched)
            yield from context.output.alone(stream, fresh.rows, unmatched)
        if useless.any():
            context.counters.streams[stream].dropped += int(useless.sum())
            fresh, matched = Segment.of(fresh.rows.filter(pa.array(~useless))), matched[~useless]
        marks = matched if probe.marked_when_matched[stream] else None
        entry = context.state.windows[stream].add(fresh, marks)
        yield from self._debts.defer(stream, entry, deferred)

    def unmatched(self, stream: int, rows: pa.RecordBatch, due: Bools) -> Iterator[pa.RecordBatch]:
        """The results for the rows that are due: they have no mark, so they have no match."""
        return self._context.output.alone(stream, rows, np.flatnonzero(due))
