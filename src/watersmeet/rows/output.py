"""From matched positions to rows of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.codes import from_code
from watersmeet.rows.columns import CODE, TIME, key_name
from watersmeet.rows.layout import RowLayout
from watersmeet.spec.output import IS_PUNCTUATION, OutputColumn

Positions = npt.NDArray[np.integer]
Side = tuple[pa.RecordBatch, Positions]

#: No piece of results has more rows than this, nor many more bytes than this.
PIECE = 1 << 18
PIECE_BYTES = 32 << 20


def piece_rows(*batches: pa.RecordBatch, limit: int | None = None) -> int:
    """How many rows a piece may have that takes one row of each batch, and no more than
    ``limit`` bytes, if there is one."""
    width = sum(batch.nbytes / len(batch) for batch in batches if len(batch))
    size = PIECE_BYTES if limit is None else min(limit, PIECE_BYTES)
    return max(1, min(PIECE, int(size / max(width, 1))))


@dataclass(frozen=True)
class Source:
    """Where a column of the result comes from: a key (from whichever side has
    the row), a stored column of one stream, whether it is a punctuation, or, with none of
    these, the event time."""

    key: int | None = None
    stream: int | None = None
    stored: str | None = None
    punctuation: bool = False


def sources(output: Sequence[OutputColumn], layouts: Sequence[RowLayout]) -> tuple[Source, ...]:
    """Where the columns of a result are found among stored rows."""

    def source(column: OutputColumn) -> Source:
        if column.key is not None:
            return Source(key=column.key)
        if column.stream is None or column.column is None:
            return Source(punctuation=column.name == IS_PUNCTUATION)
        return Source(stream=column.stream, stored=layouts[column.stream].stored[column.column])

    return tuple(source(column) for column in output)


@dataclass(frozen=True)
class Output:
    """Builds batches of results: ``sources[i]`` tells where column i of the ``schema`` comes
    from. ``exact``: is the key its own code?"""

    schema: pa.Schema
    sources: tuple[Source, ...]
    exact: bool

    def rows(self, sides: dict[int, Side]) -> Iterator[pa.RecordBatch]:
        """One result row for each combination of positions; the columns of a stream that is
        not there are null."""
        return self._pieces(sides)

    def alone(
        self, stream: int, rows: pa.RecordBatch, chosen: Positions, *, punctuation: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """One result row for each chosen row of one stream, in pieces, all other
        streams' columns null."""
        size = piece_rows(rows)
        for start in range(0, len(chosen), size):
            side = rows, chosen[start : start + size]
            yield from self._pieces({stream: side}, punctuation=punctuation)

    def _pieces(
        self, sides: dict[int, Side], *, punctuation: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The rows at those positions, as one batch. If wide values do not fit into one
        (Arrow's limit is 2 GiB a column), as several."""
        count = len(next(iter(sides.values()))[1])
        if count == 0:
            return
        try:
            yield self._build(sides, count, punctuation=punctuation)
        except pa.ArrowInvalid:
            if count == 1:
                raise
            for half in (slice(None, count // 2), slice(count // 2, None)):
                halved = {s: (rows, at[half]) for s, (rows, at) in sides.items()}
                yield from self._pieces(halved, punctuation=punctuation)

    def _build(
        self, sides: dict[int, Side], count: int, *, punctuation: bool = False
    ) -> pa.RecordBatch:
        indices = {stream: pa.array(positions) for stream, (_, positions) in sides.items()}

        def take(stream: int, stored: str) -> pa.Array:
            return sides[stream][0].column(stored).take(indices[stream])

        def column(source: Source, target: pa.DataType) -> pa.Array:
            if source.key is not None:
                holder = next(iter(sides))
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
            return take(source.stream, source.stored)

        columns = [
            column(source, field.type)
            for source, field in zip(self.sources, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
