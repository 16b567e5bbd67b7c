"""The keys: which columns must be equal, and in which types they are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.errors import KeyTypeError, PlanError, UnknownColumnError
from watersmeet.plan.arguments import by_stream
from watersmeet.plan.naming import resolve
from watersmeet.plan.types import check_key_type, common_type
from watersmeet.spec.stream import StreamSpec


def resolved_keys(streams: Sequence[StreamSpec], on: object) -> tuple[tuple[str, ...], ...]:
    """The real names of each stream's key columns, aligned over the streams."""
    if on is None:
        raise PlanError(
            "on: missing. Name the column(s) that must be equal, like on='ad_id'; or say with a "
            "condition what matches, like where='views.price < clicks.bid'. If all rows match that "
            "are close enough in time, that is where='true'."
        )
    if isinstance(on, Mapping):
        per_stream = by_stream(streams, on, argument="on")
    else:
        per_stream = [on for _ in streams]
    named = [_key_list(names, on) for names in per_stream]
    if len({len(names) for names in named}) > 1:
        counts = ", ".join(
            f"{len(names)} of {stream.name}" for stream, names in zip(streams, named, strict=True)
        )
        raise PlanError(
            f"on={on!r} names {counts}: give the same number of columns for every stream, in "
            "the order in which they are to be equal."
        )
    return tuple(
        _stream_keys(streams, stream, names, on)
        for stream, names in zip(streams, named, strict=True)
    )


def _key_list(names: object, on: object) -> list[str]:
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise PlanError(
            f"on={on!r}: {names!r} ({type(names).__name__}) is not a column name. Give a name, a "
            "list of names, or a dict from every stream's name to its column(s)."
        )
    if not listed or not all(name.strip() for name in listed):
        raise PlanError(
            f"on={on!r} is empty or has an empty name. Name the column(s) that must be equal, "
            "like on='ad_id'."
        )
    return list(listed)


def _stream_keys(
    streams: Sequence[StreamSpec], stream: StreamSpec, names: Sequence[str], on: object
) -> tuple[str, ...]:
    keys: list[str] = []
    for name in names:
        try:
            key = resolve(stream, name, argument=f"on={on!r}").name
        except UnknownColumnError as error:
            if isinstance(on, Mapping):
                raise
            example = ", ".join(f"{other.name!r}: ..." for other in streams)
            raise UnknownColumnError(
                f"{error} If its name differs between the streams, give on={{{example}}}."
            ) from None
        if key in keys:
            raise PlanError(
                f"on={on!r} names the column {key!r} of the stream {stream.name!r} twice. "
                "Name it once; further equalities belong into `where`."
            )
        keys.append(key)
    return tuple(keys)


def compared_types(
    streams: Sequence[StreamSpec], keys: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """The types in which the keys are compared."""
    common: list[str] = []
    for names in zip(*keys, strict=True):
        types: list[str] = []
        for stream, name in zip(streams, names, strict=True):
            types.append(stream.column(name).type)
            check_key_type(types[-1], column=f"{stream.name}.{name}")
        type = common_type(types)
        if type is None:
            given = ", ".join(
                f"{stream.name}.{name} is {own}"
                for stream, name, own in zip(streams, names, types, strict=True)
            )
            raise KeyTypeError(
                f"on: {given}; these types do not compare. Cast one of them before the join: "
                f"df.withColumn({names[-1]!r}, F.col({names[-1]!r}).cast({types[0]!r}))."
            )
        common.append(type)
    return tuple(common)
