"""What a step does about promises: all of it in one place, for joins in which a stream makes any.

Between groups of rows, and at the end of a step, punctuations take effect: keys are closed, rows
with closed keys are purged, and punctuations that are complete are handed on.

**Value-oriented processing** (metadata paper, section 4.2). Rows may be processed first if a
punctuation of this micro-batch, or one that waits, is about their key. The punctuation is then
handed on, and the rows that it makes useless are purged, before the other rows are processed. A
punctuation takes effect after all rows of its micro-batch that it is about: so these rows must be
in one chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.promises.closed_keys import split_punctuations
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.joins.equi.promises.propagation import Propagation
from watersmeet.joins.equi.promises.purge import Purge
from watersmeet.joins.equi.promises.violations import accepted
from watersmeet.joins.operator import Chunk
from watersmeet.rows.columns import Bools


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
        purge the rows that are useless by then, hand on the punctuations that are complete."""
        self._promised.close_punctuated()
        yield from self._purge.purge(paused=paused)
        yield from self._propagation.propagate()

    def finish(self, watermark: int | None, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """All rows of the step have come."""
        self._promised.close_arrived()
        yield from self.take_effect(paused=paused)
        self._promised.save(watermark)


def punctuated_first(
    rows: Chunk, is_punctuated: Callable[[int, pa.RecordBatch], Bools]
) -> tuple[Chunk, Chunk]:
    """Two groups of each stream's new rows: those with a key that a punctuation is about, and
    the others."""
    first: list[pa.RecordBatch | None] = [None] * len(rows)
    later: list[pa.RecordBatch | None] = [None] * len(rows)
    for stream, batch in enumerate(rows):
        if batch is not None:
            punctuated = is_punctuated(stream, batch)
            first[stream] = batch.filter(pa.array(punctuated))
            later[stream] = batch.filter(pa.array(~punctuated))
    return first, later


def with_only(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bool]]:
    """Each chunk, and whether it is the only one of its micro-batch.

    >>> list(with_only([[None]])), list(with_only([[None], [None]]))
    ([([None], True)], [([None], False), ([None], False)])
    """
    first = True
    waiting: Chunk | None = None
    for chunk in chunks:
        if waiting is not None:
            yield waiting, False
            first = False
        waiting = chunk
    if waiting is not None:
        yield waiting, first
