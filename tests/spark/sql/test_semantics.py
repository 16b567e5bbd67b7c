"""Spark's semantics in Polars, without a JVM: what tests/spark/test_where.py cannot show."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import polars as pl
import pytest

from watersmeet.spark.sql import semantics

ZONE = "Europe/Vienna"


def evaluated(expression: pl.Expr) -> object:
    return pl.select(expression).item()


def int128(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


def instant(*parts: int) -> pl.Expr:
    return pl.lit(utc(*parts)).cast(pl.Datetime("us", "UTC"))


def test_polars_orders_nan_as_spark_does() -> None:
    nan, number = pl.lit(math.nan), pl.lit(math.inf)
    assert evaluated(nan == nan)
    assert evaluated(nan > number)
    assert not evaluated(nan < number)
    assert evaluated(pl.lit(-0.0) == pl.lit(0.0))


@pytest.mark.parametrize(
    ("a", "b", "quotient", "remainder", "positive", "rounded"),
    [
        (7, 2, 3, 1, 1, 4),
        (-7, 2, -3, -1, 1, -4),
        (7, -2, -3, 1, 1, -4),
        (-7, -2, 3, -1, -1, 4),
        (7, 3, 2, 1, 1, 2),
        (10**37 + 1, 10**37, 1, 1, 1, 1),
        (7, 0, None, None, None, None),
    ],
)
def test_division_follows_java(
    a: int, b: int, quotient: int, remainder: int, positive: int, rounded: int
) -> None:
    assert evaluated(semantics.truncated_quotient(int128(a), int128(b))) == quotient
    assert evaluated(semantics.remainder(int128(a), int128(b))) == remainder
    assert evaluated(semantics.positive_remainder(int128(a), int128(b))) == positive
    assert evaluated(semantics.rounded_quotient(int128(a), int128(b))) == rounded


def test_a_column_divided_by_a_constant_is_rounded_once() -> None:
    numbers = np.random.default_rng(0).random(1000)
    result = pl.DataFrame({"x": numbers}).select(semantics.quotient(pl.col("x"), pl.lit(3.0)))
    assert (result["x"].to_numpy() == numbers / 3.0).all()


def test_a_decimal_is_rounded_half_up() -> None:
    assert evaluated(semantics.rescaled(int128(125), 2, 1)) == 13
    assert evaluated(semantics.rescaled(int128(-125), 2, 1)) == -13
    assert evaluated(semantics.rescaled(int128(125), 2, 4)) == 12500


def test_a_decimal_with_too_many_digits_is_null() -> None:
    assert evaluated(semantics.bounded(int128(999), 3)) == 999
    assert evaluated(semantics.bounded(int128(-1000), 3)) is None


@pytest.mark.parametrize("digits", ["0.1", "2.675", "123456789012345678.901234567890123456"])
def test_a_decimal_becomes_the_nearest_double(digits: str) -> None:
    scale = len(digits.partition(".")[2])
    unscaled = int(digits.replace(".", ""))
    result = semantics.decimal_to_float(pl.col("x"), len(str(unscaled)), scale)
    column = pl.DataFrame({"x": [unscaled] * 2}, schema={"x": pl.Int128})
    assert column.select(result).to_series().to_list() == [float(digits)] * 2


@pytest.mark.parametrize(
    ("text", "integer", "number"),
    [
        (" 5 ", 5, 5.0),
        ("+5", 5, 5.0),
        ("5.5", None, 5.5),
        ("1e3", None, 1000.0),
        (".5d", None, 0.5),
        ("-Infinity", None, -math.inf),
        ("+inf", None, math.inf),
        ("99999999999", None, 99999999999.0),
        ("five", None, None),
        ("", None, None),
    ],
)
def test_texts_are_read_as_java_reads_them(
    text: str, integer: int | None, number: float | None
) -> None:
    assert evaluated(semantics.text_to_integer(pl.lit(text), pl.Int32())) == integer
    assert evaluated(semantics.text_to_float(pl.lit(text), pl.Float64())) == number


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a%", "abc", True),
        ("a%", "cab", False),
        ("a_c", "a\nc", True),
        ("a.c", "abc", False),
        (r"50\%", "50%", True),
        (r"50\%", "505", False),
        ("", "", True),
        ("é_", "éß", True),
    ],
)
def test_like(pattern: str, text: str, matches: bool) -> None:
    regex = semantics.like_to_regex(pattern, "\\")
    assert evaluated(pl.lit(text).str.contains(regex)) is matches


@pytest.mark.parametrize("pattern", ["a\\", "a\\b"])
def test_like_with_a_stray_escape_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="must precede _, % or itself"):
        semantics.like_to_regex(pattern, "\\")


def test_a_day_across_a_change_of_the_clock_has_23_hours() -> None:
    day = pl.lit(dt.timedelta(days=1)).cast(pl.Duration("us"))
    start = instant(2024, 3, 30, 11)
    assert evaluated(semantics.plus_interval(start, day, ZONE)) == utc(2024, 3, 31, 10)
    assert evaluated(semantics.plus_interval(start, day, "Z")) == utc(2024, 3, 31, 11)


def test_a_skipped_time_counts_on_from_before_the_gap() -> None:
    local = pl.lit(dt.datetime(2024, 3, 31, 2, 30))
    assert evaluated(semantics.to_instant(local, ZONE)) == utc(2024, 3, 31, 1, 30)


def test_of_a_repeated_time_the_first_is_taken_unless_the_start_says_otherwise() -> None:
    local = pl.lit(dt.datetime(2024, 10, 27, 2, 30))
    assert evaluated(semantics.to_instant(local, ZONE)) == utc(2024, 10, 27, 0, 30)
    kept = semantics.to_instant(local, ZONE, start=instant(2024, 12, 1))
    assert evaluated(kept) == utc(2024, 10, 27, 1, 30)


def test_fixed_offsets_shift() -> None:
    local = semantics.to_local(instant(2024, 1, 1, 12), "-01:30")
    assert evaluated(local) == dt.datetime(2024, 1, 1, 10, 30)
    assert evaluated(semantics.to_instant(local, "-01:30")) == utc(2024, 1, 1, 12)


def test_an_hour_in_which_the_clock_goes_back_by_half_an_hour_began_at_its_first_minute() -> None:
    second_pass = instant(2024, 4, 6, 15, 10)  # 01:40 for the second time
    hour = semantics.truncated(second_pass, "1h", "Australia/Lord_Howe")
    assert evaluated(hour) == utc(2024, 4, 6, 14)
