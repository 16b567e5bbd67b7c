"""Overlaps: comparisons between two streams by which stored rows can be searched.

A *comparison* says ``low <= high`` of two numbers, each computed from the rows of one stream. Two
of them that point in opposite directions are one *overlap* of intervals::

    a.low <= b.high  and  b.low <= a.high

All of these are overlaps, with points or open intervals among them::

    a.x BETWEEN b.lo AND b.hi            a: [x, x]           b: [lo, hi]
    abs(a.x - b.x) < 2                   a: [x, x]           b: (x - 2, x + 2)
    a.lo < b.hi AND b.lo < a.hi          a: (lo, hi)         b: (lo, hi)
    a.x <= b.y                           a: [x, ...          b: ..., y]

The numbers are *ranks*: 64 bits in the order of the values that were compared. A null has none, and
its row overlaps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

import numpy as np
import polars as pl
import pyarrow as pa

from watersmeet.conditions.bounds import Bounds
from watersmeet.conditions.predicate import input_name
from watersmeet.rows.columns import Bools, Ints

_LEAST = -(2**63)


@dataclass(frozen=True)
class Rank:
    """A number of 64 bits, computed from ``columns`` of one stream; ``text`` says from what value,
    for people to read. Only ranks of one ``kind`` can be compared. ``below``: the number just below
    is meant (below the least number there is none)."""

    text: str
    stream: int
    columns: tuple[str, ...]
    kind: str
    # `==` of two Polars expressions is an expression, not a truth value.
    expression: pl.Expr = field(compare=False)
    below: bool = False

    @property
    def number(self) -> pl.Expr:
        """The number itself, or null."""
        number = self.expression.cast(pl.Int64)
        return pl.when(number > _LEAST).then(number - 1) if self.below else number

    def is_the(self, other: Rank) -> bool:
        """Are the two always the same number?"""
        return self.below == other.below and self.expression.meta.eq(other.expression)

    @cached_property
    def computed(self) -> bytes:
        """The whole computation, as bytes."""
        return self.number.meta.serialize()


@dataclass(frozen=True)
class Comparison:
    """``low <= high``. It comes from a condition, and holds wherever that condition holds.
    ``exact``: and nowhere else."""

    low: Rank
    high: Rank
    exact: bool


@dataclass(frozen=True)
class Span:
    """One side of an overlap: the interval of a row of ``stream``. An end that is None is open.

    >>> x = Rank("a.x", 0, ("x",), "int", pl.col("0.x"))
    >>> bounds = Span(0, None, x).bounds([pa.array([3, None])])
    >>> bounds.low, bounds.high.tolist(), bounds.known.tolist()
    (None, [3, 0], [True, False])
    """

    stream: int
    low: Rank | None
    high: Rank | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        ranks = [rank for rank in (self.low, self.high) if rank is not None]
        return tuple(dict.fromkeys(name for rank in ranks for name in rank.columns))

    @property
    def point(self) -> str | None:
        """If the interval is always a point: what it is computed from, for people to read."""
        low, high = self.low, self.high
        return low.text if low is not None and high is not None and low.is_the(high) else None

    @cached_property
    def computed(self) -> tuple[bytes | None, ...]:
        """The computations of both ends, as bytes."""
        return tuple(None if rank is None else rank.computed for rank in (self.low, self.high))

    def bounds(self, columns: Sequence[pa.Array]) -> Bounds:
        """The intervals of some rows, by the values of their :attr:`columns`."""
        names = [input_name(self.stream, name) for name in self.columns]
        table = pa.Table.from_arrays(list(columns), names)
        frame = pl.DataFrame(pl.from_arrow(table, rechunk=False))
        if self.point is not None:
            points, known = _numbers(frame, self.low)
            assert points is not None, "a point is computed"
            return Bounds.points(points, known)
        low, has_low = _numbers(frame, self.low)
        high, has_high = _numbers(frame, self.high)
        masks = [mask for mask in (has_low, has_high) if mask is not None]
        return Bounds(low, high, np.logical_and.reduce(masks) if masks else None)


def _numbers(frame: pl.DataFrame, rank: Rank | None) -> tuple[Ints | None, Bools | None]:
    """The numbers of rows, and which rows have one (None: all rows). No rank, no numbers."""
    if rank is None:
        return None, None
    numbers = frame.select(rank.number).to_series()
    known = numbers.is_not_null().to_numpy() if numbers.has_nulls() else None
    return numbers.fill_null(0).to_numpy(), known


@dataclass(frozen=True)
class Overlap:
    """Rows of two streams match only if their spans overlap."""

    first: Span
    second: Span

    @property
    def streams(self) -> frozenset[int]:
        return frozenset((self.first.stream, self.second.stream))

    def span(self, stream: int) -> Span:
        """The side of one of the two streams."""
        return self.first if self.first.stream == stream else self.second

    @property
    def text(self) -> str:
        """The overlap, for people to read."""
        points = [span.point for span in (self.first, self.second)]
        if None not in points:
            return " = ".join(map(str, points))
        ends = ((self.first.low, self.second.high), (self.second.low, self.first.high))
        return " and ".join(
            f"{low.text} {'<' if high.below else '<='} {high.text}"
            for low, high in ends
            if low is not None and high is not None
        )


def overlaps_of(comparisons: Sequence[Comparison]) -> tuple[Overlap, ...]:
    """Overlaps with the same meaning as the comparisons. Two comparisons that share a value become
    one overlap: those of ``a.x >= b.lo and a.x <= b.hi`` share ``a.x``."""
    alike: dict[tuple[frozenset[int], str], list[Comparison]] = {}
    for each in comparisons:
        streams = frozenset((each.low.stream, each.high.stream))
        alike.setdefault((streams, each.low.kind), []).append(each)
    return tuple(
        _overlap(one, other)
        for (streams, _), group in alike.items()
        for one, other in _matched(
            [each for each in group if each.low.stream == min(streams)],
            [each for each in group if each.high.stream == min(streams)],
        )
    )


def _matched(
    forth: Sequence[Comparison], back: Sequence[Comparison]
) -> Iterator[tuple[Comparison | None, Comparison | None]]:
    """Pairs of comparisons that share a value, one of each direction; the others are paired in
    order, or stay alone."""
    alone, free = [], list(back)
    for one in forth:
        best = max(free, key=lambda other: _shared(one, other), default=None)
        if best is None or not _shared(one, best):
            alone.append(one)
            continue
        free.remove(best)
        yield one, best
    yield from zip_longest(alone, free)


def _shared(one: Comparison, other: Comparison) -> int:
    """How many values two comparisons of opposite directions share."""
    return (one.low.text == other.high.text) + (one.high.text == other.low.text)


def _overlap(forth: Comparison | None, back: Comparison | None) -> Overlap:
    """The overlap of two streams. One of them is ``low`` in the comparison ``forth`` and ``high``
    in the comparison ``back``; the other stream has the other two ends."""
    low, other_high = (forth.low, forth.high) if forth else (None, None)
    other_low, high = (back.low, back.high) if back else (None, None)
    mine, others = low or high, other_low or other_high
    assert mine is not None, "an overlap is made of one comparison at least"
    assert others is not None, "a comparison has two sides"
    return Overlap(Span(mine.stream, low, high), Span(others.stream, other_low, other_high))
