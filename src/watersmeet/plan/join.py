"""What planning has in common for joins of every family: the join type, the name, the windows,
the further condition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from watersmeet import durations
from watersmeet.errors import (
    JoinTypeError,
    PlanError,
    PredicateError,
    TimeColumnError,
    did_you_mean,
)
from watersmeet.plan.arguments import by_stream
from watersmeet.plan.streams import time_example
from watersmeet.rows.predicate import Predicate
from watersmeet.spec.join import JOIN_TYPES, How, JoinSpec
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import StreamSpec

#: What Spark calls these joins, without underscores, and what they are called here.
_SPARK_JOIN_TYPES = {
    "leftouter": "left",
    "rightouter": "right",
    "outer": "full",
    "fullouter": "full",
    "leftsemi": "semi",
    "leftanti": "anti",
}


@dataclass(frozen=True)
class JoinPlan:
    """A planned join: what was asked for, how it runs, and its further condition. ``reading`` says
    what was made of ``where``, for people to read."""

    spec: JoinSpec
    policy: Any
    predicate: Predicate | None
    reading: tuple[str, ...] = ()


def join_type(how: object) -> str:
    """The join type, by our name; Spark's spellings are taken too."""
    given = re.sub(r"[\s_-]", "", how.lower()) if isinstance(how, str) else ""
    known = _SPARK_JOIN_TYPES.get(given, given)
    if known in JOIN_TYPES:
        return known
    raise JoinTypeError(
        f"how={how!r} is not a join type: it is one of {', '.join(JOIN_TYPES)}."
        f"{did_you_mean(str(how), [*JOIN_TYPES, *get_args(How)])}"
    )


def join_name(name: object, how: str, streams: Sequence[StreamSpec]) -> str:
    """What the join is called in metrics and in the Spark UI."""
    if name is None:
        return f"{how} join of {' and '.join(stream.name for stream in streams)}"
    if not isinstance(name, str) or not name.strip():
        raise PlanError(
            f"name={name!r} is not a name. Give text like 'ad clicks', or leave it out."
        )
    return name.strip()


def check_where(where: object) -> None:
    example = "like 'views.price < clicks.bid'"
    if where is None or isinstance(where, PredicateFunction):
        return
    if not isinstance(where, str):
        raise PredicateError(
            f"where={where!r} ({type(where).__name__}) is not a condition. Give SQL text "
            f"{example}, or a Python function: wm.predicate(function, 'views', 'clicks')."
        )
    if not where.strip():
        raise PredicateError(f"where={where!r} is empty. Give SQL text {example}, or None.")


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
