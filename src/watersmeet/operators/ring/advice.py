"""Advice: would another order of the hops make far fewer partial results?

The order is fixed for a checkpoint, and was chosen by what was declared, or by nothing. What the
hops measure tells more. Each hop knows a part of it, and hands it on to the next one: one of its
shards, as slices are alike. The last hop knows all, compares the order with the best one, and notes
it in the metrics.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.cost.hop_order import UNKNOWN_SELECTIVITY, Link, Streams
from watersmeet.operators.ring.layout import RingLayout
from watersmeet.operators.ring.state import RingState

_TEXT = "text"
#: Another order is worth a word if it makes fewer partial results by this factor.
_MUCH = 3.0


@dataclass
class Measurements:
    """What hops have measured so far: of each stream, the new rows of a micro-batch and the rows
    that are stored; of each condition, by number, its selectivity."""

    rows: list[float] = field(default_factory=list)
    stored: dict[str, float] = field(default_factory=dict)
    selectivity: dict[str, float] = field(default_factory=dict)

    def add(self, state: RingState, holds: Sequence[int], slices: int) -> None:
        """Add what a shard knows. Its slice is like all others."""
        for stream in holds:
            self.stored[str(stream)] = float(state.slice_of(stream).rows * slices)
        for number, measured in enumerate(state.measured):
            if measured.selectivity is not None:
                self.selectivity[str(number)] = measured.selectivity

    def to_batch(self) -> pa.RecordBatch:
        """The form in which they travel."""
        return pa.RecordBatch.from_pydict({_TEXT: [json.dumps(vars(self))]})

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Measurements:
        return cls(**json.loads(batch.column(_TEXT)[0].as_py()))

    def streams(self, layout: RingLayout) -> Streams:
        """What they say about the streams."""
        return Streams(
            tuple(self.rows),
            tuple(max(1.0, self.stored[str(stream)]) for stream in range(len(layout.streams))),
            tuple(
                Link(streams, self.selectivity.get(str(number), UNKNOWN_SELECTIVITY))
                for number, streams in enumerate(layout.conditions.streams)
            ),
        )


def better_order(
    measured: Measurements, layout: RingLayout
) -> tuple[tuple[int, ...], float] | None:
    """An order that makes far fewer partial results, and by which factor; None if none does."""
    streams = measured.streams(layout)
    best = streams.best_order(crossing=True)
    now, then = (sum(streams.partial_results(order)) for order in (layout.policy.order, best))
    if now <= _MUCH * max(then, 1.0):
        return None
    return best, now / max(then, 1.0)
