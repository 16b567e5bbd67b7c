"""A predicate over Arrow columns, and Spark's semantics in Polars, without a JVM."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from watersmeet.operators import predicate as semantics
from watersmeet.operators.predicate import Predicate

PRICE_BELOW_BID = Predicate(
    "views.price < clicks.bid", ((0, "price"), (1, "bid")), pl.col("0") < pl.col("1")
)


def evaluated(expression: pl.Expr) -> object:
    return pl.select(expression).item()


def int128(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


def instant(*parts: int) -> pl.Expr:
    return pl.lit(utc(*parts)).cast(pl.Datetime("us", "UTC"))


class TestPredicate:
    def test_null_is_not_a_match(self) -> None:
        mask = PRICE_BELOW_BID.mask([pa.array([1, 3, None, 1]), pa.array([2, 2, 2, None])])
        assert mask.dtype == np.bool_
        assert mask.tolist() == [True, False, False, False]

    def test_arrays_and_chunked_arrays_mix(self) -> None:
        mask = PRICE_BELOW_BID.mask([pa.chunked_array([[1], [5, 1]]), pa.array([2, 2, 2])])
        assert mask.tolist() == [True, False, True]

    def test_no_candidates_give_an_empty_mask(self) -> None:
        empty = pa.chunked_array([], type=pa.int64())
        assert PRICE_BELOW_BID.mask([empty, empty]).tolist() == []

    @pytest.mark.parametrize(
        ("low", "high"),
        [
            (pa.array([Decimal("1.10")]), pa.array([Decimal("1.20")])),
            (pa.array(["a"]), pa.array(["b"])),
            (pa.array([b"a"]), pa.array([b"b"])),
            (pa.array([dt.date(2024, 1, 1)]), pa.array([dt.date(2024, 1, 2)])),
            (pa.array([dt.timedelta(0)]), pa.array([dt.timedelta(1)])),
            (
                pa.array([utc(2024, 1, 1)], pa.timestamp("us", tz="Europe/Vienna")),
                pa.array([utc(2024, 1, 2)], pa.timestamp("us", tz="Europe/Vienna")),
            ),
        ],
    )
    def test_every_ordered_type_compares(self, low: pa.Array, high: pa.Array) -> None:
        assert PRICE_BELOW_BID.mask([low, high]).tolist() == [True]
        assert PRICE_BELOW_BID.mask([high, low]).tolist() == [False]

    @pytest.mark.parametrize("pickler", [pickle, cloudpickle])
    def test_it_travels_to_workers(self, pickler) -> None:  # type: ignore[no-untyped-def]
        copy = pickler.loads(pickler.dumps(PRICE_BELOW_BID))
        assert copy == PRICE_BELOW_BID
        assert hash(copy) == hash(PRICE_BELOW_BID)
        assert copy.mask([pa.array([1]), pa.array([2])]).tolist() == [True]

    def test_the_wrong_number_of_columns_is_a_bug(self) -> None:
        with pytest.raises(AssertionError, match="needs 2 columns, not 1"):
            PRICE_BELOW_BID.mask([pa.array([1])])


class TestPolars:
    """What the translation relies on: Polars orders doubles as Spark does."""

    def test_nan_equals_itself_and_exceeds_every_number(self) -> None:
        nan, number = pl.lit(math.nan), pl.lit(math.inf)
        assert evaluated(nan == nan)
        assert evaluated(nan > number)
        assert not evaluated(nan < number)
        assert evaluated(pl.lit(-0.0) == pl.lit(0.0))


class TestNumbers:
    @pytest.mark.parametrize(
        ("a", "b", "quotient", "remainder", "rounded"),
        [
            (7, 2, 3, 1, 4),
            (-7, 2, -3, -1, -4),
            (7, -2, -3, 1, -4),
            (-7, -2, 3, -1, 4),
            (7, 3, 2, 1, 2),
            (10**37 + 1, 10**37, 1, 1, 1),
            (7, 0, None, None, None),
        ],
    )
    def test_division_follows_java(
        self, a: int, b: int, quotient: int, remainder: int, rounded: int
    ) -> None:
        assert evaluated(semantics.truncated_quotient(int128(a), int128(b))) == quotient
        assert evaluated(semantics.remainder(int128(a), int128(b))) == remainder
        assert evaluated(semantics.rounded_quotient(int128(a), int128(b))) == rounded

    @pytest.mark.parametrize(
        ("value", "digits", "rounded"),
        [
            (1.005, 2, 1.01),
            (-1.005, 2, -1.01),
            (2.675, 2, 2.68),
            (0.29, 2, 0.29),
            (0.49999999999999994, 0, 0.0),
            (2.5, 0, 3.0),
            (1e300, 2, 1e300),
            (math.inf, 2, math.inf),
        ],
    )
    def test_a_double_is_rounded_as_it_is_written(
        self, value: float, digits: int, rounded: float
    ) -> None:
        result = semantics.round_half_up(pl.col("x"), digits, pl.Float64())
        assert pl.DataFrame({"x": [value, value]}).select(result)["x"].to_list() == [rounded] * 2

    def test_a_column_divided_by_a_constant_is_rounded_once(self) -> None:
        numbers = np.random.default_rng(0).random(1000)
        result = pl.DataFrame({"x": numbers}).select(semantics.quotient(pl.col("x"), pl.lit(3.0)))
        assert (result["x"].to_numpy() == numbers / 3.0).all()

    def test_a_decimal_is_rounded_half_up(self) -> None:
        assert evaluated(semantics.rescaled(int128(125), 2, 1)) == 13
        assert evaluated(semantics.rescaled(int128(-125), 2, 1)) == -13
        assert evaluated(semantics.rescaled(int128(125), 2, 4)) == 12500

    def test_a_decimal_with_too_many_digits_is_null(self) -> None:
        assert evaluated(semantics.bounded(int128(999), 3)) == 999
        assert evaluated(semantics.bounded(int128(-1000), 3)) is None

    @pytest.mark.parametrize("digits", ["0.1", "2.675", "123456789012345678.901234567890123456"])
    def test_a_decimal_becomes_the_nearest_double(self, digits: str) -> None:
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
            ("99999999999", None, 99999999999.0),
            ("five", None, None),
            ("", None, None),
        ],
    )
    def test_texts_are_read_as_java_reads_them(
        self, text: str, integer: int | None, number: float | None
    ) -> None:
        assert evaluated(semantics.text_to_integer(pl.lit(text), pl.Int32())) == integer
        assert evaluated(semantics.text_to_float(pl.lit(text), pl.Float64())) == number


class TestTexts:
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
    def test_like(self, pattern: str, text: str, matches: bool) -> None:
        regex = semantics.like_to_regex(pattern, "\\")
        assert evaluated(pl.lit(text).str.contains(regex)) is matches

    @pytest.mark.parametrize("pattern", ["a\\", "a\\b"])
    def test_like_with_a_stray_escape_is_refused(self, pattern: str) -> None:
        with pytest.raises(ValueError, match="must precede _, % or itself"):
            semantics.like_to_regex(pattern, "\\")

    @pytest.mark.parametrize(
        ("pattern", "text", "matches"),
        [
            (r"^\d+$", "12", True),
            (r"^\d+$", "12\n", True),
            (r"^\d+$", "١٢", False),
            (r"a.c", "a\rc", False),
            (r"[\w-]+@x\.(?:org|net)", "me-too@x.net", True),
            (r"^a{2,3}?b", "aab", True),
            (r"[^\s]", " \t", False),
        ],
    )
    def test_rlike(self, pattern: str, text: str, matches: bool) -> None:
        regex = semantics.java_to_rust_regex(pattern)
        assert evaluated(pl.lit(text).str.contains(regex)) is matches

    @pytest.mark.parametrize(
        "pattern",
        ["a++", "(?=a)", "(?i)a", r"\bword", r"(a)\1", "a$b", "[a&&b]", "[a--b]", "[[a]]"],
    )
    def test_a_regex_that_means_something_else_is_refused(self, pattern: str) -> None:
        with pytest.raises(ValueError, match="the regular expression"):
            semantics.java_to_rust_regex(pattern)


class TestTimes:
    def test_a_day_across_a_change_of_the_clock_has_23_hours(self) -> None:
        day = pl.lit(dt.timedelta(days=1)).cast(pl.Duration("us"))
        start = instant(2024, 3, 30, 11)
        assert evaluated(semantics.plus_interval(start, day, "Europe/Vienna")) == utc(
            2024, 3, 31, 10
        )
        assert evaluated(semantics.plus_interval(start, day, "Z")) == utc(2024, 3, 31, 11)

    def test_a_skipped_time_counts_on_from_before_the_gap(self) -> None:
        local = pl.lit(dt.datetime(2024, 3, 31, 2, 30))
        assert evaluated(semantics.to_instant(local, "Europe/Vienna")) == utc(2024, 3, 31, 1, 30)

    def test_of_a_repeated_time_the_first_is_taken_unless_the_start_says_otherwise(self) -> None:
        local = pl.lit(dt.datetime(2024, 10, 27, 2, 30))
        in_winter = instant(2024, 12, 1)
        zone = "Europe/Vienna"
        assert evaluated(semantics.to_instant(local, zone)) == utc(2024, 10, 27, 0, 30)
        kept = semantics.to_instant(local, zone, start=in_winter)
        assert evaluated(kept) == utc(2024, 10, 27, 1, 30)

    def test_fixed_offsets_shift(self) -> None:
        local = semantics.to_local(instant(2024, 1, 1, 12), "-01:30")
        assert evaluated(local) == dt.datetime(2024, 1, 1, 10, 30)
        assert evaluated(semantics.to_instant(local, "-01:30")) == utc(2024, 1, 1, 12)
