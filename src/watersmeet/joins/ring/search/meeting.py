"""A meeting: rows that probe, and the rows of one stored segment. What do predicates read of their
pairs, and how many pairs fit into a block?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.conditions.formula import Formula
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.probing import Probing
from watersmeet.rows.columns import Positions
from watersmeet.rows.output import Side
from watersmeet.rows.widths import row_bytes
from watersmeet.segments.lines import Pairs
from watersmeet.segments.runs import Runs, Tile

#: Values of pairs in runs take about so many bytes at a time. They are written into the same memory
#: for each block, as much as stays near. For a function of the user's they get memory of their own:
#: so much, that the system need not be asked for it each time.
_NEAR, _OWN = 4 << 20, 512 << 10
#: Values of pairs that are gathered take about so many bytes at a time: what a function makes of
#: them then stays near too. It gets at least so many pairs, as a call has its price.
_GATHERED, _LEAST = 1 << 20, 256


class Meeting:
    """Probing rows and stored ones of a stream, and the numbers of the predicates that compare
    them."""

    def __init__(
        self,
        layout: RingLayout,
        due: Sequence[int],
        probing: Probing,
        stream: int,
        rows: pa.RecordBatch,
    ) -> None:
        self.due = due
        self.stream = stream
        self._layout = layout
        self._rows = {**probing.sides, stream: rows}

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

    def pieces(self, pairs: Iterator[Pairs]) -> Iterator[Pairs]:
        """Pairs that are compared at a time: as many as there is room for."""
        one = next(iter(self._rows))
        for mine, theirs in pairs:
            read = {of: (rows, self._at(of, mine, theirs)) for of, rows in self._read.items()}
            for piece in self._layout.output.pieces(read, widest=self._widest):
                mine, theirs = piece[one][1], piece[self.stream][1]
                for start in range(0, len(mine), self._at_once):
                    part = slice(start, start + self._at_once)
                    yield mine[part], theirs[part]

    @property
    def numeric(self) -> bool:
        """Do predicates read only numbers, none of which is null?"""
        columns = [column for rows in self._read.values() for column in rows.columns]
        return all(map(is_numeric, columns))

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

    @cached_property
    def formulas(self) -> list[Formula] | None:
        """All that is to compare, if formulas say it."""
        formulas = [self._layout.conditions.predicates[number].formula for number in self.due]
        known = [formula for formula in formulas if formula is not None]
        return known if len(known) == len(formulas) else None

    @property
    def block(self) -> int:
        """How many pairs of runs are compared at a time."""
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


def _widest(rows: pa.RecordBatch) -> int:
    return int(np.max(row_bytes(rows, np.arange(len(rows))), initial=0))


def is_numeric(column: pa.Array) -> bool:
    """Has a column numbers of whole bytes, or times, and no null?

    >>> [is_numeric(pa.array(values)) for values in ([1, 2], [1, None], [True], ["a"])]
    [True, False, False, False]
    """
    kind = column.type
    plain = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
    return plain and not column.null_count
