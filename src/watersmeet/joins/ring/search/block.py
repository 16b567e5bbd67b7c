"""A block of pairs (or longer combinations) that predicates compare, and the values that they read.

Pairs that a search has found are gathered by their positions. Where each probing row meets a run
of stored rows, there are faster ways:

- Numbers are strung together (:mod:`watersmeet.segments.runs`), into memory that the block before
has
  used: to get as much anew from the system can take longer than the comparison.
- Wide values, pictures for example, are repeated as a whole. A block has probing rows that meet the
  same run (:class:`~watersmeet.segments.runs.Tile`), so the values of the run are strung together
  once for many blocks; and if a run alone fills a block, they are not copied at all.
- For formulas numbers are not copied either (:mod:`.crossing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.joins.ring.search.meeting import Meeting
from watersmeet.rows.columns import Positions
from watersmeet.rows.output import Side
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs, Tile, Values


class Block(Protocol):
    """Combinations of rows."""

    def __len__(self) -> int: ...

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        """The values of a stored column of a stream. ``again``: the next block may write over
        them."""

    def at(self, places: Positions) -> Block:
        """Some of the combinations."""


class RunBlock(Block, Protocol):
    """Pairs that are in runs."""

    def pairs(self, places: Positions) -> Pairs:
        """Some of the pairs, as positions of both sides."""


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
        return self._runs.at(places)


class Tiled:
    """Some probing rows, each with the same run of stored rows, or with a part of it."""

    def __init__(self, columns: _Columns, tile: Tile) -> None:
        self._columns = columns
        self._tile = tile

    @classmethod
    def blocks(cls, meeting: Meeting, runs: Runs, tiles: Sequence[Tile]) -> Iterator[Tiled]:
        """All pairs of a meeting, a bounded number at a time."""
        columns = _Columns(meeting, runs.order)
        return (cls(columns, tile) for tile in tiles)

    def __len__(self) -> int:
        return len(self._tile)

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        if stream == self._columns.meeting.stream:
            return self._columns.tiled(stored, self._tile)
        return self._columns.repeated(stream, stored, self._tile)

    def at(self, places: Positions) -> Gathered:
        return Gathered(self._columns.meeting.sides(*self.pairs(places)))

    def pairs(self, places: Positions) -> Pairs:
        return in_tile(self._tile, self._columns.order, places)


def in_tile(tile: Tile, order: Positions, places: Positions) -> Pairs:
    """The pairs at some places of a tile."""
    number, place = np.divmod(places, tile.high - tile.low)
    return tile.rows[number], order[tile.low + place]


class _Columns:
    """The columns of a meeting, for one tile after the other; those of the stored rows in the
    ``order`` of the runs."""

    def __init__(self, meeting: Meeting, order: Positions) -> None:
        self.meeting = meeting
        self.order = order
        self._ordered: dict[str, pa.Array] = {}
        self._tiled: dict[str, tuple[tuple[int, int], pa.Array]] = {}
        self._repeated: dict[tuple[int, str], tuple[int, pa.Array]] = {}

    def tiled(self, stored: str, tile: Tile) -> pa.Array:
        """The values of a run, as often as there are probing rows. Neighbouring tiles are of the
        same run: they have the same values."""
        run, count = (tile.low, tile.high), len(tile)
        if len(tile.rows) == 1:
            return self._in_order(stored).slice(tile.low, count)
        known = self._tiled.get(stored)
        if known is None or known[0] != run or len(known[1]) < count:
            once = self._in_order(stored).slice(tile.low, tile.high - tile.low)
            known = self._tiled[stored] = run, pa.concat_arrays([once] * len(tile.rows))
        return known[1].slice(0, count)

    def repeated(self, stream: int, stored: str, tile: Tile) -> pa.Array:
        """The value of each probing row, as often as its run is long."""
        column, length = self.meeting.column(stream, stored), tile.high - tile.low
        if len(tile.rows) > 1:
            return column.take(pa.array(np.repeat(tile.rows, length)))
        row, known = int(tile.rows[0]), self._repeated.get((stream, stored))
        if known is None or known[0] != row or len(known[1]) < length:
            values = column.take(pa.array(np.full(length, row)))
            known = self._repeated[stream, stored] = row, values
        return known[1].slice(0, length)

    def _in_order(self, stored: str) -> pa.Array:
        """A column of the stored rows. It is copied unless it is in that order already."""
        if stored not in self._ordered:
            column = self.meeting.column(self.meeting.stream, stored)
            if not np.array_equal(self.order, np.arange(len(column))):
                column = column.take(pa.array(self.order))
            self._ordered[stored] = column
        return self._ordered[stored]


class _Numbers:
    """The columns of a meeting as numbers, those of the stored rows in the order of the runs."""

    def __init__(self, meeting: Meeting, order: Positions) -> None:
        self.meeting = meeting
        self.order = order
        self._known: dict[tuple[int, str], tuple[Values, pa.DataType]] = {}

    def of(self, stream: int, stored: str) -> tuple[Values, pa.DataType]:
        """A column, and its type in Arrow."""
        if (stream, stored) not in self._known:
            column = self.meeting.column(stream, stored)
            values, own = numbers_of(column), stream == self.meeting.stream
            self._known[stream, stored] = values[self.order] if own else values, column.type
        return self._known[stream, stored]


def numbers_of(column: pa.Array) -> Values:
    """The values of a numeric column, as integers of as many bits.

    >>> numbers_of(pa.array([1, 2, 3], pa.timestamp("us")).slice(1)).tolist()
    [2, 3]
    """
    values = np.frombuffer(column.buffers()[1], np.dtype(f"i{column.type.bit_width // 8}"))
    return values[column.offset : column.offset + len(column)]
