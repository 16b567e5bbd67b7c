"""The query: from the streams' DataFrames to the DataFrame of results.

rows ─ code ─► pack ─► union ─► step, shard by shard ─► observe ─► results
       JVM    Python            stateful, Python          JVM
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.operators.equi.layout import is_exact, lay_out, stored_names
from watersmeet.operators.equi.step import EquiJoin
from watersmeet.rows.columns import CODE, HIGH, LOW, PUNCTUATION, TIME, key_name
from watersmeet.rows.predicate import Predicate
from watersmeet.spark import counters
from watersmeet.spark.arrow import arrow_schema
from watersmeet.spark.capsule import CAPSULE, Pack
from watersmeet.spark.inputs import WATERMARK, quoted
from watersmeet.spark.metrics import observation_name
from watersmeet.spark.processor import JoinProcessor
from watersmeet.spark.shards import shard_ids
from watersmeet.spec import EVENT_TIME, JoinSpec, StreamSpec
from watersmeet.state.cache import SegmentCache, default_folder

CACHE_FOLDER = "spark.watersmeet.cache.folder"
CACHE_SIZE = "spark.watersmeet.cache.size"
_DEFAULT_CACHE_SIZE = 4 << 30


def build(spec: JoinSpec, frames: Sequence[DataFrame], predicate: Predicate | None) -> DataFrame:
    """The join as a DataFrame, streaming or batch as its inputs are."""
    spark = frames[0].sparkSession
    ids = tuple(shard_ids(shard_count(spark)))
    schema = result_schema(spec, frames)
    layout = lay_out(
        spec,
        [arrow_schema(df.schema, s.name) for df, s in zip(frames, spec.streams, strict=True)],
        arrow_schema(schema, "result"),
        predicate,
        shards=len(ids),
        cores=spark.sparkContext.defaultParallelism,
    )
    timers = spec.timers
    processor = JoinProcessor(
        EquiJoin(layout), segment_cache(spark), ids, streaming=spec.streaming, timers=timers
    )
    packed = [_packed(spec, i, df, ids, predicate) for i, df in enumerate(frames)]
    capsules = packed[0]
    for other in packed[1:]:
        capsules = capsules.union(other)
    steps = capsules.groupBy("shard").transformWithStateInPandas(
        statefulProcessor=processor,
        outputStructType=T.StructType([*schema, counters.FIELD]),
        outputMode="append",
        timeMode="eventTime" if timers else "none",
    )
    names = [stream.name for stream in spec.streams]
    observed = steps.observe(observation_name(spec.how, names), counters.observed(names))
    results = observed.where(F.col(counters.REPORT).isNull()).drop(counters.REPORT)
    return _with_event_time(spec, results) if spec.carries_event_time else results


def shard_count(spark: SparkSession) -> int:
    """One shard for each shuffle partition."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def segment_cache(spark: SparkSession) -> SegmentCache:
    """The host-local cache, as the session's settings have it."""
    folder = spark.conf.get(CACHE_FOLDER, None) or default_folder()
    size = spark.conf.get(CACHE_SIZE, None)
    return SegmentCache(folder, int(size) if size else _DEFAULT_CACHE_SIZE)


def result_schema(spec: JoinSpec, frames: Sequence[DataFrame]) -> T.StructType:
    """The result's columns, in Spark's types. A key that has matched is not null; that Spark
    need not look spares it a few nanoseconds a row."""
    matched = spec.how in ("inner", "semi") and not spec.emit_punctuations
    fields = []
    for column in spec.output:
        if column.stream is None or column.column is None or column.key is not None:
            kind: T.DataType = T.DataType.fromDDL(_spark_type(column.type))
        else:
            kind = frames[column.stream].schema[column.column].dataType
        known = matched and column.key is not None
        fields.append(T.StructField(column.name, kind, nullable=not known))
    return T.StructType(fields)


def _spark_type(name: str) -> str:
    """A type's name that no setting changes: what ``timestamp`` means, one does."""
    return "timestamp_ltz" if name == "timestamp" else name


def _packed(
    spec: JoinSpec,
    position: int,
    df: DataFrame,
    ids: tuple[int, ...],
    predicate: Predicate | None,
) -> DataFrame:
    """A stream's rows as capsules, with the stream's watermark on them."""
    stream = spec.streams[position]
    rows = df.select(*_stored_columns(spec, position, predicate))
    capsules = rows.mapInArrow(Pack(position, ids), CAPSULE)
    if stream.time and spec.streaming and not stream.watermarked:
        delay = f"{stream.delay} microseconds"
        capsules = capsules.withWatermark("event_time", delay)
    # Spark must not drop a capsule as late: the operator drops late rows one by one,
    # and counts them. So the operator's input carries no event time that Spark knows.
    return capsules.select("shard", "stream", "payload")


def _stored_columns(spec: JoinSpec, position: int, predicate: Predicate | None) -> list[Column]:
    stream, keys = spec.streams[position], spec.keys[position]
    typed = [
        _canonical_key(F.col(quoted(name)).cast(_spark_type(kind)), kind)
        for name, kind in zip(keys, spec.key_types, strict=True)
    ]
    columns = [_code(spec, typed).alias(CODE), *_punctuation(spec, stream)]
    if stream.time:
        columns.append(F.col(quoted(stream.time)).alias(TIME))
    if not is_exact(spec):
        columns += [key.alias(key_name(i)) for i, key in enumerate(typed)]
    for name, stored in stored_names(spec, position, predicate).items():
        if name not in keys and stored != TIME:
            columns.append(F.col(quoted(name)).alias(stored))
    return columns


def _punctuation(spec: JoinSpec, stream: StreamSpec) -> list[Column]:
    """Is a row a punctuation, and of which range, if the key has an order."""
    if stream.punctuation is None:
        return []
    columns = [F.coalesce(F.expr(stream.punctuation.when), F.lit(False)).alias(PUNCTUATION)]
    for name, bound in ((LOW, stream.punctuation.low), (HIGH, stream.punctuation.high)):
        if is_exact(spec) and bound is not None:
            value = F.col(quoted(bound)).cast(_spark_type(spec.key_types[0]))
            columns.append(_code(spec, [value]).alias(name))
    return columns


def _canonical_key(key: Column, kind: str) -> Column:
    """Equal keys as equal bytes: one NaN, and no negative zero."""
    if kind not in ("float", "double"):
        return key
    return (
        F.when(F.isnan(key), F.lit(float("nan")).cast(kind))
        .when(key == 0, F.lit(0.0).cast(kind))
        .otherwise(key)
    )


def _code(spec: JoinSpec, keys: list[Column]) -> Column:
    if not is_exact(spec):
        complete = F.lit(True)
        for key in keys:
            complete = complete & key.isNotNull()
        return F.when(complete, F.xxhash64(*keys))
    if spec.key_types[0] == "date":
        return F.unix_date(keys[0]).cast("bigint")
    if spec.key_types[0] == "timestamp":
        return F.unix_micros(keys[0])
    return keys[0].cast("bigint")


def _with_event_time(spec: JoinSpec, results: DataFrame) -> DataFrame:
    """Tell Spark that ``event_time`` is the event time, so that what comes after the
    join in the same query can use the watermark."""
    if not spec.streaming:
        return results
    delay = max(stream.delay or 0 for stream in spec.streams) // 1000
    marked = F.col(EVENT_TIME).alias(EVENT_TIME, metadata={WATERMARK: delay})
    others = [F.col(quoted(column.name)) for column in spec.output if column.name != EVENT_TIME]
    return results.select(*others, marked)
