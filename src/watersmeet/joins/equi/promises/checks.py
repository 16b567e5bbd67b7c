"""What streams promise about their keys, and what a join can make of it."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import PunctuationError, UnboundedStateError, WindowError
from watersmeet.plan.arguments import check_flag, one_of
from watersmeet.plan.naming import resolve
from watersmeet.plan.types import common_type
from watersmeet.spec.join import exact_key
from watersmeet.spec.join_type import JoinType
from watersmeet.spec.stream import ARRIVALS, Punctuation, StreamSpec


def check_promises(
    streams: Sequence[StreamSpec], key_types: Sequence[str], emit: bool, how: JoinType
) -> None:
    """Refuse promises that the join cannot keep account of, at all or for keys of such types."""
    for stream in streams:
        name = f"stream {stream.name!r}"
        check_flag(stream.unique, argument=f"{name}: unique")
        _check_arrival(stream, key_types)
        _check_punctuation(stream, key_types)
    if emit:
        _check_emission(streams, how)


def _check_arrival(stream: StreamSpec, key_types: Sequence[str]) -> None:
    name = f"stream {stream.name!r}"
    if stream.arrival is not None:
        one_of(stream.arrival, ARRIVALS, argument=f"{name}: arrival", error=PunctuationError)
    if stream.arrival == "ordered" and not exact_key(key_types):
        raise PunctuationError(
            f"{name}: arrival='ordered' needs a single key of an integral, date or timestamp "
            f"type; the key is of {', '.join(key_types)}. Give arrival='clustered'."
        )


def _check_punctuation(stream: StreamSpec, key_types: Sequence[str]) -> None:
    name, given = f"stream {stream.name!r}", stream.punctuation
    if given is None:
        return
    if not isinstance(given, Punctuation) or not isinstance(given.when, str):
        raise PunctuationError(
            f"{name}: punctuation={given!r} is not a punctuation: give "
            "wm.Punctuation(when=\"kind = 'end'\"), a SQL condition that holds for them."
        )
    for bound in (given.low, given.high):
        if bound is None:
            continue
        column = resolve(stream, bound, argument=f"{name}: punctuation")
        if not exact_key(key_types):
            raise PunctuationError(
                f"{name}: punctuation: a range needs a single key of an integral, date or "
                f"timestamp type; the key is of {', '.join(key_types)}."
            )
        if common_type([column.type, key_types[0]]) != key_types[0]:
            raise PunctuationError(
                f"{name}: punctuation: the bound {column.name!r} is of type {column.type}, the "
                f"key of type {key_types[0]}. Cast it: df.withColumn({column.name!r}, "
                f"F.col({column.name!r}).cast({key_types[0]!r}))."
            )


def _check_emission(streams: Sequence[StreamSpec], how: JoinType) -> None:
    """Can punctuations be handed on?"""
    if not any(stream.punctuation for stream in streams):
        raise PunctuationError(
            "emit_punctuations=True, but no stream has punctuations to emit: give one "
            "punctuation=wm.Punctuation(when=...)."
        )
    if not how.combines:
        raise PunctuationError(
            f"emit_punctuations=True with how={how.name!r}: a semi or anti join emits rows of the "
            "first stream as they are. Use an inner or outer join."
        )
    for stream in streams:
        if not stream.closes:
            raise PunctuationError(
                f"emit_punctuations=True, but {stream.name} never closes its keys, so a result of "
                "any key could always still come, and no punctuation could be emitted. Give "
                f"{stream.name} punctuation=wm.Punctuation(when=...), unique=True or an arrival."
            )


def check_ends(streams: Sequence[StreamSpec]) -> None:
    """Without a window, some stream must say of keys that never come that they will not: unique
    keys and clusters are closed only when they have come."""
    if not any(stream.ends for stream in streams):
        promises = " and ".join(
            f"{stream.name} {'unique' if stream.unique else 'clustered'}" for stream in streams
        )
        raise UnboundedStateError(
            f"within: missing, and with {promises} a key is closed when it has come. So a row "
            "whose key never comes in the other stream would stay for ever. Give within='1 hour', "
            "or punctuations or arrival='ordered' of a stream; if such rows are few, "
            "unbounded=True."
        )


def check_provable(streams: Sequence[StreamSpec], how: JoinType) -> None:
    """Refuse a join without a window that could not prove rows unmatched: then only a punctuation
    or an order says that a key will never come."""
    marks = how.preserved(len(streams))
    for stream, other, preserved in zip(streams, reversed(streams), marks, strict=True):
        if preserved and other.punctuation is None and other.arrival != "ordered":
            raise WindowError(
                f"within: missing, and how={how.name!r} has to know which rows of {stream.name} "
                f"match nothing. {other.name} says when a key that has come is closed, but not "
                "that a key which has not come will not come. Give within='1 hour', or "
                f"punctuations or arrival='ordered' of {other.name}."
            )


def check_purge_after(streams: Sequence[StreamSpec], count: object) -> None:
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise PunctuationError(
            f"tuning: purge_after={count!r} must be a number of punctuations, 1 or more: "
            "1 purges at once, 100 after a hundred of them."
        )
    if not any(stream.closes for stream in streams):
        raise PunctuationError(
            f"tuning: purge_after={count!r}, but no stream closes its keys: give one a "
            "punctuation, an arrival, or unique=True."
        )
