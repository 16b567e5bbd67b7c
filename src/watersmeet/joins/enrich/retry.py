"""A second chance for rows whose master row comes late.

A row without a match waits until a newer version of the table has one, or until the watermark
reaches its *deadline*. Then it is given up: it leaves as a row without a match (left, anti), or is
dropped and counted (inner, semi).

The watermark of the query stays behind by the time for which rows are retried, so that the
deadline of a row is its own time, and a row that has waited is not late for what follows. Only a
stream that brought its own watermark cannot be held back: there the deadline is its time and that
while.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.counters import EnrichCounters
from watersmeet.joins.enrich.layout import STREAM, EnrichLayout
from watersmeet.joins.enrich.queue import ARRIVED
from watersmeet.joins.enrich.state import EnrichState
from watersmeet.rows.columns import Bools, Ints, times_of
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.widths import sliced
from watersmeet.segments.probe import shifted


@dataclass(frozen=True)
class Retry:
    """The rows of a shard that are retried; lives for a step under a ``watermark``."""

    layout: EnrichLayout
    state: EnrichState
    counters: EnrichCounters
    watermark: int | None

    def unmatched(self, rows: pa.RecordBatch, positions: Ints) -> Iterator[pa.RecordBatch]:
        """Rows without a match wait, unless their deadline has been reached."""
        over = self._over(rows)[positions]
        kept = positions[~over]
        if len(kept):
            self.state.retried.add(rows.take(pa.array(kept)), self.state.progress.step)
        yield from self._given_up(rows, positions[over])

    def again(self) -> Iterator[pa.RecordBatch]:
        """All rows that wait, to be answered again, in pieces. Those that find no match again are
        in new segments: none of them is taken twice."""
        piece = self.layout.policy.piece
        gathering = Gathering(rows=1 << 31, size=piece)
        for rows in self.state.retried.take(_all):
            for part in sliced(rows.drop_columns([ARRIVED]), piece):
                yield from gathering.add(part)
        yield from gathering.rest()

    def give_up(self) -> Iterator[pa.RecordBatch]:
        """The results of rows whose deadline the watermark has reached."""
        for rows in self.state.retried.take(self._over):
            yield from self._given_up(rows.drop_columns([ARRIVED]), np.arange(len(rows)))

    def give_up_all(self) -> Iterator[pa.RecordBatch]:
        """The results of all rows that wait: the query was started again without retrying rows, so
        nothing would ever look at them."""
        for rows in self.state.retried.take(_all):
            yield from self._given_up(rows.drop_columns([ARRIVED]), np.arange(len(rows)))

    def _over(self, rows: pa.RecordBatch) -> Bools:
        """Has the watermark reached the deadline? A row without a time has none to wait for."""
        if self.watermark is None:
            return np.zeros(len(rows), dtype=np.bool_)
        over: Bools = shifted(times_of(rows), self.layout.retry_beyond) <= self.watermark
        return over

    def _given_up(self, rows: pa.RecordBatch, positions: Ints) -> Iterator[pa.RecordBatch]:
        self.counters.given_up += len(positions)
        if self.layout.preserved:
            yield from self.layout.output.alone(STREAM, rows, positions)


def _all(rows: pa.RecordBatch) -> Bools:
    return np.ones(len(rows), dtype=np.bool_)
