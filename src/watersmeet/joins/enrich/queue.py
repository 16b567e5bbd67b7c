"""Rows that wait, in the state store: for their partition, or for a newer version of the table.

Invariant: a waiting row has not been answered at all. So it needs no note of what it has seen of
the table, and it may be answered from any version of it.

**The queue** (the paper's queue and H_S) has the rows that wait for their partition. A row in it
has a column more than it came with: the number of the step in which it arrived.

**Retry.** Rows without a match have a queue of their own, if they are given a second chance because
their master row may come late. Such a row waits until a newer version of the table has a match, or
until the watermark reaches its *deadline*. Then it is given up: it leaves as a row without a match
(left, anti), or is dropped and counted (inner, semi).

The watermark of the query stays behind by the time for which rows are retried, so that the
deadline of a row is its own time, and a row that has waited is not late for what follows. Only a
stream that brought its own watermark cannot be held back: there the deadline is its time and that
while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.joins.enrich.counters import EnrichCounters
from watersmeet.joins.enrich.layout import STREAM, EnrichLayout
from watersmeet.rows.columns import Bools, Ints, times_of
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.widths import sliced
from watersmeet.segments.probe import shifted
from watersmeet.segments.segment import Segment
from watersmeet.state.window import Window

#: The step in which a row arrived, and the bytes that this takes.
ARRIVED = "#arrived"
ARRIVED_BYTES = 8

#: Which of some rows are chosen.
Choice = Callable[[pa.RecordBatch], Bools]


@dataclass(frozen=True)
class Queue:
    """Rows of a shard that wait."""

    window: Window

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return self.window.rows

    def add(self, rows: pa.RecordBatch, step: int) -> None:
        """Let rows wait that arrived in a step."""
        arrived = pa.array(np.full(len(rows), step, dtype=np.int64))
        self.window.add(Segment.of(rows.append_column(ARRIVED, arrived)))

    def take(self, due: Choice) -> Iterator[pa.RecordBatch]:
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


def arrived_of(rows: pa.RecordBatch) -> Ints:
    """The steps in which waiting rows arrived."""
    steps: Ints = rows.column(ARRIVED).to_numpy(zero_copy_only=True)
    return steps


def every_row(rows: pa.RecordBatch) -> Bools:
    """The choice of all rows."""
    return np.ones(len(rows), dtype=np.bool_)


@dataclass(frozen=True)
class Retry:
    """The rows of a shard that are retried, in their ``queue``; lives for one ``step`` under a
    ``watermark``."""

    layout: EnrichLayout
    queue: Queue
    counters: EnrichCounters
    step: int
    watermark: int | None

    def unmatched(self, rows: pa.RecordBatch, positions: Ints) -> Iterator[pa.RecordBatch]:
        """Rows without a match wait, unless their deadline has been reached."""
        over = self._over(rows)[positions]
        kept = positions[~over]
        if len(kept):
            self.queue.add(rows.take(pa.array(kept)), self.step)
        yield from self._given_up(rows, positions[over])

    def again(self) -> Iterator[pa.RecordBatch]:
        """All rows that wait, to be answered again, in pieces. Those that find no match again are
        in new segments: none of them is taken twice."""
        piece = self.layout.policy.piece
        gathering = Gathering(rows=1 << 31, size=piece)
        for rows in self.queue.take(every_row):
            for part in sliced(rows.drop_columns([ARRIVED]), piece):
                yield from gathering.add(part)
        yield from gathering.rest()

    def give_up(self) -> Iterator[pa.RecordBatch]:
        """The results of rows whose deadline the watermark has reached."""
        yield from self._give_up(self._over)

    def give_up_all(self) -> Iterator[pa.RecordBatch]:
        """The results of all rows that wait: the query was started again without retrying rows, so
        nothing would ever look at them."""
        yield from self._give_up(every_row)

    def _give_up(self, due: Choice) -> Iterator[pa.RecordBatch]:
        for rows in self.queue.take(due):
            yield from self._given_up(rows.drop_columns([ARRIVED]), np.arange(len(rows)))

    def _over(self, rows: pa.RecordBatch) -> Bools:
        """Has the watermark reached the deadline? A row without a time has none to wait for."""
        if self.watermark is None:
            return np.zeros(len(rows), dtype=np.bool_)
        over: Bools = shifted(times_of(rows), self.layout.retry_beyond) <= self.watermark
        return over

    def _given_up(self, rows: pa.RecordBatch, positions: Ints) -> Iterator[pa.RecordBatch]:
        """What is left of rows that are given up, given as positions."""
        self.counters.given_up += len(positions)
        if self.layout.preserved:
            yield from self.layout.output.alone(STREAM, rows, positions)
