"""Blocks: the pairs that predicates compare at a time, and the values that they read of them.

Invariant: a block takes little memory, however many candidates there are and however wide their
values. What is compared at a time is chosen so that the values stay in the processor's cache.

A predicate asks a block for columns, with a value for each pair. There are three ways to make one:

- :class:`PositionBlock`, of any pairs: the values are gathered, pair by pair.
- :class:`TileBlock`, of rows with the same run, and wide values, pictures for example: the run is
  repeated as a whole, once for many blocks. If a run alone fills a block, it is not copied at all.
- ``NumberBlock``, of rows with runs, and numbers: they are strung together, see
  :mod:`.number_blocks`.

Example: the rows 0 and 1 of a, with x = 5 and 8, meet the rows 1 and 2 of b, with x = 6 and 9. A
block of these four pairs has the columns ``a.x = [5, 5, 8, 8]`` and ``b.x = [6, 9, 6, 9]``,
whichever way it is made. Its places 1 and 2 are the pairs (0, 2) and (1, 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.conditions.formula import Formula
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.probing_rows import ProbingRows
from watersmeet.rows.columns import Positions
from watersmeet.rows.output import Side
from watersmeet.rows.widths import row_bytes
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs, Tile
from watersmeet.spec.limits import Limits

#: Values of pairs in runs take about so many bytes at a time. They are written into the same memory
#: for each block, as much as stays near. For a function of the user's they get memory of their own:
#: so much, that the system need not be asked for it each time.
_NEAR, _OWN = 4 << 20, 512 << 10
#: Values of pairs that are gathered take about so many bytes at a time: what a function makes of
#: them then stays near too. It gets at least so many pairs, as a call has its price.
_GATHERED, _LEAST = 1 << 20, 256


class PairRows:
    """The rows of both sides of pairs: those that probe, and those of one stored segment. ``due``
    are the numbers of the predicates that compare them."""

    def __init__(
        self,
        layout: RingLayout,
        due: Sequence[int],
        probing: ProbingRows,
        stream: int,
        rows: pa.RecordBatch,
    ) -> None:
        self.due = due
        self.stream = stream
        self._layout = layout
        self._rows = {**probing.sides, stream: rows}

    @property
    def limits(self) -> Limits:
        """The sizes of the pieces in which the join works."""
        return self._layout.limits

    def sides(self, mine: Positions, theirs: Positions) -> dict[int, Side]:
        """Pairs as combinations."""
        return {of: (rows, self._at(of, mine, theirs)) for of, rows in self._rows.items()}

    def column(self, stream: int, stored: str) -> pa.Array:
        """A column of one side."""
        return self._rows[stream].column(stored)

    def named(self, stream: int, name: str) -> pa.Array:
        """The same, by the name that predicates know it by."""
        return self.column(stream, self._layout.streams[stream].rows.stored[name])

    @property
    def counts(self) -> tuple[int, int]:
        """How many probing rows and stored ones there are."""
        return len(next(iter(self._rows.values()))), len(self._rows[self.stream])

    @property
    def numeric(self) -> bool:
        """Do predicates read only numbers, none of which is null?"""
        columns = [column for rows in self._read.values() for column in rows.columns]
        return all(map(_is_numeric, columns))

    @cached_property
    def formulas(self) -> list[Formula] | None:
        """All that is to compare, if formulas say it."""
        formulas = [self._layout.conditions.predicates[number].formula for number in self.due]
        known = [formula for formula in formulas if formula is not None]
        return known if len(known) == len(formulas) else None

    def pieces(self, pairs: Iterator[Pairs]) -> Iterator[Pairs]:
        """Pairs that are gathered at a time: as many as there is room for."""
        one = next(iter(self._rows))
        for mine, theirs in pairs:
            read = {of: (rows, self._at(of, mine, theirs)) for of, rows in self._read.items()}
            for piece in self._layout.output.pieces(read, widest=self._widest):
                mine, theirs = piece[one][1], piece[self.stream][1]
                for start in range(0, len(mine), self._at_once):
                    part = slice(start, start + self._at_once)
                    yield mine[part], theirs[part]

    def tiles(self, runs: Runs) -> list[Tile] | None:
        """The pairs as tiles, if these are about as few as blocks that are gathered: then values
        are wide, or many rows meet the same run."""
        room = self._layout.output.piece_bytes // max(1, self._widest)
        size = max(1, min(room, self._at_once, self._layout.output.piece_rows))
        most = 2 * len(runs) // size
        if len(runs.changes) > most:
            return None
        tiles = list(runs.tiles(size))
        return tiles if len(tiles) <= most else None

    @property
    def run_pairs(self) -> int:
        """How many pairs of runs are compared at a time, if their numbers are strung together."""
        output, predicates = self._layout.output, self._layout.conditions.predicates
        near = _NEAR if all(predicates[number].forgets for number in self.due) else _OWN
        room = min(near, output.piece_bytes) // max(1, self._widest)
        return max(1, min(room, output.piece_rows))

    def _at(self, of: int, mine: Positions, theirs: Positions) -> Positions:
        return theirs if of == self.stream else mine

    @cached_property
    def _read(self) -> dict[int, pa.RecordBatch]:
        """The columns that predicates read."""
        read: dict[int, dict[str, None]] = {of: {} for of in self._rows}
        for number in self.due:
            for of, name in self._layout.conditions.predicates[number].columns:
                read[of][self._layout.streams[of].rows.stored[name]] = None
        return {of: self._rows[of].select(list(names)) for of, names in read.items()}

    @cached_property
    def _at_once(self) -> int:
        """How many pairs are gathered at a time, if they are as wide as most."""
        typical = sum(int(rows.nbytes) // max(1, len(rows)) for rows in self._read.values())
        return max(_LEAST, _GATHERED // max(1, typical))

    @cached_property
    def _widest(self) -> int:
        """The bytes that no pair exceeds."""
        return sum(map(_widest, self._read.values()))


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


class PositionBlock:
    """Combinations at positions of each stream's rows."""

    def __init__(self, sides: Mapping[int, Side]) -> None:
        self._sides = sides

    def __len__(self) -> int:
        return len(next(iter(self._sides.values()))[1])

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        rows, positions = self._sides[stream]
        return rows.column(stored).take(pa.array(positions))

    def at(self, places: Positions) -> PositionBlock:
        sides = self._sides.items()
        return PositionBlock({stream: (rows, at[places]) for stream, (rows, at) in sides})


class TileBlock:
    """Some probing rows, each with the same run of stored rows, or with a part of it."""

    def __init__(self, columns: _TileColumns, tile: Tile) -> None:
        self._columns = columns
        self._tile = tile

    @classmethod
    def blocks(cls, rows: PairRows, runs: Runs, tiles: Sequence[Tile]) -> Iterator[TileBlock]:
        """All pairs of the runs, a tile at a time."""
        columns = _TileColumns(rows, runs.order)
        return (cls(columns, tile) for tile in tiles)

    def __len__(self) -> int:
        return len(self._tile)

    def column(self, stream: int, stored: str, *, again: bool) -> pa.Array:
        if stream == self._columns.rows.stream:
            return self._columns.tiled(stored, self._tile)
        return self._columns.repeated(stream, stored, self._tile)

    def at(self, places: Positions) -> PositionBlock:
        return PositionBlock(self._columns.rows.sides(*self.pairs(places)))

    def pairs(self, places: Positions) -> Pairs:
        return pairs_of(self._tile, self._columns.order, places)


class _TileColumns:
    """The columns of pairs, for one tile after the other; those of the stored rows in the
    ``order`` of the runs."""

    def __init__(self, rows: PairRows, order: Positions) -> None:
        self.rows = rows
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
        column, length = self.rows.column(stream, stored), tile.high - tile.low
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
            column = self.rows.column(self.rows.stream, stored)
            if not np.array_equal(self.order, np.arange(len(column))):
                column = column.take(pa.array(self.order))
            self._ordered[stored] = column
        return self._ordered[stored]


def pairs_of(tile: Tile, order: Positions, places: Positions) -> Pairs:
    """The pairs at some places of a tile, of runs with that order.

    >>> tile, order = Tile(np.array([0, 1]), 1, 3), np.array([0, 1, 2])
    >>> [positions.tolist() for positions in pairs_of(tile, order, np.array([1, 2]))]
    [[0, 1], [2, 1]]
    """
    number, place = np.divmod(places, tile.high - tile.low)
    return tile.rows[number], order[tile.low + place]


def _widest(rows: pa.RecordBatch) -> int:
    return int(np.max(row_bytes(rows, np.arange(len(rows))), initial=0))


def _is_numeric(column: pa.Array) -> bool:
    """Has a column numbers of whole bytes, or times, and no null?

    >>> [_is_numeric(pa.array(values)) for values in ([1, 2], [1, None], [True], ["a"])]
    [True, False, False, False]
    """
    kind = column.type
    plain = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
    return plain and not column.null_count
