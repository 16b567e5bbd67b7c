"""Propagating punctuations: handing them on to whoever reads the result.

**When a punctuation is complete.** When its keys are closed in both streams (:mod:`.closed_keys`).
In the other stream a key is also closed if it is unique and has come, whatever became of its row
since. Then all rows with these keys have come, and have been joined. Before the punctuation is
emitted, the deferred probes of such rows are done, and the rows that are then proven unmatched are
emitted. After that, no result with such a key can come any more.

**Of more than one key.** Such a punctuation is about rows of every shard, and a shard knows only
its own. So only what all shards have been told, in the same step, counts: then each shard does this
for its own rows, and the first one emits the punctuation. If the other stream has no punctuations,
it tells no shard of more than one key: such a punctuation is never handed on, and does not wait.

**Example.** An inner join of orders and payments on a key, without a window::

    step   orders            payments          emitted                      what waits
    1      row 4; 4 closed                     nothing                      4 of orders
    2                        row 4             the pair; the payment is     4 of orders
                                               not stored
    3                        4 closed          4 of orders, 4 of payments   nothing

In step 3 both punctuations are complete, and the order is discarded: nothing of key 4 is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.context import StepContext, other_stream
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.match.discard import discard
from watersmeet.joins.equi.promises.closed_keys import ClosedKeys
from watersmeet.joins.equi.promises.coverage import About, CoveredKeys
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.rows.columns import Bools, codes_or_zero, has_code


class Propagation:
    """Hands on the punctuations of two streams; lives for a step."""

    def __init__(self, context: StepContext, promised: PromisedKeys, debts: Debts | None) -> None:
        self._context = context
        self._promised = promised
        self._debts = debts

    def propagate(self) -> Iterator[pa.RecordBatch]:
        """Hand on the punctuations that are complete; forget those that can never be complete."""
        for stream, closed in enumerate(self._promised.closed):
            if closed is None:
                continue
            closed.waiting.keep(partial(self._hopeful, stream))
            if not self._context.layout.emit_punctuations:
                continue
            other = self._other(stream)
            complete = closed.waiting.take(partial(_complete, other), other.news)
            if complete is not None:
                yield from self._hand_on(stream, complete)

    def _other(self, stream: int) -> ClosedKeys:
        closed = self._promised.closed[other_stream(stream)]
        assert closed is not None, "punctuations are emitted only if all streams close keys"
        return closed

    def _hopeful(self, stream: int, punctuations: pa.RecordBatch) -> Bools:
        """Which punctuations of a stream may be handed on at some time."""
        layout = self._context.layout
        if not layout.emit_punctuations:
            return np.zeros(len(punctuations), dtype=np.bool_)
        if layout.inputs[other_stream(stream)].punctuated:
            return np.ones(len(punctuations), dtype=np.bool_)
        return has_code(punctuations)

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
        keys = CoveredKeys(self._context.layout.key_columns)
        keys.add(About.of(punctuations, self._context.layout.key_columns))
        for stream, window in enumerate(state.windows):
            preserved = self._context.layout.preserved[stream]
            for entry in list(window.entries):
                if not preserved and entry.id not in owing:
                    continue
                found = keys.rows_in(window.open(entry))
                if len(found) and self._debts is not None:
                    yield from self._debts.settle(entry)
                if preserved:
                    yield from discard(self._context, stream, entry, found)


def _complete(other: ClosedKeys, punctuations: pa.RecordBatch) -> Bools:
    """Which punctuations are complete, by what is known of the other stream."""
    come = has_code(punctuations) & other.come.contains(codes_or_zero(punctuations))
    complete: Bools = come | other.covers_all(punctuations)
    return complete
