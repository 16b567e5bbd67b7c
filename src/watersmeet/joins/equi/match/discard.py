"""Discarding stored rows that cannot match any more.

**The rule.** A row that is discarded without a match is proven unmatched. So a preserved stream's
row is emitted then, unless it was emitted before, when it expired.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.context import StepContext
from watersmeet.rows.columns import Positions, times_of
from watersmeet.state.manifest import Entry


def discard(
    context: StepContext, stream: int, entry: Entry, positions: Positions
) -> Iterator[pa.RecordBatch]:
    """Discard rows of a stored segment, by position. Emit those that are proven unmatched by
    that."""
    state = context.state
    window = state.windows[stream]
    if entry.gone:
        positions = positions[~window.gone(entry)[positions]]
    if context.layout.preserved[stream]:
        rows, expired = window.open(entry).rows, window.useless_until
        unmatched = positions[~window.marks(entry)[positions]]
        if expired is not None:
            unmatched = unmatched[times_of(rows)[unmatched] > expired]
        yield from context.output.alone(stream, rows, np.unique(unmatched))
    context.counters.streams[stream].purged += window.discard(entry, positions)
