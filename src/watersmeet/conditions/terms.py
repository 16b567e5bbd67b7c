"""Terms: the parts of a SQL condition that must all hold, and facts that follow from each.

A condition is the conjunction of its terms. A term can always be evaluated, by its predicate. From
some terms a fact follows that a join can use: that two columns are equal, that two times are not
far apart, or that values are in an order by which rows can be searched. Such a fact holds wherever
the term holds. If it is *exact*, it holds nowhere else, and can take the term's place.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.conditions.overlaps import Comparison, Overlap, overlaps_of
from watersmeet.conditions.predicate import SqlPredicate

#: A stream's position and a column's name.
ColumnOf = tuple[int, str]


@dataclass(frozen=True)
class Equality:
    """Two columns are equal; nulls are not."""

    left: ColumnOf
    right: ColumnOf


@dataclass(frozen=True)
class Gap:
    """``later - earlier <= most``, of two columns with times, in microseconds. ``most`` may be
    negative: then ``later`` is the earlier one."""

    later: ColumnOf
    earlier: ColumnOf
    most: int
    exact: bool


@dataclass(frozen=True)
class Term:
    """One of the parts. All of its ``gaps`` and ``comparisons`` hold wherever it does."""

    predicate: SqlPredicate
    equality: Equality | None = None
    gaps: tuple[Gap, ...] = ()
    comparisons: tuple[Comparison, ...] = ()

    @property
    def text(self) -> str:
        return self.predicate.text

    @property
    def compared_exactly(self) -> bool:
        """Do its comparisons together mean the same as the term?"""
        return bool(self.comparisons) and all(each.exact for each in self.comparisons)


def conjunction(terms: Sequence[Term]) -> SqlPredicate | None:
    """One predicate that holds where all terms do; None if there are none."""
    if not terms:
        return None
    predicates = [term.predicate for term in terms]
    return SqlPredicate(
        text=" AND ".join(dict.fromkeys(predicate.text for predicate in predicates)),
        columns=tuple(dict.fromkeys(c for predicate in predicates for c in predicate.columns)),
        expression=functools.reduce(
            lambda a, b: a & b, [predicate.expression for predicate in predicates]
        ),
    )


def searched(terms: Sequence[Term]) -> tuple[tuple[Overlap, ...], tuple[Term, ...]]:
    """The overlaps by which rows can be searched, and the terms that are to be evaluated for the
    rows that such a search finds."""
    overlaps = overlaps_of([each for term in terms for each in term.comparisons])
    return overlaps, tuple(term for term in terms if not term.compared_exactly)
