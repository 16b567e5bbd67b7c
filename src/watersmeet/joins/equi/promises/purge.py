"""Purging: discarding the stored rows whose key is closed in the other stream.

**When.** After a number of punctuations: one (*immediate* purging: the least memory) or many
(*batch* purging: fewer searches). Also when a step brings no rows, and when the state is near its
budget.

**What.** The rows with keys that were closed since the last purge. In a segment with an index these
keys are looked up, so the cost depends on them and not on the number of stored rows. For patterns
all rows are looked up. Debts of a segment are settled before its rows are discarded.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.joins.equi.context import StepContext, other_stream
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.limits.shedding import shard_part
from watersmeet.joins.equi.match.discard import discard
from watersmeet.joins.equi.promises.closed_keys import ClosedKeys
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys

#: A state that takes more than this part of its budget is purged.
_NEAR_BUDGET = 0.8


class Purge:
    """Purges the windows of two streams; lives for a step."""

    def __init__(self, context: StepContext, promised: PromisedKeys, debts: Debts | None) -> None:
        self._context = context
        self._promised = promised
        self._debts = debts

    def purge(self, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """Purge each window for which it is time; ``paused``: the step has brought no rows."""
        for stream, closed in enumerate(self._promised.closed):
            if closed is None or not closed.unpurged_count:
                continue
            if self._is_due(closed, paused=paused):
                yield from self._purge(other_stream(stream), closed)

    def _is_due(self, closed: ClosedKeys, *, paused: bool) -> bool:
        layout, windows = self._context.layout, self._context.state.windows
        budget = layout.policy.budget
        near = (
            budget is not None
            and budget.total is not None
            and sum(window.memory for window in windows)
            > _NEAR_BUDGET * shard_part(budget.total, self._context.state)
        )
        return paused or near or closed.unpurged_count >= layout.policy.purge_after

    def _purge(self, stream: int, closed: ClosedKeys) -> Iterator[pa.RecordBatch]:
        """Discard the stream's rows whose key is closed in the other stream."""
        window = self._context.state.windows[stream]
        for entry in list(window.entries):
            found = closed.unpurged.rows_in(window.open(entry))
            if not len(found):
                continue
            if self._debts is not None:
                yield from self._debts.settle(entry)
            yield from discard(self._context, stream, entry, found)
        closed.purged()
