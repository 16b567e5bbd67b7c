"""What probes: new rows of one stream, or partial results with a row of each of several streams.

**Invariant.** Rows t_i of streams i, with windows W_i, are within their windows if, with T the
greatest time, T - t_i <= W_i for all i. So of the rows that have met so far two numbers are enough:

    newest    T, the greatest time
    deadline  D, the least of t_i + W_i

A row of stream k may join them if, and only if, T - W_k <= t_k <= D.

Partial results travel as one batch: the columns of stream i with its number before their names, T
and D, and a code, by which those that only pass a hop are spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import CHECK, CODE, Ints, Positions, codes_of, times_of
from watersmeet.segments.probe import shifted

NEWEST = "#newest"
DEADLINE = "#deadline"
#: Later than any time: the deadline of rows that wait for ever.
NEVER = np.iinfo(np.int64).max
#: What only the row itself needs: it does not travel in partial results.
_OWN = (CODE, CHECK)


@dataclass(frozen=True)
class ProbingRows:
    """Rows that probe. ``sides`` has a batch for each stream that takes part, all of the same
    length: row by row, one combination.

    Example: windows are 5 for a, 10 for b and 20 for c. A row of a at 20 and one of b at 24 are a
    partial result with newest 24 and deadline min(20 + 5, 24 + 10) = 25. Rows of c from
    24 - 20 = 4 to 25 may join them.
    """

    sides: Mapping[int, pa.RecordBatch]
    newest: Ints
    deadline: Ints
    codes: Ints

    def __len__(self) -> int:
        return len(self.newest)

    @classmethod
    def of(cls, batch: pa.RecordBatch, streams: Sequence[int], window: int | None) -> ProbingRows:
        """A batch as it comes: of one stream, its rows, which wait for ``window``; of several,
        partial results."""
        if len(streams) == 1:
            times = times_of(batch)
            return cls({streams[0]: batch}, times, _deadlines(times, window), codes_of(batch))
        sides = {stream: _side(batch, stream) for stream in streams}
        newest, deadline = (batch.column(name).to_numpy() for name in (NEWEST, DEADLINE))
        return cls(sides, newest, deadline, codes_of(batch))

    def bounds(self, window: int | None) -> tuple[Ints, Ints]:
        """The least and the greatest time of a row that may join, of a stream with that
        window."""
        if window is None:
            return np.full(len(self), np.iinfo(np.int64).min), self.deadline
        return shifted(self.newest, -window), self.deadline

    def joined(
        self,
        mine: Positions,
        stream: int,
        rows: pa.RecordBatch,
        theirs: Positions,
        window: int | None,
    ) -> pa.RecordBatch:
        """Partial results: the combinations at some positions, each with a row of one more
        stream."""
        times = times_of(rows)[theirs]
        columns: dict[str, pa.Array] = {
            CODE: pa.array(_mixed(self.codes[mine], codes_of(rows)[theirs])),
            NEWEST: pa.array(np.maximum(self.newest[mine], times)),
            DEADLINE: pa.array(np.minimum(self.deadline[mine], _deadlines(times, window))),
        }
        places = {**dict.fromkeys(self.sides, pa.array(mine)), stream: pa.array(theirs)}
        sides = {**self.sides, stream: rows}
        for number in sorted(sides):
            side = sides[number].drop_columns([n for n in _OWN if n in sides[number].schema.names])
            taken = side.take(places[number])
            columns |= {
                f"{number}{name}": taken.column(i) for i, name in enumerate(side.schema.names)
            }
        return pa.RecordBatch.from_pydict(columns)


def _side(batch: pa.RecordBatch, stream: int) -> pa.RecordBatch:
    """The columns of one stream."""
    prefix = str(stream)
    names = [n for n in batch.schema.names if n.partition("#")[0] == prefix]
    stored = [name.removeprefix(prefix) for name in names]
    return pa.RecordBatch.from_arrays([batch.column(name) for name in names], names=stored)


def _deadlines(times: Ints, window: int | None) -> Ints:
    if window is None:
        return np.full(len(times), NEVER)
    return shifted(times, window)


def _mixed(codes: Ints, others: Ints) -> Ints:
    """One code of two, in which all bits of both count."""
    with np.errstate(over="ignore"):
        return codes * np.int64(31) + others
