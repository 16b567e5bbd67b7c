"""Purging: discarding the stored rows whose key is closed in the other stream.

**When.** After a number of punctuations: one (*immediate* purging: the least memory, punctuations
are handed on at once) or many (*batch* purging: fewer searches). Also when a step brings no rows,
when the state is near its budget, and when a punctuation of many keys waits for it.

**What.** The rows with keys that were closed since the last purge. In a segment with an index the
search follows the keys, not the rows stored. Debts of a segment are settled before its rows are
discarded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.operators.equi.context import StepContext, other_stream
from watersmeet.operators.equi.discard import discard
from watersmeet.operators.equi.limits.debts import Debts
from watersmeet.operators.equi.promises.closing import ClosedKeys
from watersmeet.operators.equi.promises.promised import Promised
from watersmeet.rows.columns import Positions, codes_of
from watersmeet.state.index import Index
from watersmeet.state.keyset import KeySet
from watersmeet.state.segment import Segment

#: A state that takes more than this part of its budget is purged.
_NEAR_BUDGET = 0.8


class Purging:
    """Purges the windows of two streams; lives for a step."""

    def __init__(self, context: StepContext, promised: Promised, debts: Debts) -> None:
        self._context = context
        self._promised = promised
        self._debts = debts

    def purge(self, *, required: bool, paused: bool) -> Iterator[pa.RecordBatch]:
        """Purge each window for which it is time, or all if it is required; ``paused``: the step
        has brought no rows."""
        for stream, closed in enumerate(self._promised.closed):
            if closed is None or not closed.unpurged_count:
                continue
            if required or self._is_due(closed, paused=paused):
                yield from self._purge(other_stream(stream), closed)

    def _is_due(self, closed: ClosedKeys, *, paused: bool) -> bool:
        layout, windows = self._context.layout, self._context.state.windows
        near = (
            layout.policy.memory is not None
            and sum(window.memory for window in windows) > _NEAR_BUDGET * layout.policy.memory
        )
        return paused or near or closed.unpurged_count >= layout.policy.purge_after

    def _purge(self, stream: int, closed: ClosedKeys) -> Iterator[pa.RecordBatch]:
        """Discard the stream's rows whose key is closed in the other stream."""
        window = self._context.state.windows[stream]
        for entry in list(window.entries):
            segment = window.open(entry)
            found = unpurged_rows(segment, closed, self._context.layout.key_columns)
            if not len(found):
                continue
            yield from self._debts.settle(entry)
            yield from discard(self._context, stream, entry, found)
            self._promised.complete(stream, codes_of(segment.rows)[found])
        closed.unpurged, closed.unpurged_count = KeySet(), 0


def unpurged_rows(segment: Segment, closed: ClosedKeys, key_columns: tuple[str, ...]) -> Positions:
    """Where a segment has rows with a key that was closed since the last purge."""
    found = rows_with_keys(segment, closed.unpurged)
    if closed.patterns is None:
        return found
    fits = closed.fit_patterns(segment.rows, key_columns)
    fits[found] = True
    return np.flatnonzero(fits)


def rows_with_keys(segment: Segment, keys: KeySet) -> Positions:
    """Where a segment has rows with such keys."""
    if segment.has_index and len(keys.low) < len(segment):
        return _in_ranges(segment.index, keys)
    return np.flatnonzero(keys.contains(codes_of(segment.rows)))


def _in_ranges(index: Index, keys: KeySet) -> Positions:
    low = np.searchsorted(index.codes, keys.low, side="left")
    high = np.searchsorted(index.codes, keys.high, side="right")
    counts = high - low
    starts = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return index.order[starts + np.arange(int(counts.sum()))]
