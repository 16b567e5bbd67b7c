"""Encoding rows by their layout, over Arrow arrays: the local counterpart of Spark's."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from watersmeet.rows.codes import canonical_key, content_hash, exact_code, hashed_code
from watersmeet.rows.layout import Code, Content, Encoding, Flag, Key, RowLayout
from watersmeet.rows.types import arrow_type, canonical_rows, widened


def encoded(rows: pa.RecordBatch, layout: RowLayout) -> pa.RecordBatch:
    """The user's rows as they are stored."""
    rows = canonical_rows(rows)
    columns = {name: _column(rows, encoding) for name, encoding in layout.columns}
    return pa.RecordBatch.from_pydict(columns)


def _column(rows: pa.RecordBatch, encoding: Encoding) -> pa.Array:
    if isinstance(encoding, Flag):
        return flags(rows, encoding.when)
    if isinstance(encoding, Key):
        return canonical_key(widened(rows.column(encoding.column), arrow_type(encoding.type)))
    if isinstance(encoding, Code):
        keys = [_column(rows, key) for key in encoding.keys]
        return exact_code(keys[0]) if encoding.exact else hashed_code(keys)
    if isinstance(encoding, Content):
        return content_hash(rows.select(encoding.columns), seed=int(encoding.complete))
    return rows.column(encoding.column)


def flags(rows: pa.RecordBatch, when: str) -> pa.Array:
    """For which rows a condition in SQL holds. (In Polars' SQL: for simple conditions it means
    what Spark's means.)"""
    frame = pl.DataFrame(pl.from_arrow(rows))
    return frame.select(pl.sql_expr(when).fill_null(False)).to_series().to_arrow()
