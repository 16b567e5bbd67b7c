"""Keys behind codes: are two keys with equal codes equal, and how does a key read?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.codes import from_code
from watersmeet.rows.columns import CODE, Bools, Ints, Positions
from watersmeet.rows.input_layout import InputLayout
from watersmeet.rows.widths import cuts, row_bytes
from watersmeet.spec.limits import Limits

#: Messages give this many characters of a key.
_LONG = 100


class KeyColumns(Protocol):
    """Where stored keys are: is the code the key itself? If not, in which columns are they?"""

    @property
    def exact(self) -> bool: ...
    @property
    def key_columns(self) -> Sequence[str]: ...
    @property
    def limits(self) -> Limits: ...


def same_keys(
    layout: KeyColumns,
    ours: pa.RecordBatch,
    others: pa.RecordBatch,
    mine: Positions,
    theirs: Positions,
    *,
    widest: int | None = None,
) -> Bools:
    """Which pairs with equal codes have equal keys. The rows of a pair take at most ``widest``
    bytes, if that is given: then narrow rows are not measured."""
    equal = np.ones(len(mine), dtype=np.bool_)
    for name in () if layout.exact else layout.key_columns:
        left, right = ours.select([name]), others.select([name])
        widths: Ints | int = widest or 0
        if widest is None or widest * len(mine) > layout.limits.piece_bytes:
            widths = row_bytes(left, mine) + row_bytes(right, theirs)
        for cut in cuts(widths, len(mine), layout.limits.piece_bytes):
            pair = left.take(pa.array(mine[cut])), right.take(pa.array(theirs[cut]))
            equal[cut] &= _equal(*(side.column(0) for side in pair))
    return equal


def key_at(layout: KeyColumns, given: InputLayout, rows: pa.RecordBatch, position: int) -> object:
    """The key of one row of an input, for a person to read. A message must not fail because of it.
    So a value for which Python has no object (a date in the year 10000, a string that is not UTF-8)
    is given as Arrow's text or as bytes. A long value is cut."""
    row = rows.slice(position, 1)
    if layout.exact:
        column = next(name for name, stored in given.rows.stored.items() if stored == CODE)
        values = [from_code(row.column(CODE), given.types[column])]
    else:
        values = [row.column(name) for name in layout.key_columns]
    readable = tuple(_shortened(_readable(value)) for value in values)
    return readable[0] if len(readable) == 1 else readable


def _shortened(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONG:
        return value[:_LONG] + "..."
    return value[:_LONG] + b"..." if isinstance(value, bytes) and len(value) > _LONG else value


def _readable(value: pa.Array) -> object:
    try:
        return value[0].as_py()
    except UnicodeDecodeError:
        return value.cast(pa.binary())[0].as_py()
    except (ValueError, OverflowError):
        return value.cast(pa.string())[0].as_py()


def _equal(left: pa.Array, right: pa.Array) -> Bools:
    """Which keys are equal, as in a SQL join: NaN equals NaN. (The runtime has replaced -0.0 by
    0.0.)"""
    if pa.types.is_floating(left.type):
        a, b = left.to_numpy(), right.to_numpy()
        same: Bools = (a == b) | (np.isnan(a) & np.isnan(b))
    else:
        same = pc.equal(left, right).to_numpy(zero_copy_only=False)
    return same
