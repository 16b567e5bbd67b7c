"""Gaps: how far apart a comparison allows two times to be.

What is compared is a *sum*: a time column, or the difference of two, and a constant. Both sides of
a comparison together are ``plus - minus``, two columns, and a constant that is known to be within
limits::

    plus - minus + c <= 0    and    least <= c <= most    imply    plus - minus <= -least

The limits are the same number, unless the calendar or rounding makes a difference: a month has 28
to 31 days, a local clock is put forward and back, whole seconds leave out a fraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from watersmeet.conditions.terms import ColumnOf, Gap
from watersmeet.spark.jvm.objects import elements
from watersmeet.spark.sql.nodes import Node, in_order, type_of
from watersmeet.spark.sql.numbers import WIDER
from watersmeet.spark.sql.times import MICROS, MONTHS

if TYPE_CHECKING:
    from watersmeet.spark.sql.translation import Translation

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
#: By how many microseconds at most a double is off: seconds of a timestamp, or a sum of two of them
#: and constants of so many seconds. (A double of 2 ** 44 seconds has no fraction below 2 ms.)
_ROUNDED = 2_000
_MOST_SECONDS = 10**11
#: A microsecond less than a second, and than a millisecond.
_FRACTION, _MILLI_FRACTION = _SECOND - 1, 999


class NoSumError(Exception):
    """What is compared is not a sum, of times or of values of two streams."""


@dataclass(frozen=True)
class _Sum:
    """``plus - minus`` and between ``least`` and ``most`` microseconds more, counted in units of
    ``unit`` microseconds. Unit None: a number without a unit."""

    plus: ColumnOf | None
    minus: ColumnOf | None
    unit: int | None
    least: int
    most: int

    def __neg__(self) -> _Sum:
        return _Sum(self.minus, self.plus, self.unit, -self.most, -self.least)

    def __add__(self, other: _Sum) -> _Sum:
        unit = self.unit or other.unit
        one, two = self._counted(unit), other._counted(unit)
        if (one.plus and two.plus) or (one.minus and two.minus):
            raise NoSumError
        plus, minus = one.plus or two.plus, one.minus or two.minus
        return _Sum(plus, minus, unit, one.least + two.least, one.most + two.most)

    def _counted(self, unit: int | None) -> _Sum:
        """The same in a unit, if it has none."""
        if self.unit == unit or unit is None:
            return self
        if self.unit is not None:
            raise NoSumError
        return replace(self, unit=unit, least=self.least * unit, most=self.most * unit)

    def wider(self, least: int, most: int) -> _Sum:
        return replace(self, least=self.least + least, most=self.most + most)


def gaps_of(t: Translation, node: Node) -> tuple[Gap, ...]:
    """The gaps that a comparison of two streams implies, which may be none."""
    try:
        return tuple(gap for sides in in_order(node) for gap in _gaps(t, *sides))
    except NoSumError:
        return ()


def _gaps(t: Translation, lesser: Node, greater: Node, strict: bool) -> Iterator[Gap]:
    lesser = t.meant(lesser)
    absolute = lesser.nodeName() == "Abs"
    left = _sum(t, lesser.child() if absolute else lesser)
    right = _sum(t, greater)
    for side in (left, -left) if absolute else (left,):
        total = side + -right
        if total.plus is None or total.minus is None or total.plus[0] == total.minus[0]:
            raise NoSumError
        assert total.unit is not None, "a time has a unit"
        # Less is less by a unit at least: by a microsecond, for times themselves.
        most = -total.least - (total.unit if strict else 0)
        yield Gap(total.plus, total.minus, most, exact=total.least == total.most)


def _sum(t: Translation, given: Node) -> _Sum:
    node = t.meant(given)
    if node.foldable():
        return _constant(t, node)
    handler = _SUMS.get(node.nodeName())
    if handler is None:
        raise NoSumError
    return handler(t, node)


def _constant(t: Translation, node: Node) -> _Sum:
    value, kind = t.evaluated(node), type_of(node)
    interval = isinstance(kind, T.DayTimeIntervalType)
    if isinstance(kind, T.DoubleType) and value is not None and abs(value) < _MOST_SECONDS:
        micros = Fraction(value) * _SECOND
        return _Sum(None, None, 1, math.floor(micros), math.ceil(micros))
    if value is None or not (interval or type(kind) in WIDER):
        raise NoSumError
    return _Sum(None, None, 1 if interval else None, value, value)


def _column(t: Translation, node: Node) -> _Sum:
    if not isinstance(type_of(node), T.TimestampType):
        raise NoSumError
    return _Sum(t.condition.column(node), None, 1, 0, 0)


def _in_units(unit: int, least: int, most: int) -> Callable[[Translation, Node], _Sum]:
    """A function that counts whole units of a time. Together they are so much more than it."""

    def handler(t: Translation, node: Node) -> _Sum:
        time = node.children().head()
        if not isinstance(type_of(time), T.TimestampType):
            raise NoSumError
        return replace(_sum(t, time).wider(least, most), unit=unit)

    return handler


def _cast(t: Translation, node: Node) -> _Sum:
    source, target = type_of(node.child()), type_of(node)
    if isinstance(source, T.TimestampType) and type(target) in WIDER:
        return _in_units(_SECOND, -_FRACTION, 0)(t, node)
    if isinstance(source, T.TimestampType) and isinstance(target, T.DoubleType):
        return _sum(t, node.child()).wider(-_ROUNDED, _ROUNDED)
    if isinstance(source, T.TimestampType) and isinstance(target, T.TimestampNTZType):
        return _local(t, node.child())
    if isinstance(source, T.TimestampNTZType) and isinstance(target, T.TimestampType):
        least, most = t.clock_offsets
        return _sum(t, node.child()).wider(-most, -least)
    whole = type(source) in WIDER and type(target) in WIDER
    intervals = isinstance(source, T.DayTimeIntervalType) and type(source) is type(target)
    if whole or intervals or source == target:
        return _sum(t, node.child())
    raise NoSumError


def _plus(t: Translation, node: Node) -> _Sum:
    left, right = elements(node.children())
    return _rounded(node, _sum(t, left) + _sum(t, right))


def _minus(t: Translation, node: Node) -> _Sum:
    left, right = elements(node.children())
    return _rounded(node, _sum(t, left) + -_sum(t, right))


def _rounded(node: Node, exact: _Sum) -> _Sum:
    """What a node gives, if this is what it should give."""
    rounded = _ROUNDED if isinstance(type_of(node), T.DoubleType) else 0
    return exact.wider(-rounded, rounded)


def _plus_interval(t: Translation, node: Node) -> _Sum:
    time, interval = (_sum(t, child) for child in elements(node.children()))
    return _later(t, time, interval)


def _later(t: Translation, time: _Sum, interval: _Sum) -> _Sum:
    # Days are days of the calendar. They are longer or shorter where the clock is changed.
    changed = _clock_changes(t) if abs(interval.least) >= _DAY else 0
    return (time + interval).wider(-changed, changed)


def _plus_months(t: Translation, node: Node) -> _Sum:
    time, interval = elements(node.children())
    return _months_later(t, _sum(t, time), t.constant(interval))


def _months_later(t: Translation, time: _Sum, months: int) -> _Sum:
    lengths, changed = sorted((28 * _DAY * months, 31 * _DAY * months)), _clock_changes(t)
    return time.wider(lengths[0] - changed, lengths[1] + changed)


def _timestamp_add(t: Translation, node: Node) -> _Sum:
    unit, quantity = node.unit().upper(), node.quantity()
    if not quantity.foldable() or unit not in (*MICROS, *MONTHS):
        raise NoSumError
    number, time = t.constant(quantity), _sum(t, node.timestamp())
    if unit in MONTHS:
        return _months_later(t, time, number * MONTHS[unit])
    micros = number * MICROS[unit]
    return _later(t, time, _Sum(None, None, 1, micros, micros))


def _timestamp_diff(t: Translation, node: Node) -> _Sum:
    """Whole units between two local times, without a fraction."""
    unit = MICROS.get(node.unit().upper())
    if unit is None:
        raise NoSumError
    difference = _local(t, node.endTimestamp()) + -_local(t, node.startTimestamp())
    return replace(difference.wider(1 - unit, unit - 1), unit=unit)


def _minus_time(t: Translation, node: Node) -> _Sum:
    left, right = elements(node.children())
    return _local(t, left) + -_local(t, right)


def _local(t: Translation, node: Node) -> _Sum:
    """A timestamp of either kind as what a clock shows, as if that was UTC."""
    time = _sum(t, node)
    return time.wider(*t.clock_offsets) if isinstance(type_of(node), T.TimestampType) else time


def _clock_changes(t: Translation) -> int:
    """By how much the clock is put forward and back, at most, all changes together."""
    least, most = t.clock_offsets
    return most - least


_SUMS: dict[str, Callable[[Translation, Node], _Sum]] = {
    "AttributeReference": _column,
    "Cast": _cast,
    "Add": _plus,
    "Subtract": _minus,
    "UnaryMinus": lambda t, node: -_sum(t, node.child()),
    "TimestampAddInterval": _plus_interval,
    "TimeAdd": _plus_interval,  # its name before Spark 4.1
    "TimestampAddYMInterval": _plus_months,
    "TimestampAdd": _timestamp_add,
    "TimestampDiff": _timestamp_diff,
    "SubtractTimestamps": _minus_time,
    "UnixTimestamp": _in_units(_SECOND, -_FRACTION, _FRACTION),  # towards 1970
    "ToUnixTimestamp": _in_units(_SECOND, -_FRACTION, _FRACTION),
    "UnixSeconds": _in_units(_SECOND, -_FRACTION, 0),
    "UnixMillis": _in_units(1_000, -_MILLI_FRACTION, 0),
    "UnixMicros": _in_units(1, 0, 0),
}
