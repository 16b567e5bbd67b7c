"""Codes of keys, over Arrow arrays: the same that Spark computes in SQL, and the way back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


def canonical_key(key: pa.Array) -> pa.Array:
    """Equal keys as equal bytes: one NaN, and no negative zero.

    >>> canonical_key(pa.array([-0.0, 1.5, None])).to_pylist()
    [0.0, 1.5, None]
    """
    if not pa.types.is_floating(key.type):
        return key
    key = pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), key)
    return pc.if_else(pc.equal(key, pa.scalar(0, key.type)), pa.scalar(0, key.type), key)


def exact_code(key: pa.Array) -> pa.Array:
    """The value of an integral, date or timestamp key as its code."""
    if pa.types.is_timestamp(key.type):
        return key.view(pa.int64())
    return (key.view(pa.int32()) if pa.types.is_date32(key.type) else key).cast(pa.int64())


def hashed_code(keys: Sequence[pa.Array]) -> pa.Array:
    """The hash of canonical keys as their code; null where one of them is."""
    frame = pl.DataFrame({str(i): pl.from_arrow(key) for i, key in enumerate(keys)})
    codes = frame.hash_rows(seed=0).to_numpy().view(np.int64)
    null = np.logical_or.reduce([key.is_null().to_numpy(zero_copy_only=False) for key in keys])
    return pa.array(codes, mask=null)


def content_hash(rows: pa.RecordBatch, *, seed: int = 0) -> pa.Array:
    """For each row, a hash of all of its values; never null. Numbers go by their bits: Polars' own
    hash takes -0.0 for 0.0.

    >>> rows = pa.RecordBatch.from_pydict({"a": [1, None, 1], "b": [[None], [2], [None]]})
    >>> one, two, three = content_hash(rows).to_pylist()
    >>> one == three, one == two
    (True, False)
    >>> len(set(content_hash(pa.RecordBatch.from_pydict({"a": [0.0, -0.0]})).to_pylist()))
    2
    """
    if not rows.num_columns:
        return pa.array(np.zeros(len(rows), dtype=np.int64))
    bits = [column.view(_of_bits(column.type)) for column in rows.columns]
    frame = pl.DataFrame(pl.from_arrow(pa.RecordBatch.from_arrays(bits, rows.schema.names)))
    return pa.array(frame.hash_rows(seed=seed).to_numpy().view(np.int64))


def _of_bits(kind: pa.DataType) -> pa.DataType:
    """A type, with integers of as many bits in the place of floating-point numbers.

    >>> _of_bits(pa.list_(pa.float32()))
    ListType(list<item: int32>)
    """
    if pa.types.is_floating(kind):
        return pa.int64() if kind.bit_width == 64 else pa.int32()
    if pa.types.is_map(kind):
        return pa.map_(_of_bits(kind.key_type), _of_bits(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_of_bits(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_of_bits(field.type)) for field in kind])
    return kind


def from_code(codes: pa.Array, target: pa.DataType) -> pa.Array:
    """The values of an exact key, from its codes."""
    if pa.types.is_timestamp(target):
        return codes.view(target)
    if pa.types.is_date32(target):
        return pc.cast(codes, pa.int32()).view(target)
    return pc.cast(codes, target)
