"""All that must hold for rows to match: the key, the windows, and conditions to evaluate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from watersmeet.conditions.predicate import AllOf, FunctionPredicate, Predicate
from watersmeet.conditions.terms import Term, conjunction
from watersmeet.errors import PredicateError, did_you_mean
from watersmeet.plan.arguments import name_of_table
from watersmeet.plan.backend import Backend
from watersmeet.plan.join_arguments import (
    WhereCondition,
    all_of,
    conditions_of,
    join_type,
    texts_of,
)
from watersmeet.plan.naming import resolve
from watersmeet.plan.streams import check_streams, with_time
from watersmeet.plan.where.equalities import WhereKey, key_of_terms
from watersmeet.plan.where.windows import WhereWindows, windows_of_terms
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import StreamSpec


@dataclass(frozen=True)
class Matching:
    """``on`` and ``within`` as a call gives them, and the conditions to evaluate: ``terms`` of SQL,
    and ``functions``. ``where`` has these conditions as a call gives them.

    ``reading`` says which parts of the condition became a key or windows. ``unlimited`` are the
    differences of times that it does not limit, if it limits others."""

    on: object
    within: object
    where: tuple[WhereCondition, ...] | None = None
    terms: tuple[Term, ...] = ()
    functions: tuple[Predicate, ...] = ()
    reading: tuple[str, ...] = ()
    unlimited: tuple[str, ...] = ()

    @property
    def predicate(self) -> Predicate | None:
        """The conditions to evaluate, as one predicate."""
        of_terms = conjunction(self.terms)
        predicates = (*((of_terms,) if of_terms else ()), *self.functions)
        return AllOf(predicates) if len(predicates) > 1 else next(iter(predicates), None)


def read_where(
    streams: Sequence[StreamSpec],
    backend: Backend,
    *,
    on: object,
    within: object,
    where: object,
    how: object,
) -> Matching:
    """All that must hold for rows to match, by a call. If it gives ``on`` or ``within``, keys or
    windows are not looked for in ``where``."""
    conditions = conditions_of(where)
    if not conditions:
        return Matching(on, within)
    # The condition names the streams: they are checked first.
    check_streams(streams)
    streams = [with_time(stream) for stream in streams]
    star = len(streams) > 2 and join_type(how).star
    return read_conditions(streams, backend, on=on, within=within, conditions=conditions, star=star)


def read_conditions(
    streams: Sequence[StreamSpec],
    backend: Backend,
    *,
    on: object,
    within: object,
    conditions: Sequence[WhereCondition],
    star: bool = False,
) -> Matching:
    """The same, of streams that were checked. ``star``: each is matched with the first one alone,
    so only a key can be read."""
    functions = [each for each in conditions if isinstance(each, PredicateFunction)]
    if star and functions:
        _refuse_for_star(streams, conditions)
    terms = [t for each in conditions if isinstance(each, str) for t in backend.translate(each)]
    keys = key_of_terms(streams, terms if on is None else ())
    if star and not _say_only_the_key(terms, keys):
        _refuse_for_star(streams, conditions)
    windows = windows_of_terms(streams, terms if within is None else ())
    replaced = keys.replaced | windows.replaced
    left = tuple(term for i, term in enumerate(terms) if i not in replaced)
    key = keys.on if on is None else on
    return Matching(
        on=key,
        within=windows.within if within is None else within,
        where=(_evaluated(left, functions) if replaced else tuple(conditions)) or None,
        terms=left,
        functions=tuple(_function_predicate(function, streams) for function in functions),
        reading=_reading(terms, keys, windows, keyed=key is not None),
        unlimited=windows.unlimited,
    )


def _say_only_the_key(terms: Sequence[Term], keys: WhereKey) -> bool:
    """Do the terms say that the first stream's key equals each other one's, and nothing else?
    (Were the keys of two others equal, without one of the first, they would not match here.)"""
    return all(
        i in keys.replaced
        and term.equality is not None
        and 0 in (term.equality.left[0], term.equality.right[0])
        for i, term in enumerate(terms)
    )


def _refuse_for_star(
    streams: Sequence[StreamSpec], conditions: Sequence[WhereCondition]
) -> NoReturn:
    first, *others = (stream.name for stream in streams)
    shown = all_of(texts_of(conditions))
    key = " AND ".join(f"{first}.k = {other}.k" for other in others)
    raise PredicateError(
        f"where={shown!r} with how='left' of {len(streams)} streams: it would not be clear which "
        f"match it is a condition of. Only a key can be given so, as in {key!r}. Filter the "
        "streams before the join, or the result after it, or join two streams at a time."
    )


def _function_predicate(
    given: PredicateFunction, streams: Sequence[StreamSpec]
) -> FunctionPredicate:
    """The function as a predicate over the streams of a join."""
    names = [stream.name for stream in streams]
    for name in given.streams:
        if name not in names:
            raise PredicateError(
                f"where={given.text}: {name!r} is not one of the streams {', '.join(names)}."
                f"{did_you_mean(str(name), names)}{name_of_table(names)}"
            )
    sides = tuple(names.index(name) for name in given.streams)
    columns = tuple((side, name) for side in sides for name in _columns_of(given, streams[side]))
    cost = None if given.cost is None else given.cost / 1e6
    return FunctionPredicate(given.text, columns, given.function, sides, cost)


def _columns_of(given: PredicateFunction, stream: StreamSpec) -> list[str]:
    named = given.columns.get(stream.name)
    if named is None:
        return [column.name for column in stream.columns]
    return [resolve(stream, name, argument=f"where={given.text}").name for name in named]


def _evaluated(
    terms: Sequence[Term], functions: Sequence[PredicateFunction]
) -> tuple[WhereCondition, ...]:
    """The conditions that are left to evaluate."""
    rest = conjunction(terms)
    return (*(() if rest is None else (rest.text,)), *functions)


def _reading(
    terms: Sequence[Term], keys: WhereKey, windows: WhereWindows, *, keyed: bool
) -> tuple[str, ...]:
    """What each term became: a key, windows, or a condition to evaluate; nothing, if there are
    neither keys nor windows. (By ``between``, two terms are written as one.) Without a key, the
    parts of the condition that compare ordered values are used to search."""
    if not keys.replaced and not windows.used:
        return ()
    left = [i for i in range(len(terms)) if i not in keys.replaced | windows.replaced]
    made: dict[str, Collection[int]] = {
        "key": keys.replaced,
        "windows": windows.used,
        "searched": [i for i in left if terms[i].comparisons and not keyed],
        "evaluated": [i for i in left if keyed or not terms[i].compared_exactly],
    }
    read: dict[str, list[str]] = {}
    for what, those in made.items():
        for i in those:
            read.setdefault(terms[i].text, []).append(what)
    texts = dict.fromkeys(term.text for term in terms)
    return tuple(f"{text}: {', '.join(dict.fromkeys(read[text]))}" for text in texts)
