"""Streams of Arrow tables, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from watersmeet import durations
from watersmeet.errors import PunctuationError
from watersmeet.rows.columns import concat
from watersmeet.rows.encode import encoded, flags
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.types import arrow_type, canonical_schema, spark_name
from watersmeet.spec.output import OutputColumn
from watersmeet.spec.stream import Arrival, Column, Punctuation, StreamSpec, check_expected
from watersmeet.testing.tables import Table, rows_of, schema_of


@dataclass(frozen=True)
class LocalStream:
    """One input of a :class:`LocalJoin`: its columns, and what ``wm.stream`` takes. The columns are
    a schema, or that of a table: Arrow's, or of a DataFrame of pandas or Polars.

    ``watermarked``: the stream brings its own watermark, as a DataFrame after ``withWatermark``
    does, and ``delay`` is that watermark's."""

    schema: pa.Schema
    time: str | None = None
    delay: str | timedelta | None = None
    watermarked: bool = False
    rows_per_second: float | None = None
    distinct_keys: float | None = None
    unique: bool = False
    arrival: Arrival | None = None
    punctuation: Punctuation | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", schema_of(self.schema))


def stream_spec(name: str, stream: LocalStream) -> StreamSpec:
    expected = stream.rows_per_second, stream.distinct_keys
    check_expected(name, rows_per_second=expected[0], distinct_keys=expected[1])
    delay = None
    if stream.delay is not None:
        delay = durations.parse(stream.delay, argument=f"delay of stream {name!r}")
    return StreamSpec(
        name,
        tuple(Column(f.name, spark_name(f.type)) for f in canonical_schema(stream.schema)),
        streaming=True,
        time=stream.time,
        delay=delay,
        watermarked=stream.watermarked,
        rows_per_second=stream.rows_per_second,
        distinct_keys=stream.distinct_keys,
        unique=stream.unique,
        arrival=stream.arrival,
        punctuation=stream.punctuation,
        prefix=stream.prefix,
    )


def check_condition(name: str, stream: LocalStream) -> None:
    """Is the condition that marks a stream's punctuations one over its columns?"""
    if stream.punctuation is None:
        return
    when = stream.punctuation.when
    try:
        kind = flags(pa.RecordBatch.from_pylist([], stream.schema), when).type
    except Exception as error:
        raise PunctuationError(
            f"stream {name!r}: punctuation: when={when!r} is not a condition over its columns "
            f"{', '.join(stream.schema.names)}: {error}"
        ) from error
    if kind != pa.bool_():
        raise PunctuationError(
            f"stream {name!r}: punctuation: when={when!r} is of type {kind}; it must be a "
            "condition, like \"kind = 'end'\"."
        )


def result_schema(output: Sequence[OutputColumn], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of a result of inputs with such columns."""
    return pa.schema([(column.name, _type_of(column, schemas)) for column in output])


def _type_of(column: OutputColumn, schemas: Sequence[pa.Schema]) -> pa.DataType:
    if column.key is None and column.stream is not None and column.column is not None:
        return schemas[column.stream].field(column.column).type
    return arrow_type(column.type)


def stored(
    given: Table | None, name: str, schema: pa.Schema, layout: RowLayout
) -> pa.RecordBatch | None:
    """Rows of a stream of that name and schema, as they are stored; None if there are none."""
    table = None if given is None else rows_of(given, name, schema)
    if table is None or table.num_rows == 0:
        return None
    return encoded(concat(table.combine_chunks().to_batches()), layout)
