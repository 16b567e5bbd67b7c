"""The equality join on Spark: from a plan and the streams' DataFrames to the DataFrame of
results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet import durations
from watersmeet.operators.equi.layout import EquiLayout, lay_out
from watersmeet.operators.equi.step import EquiJoin
from watersmeet.rows.predicate import Predicate
from watersmeet.rows.route import ByKey
from watersmeet.spark.arrow import arrow_schema
from watersmeet.spark.encode import encoded, spark_type
from watersmeet.spark.inputs import WATERMARK, quoted
from watersmeet.spark.query import Hop, Source, run
from watersmeet.spec.equi import EquiSpec
from watersmeet.spec.output import EVENT_TIME
from watersmeet.spec.policy import EquiPolicy
from watersmeet.spec.stream import StreamSpec


def build(
    spec: EquiSpec, policy: EquiPolicy, predicate: Predicate | None, frames: Sequence[DataFrame]
) -> DataFrame:
    """The join as a DataFrame, streaming or batch as its inputs are."""
    schema = result_schema(spec, frames)
    layout = lay_out(
        spec,
        policy,
        predicate,
        schemas=[
            arrow_schema(df.schema, s.name) for df, s in zip(frames, spec.streams, strict=True)
        ],
        output=arrow_schema(schema, "result"),
    )
    sources = [
        Source(
            encoded(df, given.rows),
            ByKey(),
            _delay(spec, stream),
        )
        for df, stream, given in zip(frames, spec.streams, layout.inputs, strict=True)
    ]
    results = run(
        sources,
        [Hop(EquiJoin(layout), resized=partial(_resized, layout))],
        schema,
        name=spec.name,
        shards=policy.shards,
        streaming=spec.streaming,
        timers=spec.timers,
        hold=spec.hold,
    )
    return _with_event_time(spec, results) if spec.carries_event_time else results


def _delay(spec: EquiSpec, stream: StreamSpec) -> int | None:
    """The delay of the watermark to set on a stream, if it has none of its own."""
    if not spec.streaming or stream.time is None or stream.watermarked:
        return None
    return (stream.delay or 0) + spec.hold


def _resized(layout: EquiLayout, shards: int) -> EquiJoin:
    """The join, where that many shards share its budget."""
    return EquiJoin(layout.on(shards))


def result_schema(spec: EquiSpec, frames: Sequence[DataFrame]) -> T.StructType:
    """The result's columns, in Spark's types."""
    fields = []
    for column in spec.output:
        if column.stream is None or column.column is None or column.key is not None:
            kind: T.DataType = T.DataType.fromDDL(spark_type(column.type))
        else:
            kind = frames[column.stream].schema[column.column].dataType
        fields.append(T.StructField(column.name, kind))
    return T.StructType(fields)


def _with_event_time(spec: EquiSpec, results: DataFrame) -> DataFrame:
    """Tell Spark that ``event_time`` is the event time, so that what comes after the
    join in the same query can use the watermark."""
    if not spec.streaming:
        return results
    metadata = {WATERMARK: durations.milliseconds(spec.delay + spec.hold)}
    marked = F.col(EVENT_TIME).alias(EVENT_TIME, metadata=metadata)
    others = [F.col(quoted(column.name)) for column in spec.output if column.name != EVENT_TIME]
    return results.select(*others, marked)
