"""What a condition says of keys, of times and of the order of values: it is found, and it is true.

Spark only reads the conditions; no job runs. That terms hold where Spark says so is shown in
test_where.py."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sql.test_where import setting
from watersmeet.conditions.bounds import Bounds
from watersmeet.conditions.overlaps import Comparison, Span, overlaps_of
from watersmeet.conditions.terms import Equality, Gap, Term
from watersmeet.spark.sql import translate

pytestmark = pytest.mark.spark

SCHEMA = (
    "i int, l bigint, h smallint, d double, f float, c decimal(10,2), w decimal(38,18), s string, "
    "bin binary, t timestamp, u timestamp, z timestamp_ntz, day date, b boolean, "
    "v interval day to second"
)
A, B = (0, "t"), (1, "t")
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
ZONE = "Europe/Vienna"


@pytest.fixture(scope="module")
def streams(spark: SparkSession) -> list[tuple[str, DataFrame]]:
    empty = spark.createDataFrame([], SCHEMA)
    return [("a", empty), ("b", empty), ("c", empty)]


def terms(streams: Sequence[tuple[str, DataFrame]], sql: str) -> tuple[Term, ...]:
    return translate(streams[0][1].sparkSession, sql, streams)


def exactly(later: tuple[int, str], earlier: tuple[int, str], most: int) -> Gap:
    return Gap(later, earlier, most, exact=True)


def about(later: tuple[int, str], earlier: tuple[int, str], most: int) -> Gap:
    return Gap(later, earlier, most, exact=False)


#: Conditions, and the gaps that they imply.
GAPS = {
    "b.t >= a.t": [exactly(A, B, 0)],
    "b.t > a.t": [exactly(A, B, -1)],
    "a.t = b.t": [exactly(A, B, 0), exactly(B, A, 0)],
    "b.t between a.t and a.t + interval 5 minutes": [exactly(A, B, 0), exactly(B, A, 5 * MINUTE)],
    "b.t between a.t + interval 1 minute and a.t + interval 5 minutes": [
        exactly(A, B, -MINUTE),
        exactly(B, A, 5 * MINUTE),
    ],
    "a.t - interval 90 seconds < b.t": [exactly(A, B, 90 * SECOND - 1)],
    "a.t + interval 1 hour <= b.t - interval 1 hour": [exactly(A, B, -2 * HOUR)],
    "b.t <= a.t + interval 2 days": [exactly(B, A, 2 * DAY)],
    "b.t - a.t < interval 5 minutes": [exactly(B, A, 5 * MINUTE - 1)],
    "interval 5 minutes >= b.t - a.t": [exactly(B, A, 5 * MINUTE)],
    "abs(b.t - a.t) <= interval 5 minutes": [
        exactly(B, A, 5 * MINUTE),
        exactly(A, B, 5 * MINUTE),
    ],
    "(b.t - interval 1 hour) - a.t between interval 0 seconds and interval 1 hour": [
        exactly(A, B, -HOUR),
        exactly(B, A, 2 * HOUR),
    ],
    "b.t <= a.t + interval 1 month": [about(B, A, 31 * DAY)],
    "b.t - interval 2 months > a.t": [about(A, B, -56 * DAY - 1)],
    "unix_timestamp(b.t) - unix_timestamp(a.t) <= 300": [about(B, A, 300 * SECOND + 1_999_998)],
    "cast(b.t as bigint) < cast(a.t as bigint) + 300": [about(B, A, 299 * SECOND + 999_999)],
    "unix_millis(b.t) <= unix_millis(a.t) + 500": [about(B, A, 500_999)],
    "abs(unix_micros(a.t) - unix_micros(b.t)) < 10": [exactly(A, B, 9), exactly(B, A, 9)],
    "c.t <= a.t + interval 1 hour": [exactly((2, "t"), A, HOUR)],
    "b.u <= a.t": [exactly((1, "u"), A, 0)],
    "not (b.t < a.t)": [exactly(A, B, 0)],
    "not (b.t >= a.t)": [exactly(B, A, -1)],
    "not (b.t < a.t or not not a.t < b.t - interval 5 minutes)": [
        exactly(A, B, 0),
        exactly(B, A, 5 * MINUTE),
    ],
    "b.t <= timestampadd(minute, 5, a.t)": [exactly(B, A, 5 * MINUTE)],
    "dateadd(day, -2, b.t) < a.t": [exactly(B, A, 2 * DAY - 1)],
    "b.t < timestampadd(quarter, 1, a.t)": [about(B, A, 93 * DAY - 1)],
    "timestampdiff(minute, a.t, b.t) <= 5": [about(B, A, 6 * MINUTE - 1)],
    "cast(b.t as double) - cast(a.t as double) <= 300": [about(B, A, 300 * SECOND + 6_000)],
    "cast(b.t as double) < cast(a.t as double) + 0.5": [about(B, A, 505_999)],
    "cast(b.t as timestamp_ntz) <= cast(a.t as timestamp_ntz) + interval 5 minutes": [
        exactly(B, A, 5 * MINUTE)
    ],
    # Nothing limits the difference of two times:
    "b.t <> a.t": [],
    "b.t <=> a.t": [],
    "b.t >= a.t or a.i = 1": [],
    "abs(b.t - a.t) >= interval 5 minutes": [],
    "b.t <= a.t + a.v": [],
    "a.u - a.t < b.t - a.t": [],
    "b.t + (c.t - a.t) < c.t": [],
    "b.t <= timestampadd(minute, a.i, a.t)": [],
    "cast(b.t as float) <= cast(a.t as float)": [],
    "timestampdiff(month, a.t, b.t) <= 1": [],
    "b.z <= a.z + interval 5 minutes": [],
    "b.day <= a.day + 1": [],
    "date_trunc('hour', a.t) = date_trunc('hour', b.t)": [],
    "a.t > timestamp'2024-01-01'": [],
    "unix_timestamp(b.t) <= unix_millis(a.t)": [],
}

#: The same where the clock is put forward and back by an hour.
LOCAL_GAPS = {
    "b.t between a.t and a.t + interval 23 hours": [exactly(A, B, 0), exactly(B, A, 23 * HOUR)],
    "b.t <= a.t + interval 1 day": [about(B, A, 25 * HOUR)],
    "b.t - interval 1 day >= a.t": [about(A, B, -23 * HOUR)],
    "b.t <= a.t + interval 1 month": [about(B, A, 31 * DAY + HOUR)],
    "b.t - a.t <= interval 5 minutes": [about(B, A, HOUR + 5 * MINUTE)],
    "unix_micros(b.t) - unix_micros(a.t) <= 5": [exactly(B, A, 5)],
    "b.t <= dateadd(day, 1, a.t)": [about(B, A, 25 * HOUR)],
    "timestampdiff(minute, a.t, b.t) <= 5": [about(B, A, HOUR + 6 * MINUTE - 1)],
    "cast(b.t as timestamp_ntz) <= cast(a.t as timestamp_ntz)": [about(B, A, HOUR)],
    "cast(cast(b.t as timestamp_ntz) as timestamp) <= a.t": [about(B, A, HOUR)],
}

#: Conditions that make columns equal, or not.
EQUALITIES = {
    "a.i = b.i": Equality((0, "i"), (1, "i")),
    "b.s = a.s": Equality((1, "s"), (0, "s")),
    "a.i = b.l": Equality((0, "i"), (1, "l")),
    "a.l = b.h": Equality((0, "l"), (1, "h")),
    "a.bin = b.bin": Equality((0, "bin"), (1, "bin")),
    "a.c = b.c": Equality((0, "c"), (1, "c")),
    "a.t = b.u": Equality((0, "t"), (1, "u")),
    "(((a.i) = (b.i)))": Equality((0, "i"), (1, "i")),
    "not (a.i <> b.i)": Equality((0, "i"), (1, "i")),
    "a.i <=> b.i": None,
    "a.i in (b.i)": None,
    "lower(a.s) = b.s": None,
    "a.i + 0 = b.i": None,
    "a.i = b.d": None,
    "a.c = b.i": None,
    "a.c = b.w": None,
    "a.f = b.d": None,
    "a.s = b.i": None,
    "a.day = b.t": None,
    "cast(a.l as int) = b.i": None,
    "a.i = b.i or a.s = b.s": None,
    "a.i = a.l": None,
    "a.i = 3": None,
}


def test_gaps_of_times_are_found(streams: list[tuple[str, DataFrame]]) -> None:
    found = {sql: [gap for term in terms(streams, sql) for gap in term.gaps] for sql in GAPS}
    assert found == GAPS


def test_a_clock_that_is_changed_widens_days_and_differences(
    spark: SparkSession, streams: list[tuple[str, DataFrame]]
) -> None:
    with setting(spark, "spark.sql.session.timeZone", ZONE):
        found = {
            sql: [gap for term in terms(streams, sql) for gap in term.gaps] for sql in LOCAL_GAPS
        }
    assert found == LOCAL_GAPS


def test_equalities_between_columns_are_found(streams: list[tuple[str, DataFrame]]) -> None:
    found = {sql: terms(streams, sql)[0].equality for sql in EQUALITIES}
    assert found == EQUALITIES


def test_terms_are_what_and_joins(streams: list[tuple[str, DataFrame]]) -> None:
    sql = (
        "a.i = b.i AND (a.d < b.d OR a.d IS NULL) AND (1 = 1 AND (lower(a.s) = b.s AND true)) "
        "AND b.t BETWEEN a.t AND a.t + INTERVAL 5 MINUTES AND a.s LIKE 'x%'"
    )
    assert [term.text for term in terms(streams, sql)] == [
        "a.i = b.i",
        "(a.d < b.d OR a.d IS NULL)",
        "lower(a.s) = b.s",
        "b.t >= a.t",
        "b.t <= a.t + INTERVAL '05' MINUTE",
        "a.s LIKE 'x%'",
    ]


def test_of_columns_without_null_equality_is_equality(spark: SparkSession) -> None:
    never, maybe = (spark.createDataFrame([], f"k int{null}") for null in (" not null", ""))
    found = [
        terms([("a", one), ("b", other)], "a.k <=> b.k")[0].equality
        for one, other in ((never, maybe), (maybe, never), (maybe, maybe))
    ]
    assert found == [Equality((0, "k"), (1, "k"))] * 2 + [None]


def test_a_condition_may_hold_always_or_never(streams: list[tuple[str, DataFrame]]) -> None:
    assert terms(streams, "1 = 1 and true") == ()
    for sql in ("false", "1 = 2", "a.i = b.i and null"):
        *_, never = terms(streams, sql)
        [(stream, _)] = never.predicate.columns
        assert (stream, never.predicate.mask([pa.array([1, None])]).tolist()) == (0, [False, False])


# --- what is found is true


def times(*texts: str) -> list[dt.datetime]:
    return [dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in texts]


#: Values that are alike, extreme, or odd.
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, 3, 5, -(2**31), 2**31 - 1],
    "l": [0, 1, 2, 10**15, 10**15 + 1, -(2**63), 2**63 - 1],
    "h": [0, 1, 2, -(2**15), 2**15 - 1],
    "d": [0.0, -0.0, 1.0, 1.5, 3.5, -2.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324],
    "f": [0.0, -0.0, 1.0, 1.1, 3.1, math.nan, math.inf, -math.inf, 3.4e38, -3.4e38],
    "c": [Decimal(x) for x in ("0.00", "0.01", "0.50", "-0.49", "99999999.99", "-99999999.99")],
    "w": [Decimal(x).scaleb(-18) for x in (0, 1, -1, 10**37, 10**37 + 1, -(10**37))],
    "s": ["", "a", "b", "abcdefgh", "abcdefghi", "abcdefghz", "é", "A", "\0", "a\0"],
    "t": times(
        "2024-03-30T01:30:00",
        "2024-03-30T01:34:59.999999",
        "2024-03-31T00:30:00",
        "2024-03-31T01:30:00",
        "2024-04-01T00:30:00",
        "2024-04-30T01:30:00",
        "2024-10-27T00:30:00",
        "2024-10-27T01:30:00",
        "1969-12-31T23:59:59.5",
        "1970-01-01T00:00:00.4",
    ),
    "b": [True, False],
    "v": [dt.timedelta(minutes=m) for m in (-5, 0, 1, 5, 60 * 24)],
}
VALUES |= {
    "u": VALUES["t"],
    "z": [t.replace(tzinfo=None) for t in VALUES["t"]],
    "day": [t.date() for t in VALUES["t"]],
    "bin": [s.encode() for s in VALUES["s"]],
}

#: Conditions with comparisons of one kind or another. Those that are marked are decided by them.
COMPARED = {
    "cast(a.f - b.f as double) < 1.5D": False,
    "a.f - b.f >= 1e39D": False,
    "cast(a.c - b.c as float) >= 100000000D": False,
    "cast(cast(a.c - b.c as float) as double) - b.d >= 100000000D": False,
    "a.i < b.i": True,
    "a.i >= b.l": True,
    "a.h <= b.h": True,
    "a.l > b.l": True,
    "a.l = b.l": True,
    "a.i between b.i and b.l": True,
    "a.i + 1 <= b.i": True,
    "not (a.d < b.d)": True,
    "a.d < b.d": True,
    "a.d >= b.d": True,
    "a.d = b.d": True,
    "a.f < b.d": True,
    "a.f = b.f": True,
    "a.d * 2 > b.i": True,
    "a.c < b.c": True,
    "a.c = b.i": True,
    "a.c between b.c - 0.5 and b.c + 0.5": True,
    "a.t < b.t": True,
    "a.t > b.day": True,
    "a.t between b.t - interval 1 day and b.t + interval 1 month": True,
    "a.z <= b.z": True,
    "a.z < b.t": True,
    "a.day >= b.day": True,
    "a.day between b.day - 1 and b.day + 1": True,
    "a.v < b.v": True,
    "a.b = b.b": True,
    "length(a.s) < b.i": True,
    "a.w < b.w": False,
    "a.w = b.w": False,
    "a.s < b.s": False,
    "a.s = b.s": False,
    "lower(a.s) = b.s": False,
    "a.s between b.s and concat(b.s, 'z')": False,
    "a.bin >= b.bin": False,
    "a.bin = b.bin": False,
    "a.d - b.d < 2": False,
    "a.d - b.d <= 2": False,
    "abs(a.d - b.d) < 2": False,
    "abs(a.d - b.d) <= b.d": False,
    "abs(a.d - b.d) between 0 and 2": False,
    "a.d + b.d > 1": False,
    "a.d - b.d between -2 and 2": False,
    "a.d - b.d = 2": False,
    "a.d - b.d + a.d <= b.d": False,
    "-(a.d - b.d) > double('-Infinity')": False,
    "a.d - b.d <= double('-Infinity')": False,
    "b.d - a.d >= 2": False,
    "2 < b.d - a.d": False,
    "b.d - a.d = b.f": False,
    "b.d - a.d >= double('NaN')": False,
    "b.d - a.d between -2 and 2": False,
    "b.f - a.f > 2": False,
    "-a.d - b.d > 2": False,
    "b.d - a.d + b.d >= a.f - b.d": False,
    "a.f - b.f <= 2": False,
    "abs(a.f - b.f) < b.f": False,
    "abs(a.i - b.i) <= 2": False,
    "a.i - b.i < 2.5": False,
    "a.i - b.i < 2.5D": False,
    "abs(a.l - b.l) <= 1": False,
    "a.l - b.i = 0": False,
    "a.c - b.c < 0.5": False,
    "abs(a.c - b.c) <= 0.5": False,
    "abs(a.c - b.i) < 1": False,
    "a.t - b.t < interval 1 hour": False,
    "abs(a.t - b.t) <= interval 5 minutes": False,
    "a.t - b.t <= a.v": False,
    "a.z - b.z < interval 1 hour": False,
    "datediff(a.day, b.day) < 2": False,
    "a.day - b.day >= interval 1 day": False,
    "unix_timestamp(a.t) - unix_timestamp(b.t) <= 300": False,
    "a.v + b.v > interval 4 minutes": False,
}

#: Conditions that say nothing by which rows could be searched.
NOT_COMPARED = [
    "a.i <> b.i",
    "a.i <=> b.i",
    "a.i < 3",
    "a.i < a.l",
    "a.i * b.i < 3",
    "abs(a.i - b.i) > 2",
    "a.i + b.i < c.i",
    "a.w - b.w < 1",
    "coalesce(a.i, b.i) < b.l",
    "a.i < b.i or a.d < b.d",
]


def pairs(seed: int, count: int = 600) -> dict[tuple[int, str], pa.Array]:
    """Values of a and b, side by side, with nulls among them."""
    random = np.random.default_rng(seed)
    kinds = {
        **{"i": pa.int32(), "l": pa.int64(), "h": pa.int16(), "d": pa.float64()},
        **{"f": pa.float32(), "c": pa.decimal128(10, 2), "w": pa.decimal128(38, 18)},
        **{"s": pa.string(), "bin": pa.binary(), "b": pa.bool_(), "day": pa.date32()},
        **{"t": pa.timestamp("us", "UTC"), "u": pa.timestamp("us", "UTC")},
        **{"z": pa.timestamp("us"), "v": pa.duration("us")},
    }
    return {
        (stream, name): pa.array(
            [
                None if random.random() < 0.05 else values[random.integers(0, len(values))]
                for _ in range(count)
            ],
            kinds[name],
        )
        for stream in (0, 1)
        for name, values in VALUES.items()
    }


def bounds(span: Span, values: dict[tuple[int, str], pa.Array]) -> Bounds:
    return span.bounds([values[span.stream, name] for name in span.columns])


def compared(
    comparisons: Sequence[Comparison], values: dict[tuple[int, str], pa.Array]
) -> np.ndarray:
    """For which pairs all comparisons hold."""
    every = np.arange(len(values[A]))
    holds = np.ones(len(every), dtype=np.bool_)
    for overlap in overlaps_of(comparisons):
        one, other = bounds(overlap.first, values), bounds(overlap.second, values)
        holds &= one.overlap(every, other, every)
        for side in (one, other):
            holds &= True if side.known is None else side.known
    return holds


def apart(gaps: Sequence[Gap], values: dict[tuple[int, str], pa.Array]) -> np.ndarray:
    """For which pairs all gaps are kept to."""
    holds = np.ones(len(values[A]), dtype=np.bool_)
    for gap in gaps:
        later, earlier = (values[of].cast(pa.int64()) for of in (gap.later, gap.earlier))
        fits = pc.less_equal(pc.subtract(later, earlier), gap.most)
        holds &= np.asarray(fits.fill_null(False))
    return holds


def assert_true(
    streams: list[tuple[str, DataFrame]], conditions: Sequence[str], *, shown: int
) -> None:
    """What is known of the terms of each condition holds wherever they do, and, if it is exact,
    nowhere else. ``shown``: so many conditions at least hold for some of the pairs."""
    values = pairs(seed=1)
    wrong, holding = [], 0
    for sql in conditions:
        for term in terms(streams, sql):
            holds = term.predicate.mask([values[of] for of in term.predicate.columns])
            holding += bool(holds.any())
            for known, found in (
                (term.comparisons, compared(term.comparisons, values)),
                (term.gaps, apart(term.gaps, values)),
            ):
                exact = known and all(each.exact for each in known)
                if (holds & ~found).any() or (exact and (found & ~holds).any()):
                    wrong.append((sql, known))
    assert wrong == []
    assert holding >= shown


@pytest.mark.parametrize("zone", ["UTC", ZONE])
def test_what_is_known_of_a_term_is_true(
    spark: SparkSession, streams: list[tuple[str, DataFrame]], zone: str
) -> None:
    conditions = [*COMPARED, *NOT_COMPARED, *GAPS, *LOCAL_GAPS, *EQUALITIES]
    two = [sql for sql in conditions if "c." not in sql.replace("a.c", "").replace("b.c", "")]
    with setting(spark, "spark.sql.session.timeZone", zone):
        assert_true(streams, two, shown=len(COMPARED))


def test_comparisons_are_found_and_known_to_be_exact_or_not(
    streams: list[tuple[str, DataFrame]],
) -> None:
    found = {}
    for sql in COMPARED:
        known = [term.comparisons for term in terms(streams, sql)]
        assert any(known), f"{sql}: no comparison"
        found[sql] = all(each and all(one.exact for one in each) for each in known)
    assert found == COMPARED
    assert {sql: terms(streams, sql)[0].comparisons for sql in NOT_COMPARED} == dict.fromkeys(
        NOT_COMPARED, ()
    )


def test_a_range_and_a_distance_are_intervals_around_a_point(
    streams: list[tuple[str, DataFrame]],
) -> None:
    conditions = {
        "a.i between b.i - 1 and b.i + 1": (1, 2),
        "abs(a.d - b.d) < 2": (1, 2),
        "abs(b.d - a.d) < 2": (1, 2),
        "b.d - a.d between -2 and 2": (1, 2),
        "a.i = b.i": (1, 1),
        "a.s = b.s": (1, 1),
        "a.i < b.i and b.l < a.l": (2, 2),
    }
    values = pairs(seed=2)
    found = {}
    for sql in conditions:
        comparisons = [each for term in terms(streams, sql) for each in term.comparisons]
        (overlap,) = overlaps_of(comparisons)
        sides = [bounds(overlap.span(stream), values) for stream in (0, 1)]
        found[sql] = tuple(1 if side.low is side.high else 2 for side in sides)
    assert found == conditions


#: Conditions that are formulas of numbers, and some that are not.
FORMULAS = [
    "a.d * b.d > 0.985",
    "a.d - 2 * b.d <= -a.d",
    "(a.d - b.d) * (a.d - b.d) + abs(a.d + b.d) < 4",
    "a.d < b.d OR a.d + b.d >= 3",
    "a.d BETWEEN b.d - 0.5 AND b.d + 0.5",
    "a.d > b.d AND a.d < 2 * b.d AND a.d < 3",
    "a.i * b.i > 3",
    "a.h * b.h - 1 < -a.i * b.l",
    "a.i * b.l > 12345678901234 OR a.i < b.i",
    "a.d > b.i",
    "a.l * b.d + a.h >= a.i",
    "a.d <> b.d AND a.i <> b.l",
    "NOT a.i = 2 * b.i",
    "NOT a.d <> b.d",
    "a.h = b.h OR a.l - b.l = 1",
]
OTHERS = [
    "a.d / b.d > 1",
    "a.d + b.f > 1",
    "a.c <> b.c",
    "a.i <=> b.i",
    "a.t < b.t",
    "a.i * b.c > 2",
    "CAST(a.l * b.l AS int) > 2",
    "CAST(a.d * b.d AS int) > 2",
    "a.d < b.d OR NOT a.d < 1",
    "a.d < b.d OR NOT a.d <> b.d",
]
NUMBERS = {"h": np.int16, "i": np.int32, "l": np.int64, "d": np.float64}


def numbers(generator: np.random.Generator, scale: float) -> dict[tuple[int, str], np.ndarray]:
    """Fifty values of each column of numbers of two streams."""
    return {
        (stream, name): np.round(generator.normal(0, scale, 50), 1).astype(kind)
        for stream in (0, 1)
        for name, kind in NUMBERS.items()
    }


def check_formula(term: Term, values: dict[tuple[int, str], np.ndarray]) -> bool:
    """Check that a formula says of all pairs what its predicate says. False if it says nothing,
    because numbers may be too large."""
    predicate = term.predicate
    assert predicate.formula is not None, term.text
    largest = {of: max(each.max().item(), -each.min().item()) for of, each in values.items()}
    if not math.isfinite(predicate.formula.largest(largest)):
        return False
    wide = {of: each if of[1] == "d" else each.astype(np.int64) for of, each in values.items()}
    crossed = {
        of: each[np.newaxis, :] if of[0] else each[:, np.newaxis] for of, each in wide.items()
    }
    flat = {of: np.tile(each, 50) if of[0] else np.repeat(each, 50) for of, each in values.items()}
    mask = predicate.mask([pa.array(flat[column]) for column in predicate.columns])
    found = np.broadcast_to(predicate.formula.value(crossed), (50, 50))
    assert found.ravel().tolist() == mask.tolist(), term.text
    return True


def test_formulas_are_found_and_mean_the_same(streams: list[tuple[str, DataFrame]]) -> None:
    values = numbers(np.random.default_rng(3), 3)
    for term in [term for sql in FORMULAS for term in terms(streams, sql)]:
        assert check_formula(term, values), term.text
    for sql in OTHERS:
        assert [term.predicate.formula for term in terms(streams, sql)] == [None], sql


def random_number(dice: random.Random, depth: int) -> str:
    if depth == 0:
        return f"{dice.choice('ab')}.{dice.choice('hhiiilld')}"
    one, other = (random_number(dice, dice.randrange(depth)) for _ in range(2))
    forms = [f"({one} {dice.choice('+-*')} {other})", f"abs({one})", f"(-{one})"]
    forms.append(f"({one} {dice.choice('+-*')} {dice.choice(['7', '100Y', '99S', '5L', '0.5D'])})")
    return dice.choice([forms[0], *forms])


def test_formulas_say_nothing_where_numbers_may_be_too_large(
    streams: list[tuple[str, DataFrame]],
) -> None:
    # Given random formulas, and numbers of any size,
    dice, generator = random.Random(4), np.random.default_rng(4)
    sql = [
        f"{random_number(dice, 3)} {dice.choice(['<', '<=', '>', '>='])} {random_number(dice, 2)}"
        for _ in range(80)
    ]
    found = [term for each in sql for term in terms(streams, each)]
    of_numbers = [numbers(generator, scale) for scale in (3, 100, 5_000)]
    for values in of_numbers[1:]:
        for name in ("i", "l"):
            values[0, name] *= 100
    # when they are computed, then they say what Polars says, or nothing.
    answers = [check_formula(term, values) for values in of_numbers for term in found]
    assert sum(answers) > len(answers) / 3
    assert answers.count(False) > len(answers) / 20
    # So they do where numbers are compared for being equal.
    equal = [
        f"{random_number(dice, 3)} {dice.choice(['=', '<>'])} {random_number(dice, 2)}"
        for _ in range(20)
    ]
    found = [term for each in equal for term in terms(streams, each)]
    answers = [check_formula(term, values) for values in of_numbers for term in found]
    assert any(answers)
