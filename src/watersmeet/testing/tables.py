"""Tables that a local run is given: Arrow's, or DataFrames of pandas and Polars."""

from __future__ import annotations

from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from watersmeet.errors import PlanError, UnknownColumnError, UnsupportedTypeError, did_you_mean
from watersmeet.rows.types import canonical_rows, canonical_schema, spark_name

#: A ``pyarrow.Table`` (or record batch), or a DataFrame of pandas or Polars. (pandas is not
#: imported for its type alone.)
Table: TypeAlias = Any

_KINDS = "an Arrow table, or a DataFrame of pandas or Polars"


def schema_of(given: pa.Schema | pl.Schema | Table) -> pa.Schema:
    """The columns of a stream, given as a schema, or as a table that has them.

    >>> schema_of(pl.DataFrame({"ad": ["a"]}))
    ad: string
    """
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, pl.Schema):
        given = pl.DataFrame(schema=given)
    if _is_pandas(given):
        return canonical_schema(
            pa.Schema.from_pandas(given, preserve_index=False)
        ).remove_metadata()
    table = _arrow_table(given)
    if table is None:
        raise PlanError(f"schema: {given!r} has no columns. Give an Arrow schema, {_KINDS}.")
    return canonical_schema(table.schema).remove_metadata()


def rows_of(given: Table, name: str, schema: pa.Schema) -> pa.Table:
    """The rows of a table for the stream or table of that name, which has such columns; or what is
    wrong with them."""
    table = _of_pandas(given, name, schema) if _is_pandas(given) else _arrow_table(given)
    if table is None:
        kind = type(given).__name__
        raise PlanError(f"the rows of {name!r} are a {kind}, not a table: give {_KINDS}.")
    for column in schema.names:
        if column not in table.column_names:
            known = [*map(str, given.columns)] if _is_pandas(given) else table.column_names
            raise UnknownColumnError(
                f"the rows of {name!r} have no column {column!r}.{did_you_mean(column, known)} "
                f"They have {_listed(known)}; the schema says {_listed(schema.names)}."
            )
    table, canonical = table.select(schema.names), canonical_schema(schema)
    for found, field in zip(canonical_schema(table.schema), canonical, strict=True):
        if found.type not in (field.type, pa.null()):
            raise _of_another_type(name, field, spark_name(found.type))
    batches = [canonical_rows(batch).cast(canonical) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, canonical)


def _arrow_table(given: Table) -> pa.Table | None:
    if isinstance(given, pl.DataFrame):
        return given.to_arrow()
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    return given if isinstance(given, pa.Table) else None


def _of_pandas(given: Table, name: str, schema: pa.Schema) -> pa.Table:
    """The columns of a schema that a DataFrame of pandas has. Its objects have the type that the
    schema says; whole numbers are floating-point numbers where some are missing."""
    arrays = {}
    for field in canonical_schema(schema):
        if field.name in given.columns:
            values = given[field.name]
            said = values.dtype == object or (values.dtype.kind == "f" and _is_whole(field.type))
            try:
                kind = field.type if said else None
                arrays[field.name] = pa.array(values, kind, from_pandas=True)
            except (pa.ArrowException, OverflowError) as error:
                raise _of_another_type(name, field, f"{values.dtype}: {error}") from error
    return pa.table(arrays)


def _of_another_type(name: str, field: pa.Field, given: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"column {field.name!r} in the rows of {name!r} is of type {given}; the schema says "
        f"{spark_name(field.type)}. Cast it, or give the stream the schema that its rows have."
    )


def _is_pandas(given: object) -> bool:
    return type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns")


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _listed(names: list[str]) -> str:
    return ", ".join(map(str, names)) or "none"
