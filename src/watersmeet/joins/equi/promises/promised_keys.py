"""What one step knows about the keys of all streams, from what they have promised.

New punctuations and keys are collected while rows are processed. They close keys between groups
of rows, or at the end of the step: after all rows that they are about.
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.context import StepContext, other_stream
from watersmeet.joins.equi.promises.closed_keys import ClosedKeys
from watersmeet.joins.equi.promises.coverage import About, CoveredKeys
from watersmeet.rows.columns import CODE, Bools, Ints, concat, has_code
from watersmeet.segments.segment import Segment


class PromisedKeys:
    """The closed keys of each stream, and what the step brings that will close more.

    ``closed[i]`` are stream i's closed keys, None if it never closes any."""

    def __init__(self, context: StepContext) -> None:
        state = context.state
        self._context = context
        self.closed = [
            ClosedKeys(state, stream, context.layout.key_columns, context.layout.remembered)
            if promise.closes
            else None
            for stream, promise in enumerate(context.layout.inputs)
        ]
        self._punctuations: list[list[pa.RecordBatch]] = [[] for _ in self.closed]
        self._arrived: list[list[Ints]] = [[] for _ in self.closed]

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
        return closed.covers(fresh.rows)

    def is_punctuated(self, stream: int, rows: pa.RecordBatch) -> Bools:
        """Which new rows have a key that a punctuation is about: one of this step, or one of the
        other stream that waits to be handed on."""
        key_columns = self._context.layout.key_columns
        covered = CoveredKeys(key_columns)
        for punctuations in itertools.chain(*self._punctuations):
            covered.add(About.of(punctuations, key_columns))
        punctuated: Bools = covered.covers(rows) & has_code(rows)
        other = self.closed[other_stream(stream)]
        if other is not None:
            punctuated |= other.waiting.are_about(rows, key_columns)
        return punctuated

    # -- closing --------------------------------------------------------------------

    def close_punctuated(self) -> None:
        """Close the keys of the punctuations that were collected so far; and record which unique
        keys have come, where punctuations wait for them."""
        layout = self._context.layout
        for stream, closed in enumerate(self.closed):
            if closed is None:
                continue
            if layout.emit_punctuations and layout.inputs[stream].unique:
                closed.has_come(self._codes_of_arrived(stream))
            if self._punctuations[stream]:
                rows = concat(self._punctuations[stream])
                self._punctuations[stream] = []
                self._context.counters.streams[stream].punctuations += len(rows)
                closed.punctuate(rows)

    def close_arrived(self) -> None:
        """Close keys by the order in which the step's keys have arrived."""
        for stream, closed in enumerate(self.closed):
            arrival = self._context.layout.inputs[stream].arrival
            if closed is not None and arrival is not None:
                closed.arrived(self._codes_of_arrived(stream), arrival)

    def save(self, watermark: int | None) -> None:
        """Keep the closed keys with the state."""
        for closed in self.closed:
            if closed is not None:
                closed.save(watermark)

    def _codes_of_arrived(self, stream: int) -> Ints:
        return np.concatenate([np.empty(0, dtype=np.int64), *self._arrived[stream]])
