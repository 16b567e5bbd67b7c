"""Arguments that joins of every family have: the join type, the name, the windows, the further
condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from watersmeet import durations
from watersmeet.errors import (
    JoinTypeError,
    PlanError,
    PredicateError,
    TimeColumnError,
    UnboundedStateError,
    WindowError,
    did_you_mean,
)
from watersmeet.plan.arguments import by_stream
from watersmeet.plan.streams import time_example
from watersmeet.spec.join_type import JOIN_NAMES, JOIN_TYPES, How, JoinType, join_type_of
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import StreamSpec

#: One of the conditions that ``where`` may give.
WhereCondition = str | PredicateFunction
_EXAMPLE = "like 'views.price < clicks.bid'"


def join_type(how: object, *, possible: Sequence[JoinType] = JOIN_TYPES) -> JoinType:
    """The join type that a call names. If it is none, the message lists the ``possible`` ones."""
    found = join_type_of(how) if isinstance(how, str) else None
    if found is not None:
        return found
    raise JoinTypeError(
        f"how={how!r} is not a join type: it is one of {', '.join(map(str, possible))}."
        f"{did_you_mean(str(how), [*JOIN_NAMES, *get_args(How)])}"
    )


def join_name(name: object, how: JoinType, streams: Sequence[StreamSpec]) -> str:
    """What the join is called in metrics and in the Spark UI."""
    if name is None:
        return f"{how} join of {' and '.join(stream.name for stream in streams)}"
    if not isinstance(name, str) or not name.strip():
        raise PlanError(
            f"name={name!r} is not a name. Give text like 'ad clicks', or leave it out."
        )
    return name.strip()


def conditions_of(where: object) -> tuple[WhereCondition, ...]:
    """The conditions that ``where`` gives: one, several, or none."""
    if where is None:
        return ()
    several = isinstance(where, Sequence) and not isinstance(where, str)
    given = tuple(where) if isinstance(where, Sequence) and several else (where,)
    for condition in given:
        _check_condition(condition, where)
    if several and not given:
        raise PredicateError(f"where={where!r} is empty. Give a condition {_EXAMPLE}, or None.")
    return given


def texts_of(conditions: Sequence[WhereCondition]) -> tuple[str, ...]:
    """Conditions, for people to read."""
    return tuple(c.text if isinstance(c, PredicateFunction) else c for c in conditions)


def all_of(texts: Sequence[str]) -> str | None:
    """Several conditions as one text.

    >>> all_of(["a.x < b.x", "a.y = 1 OR b.y = 1"])
    '(a.x < b.x) AND (a.y = 1 OR b.y = 1)'
    """
    if len(texts) < 2:
        return next(iter(texts), None)
    return " AND ".join(f"({text})" for text in texts)


def _check_condition(condition: object, where: object) -> None:
    if isinstance(condition, PredicateFunction):
        return
    if not isinstance(condition, str):
        raise PredicateError(
            f"where={where!r}: {condition!r} ({type(condition).__name__}) is not a condition. Give "
            f"SQL text {_EXAMPLE}, a Python function, wm.predicate(function, 'views', 'clicks'), "
            "or a list of these."
        )
    if not condition.strip():
        raise PredicateError(f"where={where!r} is empty. Give SQL text {_EXAMPLE}, or None.")


def window_lengths(streams: Sequence[StreamSpec], within: object) -> tuple[int | None, ...]:
    if within is None:
        return tuple(None for _ in streams)
    if isinstance(within, Mapping):
        given = by_stream(streams, within, argument="within")
        windows = [
            durations.parse(value, argument=f"within[{stream.name!r}]")
            for stream, value in zip(streams, given, strict=True)
        ]
    else:
        windows = [durations.parse(within, argument="within")] * len(streams)
    for stream in streams:
        if stream.time is None:
            raise TimeColumnError(
                f"within={within!r} compares times, but the stream {stream.name!r} has none. "
                f"Give its time column: {time_example(stream)}."
            )
    return tuple(windows)


def check_may_be_unbounded(how: JoinType, unbounded: object, unlimited: Sequence[str]) -> None:
    """Nothing bounds the state: does the call allow that? ``unlimited`` are the differences of
    times that ``where`` should have limited, so that there could be windows."""
    missing = "within: missing"
    if unlimited:
        missing += f", and where does not limit {' and '.join(unlimited)}"
    if how.emits_unmatched:
        raise WindowError(
            f"{missing}, and how={how.name!r} on streams cannot do without it, not even with "
            "unbounded=True: a match could always still come, so the watermark can never prove "
            'that a row stays unmatched. Give within="1 hour", or as long as a match may take.'
        )
    if not unbounded:
        raise UnboundedStateError(
            f"{missing}, so nothing would ever leave the state: every row would wait for "
            'a match for ever. Give within="1 hour", or as long as a match may take; '
            "if the streams really are small, unbounded=True."
        )
