"""How the rows of each input of a join are stored, and how the user's columns are read from
them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.rows.codes import from_code
from watersmeet.rows.columns import CODE
from watersmeet.rows.layout import RowLayout, row_layout
from watersmeet.spec.join import JoinSpec


@dataclass(frozen=True)
class InputLayout:
    """One input, by its ``name``: how its ``rows`` are stored, and the ``types`` that the user's
    columns have."""

    name: str
    rows: RowLayout
    types: dict[str, pa.DataType]

    def read(self, rows: pa.RecordBatch, column: str) -> pa.Array:
        """A column of the user's, from stored rows."""
        stored = self.rows.stored[column]
        values = rows.column(stored)
        return from_code(values, self.types[column]) if stored == CODE else values

    def read_at(self, rows: pa.RecordBatch, positions: np.ndarray, column: str) -> pa.Array:
        """A column of the user's, from the stored rows at some positions."""
        stored = self.rows.stored[column]
        return self.read(rows.select([stored]).take(pa.array(positions)), column)


def keyed_layouts(spec: JoinSpec, read: Iterable[tuple[int, str]] = ()) -> list[RowLayout]:
    """How the rows of each input of a join by key are stored. Conditions ``read`` some columns,
    each given by the input's position and the column's name."""
    read = [*read]
    layouts = []
    for i, stream in enumerate(spec.streams):
        needed = needed_columns(spec, i, (c for n, c in read if n == i))
        as_came = needed if spec.leaves_keys else ()
        layouts.append(
            row_layout(stream, spec.keys[i], spec.key_types, needed=needed, as_came=as_came)
        )
    return layouts


def needed_columns(spec: JoinSpec, position: int, read: Iterable[str]) -> set[str]:
    """The columns of an input that are stored: those that the result needs, or that conditions
    ``read``."""
    output = {column.column for column in spec.output if column.stream == position}
    return {name for name in output if name is not None} | {*read}
