"""Conditions that are Python functions: whose rows they are about, and which columns."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.conditions.predicate import FunctionPredicate
from watersmeet.errors import PredicateError, did_you_mean
from watersmeet.plan.arguments import name_of_table
from watersmeet.plan.naming import resolve
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import StreamSpec


def bound(given: PredicateFunction, streams: Sequence[StreamSpec]) -> FunctionPredicate:
    """The function as a predicate over the streams of a join."""
    names = [stream.name for stream in streams]
    for name in given.streams:
        if name not in names:
            raise PredicateError(
                f"where={given.text}: {name!r} is not one of the streams {', '.join(names)}."
                f"{did_you_mean(str(name), names)}{name_of_table(names)}"
            )
    sides = tuple(names.index(name) for name in given.streams)
    columns = tuple((side, name) for side in sides for name in _columns(given, streams[side]))
    cost = None if given.cost is None else given.cost / 1e6
    return FunctionPredicate(given.text, columns, given.function, sides, cost)


def _columns(given: PredicateFunction, stream: StreamSpec) -> list[str]:
    wanted = given.columns.get(stream.name)
    if wanted is None:
        return [column.name for column in stream.columns]
    return [resolve(stream, name, argument=f"where={given.text}").name for name in wanted]
