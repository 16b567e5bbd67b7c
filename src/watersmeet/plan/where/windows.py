"""Which windows a condition gives the streams.

Rows match by time if, for all streams i and j::

    time(j) - time(i) <= W(i)

Terms say that ``time(j) - time(i) <= D`` for some of them. Let D(j, i) be the least limit that
follows from all terms, also by way of other streams. Then W(i) is the greatest D(j, i) over all j,
or 0 if that is negative, because no window is shorter. If W(i) <= D, the window takes the place of
the term. Otherwise the term is narrower than the window, and is evaluated too. If one stream gets
no window in this way, no stream gets one: its rows would stay for ever.

**Example.** Rows of a, b and c come in this order: b up to 5 minutes after a, c up to 3 after b::

    from the terms    D(b, a) = 5   D(c, b) = 3   D(a, b) = 0   D(b, c) = 0
    by way of b       D(c, a) = 5 + 3 = 8         D(a, c) = 0 + 0 = 0
    windows           W(a) = max(5, 8) = 8        W(b) = max(0, 3) = 3      W(c) = 0

The windows take the place of the terms with D(c, b) and D(b, c). The other two are evaluated: b is
up to 5 minutes after a, which is narrower than 8, and not before a, which is narrower than 3.
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
    """The windows, as ``within`` would give them; None if there are none. They follow from the
    terms at the positions ``used``, and take the place of those at the positions ``replaced``.
    ``unlimited`` are the differences of times that no term limits, if terms limit others."""

    within: dict[str, timedelta] | None
    used: frozenset[int] = frozenset()
    replaced: frozenset[int] = frozenset()
    unlimited: tuple[str, ...] = ()


def windows_of_terms(streams: Sequence[StreamSpec], terms: Sequence[Term]) -> WhereWindows:
    """The windows of all streams that follow from terms, if there are any."""
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
