"""Expressions that mean in Polars what Spark means, where Polars by itself differs.

They know values in these forms:

=================  ==========================================================
Spark              Polars
=================  ==========================================================
decimal(p, s)      ``Int128``: the value times 10**s, so that every rounding is ours
timestamp          ``Datetime("us", "UTC")``: an instant
timestamp_ntz      ``Datetime("us")``: a local time
day-time interval  ``Duration("us")``
other types        the type of the same name
=================  ==========================================================

A zone is ``"Z"``, an offset such as ``"+02:00"``, or a region such as ``"Europe/Vienna"``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

#: Decimals are computed in 128 bits: 38 digits always fit.
DECIMAL_DIGITS = 38
_DAY = 86_400_000_000


# Numbers


def checked(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value in that type; null if it does not fit."""
    return value.cast(dtype, strict=False)


def quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a / b for doubles, rounded once; null if b is 0."""
    # By a scalar b Polars multiplies with 1 / b, which rounds twice: make b a column.
    column = a.is_null().cast(pl.Float64) * 0.0 + b
    return pl.when(b != 0).then(a / column)


def truncated_quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a / b without its fraction, for Int128; null if b is 0. Polars rounds down."""
    size = a.abs() // b.abs()
    return pl.when((a < 0) != (b < 0)).then(0 - size).otherwise(size)


def remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a % b with a's sign, for Int128; null if b is 0. Polars gives it b's sign."""
    rest = a.abs() % b.abs()
    return pl.when(a < 0).then(0 - rest).otherwise(rest)


def positive_remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Spark's pmod, for Int128; null if b is 0."""
    rest = remainder(a, b)
    return pl.when(rest < 0).then(remainder(rest + b, b)).otherwise(rest)


def rounded_quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a / b rounded half away from zero, for Int128; null if b is 0."""
    rest = a.abs() % b.abs()
    size = a.abs() // b.abs() + (rest >= b.abs() - rest).cast(pl.Int128)
    return pl.when((a < 0) != (b < 0)).then(0 - size).otherwise(size)


def rescaled(unscaled: pl.Expr, scale: int, to: int) -> pl.Expr:
    """A decimal at another scale, rounded half away from zero if digits are lost."""
    if to >= scale:
        return unscaled * pl.lit(10 ** (to - scale), dtype=pl.Int128)
    return rounded_quotient(unscaled, pl.lit(10 ** (scale - to), dtype=pl.Int128))


def bounded(unscaled: pl.Expr, precision: int) -> pl.Expr:
    """A decimal; null if it has more digits than its type allows."""
    limit = pl.lit(10**precision, dtype=pl.Int128)
    return pl.when(unscaled.abs() < limit).then(unscaled)


def decimal_to_float(unscaled: pl.Expr, precision: int, scale: int) -> pl.Expr:
    """The double nearest to a decimal.

    Up to 15 digits both numbers are exact doubles, so one division rounds once;
    more digits are rounded once by the parser of texts.
    """
    if precision <= 15:
        return quotient(unscaled.cast(pl.Float64), pl.lit(float(10**scale)))
    return pl.concat_str(unscaled.cast(pl.String), pl.lit(f"e-{scale}")).cast(pl.Float64)


def extreme(values: Sequence[pl.Expr], *, greatest: bool) -> pl.Expr:
    """The greatest or least non-null value; NaN counts as greater than any number."""
    best = values[0]
    for value in values[1:]:
        better = value > best if greatest else value < best
        best = pl.when(best.is_null() | better).then(value).otherwise(best)
    return best


# Texts

_CONTROL_CHARACTERS = "".join(map(chr, [*range(0x21), 0x7F]))
_INTEGER = r"^[+-]?[0-9]+$"
_TRUNCATED = r"^([+-]?[0-9]*)(?:\.[0-9]*)?$"
_NUMBER = r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?$"
_NUMBER_WORD = r"(?i)^([+-]?inf(?:inity)?|nan)$"


def text_to_integer(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The integer a text spells; null if it spells none."""
    trimmed = text.str.strip_chars(_CONTROL_CHARACTERS)
    return pl.when(trimmed.str.contains(_INTEGER)).then(trimmed).cast(dtype, strict=False)


def text_to_truncated(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The same, as Spark reads texts with ANSI mode off: a fraction is cut off, even ``.5`` or
    ``.``."""
    trimmed = text.str.strip_chars(_CONTROL_CHARACTERS)
    whole = trimmed.str.extract(_TRUNCATED)
    number = pl.when(whole.is_in(["", "+", "-"])).then(pl.lit("0")).otherwise(whole)
    spelled = ~trimmed.is_in(["", "+", "-"])
    return pl.when(spelled).then(number).cast(dtype, strict=False)


def text_to_float(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The number a text spells, as Java reads it; null if it spells none."""
    trimmed = text.str.strip_chars(_CONTROL_CHARACTERS)
    spelled = pl.coalesce(trimmed.str.extract(_NUMBER), trimmed.str.extract(_NUMBER_WORD))
    return spelled.cast(pl.Float64, strict=False).cast(dtype)


def substring(text: pl.Expr, position: pl.Expr, length: pl.Expr) -> pl.Expr:
    """``length`` characters from a position that counts from 1, or back from the end."""
    offset = pl.when(position > 0).then(position - 1).otherwise(position)
    known = position.is_not_null() & length.is_not_null()
    return pl.when(known).then(text.str.slice(offset, length.clip(0)))


def like_to_regex(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern.

    >>> like_to_regex("50/%_%", "/")
    '^(?s:50%..*)$'
    """
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in ("_", "%", escape):
                raise ValueError(f"in a LIKE pattern {escape!r} must precede _, % or itself")
            parts.append(_literal(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or _literal(character))
    return f"^(?s:{''.join(parts)})$"


def _literal(character: str) -> str:
    return "\\" + character if character in r"\.+*?()|[]{}^$#&-~" else character


# Times


def fixed_offset(zone: str) -> int | None:
    """The microseconds a zone is always ahead of UTC; None if that varies.

    >>> fixed_offset("Z"), fixed_offset("-01:30"), fixed_offset("Europe/Vienna")
    (0, -5400000000, None)
    """
    if zone == "Z":
        return 0
    offset = re.fullmatch(r"([+-])(\d\d):(\d\d)(?::(\d\d))?", zone)
    if offset is None:
        return None
    seconds = int(offset[2]) * 3600 + int(offset[3]) * 60 + int(offset[4] or 0)
    return (-seconds if offset[1] == "-" else seconds) * 1_000_000


def to_local(instant: pl.Expr, zone: str) -> pl.Expr:
    """What a clock in the zone shows at an instant."""
    fixed = fixed_offset(zone)
    if fixed is None:
        return instant.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return instant.dt.replace_time_zone(None) + pl.duration(microseconds=fixed)


def to_instant(local: pl.Expr, zone: str, *, start: pl.Expr | None = None) -> pl.Expr:
    """When a clock in the zone shows a local time, with Java's rules for two cases.

    A time that the clock skips counts on from before the gap. Of a time that it
    shows twice the first is taken, or the one with the offset of ``start``.
    """
    fixed = fixed_offset(zone)
    if fixed is not None:
        return (local - pl.duration(microseconds=fixed)).dt.replace_time_zone("UTC")
    first = _zoned(local, zone, "earliest")
    if start is not None:
        last = _zoned(local, zone, "latest")
        kept = _offset(last, zone) == _offset(start, zone)
        first = pl.when(kept).then(last).otherwise(first)
    day = pl.duration(days=1)
    return pl.coalesce(first, _zoned(local - day, zone, "earliest") + day)


def _zoned(local: pl.Expr, zone: str, which: Any) -> pl.Expr:
    zoned = local.dt.replace_time_zone(zone, ambiguous=which, non_existent="null")
    return zoned.dt.convert_time_zone("UTC")


def _offset(instant: pl.Expr, zone: str) -> pl.Expr:
    return to_local(instant, zone) - instant.dt.replace_time_zone(None)


def clock_offsets(zone: str) -> tuple[int, int]:
    """The microseconds that a clock in the zone is ahead of UTC: at least, and at most.

    >>> clock_offsets("+05:30")
    (19800000000, 19800000000)
    >>> [offset / 3_600_000_000 for offset in clock_offsets("Europe/Vienna")]
    [1.0, 2.0]
    """
    fixed = fixed_offset(zone)
    if fixed is not None:
        return fixed, fixed
    days = pl.datetime_range(
        pl.datetime(1800, 1, 1), pl.datetime(2200, 1, 1), "1d", time_zone="UTC"
    )
    offsets = pl.select(days=days).select(_offset(pl.col("days"), zone).cast(pl.Int64))
    least, most = offsets.select(pl.all().min().alias("least"), pl.all().max().alias("most")).row(0)
    return int(least), int(most)


def plus_interval(instant: pl.Expr, interval: pl.Expr, zone: str) -> pl.Expr:
    """An instant plus a day-time interval, whose whole days are days of the calendar."""
    if fixed_offset(zone) is not None:
        return instant + interval
    days = pl.duration(days=interval.dt.total_days())
    return to_instant(to_local(instant, zone) + days, zone, start=instant) + (interval - days)


def plus_months(instant: pl.Expr, months: int, zone: str) -> pl.Expr:
    """An instant plus calendar months; the day is cut to the month's last."""
    return to_instant(to_local(instant, zone).dt.offset_by(f"{months}mo"), zone, start=instant)


def truncated(instant: pl.Expr, every: str, zone: str) -> pl.Expr:
    """An instant cut to a calendar unit of the zone, in Polars' notation (``1h``, ``1mo``)."""
    start = instant if every in ("1d", "1h", "1m", "1s") else None
    return to_instant(to_local(instant, zone).dt.truncate(every), zone, start=start)


def months_between(start: pl.Expr, end: pl.Expr) -> pl.Expr:
    """Whole months from one local time to another, without a fraction; negative if it is
    earlier."""
    first, last = (time.cast(pl.Int64) // _DAY for time in (start, end))
    early, late = (time.cast(pl.Int64) % _DAY for time in (start, end))
    # A day counts when its time of day has come.
    forward, back = (last > first) & (late < early), (last < first) & (late > early)
    last = last - forward.cast(pl.Int64) + back.cast(pl.Int64)
    # As in java.time: with 32 days a month, a month is whole when its day has come.
    day, until = (number.cast(pl.Int32).cast(pl.Date).dt for number in (first, last))
    days = [(d.year().cast(pl.Int64) * 12 + d.month()) * 32 + d.day() for d in (day, until)]
    between = (days[1] - days[0]).cast(pl.Int128)
    return truncated_quotient(between, pl.lit(32, pl.Int128))
