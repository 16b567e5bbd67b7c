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
    if not isinstance(df, DataFrame):
        raise PlanError(f"stream {name!r}: df must be a Spark DataFrame, got {type(df).__name__}")
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
    own = watermark_delay(df, time) if time is not None and _has_watermark(df) else None
    if lag is not None and own is not None:
        raise TimeColumnError(
            f"stream {name!r}: column {time!r} already carries a watermark of "
            f"{durations.format(own)}; leave out delay={delay!r}"
        )
    if lag is not None and df.isStreaming and _has_watermark(df):
        raise TimeColumnError(
            f"stream {name!r}: the DataFrame has a watermark already, on another column than "
            f"{time!r}, and Spark allows one only: set it on {time!r} with "
            f"df.withWatermark({time!r}, ...), or take that other column as time"
        )
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


def _has_watermark(df: DataFrame) -> bool:
    """Is there a watermark anywhere in the query? Its column may be gone by now."""
    plan: Any = df._jdf.queryExecution().analyzed()
    return "EventTimeWatermark" in plan.toString()


def quoted(name: str) -> str:
    """A column name as Spark takes it literally, dots and all."""
    return "`" + re.sub("`", "``", name) + "`"
