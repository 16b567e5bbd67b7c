"""Timestamps, dates and intervals, in the session's zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl
from pyspark.sql import types as T

from watersmeet.spark.jvm.objects import elements
from watersmeet.spark.sql import semantics
from watersmeet.spark.sql.nodes import Handler, Node, of, type_of
from watersmeet.spark.sql.numbers import WIDER

if TYPE_CHECKING:
    from watersmeet.spark.sql.translation import Translation

_SECOND = 1_000_000

_TRUNCATIONS = {
    "YEAR": "1y",
    "QUARTER": "1q",
    "MONTH": "1mo",
    "WEEK": "1w",
    "DAY": "1d",
    "HOUR": "1h",
    "MINUTE": "1m",
    "SECOND": "1s",
}


#: The units that are always as long, in microseconds, and those of the calendar, in months.
MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": _SECOND,
    "MINUTE": 60 * _SECOND,
    "HOUR": 3_600 * _SECOND,
    "DAY": 86_400 * _SECOND,
    "DAYOFYEAR": 86_400 * _SECOND,
    "WEEK": 7 * 86_400 * _SECOND,
}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _refuse_type(t: Translation, node: Node, operand: Any) -> NoReturn:
    t.refuse(node, f"{node.prettyName()} of {operand.dataType().catalogString()}")


def _local(t: Translation, node: Node, time: Any) -> pl.Expr:
    if not isinstance(type_of(time), T.TimestampType | T.TimestampNTZType):
        _refuse_type(t, node, time)
    return local_time(t, time)


def local_time(t: Translation, time: Any) -> pl.Expr:
    """A timestamp of either kind as a local time."""
    if isinstance(type_of(time), T.TimestampType):
        return semantics.to_local(t(time), t.zone)
    return t(time)


# Intervals


def _plus_interval(t: Translation, node: Node) -> pl.Expr:
    time, interval = elements(node.children())
    return _later(t, time, t(interval))


def _later(t: Translation, time: Node, interval: pl.Expr) -> pl.Expr:
    if isinstance(type_of(time), T.TimestampNTZType):
        return t(time) + interval
    return semantics.plus_interval(t(time), interval, t.zone)


def _plus_months(t: Translation, node: Node) -> pl.Expr:
    time, interval = elements(node.children())
    return _months_later(t, time, t.constant(interval))


def _months_later(t: Translation, time: Node, months: int) -> pl.Expr:
    if isinstance(type_of(time), T.TimestampType):
        return semantics.plus_months(t(time), months, t.zone)
    return t(time).dt.offset_by(f"{months}mo")


def _timestamp_add(t: Translation, node: Node) -> pl.Expr:
    """So many units after a timestamp."""
    unit, quantity, time = node.unit().upper(), node.quantity(), node.timestamp()
    if unit in MONTHS:
        return _months_later(t, time, t.constant(quantity) * MONTHS[unit])
    if unit not in MICROS:
        t.refuse(node, f"timestampadd in {unit}")
    micros = semantics.checked(t(quantity).cast(pl.Int128) * MICROS[unit], pl.Int64())
    return _later(t, time, micros.cast(pl.Duration("us")))


def _subtract_timestamps(t: Translation, node: Node) -> pl.Expr:
    return _local(t, node, node.left()) - _local(t, node, node.right())


def _timestamp_diff(t: Translation, node: Node) -> pl.Expr:
    """Whole units between two local times, rounded towards zero."""
    unit = node.unit().upper()
    start, end = (local_time(t, time) for time in (node.startTimestamp(), node.endTimestamp()))
    if unit in MONTHS:
        number, size = semantics.months_between(start, end), MONTHS[unit]
    elif unit in MICROS:
        number = end.cast(pl.Int64).cast(pl.Int128) - start.cast(pl.Int64)
        size = MICROS[unit]
    else:
        t.refuse(node, f"timestampdiff in {unit}")
    return semantics.truncated_quotient(number, pl.lit(size, pl.Int128)).cast(pl.Int64)


def _truncated(t: Translation, node: Node) -> pl.Expr:
    unit = t.constant(node.format()).toString().upper()
    if unit not in _TRUNCATIONS:
        t.refuse(node, f"date_trunc to {unit}")
    return semantics.truncated(t(node.timestamp()), _TRUNCATIONS[unit], t.zone)


# Dates


def _plus_days(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    return (date.cast(pl.Int32) + days.cast(pl.Int32)).cast(pl.Date)


def _minus_days(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    return (date.cast(pl.Int32) - days.cast(pl.Int32)).cast(pl.Date)


def _days_between(end: pl.Expr, start: pl.Expr) -> pl.Expr:
    return end.cast(pl.Int32) - start.cast(pl.Int32)


def _date_part(part: Callable[[pl.Expr], pl.Expr]) -> Handler:
    return lambda t, node: part(t(node.child())).cast(pl.Int32)


def _time_part(part: Callable[[pl.Expr], pl.Expr]) -> Handler:
    return lambda t, node: part(_local(t, node, node.child())).cast(pl.Int32)


# Units since 1970


def _micros(t: Translation, node: Node) -> pl.Expr:
    time = node.children().head()
    if not isinstance(type_of(time), T.TimestampType):
        _refuse_type(t, node, time)
    return t(time).cast(pl.Int64)


def _epoch(unit: int) -> Handler:
    """Whole units, rounded down."""
    return lambda t, node: _micros(t, node) // unit


def _unix_timestamp(t: Translation, node: Node) -> pl.Expr:
    """Whole seconds, rounded towards 1970: unlike Spark's other ways to them."""
    micros = _micros(t, node).cast(pl.Int128)
    return semantics.truncated_quotient(micros, pl.lit(_SECOND, pl.Int128)).cast(pl.Int64)


def _from_epoch(unit: int) -> Handler:
    def handler(t: Translation, node: Node) -> pl.Expr:
        number = node.children().head()
        if type(type_of(number)) not in WIDER:
            _refuse_type(t, node, number)
        micros = t(number).cast(pl.Int128) * unit
        return semantics.checked(micros, pl.Int64()).cast(pl.Datetime("us", "UTC"))

    return handler


HANDLERS: dict[str, Handler] = {
    "TimestampAddInterval": _plus_interval,
    "TimeAdd": _plus_interval,  # its name before Spark 4.1
    "TimestampAddYMInterval": _plus_months,
    "DateAddYMInterval": _plus_months,
    "AddMonths": _plus_months,
    "SubtractTimestamps": _subtract_timestamps,
    "SubtractDates": of(lambda a, b: (a - b).cast(pl.Duration("us"))),
    "TimestampAdd": _timestamp_add,
    "TimestampDiff": _timestamp_diff,
    "TruncTimestamp": _truncated,
    "DateAdd": of(_plus_days),
    "DateSub": of(_minus_days),
    "DateDiff": of(_days_between),
    "Year": _date_part(lambda a: a.dt.year()),
    "Quarter": _date_part(lambda a: a.dt.quarter()),
    "Month": _date_part(lambda a: a.dt.month()),
    "WeekOfYear": _date_part(lambda a: a.dt.week()),
    "DayOfYear": _date_part(lambda a: a.dt.ordinal_day()),
    "DayOfMonth": _date_part(lambda a: a.dt.day()),
    "DayOfWeek": _date_part(lambda a: a.dt.weekday() % 7 + 1),  # Sunday is 1
    "WeekDay": _date_part(lambda a: a.dt.weekday() - 1),  # Monday is 0
    "Hour": _time_part(lambda a: a.dt.hour()),
    "Minute": _time_part(lambda a: a.dt.minute()),
    "Second": _time_part(lambda a: a.dt.second()),
    "UnixTimestamp": _unix_timestamp,
    "ToUnixTimestamp": _unix_timestamp,
    "UnixSeconds": _epoch(_SECOND),
    "UnixMillis": _epoch(1_000),
    "UnixMicros": _epoch(1),
    "SecondsToTimestamp": _from_epoch(_SECOND),
    "MillisToTimestamp": _from_epoch(1_000),
    "MicrosToTimestamp": _from_epoch(1),
}
