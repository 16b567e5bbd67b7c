"""The ``where`` of a join as the operators see it, and Spark's semantics in Polars.

A :class:`Predicate` holds for a pair of rows if its expression is true. As in SQL,
null is not true: a pair for which the condition is unknown does not match.

The functions below the class build expressions that mean what Spark means where
Polars by itself means something else. They know values in these forms:

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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

#: Decimals are computed in 128 bits: 38 digits always fit.
DECIMAL_DIGITS = 38

_MICROS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class Predicate:
    """A condition over columns of a pair (or more) of rows.

    ``columns`` are its inputs, each a stream's index and a column's name;
    ``expression`` names them by position: ``"0"`` is the first of them.

    >>> bigger = Predicate("a.x > b.y", ((0, "x"), (1, "y")), pl.col("0") > pl.col("1"))
    >>> bigger.mask([pa.array([1, 5, None]), pa.array([2, 2, 2])]).tolist()
    [False, True, False]
    """

    sql: str
    columns: tuple[tuple[int, str], ...]
    # `==` of two Polars expressions is an expression, not a truth value.
    expression: pl.Expr = field(compare=False)

    def mask(self, columns: Sequence[Any]) -> npt.NDArray[np.bool_]:
        """For which rows of the given Arrow arrays (of equal length) does it hold?"""
        assert len(columns) == len(self.columns), (
            f"{self.sql!r} needs {len(self.columns)} columns, not {len(columns)}"
        )
        table = pa.Table.from_arrays(list(columns), [str(i) for i in range(len(columns))])
        frame = pl.DataFrame(pl.from_arrow(table, rechunk=False))
        holds = frame.select(self.expression.fill_null(False)).to_series()
        return holds.to_numpy()


# Numbers


def checked(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value in that type; null if it does not fit."""
    return value.cast(dtype, strict=False)


def saturated(value: pl.Expr, dtype: pl.DataType, low: int, high: int) -> pl.Expr:
    """A floating-point value as an integer, the way Java narrows it: NaN is 0."""
    return (
        pl.when(value.is_nan())
        .then(pl.lit(0, dtype=dtype))
        .when(value >= float(high))
        .then(pl.lit(high, dtype=dtype))
        .when(value <= float(low))
        .then(pl.lit(low, dtype=dtype))
        .otherwise(value.cast(dtype, strict=False))
    )


def quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a / b for floating-point numbers; null if b is 0.

    Polars divides a column by a scalar as a product with 1 / b, which rounds twice.
    So the divisor is made a column.
    """
    return a / pl.when(a.is_not_null() & (b != 0)).then(b)


def truncated_quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a / b without its fraction, for Int128; null if b is 0. Polars rounds down."""
    size = a.abs() // b.abs()
    return pl.when((a < 0) != (b < 0)).then(0 - size).otherwise(size)


def remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a % b with a's sign, for Int128; null if b is 0. Polars gives it b's sign."""
    rest = a.abs() % b.abs()
    return pl.when(a < 0).then(0 - rest).otherwise(rest)


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


def round_half_up(value: pl.Expr, digits: int, dtype: pl.DataType) -> pl.Expr:
    """A floating-point value rounded to ``digits`` decimals, as its shortest text would be.

    With k the digits that stay, (k + 1/2) / 10**digits is rounded once, so it equals
    the value exactly if the value is written as a tie: 1.005 gives 1.01, though
    1.005 * 100 < 100.5 in doubles.
    """
    power = pl.lit(float(10**digits))
    size = value.cast(pl.Float64).abs()
    kept = (size * power).floor()
    tie = quotient(kept + 0.5, power).cast(dtype).cast(pl.Float64)
    rounded = quotient(pl.when(size >= tie).then(kept + 1).otherwise(kept), power)
    signed = pl.when(value < 0).then(-rounded).otherwise(rounded).cast(dtype)
    # From 2**52 on a double has no fraction to round; infinity and NaN end here too.
    return pl.when(size * power < 2.0**52).then(signed).otherwise(value)


def extreme(values: Sequence[pl.Expr], *, greatest: bool) -> pl.Expr:
    """The greatest or least non-null value; NaN counts as greater than any number."""
    best = values[0]
    for value in values[1:]:
        better = value > best if greatest else value < best
        best = pl.when(best.is_null() | better).then(value).otherwise(best)
    return best


# Texts

_CONTROL_CHARACTERS = "".join(map(chr, [*range(0x21), 0x7F]))
_NUMBER = r"^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?$"
_INTEGER = r"^[+-]?[0-9]+$"


def text_to_integer(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The integer a text spells; null if it spells none."""
    trimmed = text.str.strip_chars(_CONTROL_CHARACTERS)
    return pl.when(trimmed.str.contains(_INTEGER)).then(trimmed).cast(dtype, strict=False)


def text_to_float(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The number a text spells, as Java reads it; null if it spells none."""
    trimmed = text.str.strip_chars(_CONTROL_CHARACTERS)
    word = trimmed.str.to_lowercase()
    return (
        pl.when(word == "nan")
        .then(float("nan"))
        .when(word.is_in(["inf", "+inf", "infinity", "+infinity"]))
        .then(float("inf"))
        .when(word.is_in(["-inf", "-infinity"]))
        .then(float("-inf"))
        .otherwise(trimmed.str.extract(_NUMBER).cast(pl.Float64, strict=False))
        .cast(dtype)
    )


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


#: What may stand in a regular expression, and mean the same in Java and in Rust.
_REGEX_TOKEN = re.compile(
    r"(?P<quantifier>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?!\+))"
    r"|(?P<set>\[\^?(?:[^\[\]\\&~]|\\[dws\-\].\\^])+\])"
    r"|(?P<escape>\\[dDwWsS])"
    r"|(?P<character>\\[\\.+*?()|\[\]{}^$\-/tnrf]|[^\\.+*?()|\[\]{}^$])"
    r"|(?P<group>\((?:\?:)?(?!\?)|[)|^])"
    r"|(?P<any>\.)"
    r"|(?P<end>\$(?=\Z))",
    re.DOTALL,
)
_ASCII_SETS = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\x0B\f\r"}
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"


def java_to_rust_regex(pattern: str) -> str:
    r"""A regular expression for Polars that finds what Java's finds.

    Java's ``\d``, ``\w`` and ``\s`` are ASCII, its dot stops at any line end, and its
    ``$`` also matches before a last line end. What has no counterpart raises ValueError.

    >>> java_to_rust_regex(r"^a\d+$")
    '^a[0-9]+(?:\\r\\n|[\\n\\r\\x{85}\\x{2028}\\x{2029}])?$'
    """
    parts, position = [], 0
    while position < len(pattern):
        token = _REGEX_TOKEN.match(pattern, position)
        if token is None or "--" in token[0]:
            raise ValueError(f"the regular expression {pattern!r}, from {pattern[position:]!r} on,")
        parts.append(_rust_token(str(token.lastgroup), token[0]))
        position = token.end()
    return "".join(parts)


def _rust_token(kind: str, text: str) -> str:
    if kind == "set":
        return re.sub(r"\\([dws])", lambda found: _ASCII_SETS[found[1]], text)
    if kind == "escape":
        negated = "^" if text[1].isupper() else ""
        return f"[{negated}{_ASCII_SETS[text[1].lower()]}]"
    if kind == "any":
        return f"[^{_LINE_ENDS}]"
    if kind == "end":
        return rf"(?:\r\n|[{_LINE_ENDS}])?$"
    return text


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


def plus_interval(instant: pl.Expr, interval: pl.Expr, zone: str) -> pl.Expr:
    """An instant plus a day-time interval, whose whole days are days of the calendar."""
    if fixed_offset(zone) is not None:
        return instant + interval
    days = interval.dt.total_days() * pl.lit(_MICROS_PER_DAY).cast(pl.Duration("us"))
    return to_instant(to_local(instant, zone) + days, zone, start=instant) + (interval - days)


def plus_months(instant: pl.Expr, months: int, zone: str) -> pl.Expr:
    """An instant plus calendar months; the day is cut to the month's last."""
    return to_instant(to_local(instant, zone).dt.offset_by(f"{months}mo"), zone, start=instant)


def truncated_to_unit(instant: pl.Expr, every: str, zone: str) -> pl.Expr:
    """An instant cut to a calendar unit of the zone, in Polars' notation (``1h``, ``1mo``)."""
    local = to_local(instant, zone)
    if every.endswith(("h", "m", "s")):
        return instant - (local - local.dt.truncate(every))
    return to_instant(local.dt.truncate(every), zone)
