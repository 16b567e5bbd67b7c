"""Durations: from what users write to whole microseconds, and back to readable text.

A duration has a fixed, non-negative length: ``months`` and ``years`` have none,
and a bare number has no unit. Durations end at 10,000 years, so that a
timestamp plus a window plus a delay always fits into 64 bits.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from watersmeet.errors import DurationError, did_you_mean

_MILLISECOND = 1_000
_SECOND = 1_000 * _MILLISECOND
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY

_MICROSECONDS = {
    **dict.fromkeys(("us", "µs", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), _MILLISECOND),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _SECOND),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), _MINUTE),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), _HOUR),
    **dict.fromkeys(("d", "day", "days"), _DAY),
    **dict.fromkeys(("w", "week", "weeks"), _WEEK),
}
_NO_FIXED_LENGTH = frozenset(("month", "months", "mon", "year", "years", "y", "yr", "yrs"))
_SHOWN = (
    ("d", _DAY),
    ("h", _HOUR),
    ("min", _MINUTE),
    ("s", _SECOND),
    ("ms", _MILLISECOND),
    ("us", 1),
)

#: The longest duration.
LONGEST = 3_652_500 * _DAY

_PREFIX = re.compile(r"^interval\b", re.IGNORECASE)
_PART = re.compile(r"\s*([+-]?)\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([^\W\d_]+)")

_EXAMPLES = "Give text like '5 minutes' or '1 hour 30 minutes', or a datetime.timedelta."


def parse(value: object, *, argument: str) -> int:
    """The microseconds of a duration; ``argument`` is how messages call it.

    >>> parse("1 hour 30 minutes", argument="within")
    5400000000
    >>> parse("interval 1.5 seconds", argument="delay")
    1500000
    >>> parse("250 ms", argument="delay")
    250000
    >>> parse("5", argument="within")
    Traceback (most recent call last):
    ...
    watersmeet.errors.DurationError: within='5' is a number without a unit. \
Give text like '5 minutes' or '1 hour 30 minutes', or a datetime.timedelta.
    """
    given = f"{argument}={value!r}"
    if isinstance(value, timedelta):
        microseconds = value // timedelta(microseconds=1)
    elif isinstance(value, str):
        microseconds = _parse_text(value, given)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        raise DurationError(f"{given} is a number without a unit. {_EXAMPLES}")
    else:
        raise DurationError(f"{given} ({type(value).__name__}) is not a duration. {_EXAMPLES}")
    if microseconds < 0:
        raise DurationError(f"{given} is negative; a duration is zero or more.")
    if microseconds > LONGEST:
        raise DurationError(f"{given} is longer than 10,000 years, the longest duration.")
    return microseconds


def milliseconds(microseconds: int) -> int:
    """A delay in whole milliseconds, as Spark keeps watermarks: rounded up, so that no row is late
    that is within its delay.

    >>> milliseconds(1_500), milliseconds(2_000)
    (2, 2)
    """
    return -(-microseconds // _MILLISECOND)


def _parse_text(text: str, given: str) -> int:
    body = _PREFIX.sub("", text.strip()).strip()
    if not body:
        raise DurationError(f"{given} is empty. {_EXAMPLES}")
    if re.fullmatch(r"[+-]?[0-9.]+", body):
        raise DurationError(f"{given} is a number without a unit. {_EXAMPLES}")
    total = Fraction(0)
    at = 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            raise DurationError(
                f"{given} is not a duration: cannot read {body[at:].strip()!r}. {_EXAMPLES}"
            )
        at = part.end()
        sign, number, unit = part.groups()
        if sign == "-":
            raise DurationError(f"{given} has a negative part; a duration is zero or more.")
        total += Fraction(number) * _unit(unit, given)
    if total.denominator != 1:
        raise DurationError(f"{given} is not a whole number of microseconds.")
    return int(total)


def _unit(unit: str, given: str) -> int:
    name = unit.lower().replace("μ", "µ")
    if name in _MICROSECONDS:
        return _MICROSECONDS[name]
    if name in _NO_FIXED_LENGTH:
        raise DurationError(
            f"{given}: {unit!r} has no fixed length. Give days or weeks instead, like '30 days'."
        )
    if name == "m":
        raise DurationError(f"{given}: 'm' could be minutes or months. Give 'min' for minutes.")
    raise DurationError(
        f"{given}: {unit!r} is not a unit.{did_you_mean(unit, _MICROSECONDS)} The units are "
        "microseconds (us), milliseconds (ms), seconds (s), minutes (min), hours (h), days (d) "
        "and weeks (w)."
    )


def format(microseconds: int) -> str:
    """A duration as people write it; :func:`parse` reads it back unchanged.

    >>> format(300_000_000)
    '5 min'
    >>> format(5_400_000_000)
    '1 h 30 min'
    >>> format(250_000)
    '250 ms'
    >>> format(0)
    '0 s'
    """
    assert microseconds >= 0, f"a duration is zero or more, not {microseconds}"
    parts = []
    rest = microseconds
    for unit, length in _SHOWN:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
