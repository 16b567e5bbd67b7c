"""DataFrames as inputs: their columns, their watermarks, and what the user said about them."""

from __future__ import annotations

import re
from datetime import timedelta

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet import durations
from watersmeet.errors import PlanError, PunctuationError, TimeColumnError
from watersmeet.spark.jvm.plans import LogicalPlan
from watersmeet.spark.query.counters import REPORT
from watersmeet.spark.query.watermarks import BEHIND, JOIN, SETS, following, straight_from_join
from watersmeet.spark.session.session import refuse_connect
from watersmeet.spec.stream import Column, Punctuation, StreamSpec, check_expected

#: Where Spark notes that a column carries a watermark.
WATERMARK = "spark.watermarkDelayMs"
#: Where a join of ours notes how far the times of its result are ahead of what is late.
AHEAD = "watersmeet.aheadMs"


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
    _check_frame(df, name)
    if time is not None and not isinstance(time, str):
        raise TimeColumnError(
            f"stream {name!r}: time must be a column's name, got {type(time).__name__}"
        )
    check_expected(name, rows_per_second=rows_per_second, distinct_keys=distinct_keys)
    lag, own = _delays(df, name, time, delay)
    if df.isStreaming:
        _check_watermarks(df, name, time, own)
    return StreamSpec(
        name=name,
        columns=tuple(Column(f.name, f.dataType.simpleString()) for f in df.schema),
        streaming=df.isStreaming,
        time=time,
        delay=lag if own is None else own,
        watermarked=own is not None,
        ahead=0 if own is None or time is None else _ahead(df, time),
        rows_per_second=rows_per_second,
        distinct_keys=distinct_keys,
    )


def check_order(df: object, name: object) -> None:
    """Refuse a name in the DataFrame's place, and the other way around."""
    if isinstance(df, str) and isinstance(name, DataFrame):
        raise PlanError(
            f"stream {df!r}: the name and the DataFrame are swapped. The DataFrame comes first: "
            f"wm.stream(df, {df!r}, time='...', delay='...')."
        )


def _check_frame(df: object, name: str) -> None:
    """Refuse what is not a DataFrame, or has a column of ours."""
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


def _delays(
    df: DataFrame, name: str, time: str | None, delay: str | timedelta | None
) -> tuple[int | None, int | None]:
    """The delay that was given for a stream, and the one of the watermark that its time column
    carries already. There may be one of them, not both."""
    if delay is not None and time is None:
        raise TimeColumnError(
            f"stream {name!r}: delay={delay!r} needs a time column: add time='...'"
        )
    lag = None if delay is None else durations.parse(delay, argument=f"delay of stream {name!r}")
    own = watermark_delay(df, time) if time is not None and following(LogicalPlan.of(df)) else None
    if lag is not None and own is not None:
        raise TimeColumnError(
            f"stream {name!r}: column {time!r} already carries a watermark of "
            f"{durations.format(own)}; leave out delay={delay!r}"
        )
    return lag, own


def is_batch(given: object) -> bool:
    """Is it a batch DataFrame?"""
    return isinstance(given, DataFrame) and not given.isStreaming


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
    return _noted(df, column, WATERMARK)


def _ahead(df: DataFrame, column: str) -> int:
    """How far a column's times are ahead of what is late, in microseconds, by what the join says
    that the rows come out of. Rows from elsewhere, as of a union, need not be."""
    noted = _noted(df, column, AHEAD)
    return noted if noted is not None and straight_from_join(LogicalPlan.of(df)) else 0


def _noted(df: DataFrame, column: str, what: str) -> int | None:
    """A duration noted in a column's metadata, in milliseconds; returned in microseconds."""
    named = [field for field in df.schema if field.name == column]
    for field in named or [f for f in df.schema if f.name.lower() == column.lower()]:
        if what in field.metadata:
            return int(field.metadata[what]) * 1000
    return None


def _check_watermarks(df: DataFrame, name: str, time: str | None, own: int | None) -> None:
    """Refuse a second watermark: if two follow one another, neither ever moves. And refuse a time
    that is not the column of the watermark."""
    columns = following(LogicalPlan.of(df))
    if len(columns) > 1:
        raise TimeColumnError(
            f"stream {name!r}: the DataFrame has two watermarks, one behind the other: "
            f"{_place(df, columns)}, then on {columns[0]!r}. They would hold each other back: "
            f"nothing would ever come out. Leave out withWatermark({columns[0]!r}, ...)"
            f"{_remedy(df, columns)}"
        )
    if columns and time is not None and own is None and time.lower() in _lower(df.columns):
        raise TimeColumnError(
            f"stream {name!r}: time={time!r} has no watermark, but the DataFrame has one already, "
            f"{_place(df, columns)}, and there can be one only{_remedy(df, columns)}"
        )


def _place(df: DataFrame, columns: list[str]) -> str:
    """For messages: where the first of the watermarks on these columns is set."""
    return "inside a join or enrichment" if _inside(df, columns) else f"on {columns[-1]!r}"


def _remedy(df: DataFrame, columns: list[str]) -> str:
    """What to do instead of setting a watermark behind that on the last of these columns."""
    first, *others = reversed(columns)
    if _inside(df, columns):
        known = [f.name for f in df.schema if WATERMARK in f.metadata and f.name not in others]
        return f": take time={known[0]!r}; it stays the event time" if known else f". {BEHIND}"
    if "Aggregate" in LogicalPlan.of(df).text:
        return (
            ". After an aggregation by window, take the window's time, which carries the "
            'watermark on: df.select(F.window_time("window").alias("time"), ...), time="time"'
        )
    if first in others:
        return f": one on {first!r} is enough, with the delay that rows need"
    return f": take {first!r} as time, or set the watermark on the other column instead of it"


def _inside(df: DataFrame, columns: list[str]) -> bool:
    """Is the first of the watermarks on these columns in a query of ours, out of which the
    DataFrame comes?"""
    last, ours, _ = LogicalPlan.of(df).text.partition(JOIN)
    return bool(ours) and "Aggregate" not in last and last.count(SETS) < len(columns)


def _lower(names: list[str]) -> list[str]:
    return [name.lower() for name in names]


def quoted(name: str) -> str:
    """A column name as Spark takes it literally, dots and all."""
    return "`" + re.sub("`", "``", name) + "`"
