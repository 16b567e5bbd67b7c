"""From matched positions to rows of the result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.operators.layout import JoinLayout, Source, from_code, key_name
from watersmeet.operators.probe import PIECE
from watersmeet.state.segment import CODE, TIME

Positions = npt.NDArray[np.integer]
Side = tuple[pa.RecordBatch, Positions]


class Output:
    """Builds result batches, in the layout's output schema."""

    def __init__(self, layout: JoinLayout) -> None:
        self._layout = layout

    def pairs(self, first: Side, second: Side) -> pa.RecordBatch:
        """One result row for each pair of positions."""
        return self._build({0: first, 1: second}, len(first[1]))

    def alone(
        self, stream: int, rows: pa.RecordBatch, chosen: Positions
    ) -> Iterator[pa.RecordBatch]:
        """One result row for each chosen row of one stream, in pieces, the other
        stream's columns null."""
        for start in range(0, len(chosen), PIECE):
            piece = chosen[start : start + PIECE]
            yield self._build({stream: (rows, piece)}, len(piece))

    def _build(self, sides: dict[int, Side], count: int) -> pa.RecordBatch:
        indices = {stream: pa.array(positions) for stream, (_, positions) in sides.items()}

        def take(stream: int, stored: str) -> pa.Array:
            return sides[stream][0].column(stored).take(indices[stream])

        def column(source: Source, target: pa.DataType) -> pa.Array:
            if source.key is not None:
                holder = next(iter(sides))
                if self._layout.exact:
                    return from_code(take(holder, CODE), target)
                return take(holder, key_name(source.key))
            if source.stored is None:
                times = [take(stream, TIME).view(pa.int64()).to_numpy() for stream in sides]
                return pa.array(np.maximum.reduce(times)).view(target)
            assert source.stream is not None, "a stored column belongs to a stream"
            if source.stream not in sides:
                return pa.nulls(count, target)
            return take(source.stream, source.stored)

        schema = self._layout.output
        columns = [
            column(source, field.type)
            for source, field in zip(self._layout.sources, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
