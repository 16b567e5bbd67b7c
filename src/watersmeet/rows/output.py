"""From matched positions to rows of the result.

Invariant: a batch of results has at most as many rows and bytes as a piece may have
(:class:`watersmeet.spec.limits.Limits`), or it has one row. Data made on the way, arguments of a
predicate for example, take no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.codes import from_code
from watersmeet.rows.columns import CODE, TIME, Positions, key_name
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.widths import cuts, row_bytes
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.spec.output import IS_PUNCTUATION, OutputColumn

#: Rows of a stream, and the position in them of each combination's row.
Side = tuple[pa.RecordBatch, Positions]
#: Combinations: the sides of all streams that take part, of the same length.
Sides = dict[int, Side]

#: The bytes that the positions of a combination take, at the least.
_POSITIONS = 16


@dataclass(frozen=True)
class ColumnSource:
    """Where a column of the result comes from: a key (of any side that has a row), a stored column
    of one stream, the flag of punctuations, or, with none of these, the event time."""

    key: int | None = None
    stream: int | None = None
    stored: str | None = None
    punctuation: bool = False


def sources(
    output: Sequence[OutputColumn], layouts: Sequence[RowLayout]
) -> tuple[ColumnSource, ...]:
    """Where the columns of a result are found among stored rows."""

    def source(column: OutputColumn) -> ColumnSource:
        if column.key is not None:
            return ColumnSource(key=column.key)
        if column.stream is None:
            return ColumnSource(punctuation=column.name == IS_PUNCTUATION)
        if column.column is None:
            return ColumnSource(stream=column.stream, stored=TIME)
        return ColumnSource(
            stream=column.stream, stored=layouts[column.stream].stored[column.column]
        )

    return tuple(source(column) for column in output)


@dataclass(frozen=True)
class Output:
    """Builds batches of results: ``sources[i]`` tells where column i of the ``schema`` comes
    from. ``exact``: is the key its own code? ``limit`` is the bytes that a budget allows for a
    piece, if there is one; ``limits`` always hold."""

    schema: pa.Schema
    sources: tuple[ColumnSource, ...]
    exact: bool
    limit: int | None = None
    limits: Limits = LIMITS

    @property
    def piece_bytes(self) -> int:
        """No piece takes more bytes, unless it is of one row."""
        most = self.limits.piece_bytes
        return most if self.limit is None else min(self.limit, most)

    @property
    def piece_rows(self) -> int:
        """No piece has more rows, however narrow: their positions take memory too."""
        return max(1, min(self.limits.piece_rows, self.piece_bytes // _POSITIONS))

    def pieces(self, sides: Sides, *, widest: int | None = None) -> Iterator[Sides]:
        """Combinations, a piece at a time. None takes more than ``widest`` bytes, if that is given.
        If nearly as many as that fit into a piece, they are not measured."""
        count, size = len(next(iter(sides.values()))[1]), self.piece_rows
        fitting = 0 if widest is None else min(size, self.piece_bytes // max(1, widest))
        if 2 * fitting >= min(size, count) > 0:
            yield from (_part(sides, slice(at, at + fitting)) for at in range(0, count, fitting))
            return
        for start in range(0, count, size):
            yield from self._measured(_part(sides, slice(start, start + size)))

    def rows(self, sides: Sides, *, punctuation: bool = False) -> Iterator[pa.RecordBatch]:
        """One result row for each combination of a piece; the columns of a missing stream are
        null."""
        count = len(next(iter(sides.values()))[1])
        if count:
            yield self._build(sides, count, punctuation=punctuation)

    def alone(
        self, stream: int, rows: pa.RecordBatch, chosen: Positions, *, punctuation: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """One result row for each chosen row of one stream, in pieces, all other
        streams' columns null."""
        for piece in self.pieces({stream: (rows, chosen)}):
            yield from self.rows(piece, punctuation=punctuation)

    def _measured(self, sides: Sides) -> Iterator[Sides]:
        """A bounded number of combinations, cut by the bytes that they take."""
        count = len(next(iter(sides.values()))[1])
        widths = sum(row_bytes(rows, positions) for rows, positions in sides.values())
        for cut in cuts(widths, count, self.piece_bytes):
            yield sides if cut.stop - cut.start == count else _part(sides, cut)

    def _build(self, sides: Sides, count: int, *, punctuation: bool) -> pa.RecordBatch:
        holder = next(iter(sides))
        # All columns of a side in one call: of a small piece, calling takes most of the time.
        taken = {
            stream: rows.select(self._read(stream, holds_key=stream == holder)).take(
                pa.array(positions)
            )
            for stream, (rows, positions) in sides.items()
        }

        def take(stream: int, stored: str) -> pa.Array:
            return taken[stream].column(stored)

        def column(source: ColumnSource, target: pa.DataType) -> pa.Array:
            if source.key is not None:
                if self.exact:
                    return from_code(take(holder, CODE), target)
                return take(holder, key_name(source.key))
            if source.punctuation:
                return pa.array(np.full(count, punctuation))
            if source.stored is None:
                times = [take(stream, TIME).view(pa.int64()) for stream in sides]
                return pc.max_element_wise(*times).view(target)
            assert source.stream is not None, "a stored column belongs to a stream"
            if source.stream not in sides:
                return pa.nulls(count, target)
            values = take(source.stream, source.stored)
            return from_code(values, target) if source.stored == CODE else values

        columns = [
            column(source, field.type)
            for source, field in zip(self.sources, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _read(self, stream: int, *, holds_key: bool) -> list[str]:
        """The stored columns of a stream that results are made of."""
        names: dict[str, None] = {}
        for source in self.sources:
            if source.key is not None:
                if holds_key:
                    names[CODE if self.exact else key_name(source.key)] = None
            elif source.stored is not None:
                if source.stream == stream:
                    names[source.stored] = None
            elif not source.punctuation:
                names[TIME] = None
        return list(names)


def _part(sides: Sides, part: slice) -> Sides:
    """Some of the combinations."""
    return {stream: (rows, positions[part]) for stream, (rows, positions) in sides.items()}


class Conditional(Protocol):
    """A join that may have a further condition."""

    def holds(self, sides: Sides, /) -> np.ndarray | None:
        """For which combinations it holds; None if there is none."""


def where(sides: Sides, mask: np.ndarray | slice) -> Sides:
    """The combinations for which the mask is true."""
    return {stream: (rows, positions[mask]) for stream, (rows, positions) in sides.items()}


def satisfying(layout: Conditional, sides: Sides) -> Sides:
    """Of combinations with equal keys, those for which the join's predicate holds."""
    if not len(next(iter(sides.values()))[1]):
        return sides
    holds = layout.holds(sides)
    return sides if holds is None else where(sides, holds)
