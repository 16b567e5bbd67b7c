"""What a step does about promises: all of it in one place, for joins in which a stream makes any.

Between groups of rows, and at the end of a step, punctuations take effect: keys are closed, rows
with closed keys are purged, and punctuations that are complete are handed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.promises.closed_keys import split_punctuations
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.joins.equi.promises.propagation import Propagation
from watersmeet.joins.equi.promises.purge import Purge
from watersmeet.joins.equi.promises.values_first import punctuated_first, with_only
from watersmeet.joins.equi.promises.violations import accepted
from watersmeet.joins.operator import Chunk


class PromisePhase:
    """Keeps account of promises; lives for a step."""

    def __init__(self, context: StepContext, promised: PromisedKeys, debts: Debts | None) -> None:
        self._context = context
        self._promised = promised
        self._purge = Purge(context, promised, debts)
        self._propagation = Propagation(context, promised, debts)

    def flagged(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bool]]:
        """The chunks, and whether rows with a punctuated key are to be processed first in them."""
        if self._context.layout.policy.schedule.rows == "value":
            return with_only(chunks)
        return ((chunk, False) for chunk in chunks)

    def groups(self, rows: Chunk) -> tuple[Chunk, Chunk]:
        """The rows with a punctuated key, and the others."""
        return punctuated_first(rows, self._promised.is_punctuated)

    def collect(self, stream: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """New rows without the punctuations among them, which are collected."""
        rows, punctuations = split_punctuations(rows, ranges=self._context.layout.exact)
        self._promised.punctuate(stream, punctuations)
        return rows

    def note_late(self, stream: int, rows: pa.RecordBatch) -> None:
        """Late rows are dropped, but their keys have come."""
        if self._promised.closed[stream] is not None:
            self._promised.arrive(stream, rows)

    def accepted(self, stream: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The new rows that are as promised, or are accepted all the same."""
        return accepted(self._context, self._promised, stream, rows)

    def take_effect(self, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """Let punctuations take effect, after all rows that they are about: close their keys,
        purge what that makes useless, hand on those that are complete."""
        self._promised.close_punctuated()
        yield from self._purge.purge(paused=paused)
        yield from self._propagation.propagate()

    def finish(self, watermark: int | None, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """All rows of the step have come."""
        self._promised.close_arrived()
        yield from self.take_effect(paused=paused)
        self._promised.save(watermark)
