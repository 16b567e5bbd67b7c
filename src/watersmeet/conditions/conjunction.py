"""The conditions that must hold for rows of a join without a key to match.

A condition is either an *overlap*, by which stored rows are searched, or a *predicate*, which is
evaluated for the pairs that the search has found. Together they mean the same as ``where``: a term
of SQL that an overlap expresses exactly is not evaluated again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from watersmeet.conditions.overlaps import Overlap
from watersmeet.conditions.predicate import Predicate, SqlPredicate, streams_of
from watersmeet.conditions.terms import Term, searched


@dataclass(frozen=True)
class Conditions:
    """Conditions that must all hold. They are known by their numbers: ``predicates`` first, then
    ``overlaps``. For the predicates in ``searched`` there is an overlap that lets the same pairs
    through, and a few more."""

    predicates: tuple[Predicate, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    searched: frozenset[int] = frozenset()

    @classmethod
    def of(cls, terms: Sequence[Term], functions: Sequence[Predicate]) -> Conditions:
        """The terms of SQL and the functions that must hold."""
        overlaps, evaluated = searched(terms)
        both = frozenset(number for number, term in enumerate(evaluated) if term.comparisons)
        return cls((*(term.predicate for term in evaluated), *functions), overlaps, both)

    @property
    def streams(self) -> list[frozenset[int]]:
        """The streams that each of them compares."""
        return [*map(streams_of, self.predicates), *(overlap.streams for overlap in self.overlaps)]

    def shares(self, unknown: float) -> list[float]:
        """The share of pairs that each condition is assumed to let through before it is measured:
        ``unknown``; or all, if a search for the same condition has rejected the others."""
        return [1.0 if n in self.searched else unknown for n in range(len(self.streams))]

    def columns(self, stream: int) -> set[str]:
        """The columns of a stream that any of them reads."""
        read = {name for each in self.predicates for of, name in each.columns if of == stream}
        for overlap in self.overlaps:
            if stream in overlap.streams:
                read.update(overlap.span(stream).columns)
        return read

    def row_filters(self, stream: int) -> list[tuple[int, SqlPredicate]]:
        """The predicates that say which rows of a stream can match at all: those in SQL over no
        other stream. They are evaluated for rows, not for pairs. (Functions are not: a function may
        take long, and a row may be in no pair.)"""
        return [
            (number, predicate)
            for number, predicate in enumerate(self.predicates)
            if isinstance(predicate, SqlPredicate) and streams_of(predicate) == {stream}
        ]

    def due(self, met: Collection[int], stream: int) -> tuple[list[int], list[int]]:
        """The predicates to apply, and the overlaps to search by, when rows of some streams meet a
        row of one more: those that compare only these streams, and were not applied before."""
        before, together = frozenset(met), frozenset((*met, stream))
        alone = {number for each in together for number, _ in self.row_filters(each)}
        numbers = [
            number
            for number, streams in enumerate(self.streams)
            if streams <= together and not (len(before) > 1 and streams <= before)
            if number not in alone
        ]
        count = len(self.predicates)
        return [n for n in numbers if n < count], [n - count for n in numbers if n >= count]
