"""Rows that wait for their partition (the paper's queue and H_S), in the state store.

Invariant: a waiting row has not been answered at all. So it needs no note of what it has seen of
the table, and it may be answered from any version of it.

A stored row has a column more than it came with: the number of the step in which it arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.columns import Bools
from watersmeet.segments.segment import Segment
from watersmeet.state.window import Window

#: The step in which a row arrived, and the bytes that this takes.
ARRIVED = "#arrived"
ARRIVED_BYTES = 8


@dataclass(frozen=True)
class Waiting:
    """The waiting rows of a shard."""

    window: Window

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self.window.rows

    def add(self, rows: pa.RecordBatch, step: int) -> None:
        """Let rows wait that arrived in a step."""
        arrived = pa.array(np.full(len(rows), step, dtype=np.int64))
        self.window.add(Segment.of(rows.append_column(ARRIVED, arrived)))

    def take(self, due: Callable[[pa.RecordBatch], Bools]) -> Iterator[pa.RecordBatch]:
        """The rows that are due, which wait no more."""
        for entry in list(self.window.entries):
            segment = self.window.open(entry)
            chosen = due(segment.rows) & ~self.window.gone(entry)
            if not chosen.any():
                continue
            rows = segment.rows.filter(pa.array(chosen))
            self.window.discard(entry, np.flatnonzero(chosen))
            if entry.gone == entry.rows:
                self.window.drop(entry)
            yield rows

    def oldest(self) -> int | None:
        """The step in which the oldest row arrived, if any waits."""
        steps = []
        for entry in self.window.entries:
            arrived = self.window.open(entry).rows.column(ARRIVED)
            if entry.gone:
                arrived = arrived.filter(pa.array(~self.window.gone(entry)))
            steps.append(pc.min(arrived).as_py())
        return min(steps, default=None)


def arrived_of(rows: pa.RecordBatch) -> np.ndarray:
    """The steps in which waiting rows arrived."""
    steps: np.ndarray = rows.column(ARRIVED).to_numpy(zero_copy_only=True)
    return steps
