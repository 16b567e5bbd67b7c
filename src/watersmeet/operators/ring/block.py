"""A block of pairs (or longer combinations) that predicates compare, and the values that they read.

Pairs that a search has found are gathered by their positions. Where each probing row meets a run
of stored rows, numbers are strung together instead, which is much faster
(:mod:`watersmeet.state.runs`), and into memory that the block before has used: to get as much anew
from the system can take longer than the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.operators.ring.meeting import Meeting
from watersmeet.rows.columns import Positions
from watersmeet.rows.output import Side
from watersmeet.state.lines import Pairs
from watersmeet.state.runs import Runs, Values


class Block(Protocol):
    """Combinations of rows."""

    def __len__(self) -> int: ...

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        """The values of a stored column of a stream. ``again``: the next block may write over
        them."""

    def at(self, places: Positions) -> Block:
        """Some of the combinations."""


class Gathered:
    """Combinations at positions of each stream's rows."""

    def __init__(self, sides: Mapping[int, Side]) -> None:
        self._sides = sides

    def __len__(self) -> int:
        return len(next(iter(self._sides.values()))[1])

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        rows, positions = self._sides[stream]
        return rows.column(stored).take(pa.array(positions))

    def at(self, places: Positions) -> Gathered:
        sides = self._sides.items()
        return Gathered({stream: (rows, at[places]) for stream, (rows, at) in sides})


class Scratch:
    """Memory that is used again and again: an array for each column."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, str], Values] = {}

    def array(self, of: tuple[int, str], dtype: np.dtype[np.generic], count: int) -> Values:
        """At least ``count`` values."""
        known = self._arrays.get(of)
        if known is None or known.dtype != dtype or len(known) < count:
            known = self._arrays[of] = np.empty(count, dtype)
        return known


class Strung:
    """Pairs in runs."""

    def __init__(self, numbers: _Numbers, runs: Runs, scratch: Scratch) -> None:
        self._numbers = numbers
        self._runs = runs
        self._count = len(runs)
        self._scratch = scratch

    @classmethod
    def blocks(cls, meeting: Meeting, runs: Runs, scratch: Scratch) -> Iterator[Strung]:
        """All pairs of a meeting, a bounded number at a time."""
        numbers = _Numbers(meeting, runs.order)
        for part in runs.cut(meeting.block):
            yield cls(numbers, part, scratch)

    def __len__(self) -> int:
        return self._count

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        values, kind = self._numbers.of(stream, stored)
        scratch = self._scratch if again else Scratch()
        to = scratch.array((stream, stored), values.dtype, self._count)
        own = stream == self._numbers.meeting.stream
        write = self._runs.strung if own else self._runs.repeated
        return pa.Array.from_buffers(kind, self._count, [None, pa.py_buffer(write(values, to))])

    def at(self, places: Positions) -> Gathered:
        return Gathered(self._numbers.meeting.sides(*self.pairs(places)))

    def pairs(self, places: Positions) -> Pairs:
        """Some of the pairs, as positions of both sides."""
        return self._runs.at(places)


class _Numbers:
    """The columns of a meeting as numbers, those of the stored rows in the order of the runs."""

    def __init__(self, meeting: Meeting, order: Positions) -> None:
        self.meeting = meeting
        self._order = order
        self._known: dict[tuple[int, str], tuple[Values, pa.DataType]] = {}

    def of(self, stream: int, stored: str) -> tuple[Values, pa.DataType]:
        """A column, and its type in Arrow."""
        if (stream, stored) not in self._known:
            column = self.meeting.column(stream, stored)
            values, own = _numbers(column), stream == self.meeting.stream
            self._known[stream, stored] = values[self._order] if own else values, column.type
        return self._known[stream, stored]


def _numbers(column: pa.Array) -> Values:
    """The values of a numeric column, as integers of as many bits.

    >>> _numbers(pa.array([1, 2, 3], pa.timestamp("us")).slice(1)).tolist()
    [2, 3]
    """
    values = np.frombuffer(column.buffers()[1], np.dtype(f"i{column.type.bit_width // 8}"))
    return values[column.offset : column.offset + len(column)]
