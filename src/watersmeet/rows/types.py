"""Spark's types and Arrow's, in one canonical form.

The same column may reach Python in different Arrow types: timestamps have the session's time zone,
and Spark's optimizer decides which fields are nullable; text of another library has longer offsets,
or is in a dictionary. Stored rows must not depend on that, so they are kept with every timestamp in
UTC and microseconds, and every field nullable, at every depth. Spark gets them back in its own
types.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: The digits of Arrow's longest decimals: twice those of Spark's.
_MOST_DIGITS = 76
UTC = pa.timestamp("us", "UTC")
_LOCAL_TIME = pa.timestamp("us")
#: Other forms of lists, and of atomic types, than those that Spark uses.
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_ALIASES = (
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
)

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
    _LOCAL_TIME: "timestamp_ntz",
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
    """The same rows in their canonical types; usually nothing is copied. (Of nanoseconds, which
    Spark has not, whole microseconds are left.)"""
    schema = canonical_schema(rows.schema)
    return rows if schema.equals(rows.schema) else rows.cast(schema, safe=False)


def _canonical_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _canonical(field.type))


def _canonical(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return UTC if kind.tz else _LOCAL_TIME
    if pa.types.is_struct(kind):
        return pa.struct([_canonical_field(field) for field in kind])
    if any(is_list(kind) for is_list in _LISTS):
        return pa.list_(_canonical_field(kind.value_field))
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_canonical(kind.key_type))
        return pa.map_(key, _canonical_field(kind.item_field))
    if pa.types.is_dictionary(kind):
        return _canonical(kind.value_type)
    return next((canonical for is_kind, canonical in _ALIASES if is_kind(kind)), kind)


def widened(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers in a type that holds them all, or nearly: rounded as Spark rounds them. (Other values
    have the type already.)

    >>> widened(pa.array([9007199254740993, -1]), pa.float64()).to_pylist()
    [9007199254740992.0, -1.0]
    >>> half = pa.array([0.5]).cast(pa.decimal128(38, 38))
    >>> widened(half, pa.decimal128(38, 0)).to_pylist()
    [Decimal('1')]
    """
    if numbers.type == kind:
        return numbers
    if pa.types.is_decimal(kind):
        scale = numbers.type.scale if pa.types.is_decimal(numbers.type) else 0
        exact = numbers.cast(pa.decimal256(_MOST_DIGITS, scale))
        return pc.round(exact, kind.scale, round_mode="half_towards_infinity").cast(kind)
    if pa.types.is_decimal(numbers.type):
        # Arrow's cast to a double is off by a bit now and then. A number's text is read exactly.
        return numbers.cast(pa.string()).cast(kind)
    return numbers.cast(kind, safe=False)


def in_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a canonical type in Spark's own, in which nested fields may be NOT NULL.

    Such a field has no null but within a null: of a row without a match, for example. What stands
    there nobody reads, and Arrow's cast refuses a null.

    >>> kind = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    >>> in_type(pa.array([None, {"a": 1}], pa.struct([("a", pa.int64())])), kind).to_pylist()
    [None, {'a': 1}]
    """
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        children = [_in_field(values.field(i), field) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=[*kind], mask=values.is_null())
    if pa.types.is_map(kind):
        return _with_elements(values, kind, pa.struct([kind.key_field, kind.item_field]))
    if pa.types.is_list(kind):
        return _with_elements(values, kind, kind.value_type, nullable=kind.value_field.nullable)
    return values.cast(kind)


def rows_in(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of canonical types in Spark's own, as the schema says; nothing is copied if these are
    the same."""
    columns = [
        in_type(column, field.type) for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_elements(
    values: pa.Array, kind: pa.DataType, element: pa.DataType, *, nullable: bool = False
) -> pa.Array:
    """Lists or maps in a type with such elements."""
    elements = _in_field(values.values, pa.field("", element, nullable))
    buffers = values.buffers()[: kind.num_buffers]
    return pa.Array.from_buffers(
        kind, len(values), buffers, offset=values.offset, children=[elements]
    )


def _in_field(values: pa.Array, field: pa.Field) -> pa.Array:
    values = in_type(values, field.type)
    return values if field.nullable or not values.null_count else _without_nulls(values)


def _without_nulls(values: pa.Array) -> pa.Array:
    """The values, and in the place of each null whatever the memory holds there."""
    kind = values.type
    if pa.types.is_null(kind):
        return values
    if pa.types.is_struct(kind):
        children = [values.field(i) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=[*kind])
    nested = pa.types.is_list(kind) or pa.types.is_map(kind)
    return pa.Array.from_buffers(
        kind,
        len(values),
        [None, *values.buffers()[1 : kind.num_buffers]],
        offset=values.offset,
        children=[values.values] if nested else None,
    )
