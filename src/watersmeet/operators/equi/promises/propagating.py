"""Propagating punctuations: handing them on to whoever reads the result.

**When a punctuation is complete.** When its keys are closed in both streams, and all rows with
these keys have been joined and discarded: then no result with such a key can come any more.

**Of more than one key.** Such a punctuation is about rows of every shard, and a shard knows only
its own. So only what all shards have been told, in the same step, counts: then each shard purges,
and the first one hands the punctuation on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.operators.equi.context import StepContext, other_stream
from watersmeet.operators.equi.discard import discard
from watersmeet.operators.equi.limits.debts import Debts
from watersmeet.operators.equi.promises.closing import ClosedKeys, bounds
from watersmeet.operators.equi.promises.promised import Promised
from watersmeet.operators.equi.promises.purging import rows_with_keys
from watersmeet.rows.columns import Bools, codes_or_zero, has_code
from watersmeet.state.keyset import KeySet


class Propagating:
    """Hands on the punctuations of two streams; lives for a step."""

    def __init__(self, context: StepContext, promised: Promised, debts: Debts) -> None:
        self._context = context
        self._promised = promised
        self._debts = debts

    @property
    def needs_purge(self) -> bool:
        """Is there a punctuation of more than one key that can be handed on once all shards have
        purged?"""
        if not self._context.layout.emit_punctuations or self._context.state.shard.count == 1:
            return False
        closed = self._promised.closed
        return any(
            bool(self._ranges_complete(own.waiting, other).any())
            for own, other in zip(closed, reversed(closed), strict=True)
            if own is not None and own.waiting is not None and other is not None
        )

    def propagate(self) -> Iterator[pa.RecordBatch]:
        """Hand on the punctuations that are complete. If the join hands on none, forget them."""
        for stream, closed in enumerate(self._promised.closed):
            if closed is None or closed.waiting is None:
                continue
            if not self._context.layout.emit_punctuations:
                closed.waiting = None
                continue
            complete = self._complete(stream, closed, closed.waiting)
            if complete.any():
                yield from self._hand_on(stream, closed.waiting.filter(pa.array(complete)))
                rest = closed.waiting.filter(pa.array(~complete))
                closed.waiting = rest if len(rest) else None

    def _hand_on(self, stream: int, punctuations: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Emit complete punctuations; those of more than one key only in the first shard."""
        context = self._context
        yield from self._discard_complete(punctuations)
        emitted = np.flatnonzero(has_code(punctuations) | (context.state.shard.number == 0))
        context.counters.streams[stream].propagated += len(emitted)
        context.counters.results -= len(emitted)  # they are emitted among the results
        yield from context.output.alone(stream, punctuations, emitted, punctuation=True)

    def _discard_complete(self, punctuations: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Before punctuations are emitted, settle the debts of segments with rows of their keys,
        and discard unmatched rows with such keys. (There are some if the other stream's only row
        has come, and was too far away in time.)"""
        state = self._context.state
        owing = state.owing
        keys, patterns = _closed_by(punctuations)
        for stream, window in enumerate(state.windows):
            preserved = self._context.layout.preserved[stream]
            for entry in list(window.entries):
                if not preserved and entry.id not in owing:
                    continue
                found = rows_with_keys(window.open(entry), keys)
                if len(found) or patterns:
                    yield from self._debts.settle(entry)
                if preserved:
                    yield from discard(self._context, stream, entry, found)

    def _complete(self, stream: int, closed: ClosedKeys, waiting: pa.RecordBatch) -> Bools:
        """Which waiting punctuations of a stream are complete."""
        other = self._promised.closed[other_stream(stream)]
        of_one_key, codes = has_code(waiting), codes_or_zero(waiting)
        completed = self._promised.completed(other_stream(stream))
        complete: Bools = of_one_key & np.isin(codes, completed)
        if other is not None and other.unpurged_count == closed.unpurged_count == 0:
            complete |= of_one_key & other.keys.contains(codes)
            complete |= self._ranges_complete(waiting, other)
        return complete

    def _ranges_complete(self, waiting: pa.RecordBatch, other: ClosedKeys) -> Bools:
        """Which are punctuations of more than one key, all closed in the other stream too."""
        complete = np.zeros(len(waiting), dtype=np.bool_)
        for position in np.flatnonzero(~has_code(waiting)).tolist():
            row = waiting.slice(position, 1)
            low, high = bounds(row)
            if low is not None and high is not None:
                complete[position] = other.closed_everywhere(low, high)
            elif other.patterns is not None:
                pattern = row.select(list(self._context.layout.key_columns)).to_pylist()[0]
                complete[position] = pattern in other.patterns.to_pylist()
        return complete


def _closed_by(punctuations: pa.RecordBatch) -> tuple[KeySet, bool]:
    """The keys that punctuations close, and whether there are patterns among them."""
    of_one_key, patterns = has_code(punctuations), False
    keys = KeySet().with_codes(codes_or_zero(punctuations)[of_one_key])
    for position in np.flatnonzero(~of_one_key).tolist():
        low, high = bounds(punctuations.slice(position, 1))
        if low is None or high is None:
            patterns = True
        else:
            keys = keys.with_ranges(np.array([low]), np.array([high]))
    return keys, patterns
