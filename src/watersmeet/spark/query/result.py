"""What the DataFrames of all joins have in common: their columns, and their event time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet import durations
from watersmeet.spark.query.arrow import arrow_schema
from watersmeet.spark.query.encode import spark_type
from watersmeet.spark.query.inputs import AHEAD, WATERMARK, quoted
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.output import EVENT_TIME


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
        arrow_schema(df.schema, given.name) for df, given in zip(frames, spec.streams, strict=True)
    ]
    return inputs, arrow_schema(result_schema(spec, frames), "result")


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
