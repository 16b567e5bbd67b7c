"""Results for stream rows, given the master rows of their keys.

Invariant: a row is answered once, in one call, from one version of the table: all of its matches,
or that it has none, are known when the call is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.candidates import candidates
from watersmeet.joins.enrich.layout import STREAM, TABLE, EnrichLayout
from watersmeet.rows.columns import Bools, Ints
from watersmeet.rows.sides import Sides
from watersmeet.rows.widths import row_bytes
from watersmeet.table.lookup import MasterRanges


class Stopwatch:
    """Adds up the time between ``with`` and the end of its block, in nanoseconds."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self._began = 0

    def __enter__(self) -> None:
        self._began = time.perf_counter_ns()

    def __exit__(self, *failure: object) -> None:
        self.nanoseconds += time.perf_counter_ns() - self._began

    def timed(self, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same results; the time in which they are made counts."""
        while True:
            with self:
                made = next(results, None)
            if made is None:
                return
            yield made


#: What becomes of rows without a match, given as positions.
Unmatched = Callable[[pa.RecordBatch, Ints], Iterator[pa.RecordBatch]]


def answers(
    layout: EnrichLayout,
    rows: pa.RecordBatch,
    found: Iterable[MasterRanges],
    *,
    only: Bools | None = None,
    unmatched: Unmatched | None = None,
    watch: Stopwatch | None = None,
) -> Iterator[pa.RecordBatch]:
    """The results of stream rows, given where their master rows were found; with ``only``, of
    those for which it is true, and master rows are of these alone. What becomes of rows without a
    match depends on the join, unless ``unmatched`` says so. The watch runs while results are made,
    not while others use them."""
    watch = watch or Stopwatch()
    matched = np.zeros(len(rows), dtype=np.bool_)
    widest = int(np.max(row_bytes(rows, np.arange(len(rows))), initial=0))
    for master, mine, theirs in candidates(layout, rows, found, matched):
        sides: Sides = {STREAM: (rows, mine), TABLE: (master.rows, theirs)}
        confirmed = layout.confirmed(sides, widest + master.widest)
        yield from watch.timed(_pairs(layout, confirmed, matched))
        del master, sides, confirmed  # a partition that is not needed any more is not kept mapped
    if layout.how.emits_first_match:
        yield from layout.output.alone(STREAM, rows, np.flatnonzero(matched))
    without = np.flatnonzero(~matched if only is None else only & ~matched)
    if unmatched is not None:
        yield from unmatched(rows, without)
    elif layout.preserved:
        yield from layout.output.alone(STREAM, rows, without)


def _pairs(
    layout: EnrichLayout, confirmed: Iterator[Sides], matched: Bools
) -> Iterator[pa.RecordBatch]:
    """What pairs that match add to the result. Notes which stream rows they are of."""
    for sides in confirmed:
        matched[sides[STREAM][1]] = True
        if layout.pairs:
            yield from layout.output.rows(sides)
