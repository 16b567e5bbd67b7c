"""Names: which column a user's name means, and how the columns of a result are called.

A name means the column spelled exactly so; if there is none, the only one that differs just in
case, as in Spark by default. So in a result, names that differ just in case count as equal.

The result of a join of ``views(ad_id, price, at)`` and ``clicks(ad_id, price, user)`` on
``ad_id``, if both have a time::

    ad_id  views_price  at  clicks_price  user  event_time
    ───┬─  ──────────────┬────────────────────  ─────┬────
     keys    other columns, prefixed where the      inner joins, and
             bare name would not be unique          where it is asked for
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from watersmeet.errors import (
    AmbiguousColumnError,
    PlanError,
    UnknownColumnError,
    did_you_mean,
)
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.output import EVENT_TIME, IS_PUNCTUATION, OutputColumn
from watersmeet.spec.stream import Column, StreamSpec

_LISTED = 20


def resolve(stream: StreamSpec, name: str, *, argument: str, kind: str = "stream") -> Column:
    """The one column of the stream that ``name`` means. Messages say that it was named in
    ``argument``, and call the stream a ``kind``."""
    exact = [column for column in stream.columns if column.name == name]
    found = exact or [column for column in stream.columns if column.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        spelled = ", ".join(repr(column.name) for column in found)
        raise AmbiguousColumnError(
            f"{argument}: {name!r} could be any of {len(found)} columns of the {kind} "
            f"{stream.name!r}: {spelled}. Rename or drop all but one of them."
        )
    raise UnknownColumnError(
        f"{argument}: the {kind} {stream.name!r} has no column {name!r}."
        f"{_hint(stream, name)} Its columns are: {listed(stream)}."
    )


def result_columns(spec: JoinSpec) -> tuple[OutputColumn, ...]:
    """The columns of the join's result, in order; the spec's own ``output`` is not read."""
    event_time = (_event_time(spec),) if spec.carries_event_time else ()
    if not spec.how.combines:
        output = _first_stream_columns(spec) + event_time
        _check_unique(spec, output)
        return output
    keys = tuple(_first_stream_column(spec, spec.streams[0].column(name)) for name in spec.keys[0])
    flag = (OutputColumn(IS_PUNCTUATION, "boolean"),) if spec.emits_punctuations else ()
    others = _other_columns(spec, reserved=keys + flag + event_time)
    output = keys + others + flag + event_time
    _check_unique(spec, output)
    return output


def _event_time(spec: JoinSpec) -> OutputColumn:
    names = [stream.name for stream in spec.streams]
    if spec.time_of_result is None:
        return OutputColumn(EVENT_TIME, "timestamp")
    return OutputColumn(EVENT_TIME, "timestamp", stream=names.index(spec.time_of_result))


def _first_stream_columns(spec: JoinSpec) -> tuple[OutputColumn, ...]:
    first = spec.streams[0]
    _check_no_duplicates(first, first.columns)
    return tuple(_first_stream_column(spec, column) for column in first.columns)


def _first_stream_column(spec: JoinSpec, column: Column) -> OutputColumn:
    """A column of the first stream, or the key that it is."""
    name = column.name
    if name not in spec.keys[0] or spec.leaves_keys:
        return OutputColumn(name, column.type, stream=0, column=name)
    key = spec.keys[0].index(name)
    return OutputColumn(name, spec.key_types[key], stream=0, column=name, key=key)


def _other_columns(spec: JoinSpec, *, reserved: Sequence[OutputColumn]) -> tuple[OutputColumn, ...]:
    """The columns of all streams that are not keys, with a prefix where names would be equal."""
    others: list[tuple[int, StreamSpec, list[Column]]] = []
    for position, stream in enumerate(spec.streams):
        columns = [c for c in stream.columns if c.name not in spec.keys[position]]
        _check_no_duplicates(stream, columns)
        others.append((position, stream, columns))

    owners = Counter(
        name for _, _, columns in others for name in {column.name.lower() for column in columns}
    )
    shared = {name for name, count in owners.items() if count > 1}
    shared |= {column.name.lower() for column in reserved}
    return tuple(
        OutputColumn(
            f"{_prefix(stream)}{column.name}" if column.name.lower() in shared else column.name,
            column.type,
            stream=position,
            column=column.name,
        )
        for position, stream, columns in others
        for column in columns
    )


def _prefix(stream: StreamSpec) -> str:
    """What stands before the name of a column that several streams have."""
    return f"{stream.name}_" if stream.prefix is None else stream.prefix


def _check_no_duplicates(stream: StreamSpec, columns: Sequence[Column]) -> None:
    for name, times in Counter(column.name for column in columns).items():
        if times > 1:
            raise AmbiguousColumnError(
                f"streams: {stream.name!r} has {times} columns of the name {name!r}, and the "
                "result would have to contain them all. Rename or drop all but one of them."
            )


def _check_unique(spec: JoinSpec, output: Sequence[OutputColumn]) -> None:
    taken: dict[str, OutputColumn] = {}
    for column in output:
        other = taken.setdefault(column.name.lower(), column)
        if other is not column and not _were_twins(other, column):
            raise PlanError(
                f"streams: the result would have two columns {column.name!r}: "
                f"{_origin(spec, other)} and {_origin(spec, column)}. "
                "Rename one of them before the join, df.withColumnRenamed(...), or give "
                "wm.stream(..., prefix='...')."
            )


def _were_twins(one: OutputColumn, other: OutputColumn) -> bool:
    """Are both from one DataFrame, where their names already differed only in case?"""
    return (
        one.stream == other.stream
        and one.column is not None
        and other.column is not None
        and one.column != other.column
        and one.column.lower() == other.column.lower()
    )


def _origin(spec: JoinSpec, column: OutputColumn) -> str:
    if column.column is None or column.stream is None:
        return "the event time of the join"
    return f"{spec.streams[column.stream].name}.{column.column}"


def _hint(stream: StreamSpec, name: str) -> str:
    head, dot, tail = name.partition(".")
    columns = {column.name.lower(): column for column in stream.columns}
    if dot and head.lower() in columns:
        return f" To use a field of {head!r}, select it as a column of its own first."
    if dot and head.lower() == stream.name.lower() and tail.lower() in columns:
        return f" Did you mean {columns[tail.lower()].name!r}, without the stream's name?"
    return did_you_mean(name, (column.name for column in stream.columns))


def listed(stream: StreamSpec) -> str:
    """A stream's columns by name, the first ones of very many."""
    names = [column.name for column in stream.columns]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more if names else "(none)"
