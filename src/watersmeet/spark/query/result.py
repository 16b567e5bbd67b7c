"""What the DataFrames of all joins have in common: their columns, and their event time."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from watersmeet import durations
from watersmeet.errors import UnsupportedTypeError
from watersmeet.rows.types import canonical_schema
from watersmeet.spark.query.encode import spark_type
from watersmeet.spark.query.inputs import AHEAD, WATERMARK, quoted
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.output import EVENT_TIME

#: Spark 4.1 and 4.2 use UTC without being told.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def result_schema(spec: JoinSpec, frames: Sequence[DataFrame]) -> T.StructType:
    """The result's columns, in Spark's types."""
    fields = []
    for column in spec.output:
        if column.stream is None or column.column is None or column.key is not None:
            kind: T.DataType = T.DataType.fromDDL(spark_type(column.type))
        else:
            kind = frames[column.stream].schema[column.column].dataType
        fields.append(T.StructField(column.name, kind))
    return T.StructType(fields)


def arrow_schemas(spec: JoinSpec, frames: Sequence[DataFrame]) -> tuple[list[pa.Schema], pa.Schema]:
    """The columns of each input, and the result's, in Arrow's types."""
    inputs = [
        _arrow_schema(df.schema, given.name) for df, given in zip(frames, spec.streams, strict=True)
    ]
    return inputs, _arrow_schema(result_schema(spec, frames), "result")


def _arrow_schema(schema: T.StructType, stream: str) -> pa.Schema:
    """The canonical Arrow schema of a stream's rows."""
    return canonical_schema(spark_types(schema, stream))


def spark_types(schema: T.StructType, stream: str = "result") -> pa.Schema:
    """The Arrow types that Spark itself has for such columns."""
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
    return pa.schema(fields)


def with_event_time(spec: JoinSpec, results: DataFrame) -> DataFrame:
    """Tell Spark that ``event_time`` is the event time, if the result has one, so that what comes
    after the join in the same query can use the watermark."""
    if not spec.streaming or not spec.carries_event_time:
        return results
    metadata = {
        WATERMARK: durations.milliseconds(spec.delay + spec.hold),
        AHEAD: durations.milliseconds(spec.ahead),
    }
    marked = F.col(EVENT_TIME).alias(EVENT_TIME, metadata=metadata)
    others = [F.col(quoted(column.name)) for column in spec.output if column.name != EVENT_TIME]
    return results.select(*others, marked)
