"""The columns that stored rows have besides the user's own, and how they are read.

A stored row has

    #code         int64, by which rows are dealt out, sorted and probed; null: matches nothing
    #time         timestamp, if the stream has a time
    #key0..       the key columns, unless the code is the key itself
    #0..          every other column of the user's that is needed, in the order of their names
    #punctuation  is it a punctuation? With ``#low`` and ``#high``, the bounds of a range
    #home         is it to be stored in this shard? (:class:`watersmeet.rows.route.StoredInOne`)
    #check        a second hash of its content: a row without a key is known by its code and this
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CODE = "#code"
TIME = "#time"
PUNCTUATION = "#punctuation"
LOW = "#low"
HIGH = "#high"
HOME = "#home"
CHECK = "#check"

_BEFORE_ALL = -(2**63)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
#: Where rows are, in a record batch.
Positions = npt.NDArray[np.integer]


def key_name(position: int) -> str:
    """The stored name of a hashed key column."""
    return f"#key{position}"


def value_name(position: int) -> str:
    """The stored name of a column that is only carried along."""
    return f"#{position}"


def codes_of(rows: pa.RecordBatch) -> Ints:
    """The key codes of rows without null codes."""
    codes: Ints = rows.column(CODE).to_numpy(zero_copy_only=True)
    return codes


def has_code(rows: pa.RecordBatch) -> Bools:
    """Which rows have a code. Data without one matches nothing; a punctuation without one is
    about more than one key."""
    valid: Bools = rows.column(CODE).is_valid().to_numpy(zero_copy_only=False)
    return valid


def codes_or_zero(rows: pa.RecordBatch) -> Ints:
    """The key codes of rows, zero for a null."""
    codes: Ints = rows.column(CODE).fill_null(0).to_numpy(zero_copy_only=False)
    return codes


def times_of(rows: pa.RecordBatch) -> Ints:
    """The times of rows in microseconds; zeros for a stream without time. A null is before all
    times: within a window, it is near none, and has expired."""
    if TIME not in rows.schema.names:
        return np.zeros(len(rows), dtype=np.int64)
    times = rows.column(TIME).view(pa.int64()).fill_null(_BEFORE_ALL)
    found: Ints = times.to_numpy(zero_copy_only=True)
    return found


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch with the rows of all."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
