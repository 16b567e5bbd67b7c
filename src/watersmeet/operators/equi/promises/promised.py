"""What one step knows about the keys of all streams, from what they have promised.

New punctuations and keys are collected while rows are processed. They close keys between groups
of rows, or at the end of the step: after all rows that they are about.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.operators.equi.context import StepContext, other_stream
from watersmeet.operators.equi.promises.closing import ClosedKeys
from watersmeet.rows.columns import CODE, Bools, Ints, codes_of, concat
from watersmeet.state.segment import Segment


class Promised:
    """The closed keys of each stream, and what the step brings that will close more.

    ``closed[i]`` are stream i's closed keys, None if it never closes any."""

    def __init__(self, context: StepContext) -> None:
        state = context.state
        self._context = context
        self.closed = [
            ClosedKeys.load(state.store, stream, state.closings, state.shard)
            if promise.closes
            else None
            for stream, promise in enumerate(context.layout.inputs)
        ]
        self._punctuations: list[list[pa.RecordBatch]] = [[] for _ in self.closed]
        self._arrived: list[list[Ints]] = [[] for _ in self.closed]
        self._complete: list[list[Ints]] = [[] for _ in self.closed]

    # -- new rows -------------------------------------------------------------------

    def punctuate(self, stream: int, punctuations: pa.RecordBatch | None) -> None:
        """Collect new punctuations."""
        if punctuations is not None and len(punctuations):
            self._punctuations[stream].append(punctuations)

    def arrive(self, stream: int, rows: pa.RecordBatch) -> None:
        """Collect the keys of new rows."""
        codes = rows.column(CODE).drop_null().to_numpy(zero_copy_only=False)
        self._arrived[stream].append(codes)

    def closed_in_other(self, stream: int, fresh: Segment) -> Bools:
        """Which rows of a stream are useless, as their key is closed in the other stream."""
        closed = self.closed[other_stream(stream)]
        if closed is None:
            return np.zeros(len(fresh), dtype=np.bool_)
        useless = closed.covers(fresh.rows, self._context.layout.key_columns)
        if useless.any():
            self.complete(stream, codes_of(fresh.rows)[useless])
        return useless

    def is_punctuated(self, stream: int, rows: pa.RecordBatch) -> Bools:
        """Which new rows have a key that a punctuation is about: one of this step, or one of the
        other stream that waits to be handed on."""
        key_columns = self._context.layout.key_columns
        punctuated = np.zeros(len(rows), dtype=np.bool_)
        for position, closed in enumerate(self.closed):
            if closed is None:
                continue
            punctuations = list(self._punctuations[position])
            if closed.waiting is not None and position != stream:
                punctuations.append(closed.waiting)
            if punctuations:
                closing = ClosedKeys("")
                closing.punctuate(concat(punctuations), key_columns)
                punctuated |= closing.covers(rows, key_columns)
        return punctuated

    # -- keys that are complete -----------------------------------------------------

    def complete(self, stream: int, codes: Ints) -> None:
        """Record that rows with such keys have come, and that the keys are closed in the other
        stream. If they are unique, no row with such a key can come any more."""
        if self._context.layout.inputs[stream].unique:
            self._complete[stream].append(codes)

    def completed(self, stream: int) -> Ints:
        """The unique keys of a stream that this step has found complete."""
        return np.concatenate([np.empty(0, dtype=np.int64), *self._complete[stream]])

    # -- closing --------------------------------------------------------------------

    def close_punctuated(self) -> None:
        """Close what the punctuations collected so far close."""
        for stream, closed in enumerate(self.closed):
            if closed is not None and self._punctuations[stream]:
                rows = concat(self._punctuations[stream])
                self._punctuations[stream] = []
                self._context.counters.streams[stream].punctuations += len(rows)
                closed.punctuate(rows, self._context.layout.key_columns)

    def close_arrived(self) -> None:
        """Close what the order of the step's keys closes."""
        for stream, closed in enumerate(self.closed):
            if closed is not None and self._arrived[stream]:
                arrival = self._context.layout.inputs[stream].arrival
                closed.arrived(np.concatenate(self._arrived[stream]), arrival)

    def save(self) -> None:
        """Keep the closed keys with the state."""
        state = self._context.state
        state.closings = [
            name
            for closed in self.closed
            if closed is not None
            for name in closed.save(state.store)
        ]
