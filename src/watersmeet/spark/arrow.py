"""Spark's types as Arrow's, in one canonical form.

The same column reaches Python in different Arrow types: timestamps in the
session's time zone, fields nullable or not as Spark's optimizer found out.
Stored rows must not depend on that, so they are kept with every timestamp in
UTC and every field nullable.
"""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from watersmeet.errors import UnsupportedTypeError

_UTC = pa.timestamp("us", "UTC")
#: Spark 4.1 and 4.2 use UTC without being told.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: T.StructType, stream: str) -> pa.Schema:
    """The canonical Arrow schema of a stream's rows."""
    fields = []
    for field in schema:
        try:
            fields.append(to_arrow_schema(T.StructType([field]), **_IN_UTC).field(0))
        except (PySparkException, TypeError) as error:
            raise UnsupportedTypeError(
                f"column {field.name!r} of stream {stream!r} is of type "
                f"{field.dataType.simpleString()}, which Spark cannot hand to Python: "
                "cast it, or leave it out with .drop()"
            ) from error
    return pa.schema([_canonical_field(field) for field in fields])


def canonical_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in their canonical types; usually nothing is copied."""
    schema = pa.schema([_canonical_field(field) for field in rows.schema])
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _canonical_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _canonical(field.type))


def _canonical(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return _UTC if kind.tz else kind
    if pa.types.is_struct(kind):
        return pa.struct([_canonical_field(field) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_canonical_field(kind.value_field))
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_canonical(kind.key_type))
        return pa.map_(key, _canonical_field(kind.item_field))
    return kind
