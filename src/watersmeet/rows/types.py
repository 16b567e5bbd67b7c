"""Spark's types and Arrow's, in one canonical form.

The same column may reach Python in different Arrow types: timestamps have the session's time zone,
and Spark's optimizer decides which fields are nullable. Stored rows must not depend on that, so
they are kept with every timestamp in UTC and every field nullable.
"""

from __future__ import annotations

import pyarrow as pa

UTC = pa.timestamp("us", "UTC")

_SPARK_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    UTC: "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_ARROW_TYPES = {name: kind for kind, name in _SPARK_NAMES.items()}


def spark_name(kind: pa.DataType) -> str:
    """Spark's short name of a canonical Arrow type.

    >>> spark_name(pa.int64()), spark_name(pa.decimal128(10, 2))
    ('bigint', 'decimal(10,2)')
    """
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_NAMES.get(kind, str(kind))


def arrow_type(name: str) -> pa.DataType:
    """The canonical Arrow type of an atomic Spark type, by its short name."""
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW_TYPES[name]


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in canonical types."""
    return pa.schema([_canonical_field(field) for field in schema])


def canonical_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in their canonical types; usually nothing is copied."""
    schema = canonical_schema(rows.schema)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _canonical_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _canonical(field.type))


def _canonical(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return UTC if kind.tz else kind
    if pa.types.is_struct(kind):
        return pa.struct([_canonical_field(field) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_canonical_field(kind.value_field))
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_canonical(kind.key_type))
        return pa.map_(key, _canonical_field(kind.item_field))
    return kind
