"""How wide rows are: the bytes that each takes, and cutting rows by them.

Invariant: a part of some rows takes at most the limit, or is a single row. So no array that is made
of it comes near the 2 GiB that offsets of strings, binaries and lists can reach. (Arrow notices
that for some types only: a list of numbers gets wrong offsets, without an error.)

Rule: rows are measured, not estimated by their average. Of a thousand short rows and a long one,
it may be the long one that matches a million times.

A value takes a fixed number of bits, and the bytes that its offsets, if it has any, point to:

    number, time, boolean   its own bits
    string, binary          an offset, and the bytes from this one to the next
    list, map               an offset, and the elements from this one to the next
    struct                  the sum over its fields
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.rows.columns import Ints, Positions

_OFFSET_BITS = 32


def row_bytes(rows: pa.RecordBatch, positions: Positions) -> Ints | int:
    """The bytes that each of the rows at these positions takes; one number if all rows take the
    same. In the example, a row has 8 bytes for the number, 4 for the offset, and those of its text.

    >>> rows = pa.RecordBatch.from_pydict({"n": [1, 2], "text": ["", "seven b"]})
    >>> row_bytes(rows, np.array([1, 0, 1])).tolist(), row_bytes(rows.select(["n"]), np.array([1]))
    ([19, 12, 19], 8)
    """
    fixed = -(-sum(_fixed_bits(column.type) for column in rows.columns) // 8)
    varying = [column for column in rows.columns if _varies(column.type)]
    if not varying or not len(positions):
        return fixed
    total: Ints = np.full(len(positions), fixed, dtype=np.int64)
    start = positions.astype(np.intp, copy=False)  # once, not for every column
    for column in varying:
        _add_pointed_to(total, column, start, None)
    return total


def range_bytes(rows: pa.RecordBatch, low: Positions, high: Positions) -> Ints:
    """The bytes that the rows of each range take together, from ``low`` to before ``high``. If the
    rows are mapped, only the offsets at both ends are touched.

    >>> rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "text": ["", "seven b", "x"]})
    >>> range_bytes(rows, np.array([0, 1, 2]), np.array([2, 3, 2])).tolist()
    [31, 32, 0]
    """
    bits = sum(_fixed_bits(column.type) + bool(column.null_count) for column in rows.columns)
    total: Ints = -(-(high - low).astype(np.int64) * bits // 8)
    for column in rows.columns:
        _add_pointed_to(total, column, low, high)
    return total


def cuts(widths: Ints | int, count: int, limit: int) -> Iterator[slice]:
    """Cuts ``count`` rows into parts of neighbours, as long as ``limit`` bytes allow. A row that
    is wider is alone.

    >>> [(cut.start, cut.stop) for cut in cuts(np.array([3, 4, 5, 20, 1]), 5, 12)]
    [(0, 3), (3, 4), (4, 5)]
    """
    if isinstance(widths, int):
        size = max(1, limit // widths if widths else count)
        yield from (slice(start, min(start + size, count)) for start in range(0, count, size))
        return
    ends = np.cumsum(widths)
    start, taken = 0, 0
    while start < count:
        stop = max(start + 1, int(np.searchsorted(ends, taken + limit, side="right")))
        yield slice(start, stop)
        start, taken = stop, int(ends[stop - 1])


def sliced(rows: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """The rows in order, cut into slices of at most ``limit`` bytes, or of one row.

    >>> rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3, 4, 5]})
    >>> [len(part) for part in sliced(rows, 16)]
    [2, 2, 1]
    """
    if len(rows) and rows.nbytes <= limit:
        yield rows
        return
    for cut in cuts(row_bytes(rows, np.arange(len(rows))), len(rows), limit):
        yield rows.slice(cut.start, cut.stop - cut.start)


def _fixed_bits(kind: pa.DataType) -> int:
    """The bits that every value of the type takes."""
    if pa.types.is_struct(kind):
        return sum(_fixed_bits(field.type) for field in kind)
    if _varies(kind):
        return _OFFSET_BITS
    return 0 if pa.types.is_null(kind) else int(kind.bit_width)


def _varies(kind: pa.DataType) -> bool:
    """Do values of the type take different numbers of bytes?"""
    if pa.types.is_struct(kind):
        return any(_varies(field.type) for field in kind)
    try:
        return kind.bit_width is None
    except ValueError:
        return not pa.types.is_null(kind)


def _add_pointed_to(total: Ints, array: pa.Array, start: Positions, stop: Positions | None) -> None:
    """Add the bytes that the offsets of values point to: for the values from each start to its
    stop; or, if that is None, for the one value at each start."""
    kind = array.type
    if not _varies(kind):
        return
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            _add_pointed_to(total, array.field(number), start, stop)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        low, high = _ends(np.frombuffer(array.buffers()[1], np.int32)[array.offset :], start, stop)
        total += high - low
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        low, high = _ends(array.offsets.to_numpy(), start, stop)
        total += (high - low) * np.int64(_fixed_bits(array.values.type)) // 8
        _add_pointed_to(total, array.values, low, high)
    elif len(array):
        # Spark makes no arrays of other types. In a local run, their values are taken to be even.
        total += -(-array.nbytes // len(array)) * (1 if stop is None else stop - start)


def _ends(
    offsets: npt.NDArray[np.int32], start: Positions, stop: Positions | None
) -> tuple[Positions, Positions]:
    """Where the content that the offsets point to starts and stops."""
    return offsets.take(start), offsets[1:].take(start) if stop is None else offsets.take(stop)
