"""Orders in which new rows are processed that only experiments ask for (metadata paper, sections
4.1 and 4.2). Any order gives the same result.

**Streams.** *Priority*: a stream with unique keys first, up to a quota of rows, then the other up
to the same quota, and so on. *Random*: a run of either stream.

**Rows of a stream.** *Sequential*: as they came. *Value-oriented*: first those with a key that a
punctuation is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.operator import EquiJoin
from watersmeet.joins.equi.policy import Schedule
from watersmeet.joins.equi.state import EquiState
from watersmeet.joins.operator import Chunk
from watersmeet.testing import LocalJoin, LocalStream

#: A random order takes runs of this many rows, unless a quota is given.
_RUN = 1024


@dataclass(frozen=True)
class Runs:
    """New rows are processed in runs of at most ``quota`` rows of a stream; None: all there
    are."""

    streams: str = "priority"
    rows: str = "sequential"
    quota: int | None = None


def in_runs(
    rows: Chunk, unique: Sequence[bool], runs: Runs
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The new rows of all streams, run by run, each with its stream.

    >>> a, b = (pa.RecordBatch.from_pydict({"n": values}) for values in ([1, 2, 3], [4, 5]))
    >>> ordered = in_runs([a, b], [False, True], Runs(quota=2))
    >>> [(stream, run.column("n").to_pylist()) for stream, run in ordered]
    [(1, [4, 5]), (0, [1, 2]), (0, [3])]
    """
    lengths = [0 if batch is None else len(batch) for batch in rows]
    starts = [0] * len(rows)
    order = sorted(range(len(rows)), key=lambda stream: not unique[stream])
    dice = np.random.default_rng(sum(lengths))  # the same each time the batch is run
    while any(start < length for start, length in zip(starts, lengths, strict=True)):
        open_ = [stream for stream in order if starts[stream] < lengths[stream]]
        if runs.streams == "random":
            open_ = [open_[int(dice.integers(len(open_)))]]
        for stream in open_:
            batch = rows[stream]
            assert batch is not None, "an open stream has rows"
            limit = runs.quota or (_RUN if runs.streams == "random" else lengths[stream])
            yield stream, batch.slice(starts[stream], limit)
            starts[stream] += limit


class RunsJoin(EquiJoin):
    """An equality join that processes new rows in runs."""

    def __init__(self, layout: EquiLayout, runs: Runs) -> None:
        policy = replace(layout.policy, schedule=Schedule(rows=runs.rows))
        super().__init__(replace(layout, policy=policy))
        self._runs = runs

    def ordered(self, rows: Chunk, state: EquiState) -> Iterator[tuple[int, pa.RecordBatch]]:
        return in_runs(rows, [stream.unique for stream in self.layout.inputs], self._runs)


class ScheduledJoin(LocalJoin):
    """A join that is stepped by hand, and processes new rows in runs, if they are given."""

    def __init__(
        self, streams: Mapping[str, LocalStream], *, schedule: Runs | None = None, **options: Any
    ) -> None:
        super().__init__(streams, **options)
        if schedule is not None:
            self.run.operator = RunsJoin(self.join.layout, schedule)
