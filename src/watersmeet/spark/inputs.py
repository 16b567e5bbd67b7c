"""What Watersmeet reads off a DataFrame."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet import durations
from watersmeet.errors import PlanError, PunctuationError, TimeColumnError
from watersmeet.spark.classic import refuse_connect
from watersmeet.spark.counters import REPORT
from watersmeet.spark.watermarks import JOIN, following
from watersmeet.spec.stream import Column, Punctuation, StreamSpec, check_expected

#: Where Spark notes that a column carries a watermark.
WATERMARK = "spark.watermarkDelayMs"


def describe(
    df: DataFrame,
    name: str,
    *,
    time: str | None,
    delay: str | timedelta | None,
    rows_per_second: float | None = None,
    distinct_keys: float | None = None,
) -> StreamSpec:
    """A DataFrame and what the user said about it, as plain data."""
    refuse_connect(df, f"stream {name!r}")
    if not isinstance(df, DataFrame):
        package = type(df).__module__.partition(".")[0]
        kind = type(df).__name__ if package == "builtins" else f"{package}'s {type(df).__name__}"
        raise PlanError(
            f"stream {name!r}: df must be a Spark DataFrame, got {kind}. Read one with "
            "spark.readStream (a table with spark.read), or make one of rows with "
            "spark.createDataFrame(...)."
        )
    if REPORT in _lower(df.columns):
        raise PlanError(
            f"stream {name!r}: {REPORT!r} is a column of Watersmeet's own on its way through "
            "Spark. Rename it: df.withColumnRenamed(...)."
        )
    if time is not None and not isinstance(time, str):
        raise TimeColumnError(
            f"stream {name!r}: time must be a column's name, got {type(time).__name__}"
        )
    check_expected(name, rows_per_second=rows_per_second, distinct_keys=distinct_keys)
    if delay is not None and time is None:
        raise TimeColumnError(
            f"stream {name!r}: delay={delay!r} needs a time column: add time='...'"
        )
    lag = None if delay is None else durations.parse(delay, argument=f"delay of stream {name!r}")
    own = watermark_delay(df, time) if time is not None and following(_analyzed(df)) else None
    if lag is not None and own is not None:
        raise TimeColumnError(
            f"stream {name!r}: column {time!r} already carries a watermark of "
            f"{durations.format(own)}; leave out delay={delay!r}"
        )
    if df.isStreaming:
        _check_watermarks(df, name, time, own)
    return StreamSpec(
        name=name,
        columns=tuple(Column(f.name, f.dataType.simpleString()) for f in df.schema),
        streaming=df.isStreaming,
        time=time,
        delay=lag if own is None else own,
        watermarked=own is not None,
        rows_per_second=rows_per_second,
        distinct_keys=distinct_keys,
    )


def check_punctuation(df: DataFrame, name: str, punctuation: object) -> None:
    """Is the condition that marks a stream's punctuations one over its columns?"""
    if not isinstance(punctuation, Punctuation) or not isinstance(punctuation.when, str):
        return  # the planner says what is wrong
    try:
        kind = df.select(F.expr(punctuation.when)).schema[0].dataType.simpleString()
    except PySparkException as error:
        raise PunctuationError(
            f"stream {name!r}: punctuation: when={punctuation.when!r} is not a condition over its "
            f"columns {', '.join(df.columns)}: {str(error).splitlines()[0]}"
        ) from error
    if kind != "boolean":
        raise PunctuationError(
            f"stream {name!r}: punctuation: when={punctuation.when!r} is of type {kind}; it must "
            "be a condition, like \"kind = 'end'\"."
        )


def watermark_delay(df: DataFrame, column: str) -> int | None:
    """The delay, in microseconds, of the watermark that a column carries, if it does. (Files that
    were written from such a column keep its metadata: a query that reads them has no watermark by
    that alone.)"""
    named = [field for field in df.schema if field.name == column]
    for field in named or [f for f in df.schema if f.name.lower() == column.lower()]:
        if WATERMARK in field.metadata:
            return int(field.metadata[WATERMARK]) * 1000
    return None


def _check_watermarks(df: DataFrame, name: str, time: str | None, own: int | None) -> None:
    """Of two watermarks that follow one another none would ever move. So there may be one only,
    and the time must be its column."""
    columns = following(_analyzed(df))
    if len(columns) > 1:
        raise TimeColumnError(
            f"stream {name!r}: the DataFrame has two watermarks, one behind the other: on "
            f"{columns[-1]!r}, then on {columns[0]!r}. They would hold each other back: nothing "
            f"would ever come out. Leave out withWatermark({columns[0]!r}, ...)"
            f"{_remedy(df, columns[-1])}"
        )
    if columns and time is not None and own is None and time.lower() in _lower(df.columns):
        raise TimeColumnError(
            f"stream {name!r}: time={time!r} has no watermark, but the DataFrame has one already, "
            f"on {columns[0]!r}, and there can be one only{_remedy(df, columns[0])}"
        )


def _remedy(df: DataFrame, column: str) -> str:
    plan = _analyzed(df).toString()
    last, _, before = plan.partition(JOIN)
    if before and "Aggregate" not in last and watermark_delay(df, column) is None:
        return (
            ". The DataFrame comes out of a join of Watersmeet's, after which Spark knows no other "
            "event time than `event_time`: take time='event_time'. An inner join has that column; "
            "give event_time='...', a stream's name, to any other join"
        )
    if "Aggregate" in plan:
        return (
            ". After an aggregation by window, take the window's time, which carries the "
            'watermark on: df.select(F.window_time("window").alias("time"), ...), time="time"'
        )
    return f": take {column!r} as time, or set the watermark on the other column instead of it"


def _analyzed(df: DataFrame) -> Any:
    return df._jdf.queryExecution().analyzed()


def _lower(names: list[str]) -> list[str]:
    return [name.lower() for name in names]


def quoted(name: str) -> str:
    """A column name as Spark takes it literally, dots and all."""
    return "`" + re.sub("`", "``", name) + "`"
