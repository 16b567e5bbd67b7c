"""Which columns a condition makes a key.

Columns that terms make equal, in any pairs, are all equal to one another: ``a.k = b.k AND
b.k = c.k`` is one key of three streams. If every stream has one of them, they are a key, and the
key takes the place of the terms that compare two of its columns. If a stream has a second one, as
with ``AND a.k = a.l``, its term is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.conditions.terms import ColumnOf, Equality, Term
from watersmeet.plan.types import may_be_key
from watersmeet.spec.stream import StreamSpec


@dataclass(frozen=True)
class WhereKey:
    """The key, as ``on`` would give it; None if there is none. ``replaced`` are the positions of
    the terms whose place it takes."""

    on: dict[str, list[str]] | None
    replaced: frozenset[int]


def key_of_terms(streams: Sequence[StreamSpec], terms: Sequence[Term]) -> WhereKey:
    """The key of all streams that follows from terms, if there is one."""
    equalities = {
        i: term.equality
        for i, term in enumerate(terms)
        if term.equality and _may_be_key(streams, term.equality)
    }
    groups = _equal_columns(list(equalities.values()))
    keys = [key for key in map(_first_of_each, groups) if len(key) == len(streams)]
    if not keys:
        return WhereKey(None, frozenset())
    chosen = {column for key in keys for column in key.items()}
    replaced = {i for i, each in equalities.items() if {each.left, each.right} <= chosen}
    on = {stream.name: [key[i] for key in keys] for i, stream in enumerate(streams)}
    return WhereKey(on, frozenset(replaced))


def _may_be_key(streams: Sequence[StreamSpec], equality: Equality) -> bool:
    columns = equality.left, equality.right
    return all(may_be_key(streams[stream].column(name).type) for stream, name in columns)


def _equal_columns(equalities: Sequence[Equality]) -> list[dict[ColumnOf, None]]:
    """Columns that are equal to one another, in the order in which they are named."""
    groups: list[dict[ColumnOf, None]] = []
    for equality in equalities:
        pair = dict.fromkeys((equality.left, equality.right))
        touched = [group for group in groups if group.keys() & pair.keys()]
        merged = {column: None for group in (*touched, pair) for column in group}
        groups = [group for group in groups if group not in touched] + [merged]
    return groups


def _first_of_each(columns: dict[ColumnOf, None]) -> dict[int, str]:
    """For each stream, the first of its columns."""
    first: dict[int, str] = {}
    for stream, name in columns:
        first.setdefault(stream, name)
    return first
