"""The streams by themselves: their number, their names, their times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from watersmeet import durations
from watersmeet.errors import (
    InternalError,
    MixedInputError,
    PlanError,
    StreamNameError,
    TimeColumnError,
)
from watersmeet.plan.naming import resolve
from watersmeet.spec.stream import Column, StreamSpec
from watersmeet.spec.windowed import MOST_STREAMS

#: The type of a column that `F.window` makes.
WINDOW = "struct<start:timestamp,end:timestamp>"
#: What to do with a table beside streams.
TABLES = (
    "A table is joined with a stream, or with a join's result, by wm.enrich(views, table, "
    "on='key'); a small one also by Spark itself: joined.join(table, 'key', 'left')"
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_streams(streams: Sequence[StreamSpec]) -> None:
    names = [stream.name for stream in streams]
    if not 2 <= len(streams) <= MOST_STREAMS:
        raise PlanError(
            f"streams: a join takes two to {MOST_STREAMS} streams; {len(streams)} given: {names}."
        )
    check_names(streams)
    live = [stream.name for stream in streams if stream.streaming]
    if live and len(live) < len(streams):
        batch = [stream.name for stream in streams if not stream.streaming]
        raise MixedInputError(
            f"streams: {_listed(live, 'is a streaming DataFrame', 'are streaming DataFrames')}, "
            f"{_listed(batch, 'a batch one', 'batch ones')}. {TABLES}. Streams are joined with "
            "streams (spark.readStream), batch DataFrames with batch ones (spark.read)."
        )


def _listed(names: Sequence[str], one: str, several: str) -> str:
    return f"{' and '.join(names)} {one if len(names) == 1 else several}"


def check_names(streams: Sequence[StreamSpec]) -> None:
    """Refuse names of streams that are not unique, or cannot be used."""
    seen: set[str] = set()
    for stream in streams:
        name = stream.name
        check_name(name)
        if name.lower() in seen:
            raise StreamNameError(
                f"streams: two streams have the name {name!r} (case does not count). "
                "Give each a name of its own, also if both read the same DataFrame."
            )
        seen.add(name.lower())
        if stream.prefix is not None and not isinstance(stream.prefix, str):
            raise PlanError(
                f"stream {name!r}: prefix={stream.prefix!r} is not a string. Give what to put "
                "before shared column names, like 'v_', or ''."
            )


def check_name(name: object) -> None:
    """Refuse a name that could not stand in SQL."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise StreamNameError(
            f"streams: the name {name!r} is not an identifier. Use letters, digits and "
            "underscores, not starting with a digit: it prefixes columns and is used in "
            "SQL conditions."
        )


def with_time(
    stream: StreamSpec, *, argument: str | None = None, kind: str = "stream"
) -> StreamSpec:
    """The stream with its time column's real name. The column must be usable as a time.
    ``argument`` is where it was named, if not in ``time``; messages call the stream a ``kind``."""
    argument = argument or f"time of the stream {stream.name!r}"
    if stream.time is None:
        if stream.delay is not None and not stream.watermarked:
            raise TimeColumnError(
                f"delay of the stream {stream.name!r}: {durations.format(stream.delay)} behind "
                f"which time? Give the time column too: {time_example(stream)}."
            )
        return stream
    column = resolve(stream, stream.time, argument=argument, kind=kind)
    if column.type == "timestamp_ntz":
        raise TimeColumnError(
            f"{argument}: {column.name!r} is of type 'timestamp_ntz', a local time that is no "
            f"point in time. Cast it: df.withColumn({column.name!r}, "
            f"F.col({column.name!r}).cast('timestamp'))."
        )
    if column.type == WINDOW:
        raise TimeColumnError(
            f"{argument}: {column.name!r} is a window, a start and an end. Take the window's time, "
            f'which carries a watermark on: df.select(F.window_time("{column.name}")'
            '.alias("time"), ...), time="time".'
        )
    if column.type != "timestamp":
        raise TimeColumnError(
            f"{argument}: {column.name!r} is of type {column.type!r}; a time column must be of "
            f"type 'timestamp'.{_timestamps(stream)}{_conversion(column)}"
        )
    if stream.streaming and stream.delay is None:
        if stream.watermarked:
            raise InternalError(f"stream {stream.name!r}: a watermark without a delay")
        raise TimeColumnError(
            f"delay of the stream {stream.name!r}: missing, so nothing says how late its rows "
            f'may be. Give delay="10 seconds", or call df.withWatermark({column.name!r}, '
            "'10 seconds') before."
        )
    return replace(stream, time=column.name)


def time_example(stream: StreamSpec) -> str:
    timestamps = [column.name for column in stream.columns if column.type == "timestamp"]
    time = timestamps[0] if timestamps else "..."
    return f'wm.stream(df, "{stream.name}", time="{time}", ...)'


def _timestamps(stream: StreamSpec) -> str:
    names = [column.name for column in stream.columns if column.type == "timestamp"]
    return f" Of that type here: {', '.join(names)}." if names else " No column here is."


def _conversion(column: Column) -> str:
    """How a column becomes a timestamp, if that is likely to be what it means."""
    name = column.name
    if column.type == "string":
        made = f"F.to_timestamp({name!r})"
    elif column.type == "date":
        made = f"F.col({name!r}).cast('timestamp')"
    elif column.type in ("int", "bigint", "float", "double") or column.type.startswith("decimal"):
        made = f"F.timestamp_seconds({name!r})"
    else:
        return ""
    millis = ""
    if column.type == "bigint":
        millis = f" (of milliseconds since 1970, F.timestamp_millis({name!r}))"
    return f" Make it one: df.withColumn({name!r}, {made}){millis}."
