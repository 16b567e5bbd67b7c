"""From the arguments of a call to a validated :class:`~watersmeet.spec.JoinSpec`.

Every argument is checked here and nowhere else, in this order: the streams by themselves,
the join type, the keys, the windows, what bounds the state, the condition, the result's names.

What bounds the state. A row of stream i can meet only rows whose time is at most its own plus
``windows[i]``, and rows behind the watermark are dropped as they arrive. So it is useless, and
if it has matched nothing so far it is proven unmatched, as soon as::

    watermark >= time + windows[i]

Without ``within`` that never comes: no row leaves, and no row is ever proven unmatched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from watersmeet import durations
from watersmeet.errors import (
    JoinTypeError,
    PredicateError,
    PunctuationError,
    StrategyError,
    TimeColumnError,
    UnboundedStateError,
    WindowError,
    did_you_mean,
)
from watersmeet.plan.arguments import by_stream, check_flag, one_of
from watersmeet.plan.budget import checked_budget
from watersmeet.plan.keys import Keys, compared_types, resolved_keys
from watersmeet.plan.naming import result_columns
from watersmeet.plan.promises import (
    check_promises,
    check_provable,
    checked_purge_after,
    closed_by_promises,
)
from watersmeet.plan.streams import check_streams, time_example, with_time
from watersmeet.spec import (
    DRIVERS,
    GOALS,
    INDEXES,
    INVALIDATIONS,
    JOIN_TYPES,
    MULTIWAY_JOIN_TYPES,
    VIOLATIONS,
    Budget,
    JoinSpec,
    StreamSpec,
)

#: What Spark calls these joins, without underscores, and what they are called here.
_SPARK_JOIN_TYPES = {
    "leftouter": "left",
    "rightouter": "right",
    "outer": "full",
    "fullouter": "full",
    "leftsemi": "semi",
    "leftanti": "anti",
    "cross": "inner",
}


def plan_join(
    streams: Sequence[StreamSpec],
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    within: object = None,
    how: str = "inner",
    where: str | None = None,
    unbounded: bool = False,
    index: object = "auto",
    invalidation: str = "active",
    budget: Budget | None = None,
    goal: str = "throughput",
    violations: str = "fail",
    emit_punctuations: bool = False,
    driver: str = "auto",
    purge_after: int | None = None,
) -> JoinSpec:
    """Plan an equality join of streams, or say what is wrong with the call.

    ``within`` is a duration (text or :class:`~datetime.timedelta`), a dict from every stream's
    name to one, or None. The spec's ``unbounded`` tells whether the state really is unbounded,
    not just whether that would have been allowed.
    """
    check_streams(streams)
    streams = tuple(with_time(stream) for stream in streams)
    _check_how(how)
    if len(streams) > 2:
        _check_multiway(streams, how, where)
    keys = resolved_keys(streams, on)
    key_types = compared_types(streams, keys)
    windows = _windows(streams, within)
    check_flag(unbounded, argument="unbounded")
    check_flag(emit_punctuations, argument="emit_punctuations")
    check_promises(streams, key_types, emit_punctuations, how)
    free = streams[0].streaming and within is None and not closed_by_promises(streams)
    if free:
        _check_may_be_unbounded(how, unbounded)
    elif streams[0].streaming and within is None:
        check_provable(streams, how)
    _check_where(where)
    spec = JoinSpec(
        streams=streams,
        keys=keys,
        key_types=key_types,
        windows=windows,
        how=how,
        where=where,
        unbounded=free,
        output=(),
        index=_index(streams, index),
        invalidation=one_of(invalidation, INVALIDATIONS, argument="invalidation"),
        budget=checked_budget(streams, budget, how=how, windowed=within is not None),
        goal=one_of(goal, GOALS, argument="goal"),
        violations=one_of(violations, VIOLATIONS, argument="violations"),
        emit_punctuations=emit_punctuations,
        driver=_driver(streams, driver),
        purge_after=checked_purge_after(streams, purge_after),
    )
    return replace(spec, output=result_columns(spec))


# --- the join type, the condition, the flag


def _check_how(how: object) -> None:
    if how in JOIN_TYPES:
        return
    given = str(how).lower()
    known = _SPARK_JOIN_TYPES.get(re.sub(r"[\s_-]", "", given))
    hint = f" Did you mean {known!r}?" if known else did_you_mean(given, JOIN_TYPES)
    raise JoinTypeError(f"how={how!r} is no join type: it is one of {', '.join(JOIN_TYPES)}.{hint}")


def _check_multiway(streams: Sequence[StreamSpec], how: str, where: object) -> None:
    """What a join of more than two streams cannot do."""
    count = len(streams)
    if how not in MULTIWAY_JOIN_TYPES:
        raise JoinTypeError(
            f"how={how!r} is for two streams; a join of {count} is one of "
            f"{', '.join(MULTIWAY_JOIN_TYPES)}. Join two of them first, or give how='left'."
        )
    if how == "left" and where is not None:
        raise PredicateError(
            f"where={where!r} with how='left' of {count} streams: it would not be clear which "
            "match it is a condition of. Filter the streams before the join, or the result after "
            "it, or join two streams at a time."
        )
    for stream in streams:
        if stream.closes:
            raise PunctuationError(
                f"stream {stream.name!r}: unique, arrival and punctuation are for joins of two "
                f"streams; a join of {count} keeps rows by their windows. Leave them out, or join "
                "two streams at a time."
            )


def _driver(streams: Sequence[StreamSpec], driver: object) -> str:
    policy = one_of(driver, DRIVERS, argument="driver")
    untimed = [stream.name for stream in streams if stream.time is None]
    if policy == "timestamp" and untimed:
        raise StrategyError(
            f"driver='timestamp' takes rows in the order of their times, and {', '.join(untimed)} "
            "has none. Give its time column, or another driver."
        )
    return policy


def _check_where(where: object) -> None:
    example = "like 'views.price < clicks.bid'"
    if where is None:
        return
    if not isinstance(where, str):
        raise PredicateError(
            f"where={where!r} ({type(where).__name__}) is not a condition. Give SQL text {example}."
        )
    if not where.strip():
        raise PredicateError(f"where={where!r} is empty. Give SQL text {example}, or None.")


# --- the windows and what they bound


def _windows(streams: Sequence[StreamSpec], within: object) -> tuple[int | None, ...]:
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


def _check_may_be_unbounded(how: str, unbounded: bool) -> None:
    if how not in ("inner", "semi"):
        raise WindowError(
            f"within: missing, and how={how!r} on streams cannot do without it, not even with "
            "unbounded=True: a match could always still come, so the watermark can never prove "
            'that a row stays unmatched. Give within="1 hour", or as long as a match may take.'
        )
    if not unbounded:
        raise UnboundedStateError(
            "within: missing, so nothing would ever leave the state: every row would wait for "
            'a match for ever. Give within="1 hour", or as long as a match may take; '
            "if the streams really are small, unbounded=True."
        )


# --- how the state is held


def _index(streams: Sequence[StreamSpec], index: object) -> tuple[str, ...]:
    given = by_stream(streams, index, argument="index") if isinstance(index, Mapping) else None
    values = given or [index] * len(streams)
    return tuple(one_of(value, INDEXES, argument="index") for value in values)
