"""Comparisons by which stored rows can be searched (:mod:`watersmeet.conditions.overlaps`).

A comparison of a value of one stream with a value of another is one by itself, and is exact if the
ranks of its type are. Where a side depends on both streams, it may be a sum or a difference, as in
``abs(a.x - b.x) < 2``; then what belongs to each stream is put on a side of its own::

    a.x - b.x <= 2        becomes        a.x <= b.x + 2

That is computed in doubles, with room for errors of rounding, here and in Spark's own arithmetic.
So it lets through all pairs for which the condition holds, and a few more, and the condition is
evaluated for these.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import types as T

from watersmeet.conditions.overlaps import Comparison, Rank
from watersmeet.conditions.terms import ColumnOf
from watersmeet.spark.jvm.objects import elements
from watersmeet.spark.sql.gaps import NoSumError
from watersmeet.spark.sql.nodes import Node, computed, in_order, operand_type, type_of
from watersmeet.spark.sql.numbers import WIDER
from watersmeet.spark.sql.ranks import GREATEST, LEAST, hashed, number_rank, ranked
from watersmeet.spark.sql.times import local_time

if TYPE_CHECKING:
    from watersmeet.spark.sql.translation import Translation

#: A sum of more parts than this is not taken apart.
_PARTS = 8
#: By how much of its parts a sum may be off: each part is rounded, and each step, in both ways to
#: compute it. That is 2 ** -53 each for doubles, 2 ** -24 for floats.
_ROUNDING = 2.0**-45
_FLOAT_ROUNDING = 2.0**-16
#: A sum of floats with greater parts may be beyond the greatest float.
_FLOAT_LIMIT = 2.0**127 / _PARTS
_DAY = 86_400_000_000.0


@dataclass(frozen=True)
class _Part:
    """A part of a sum: a value as a double, of one stream or of none, and its sign. Was it a float,
    or a sum in which it is? May it be NaN? Is it ``subtracted`` on its side of the comparison?"""

    sign: int
    text: str
    columns: tuple[ColumnOf, ...]
    value: pl.Expr
    was_float: bool
    may_be_nan: bool
    subtracted: bool = False

    def times(self, sign: int) -> _Part:
        return replace(self, sign=self.sign * sign)


def comparisons_of(t: Translation, node: Node) -> tuple[Comparison, ...]:
    """The comparisons that a comparison of two streams implies, which may be none."""
    if computed(operand_type(node)) is None:
        return ()
    try:
        if all(len(_streams(t, side)) == 1 for side in elements(node.children())):
            return tuple(_direct(t, node))
        return tuple(_rearranged(t, node))
    except NoSumError:
        return ()


def _streams(t: Translation, node: Node) -> set[int]:
    _, columns = t.collected(node)
    return {stream for stream, _ in columns}


# A value of one stream beside a value of another


def _direct(t: Translation, node: Node) -> Iterator[Comparison]:
    # Of texts that are equal, the first bytes are; but a hash tells more of them apart.
    text = isinstance(operand_type(node), T.StringType | T.BinaryType)
    by_hash = text and node.nodeName() == "EqualTo"
    for lesser, greater, strict in in_order(node):
        low, exact = _rank(t, lesser, by_hash)
        high, _ = _rank(t, greater, by_hash)
        yield Comparison(low, replace(high, below=strict and exact), exact)


def _rank(t: Translation, node: Node, by_hash: bool) -> tuple[Rank, bool]:
    value, columns = t.collected(node)
    found = (hashed(value), False) if by_hash else ranked(value, type_of(node))
    if found is None:
        raise NoSumError
    whole = "whole number" if type(type_of(node)) in WIDER else node.dataType().catalogString()
    kind = "hash" if by_hash else whole
    return _rank_of(t.text(node), columns, kind, found[0]), found[1]


def _rank_of(text: str, columns: Sequence[ColumnOf], kind: str, value: pl.Expr) -> Rank:
    return Rank(text, columns[0][0], tuple(name for _, name in columns), kind, value)


# A sum of parts of both streams


def _rearranged(t: Translation, node: Node) -> Iterator[Comparison]:
    for lesser, greater, _ in in_order(node):
        summed = t.meant(lesser)
        absolute = summed.nodeName() == "Abs"
        left = list(_side(t, summed.child() if absolute else summed))
        right = [part.times(-1) for part in _side(t, greater)]
        for sign in (1, -1) if absolute else (1,):
            yield _split([*(part.times(sign) for part in left), *right])


def _split(parts: Sequence[_Part]) -> Comparison:
    """If the sum of the parts is 0 or less: the comparison of the two streams that follows."""
    streams = sorted({stream for part in parts for stream, _ in part.columns})
    if len(streams) != 2 or len(parts) > _PARTS:
        raise NoSumError
    mine = [part for part in parts if part.columns and part.columns[0][0] == streams[0]]
    rest = [part for part in parts if not part.columns or part.columns[0][0] != streams[0]]
    # What belongs to the first stream keeps its sign, so that it is the same in both halves of
    # `abs(a.x - b.x) < 2`.
    sign = mine[0].sign
    floats = any(part.was_float for part in parts)
    rounding = _FLOAT_ROUNDING if floats else _ROUNDING
    limit = _FLOAT_LIMIT if floats else math.inf
    mine = [part.times(sign) for part in mine]
    one = _lone(mine[0]) if len(mine) == 1 else _total(mine, rounding, limit, low=sign > 0)
    other = _total([part.times(-sign) for part in rest], rounding, limit, low=sign < 0)
    return Comparison(*((one, other) if sign > 0 else (other, one)), exact=False)


def _lone(part: _Part) -> Rank:
    """A single value. Room is left on the other side only: where the comparison holds and the value
    is large, the other side is as large.

    A side of the comparison in which it is NaN is NaN, and that is greater than any number. If it
    is the lesser side, the comparison holds only beside another NaN, of which nothing is known
    (:func:`_total`): so the rank does not matter. If it is the greater side, the comparison holds
    whatever the other values are: then a value that is added is the high one of the two ranks, and
    one that is subtracted is the low one.
    """
    least = pl.lit(LEAST, dtype=pl.Int64)
    rank = number_rank(part.value)
    if part.may_be_nan and part.subtracted:
        rank = pl.when(part.value.is_nan()).then(least).otherwise(rank)
    return _sum_rank([part], rank)


def _total(parts: Sequence[_Part], rounding: float, limit: float, *, low: bool) -> Rank:
    """The sum of parts, lower or higher by what rounding may make of it. Of NaN, and of a sum with
    parts beyond the limit, nothing is known."""
    value = functools.reduce(lambda a, b: a + b, [part.value * part.sign for part in parts])
    size = functools.reduce(lambda a, b: a + b, [part.value.abs() for part in parts])
    near = value - size * rounding if low else value + size * rounding
    unknown = near.is_nan() | near.is_infinite() | (size > limit)
    anything = pl.lit(LEAST if low else GREATEST, dtype=pl.Int64)
    rank = pl.when(unknown).then(anything).otherwise(number_rank(near))
    return _sum_rank(parts, rank)


def _sum_rank(parts: Sequence[_Part], rank: pl.Expr) -> Rank:
    columns = tuple(dict.fromkeys(column for part in parts for column in part.columns))
    text = "".join(f" {'-' if part.sign < 0 else '+'} {part.text}" for part in parts)
    return _rank_of(text.removeprefix(" + ").strip(), columns, "sum", rank)


def _side(t: Translation, node: Node) -> Iterator[_Part]:
    """The parts of one side of a comparison."""
    return (replace(part, subtracted=part.sign < 0) for part in _parts(t, node, 1))


def _parts(t: Translation, given: Node, sign: int, was_float: bool = False) -> Iterator[_Part]:
    """The parts of a sum, which ``was_float``, or is."""
    node = t.meant(given)
    was_float = was_float or isinstance(type_of(node), T.FloatType)
    if len(_streams(t, node)) < 2:
        yield _part(t, node, sign, _double, was_float)
        return
    children, name = elements(node.children()), node.nodeName()
    if name in _DIFFERENCES:
        for child, its_sign in zip(children, (sign, -sign), strict=True):
            yield _part(t, t.meant(child), its_sign, _DIFFERENCES[name], was_float)
        return
    signs = _SIGNS.get(name)
    if signs is None or not all(_keeps_value(child, node) for child in children):
        raise NoSumError
    for child, its_sign in zip(children, signs, strict=True):
        yield from _parts(t, child, sign * its_sign, was_float)


def _part(t: Translation, node: Node, sign: int, convert: _Conversion, was_float: bool) -> _Part:
    t.inputs = {}
    value = convert(t, node)
    columns = tuple(t.inputs)
    if len({stream for stream, _ in columns}) > 1:
        raise NoSumError
    may_be_nan = isinstance(type_of(node), T.FloatType | T.DoubleType)
    return _Part(sign, t.text(node), columns, value, was_float, may_be_nan)


def _keeps_value(child: Node, node: Node) -> bool:
    """Is a part of a sum what it was before, but for an error that is counted as rounding? (If it
    becomes null, nothing matches.)"""
    source, target = type_of(child), type_of(node)
    if isinstance(source, T.DecimalType) and isinstance(target, T.DecimalType):
        return bool(target.scale >= source.scale)
    if isinstance(source, T.FloatType) and isinstance(target, T.DoubleType):
        return True
    exact = isinstance(source, T.DecimalType) or type(source) in WIDER
    if exact and isinstance(target, T.FloatType | T.DoubleType | T.DecimalType):
        return True
    return type(source) is type(target) or (type(source) in WIDER and type(target) in WIDER)


def _double(t: Translation, node: Node) -> pl.Expr:
    match type_of(node):
        case T.DecimalType() as kind:
            return t(node).cast(pl.Float64) / 10.0**kind.scale
        case T.DayTimeIntervalType():
            return t(node).cast(pl.Int64).cast(pl.Float64)
        case kind if type(kind) in WIDER or isinstance(kind, T.FloatType | T.DoubleType):
            return t(node).cast(pl.Float64)
    raise NoSumError


def _days(t: Translation, node: Node) -> pl.Expr:
    return t(node).cast(pl.Int32).cast(pl.Float64)


_Conversion = Callable[["Translation", Node], pl.Expr]

#: The signs of the children of nodes that are sums.
_SIGNS = {"Add": (1, 1), "Subtract": (1, -1), "UnaryMinus": (-1,), "Cast": (1,)}

#: What nodes subtract, as a double.
_DIFFERENCES: dict[str, _Conversion] = {
    "SubtractTimestamps": lambda t, node: local_time(t, node).cast(pl.Int64).cast(pl.Float64),
    "SubtractDates": lambda t, node: _days(t, node) * _DAY,
    "DateDiff": _days,
}
