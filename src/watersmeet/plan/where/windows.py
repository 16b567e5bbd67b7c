"""Which windows a condition gives the streams.

Rows match by time if, for all streams i and j::

    time(j) - time(i) <= W(i)

Terms say that ``time(j) - time(i) <= D`` for some of them. With D(j, i) the least that follows from
all terms, also by way of other streams, W(i) is the greatest of its D(j, i); where that is negative
it is 0, because a window is no shorter. A window takes the place of a term that says no more than
it does: W(i) <= D. A narrower term is evaluated too. If a stream gets no window in this way, none
does: its rows would stay for ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations, product

from watersmeet import durations
from watersmeet.conditions.terms import Gap, Term
from watersmeet.spec.stream import StreamSpec

#: D(j, i), by (j, i); infinite where nothing limits the difference.
_Limits = dict[tuple[int, int], float]


@dataclass(frozen=True)
class WhereWindows:
    """The windows, as ``within`` would give them; None if there are none. ``used`` are the
    positions of the terms that they follow from, ``replaced`` of those whose place they take.
    ``unlimited`` are the differences of times that no term limits, if terms limit others."""

    within: dict[str, timedelta] | None
    used: frozenset[int] = frozenset()
    replaced: frozenset[int] = frozenset()
    unlimited: tuple[str, ...] = ()


def windows_of_terms(streams: Sequence[StreamSpec], terms: Sequence[Term]) -> WhereWindows:
    """The windows of all streams that terms say there are."""
    gaps = {
        i: term.gaps
        for i, term in enumerate(terms)
        if term.gaps and all(_is_of_times(streams, gap) for gap in term.gaps)
    }
    if not gaps:
        return WhereWindows(None)
    limits = _limits(len(streams), [gap for of_term in gaps.values() for gap in of_term])
    unlimited = [pair for pair, limit in limits.items() if limit > durations.LONGEST]
    if unlimited:
        return WhereWindows(None, unlimited=tuple(_difference(streams, *p) for p in unlimited))
    windows = [
        max(0, *(limits[j, i] for j in range(len(streams)) if j != i)) for i in range(len(streams))
    ]
    replaced = frozenset(
        i
        for i, of_term in gaps.items()
        if all(gap.exact and windows[gap.earlier[0]] <= gap.most for gap in of_term)
    )
    within = {
        stream.name: timedelta(microseconds=window)
        for stream, window in zip(streams, windows, strict=True)
    }
    return WhereWindows(within, frozenset(gaps), replaced)


def _is_of_times(streams: Sequence[StreamSpec], gap: Gap) -> bool:
    """Are both columns the times of their streams?"""
    return all(streams[stream].time == name for stream, name in (gap.later, gap.earlier))


def _limits(count: int, gaps: Sequence[Gap]) -> _Limits:
    """The least limits that follow from gaps: the shortest ways from stream to stream."""
    limits: _Limits = dict.fromkeys(permutations(range(count), 2), math.inf)
    for gap in gaps:
        pair = gap.later[0], gap.earlier[0]
        limits[pair] = min(limits[pair], gap.most)
    for via, later, earlier in product(range(count), repeat=3):
        if via not in (later, earlier) and later != earlier:
            way = limits[later, via] + limits[via, earlier]
            limits[later, earlier] = min(limits[later, earlier], way)
    return limits


def _difference(streams: Sequence[StreamSpec], later: int, earlier: int) -> str:
    one, other = streams[later], streams[earlier]
    return f"{one.name}.{one.time} - {other.name}.{other.time}"
