"""A translated condition holds for the pairs for which Spark itself says it holds."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.conditions.terms import conjunction
from watersmeet.errors import PredicateError
from watersmeet.spark import sql as where
from watersmeet.spark.sql.analysis import GUIDE, SUPPORTED

pytestmark = pytest.mark.spark

SCHEMA = (
    "i int, l bigint, h smallint, d double, f float, c decimal(10,2), w decimal(38,18), s string, "
    "n string, t timestamp, z timestamp_ntz, day date, b boolean, v interval day to second, "
    "xs array<int>, p struct<x: int, q: decimal(10,1), at: timestamp>, bin binary"
)
PAIR = f"a struct<{SCHEMA}>, b struct<{SCHEMA}>"


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


def row(i: int, d: float, c: str, s: str, n: str, t: dt.datetime, b: bool | None) -> dict[str, Any]:
    price = Decimal(c)
    return {
        **{"i": i, "l": i * 2**31, "h": i % 100, "d": d, "f": d},
        **{"c": price, "w": (price / 3).quantize(Decimal("1e-18")), "s": s, "n": n},
        **{"t": t, "z": t.replace(tzinfo=None), "day": t.date(), "b": b},
        **{"v": dt.timedelta(minutes=i), "xs": [i, None, 7][: i % 4], "bin": s.encode()},
        "p": {"x": i, "q": price.quantize(Decimal("0.1")), "at": t},
    }


LEFT = [
    row(1, 1.5, "1.25", "abc", "12", at(2024, 3, 30, 1, 30), True),
    row(-7, -0.0, "-3.45", "Abc ", " -7", at(2024, 3, 31, 0, 59, 59, 999_999), False),
    row(6, math.nan, "99.99", "été%", "+3", at(2024, 10, 27, 0, 30), None),
    row(40, math.inf, "0.00", "", "0", at(1969, 12, 31, 23, 59, 59, 500_000), True),
    row(0, 2.675, "12345678.90", "  x y\t", "7", at(2024, 2, 29, 12), False),
    {},
]
RIGHT = [
    row(1, 1.5, "1.25", "a", "3", at(2024, 3, 30, 1, 31), True),
    row(3, 0.0, "-1.35", "b_c", "12", at(2024, 4, 1, 1), None),
    row(-2, math.nan, "7.00", "%", "0", at(2024, 10, 28, 0, 30), False),
    row(2, -math.inf, "0.05", "C ", "-7", at(2024, 1, 31, 23, 59), False),
    {"b": True},
]

#: Conditions that Spark, in ANSI mode, computes for every pair above.
SAME = [
    # logic and comparisons
    "a.i < b.i and a.b or not b.b",
    "a.i <> b.i",
    "a.i <=> b.i",
    "a.b = b.b",
    "a.b is not true",
    "a.i is null or b.s is not null",
    "not (a.d < b.d)",
    "not (a.i <= b.i or not (a.d > b.d))",
    "not (a.i between b.i and 3 or a.s = b.s)",
    "not not a.b",
    "a.i < b.i and 1 = 2",
    "a.p is null or a.xs is null",
    "a.i in (1, 6, -7)",
    "a.i in (1, null)",
    "a.i in (b.i, b.h + 1, 40)",
    "a.s in ('abc', '')",
    "a.d in (double('NaN'), 0.0D)",
    "a.c in (1.25, 0)",
    "a.t in (timestamp'2024-03-30 01:30:00 UTC', b.t)",
    "a.i between -7 and b.i",
    "a.d = b.d",
    "a.d < b.d",
    "a.d >= b.d",
    "a.f <=> b.f",
    "isnan(a.d)",
    "a.d > b.i",
    "a.f > b.c",
    "a.d = double('Infinity') or a.d = 2.675",
    "a.s < b.s",
    "a.bin >= b.bin",
    "a.i > 1.5",
    "a.l > 2147483648",
    "case when a.i > 1 then a.d > 0 when a.i < 0 then b.b end",
    "case a.i when 1 then 'one' else b.s end = 'one'",
    "if(a.b, a.i, b.i) > 0",
    "coalesce(a.i, b.l, 5) > 2",
    "nullif(a.i, 1) > 0",
    "nvl2(a.i, b.i, 3) = 3",
    "greatest(a.d, b.d, 1.0D) > 1.5",
    "least(a.d, b.d) = double('NaN')",
    "least(a.i, b.i, 2) = 1",
    # numbers
    "a.i + b.i > 3",
    "a.i - b.i = -1 or a.i * b.i = -7",
    "a.l * 3 - b.l > 0",
    "-a.i > 0 or abs(a.i) = 7",
    "a.i % 4 = -3",
    "a.i div 4 = -1",
    "pmod(a.i, 4) = 1",
    "a.h & 3 = 1 or a.h | 1 = 41 or a.h ^ 5 = 3",
    "a.c + b.c > 2.5",
    "a.c - b.i < 0.25",
    "a.c * b.c = 1.5625",
    "a.c * 1.1 > 1.375",
    "a.c / 3 > 0.41",
    "a.c / 7.00 = 0.1785714285714286",
    "a.c % 1.1 = 0.15",
    "a.w + b.w > 1",
    "a.w > b.d",
    "-a.c > 3 or abs(a.c) = 3.45",
    "floor(a.c) = 1 or ceil(a.c) = -3",
    "round(a.c, 1) = 1.3",
    "round(a.c) = -3",
    "sign(a.i) = -1",
    "round(a.i, 1) = 6",
    "sqrt(a.i * a.i + b.i * b.i) < 9",
    "a.d / 3 = 2.675D / 3",
    # casts
    "cast(a.n as int) = b.i",
    "a.n > b.i",
    "cast(a.n as double) < b.d",
    "cast(a.i as string) = trim(b.n)",
    "cast(a.c as int) = -3",
    "cast(a.c as decimal(12,1)) = 1.3",
    "cast(a.i as boolean)",
    "cast(a.b as int) = 1",
    "cast(a.day as string) like '2024-03%'",
    "a.t > b.day",
    "a.z <= b.t",
    "a.day = date(b.t)",
    "a.day >= '2024-03-30'",
    "cast(a.t as double) > 1711848600.5",
    "cast(a.t as double) - cast(b.t as double) < 60 or cast(a.t as float) > 1.7e9",
    "a.t >= '2024-03-30 01:30:00'",
    # texts
    "lower(a.s) = 'abc ' or upper(a.s) = 'ÉTÉ%'",
    "length(a.s) = 4",
    "a.s || b.s = 'abca'",
    "substring(a.s, 2, 1) = 'b' or substring(a.s, -5, 3) = 'é' or substr(a.s, 0, 2) = 'Ab'",
    "left(a.s, 1) = 'a' or right(a.s, 1) = ' '",
    "trim(a.s) = 'Abc' or ltrim(a.s) = 'x y\t'",
    "rtrim(a.s) = 'Abc' or trim(both 'ac' from a.s) = 'b'",
    "startswith(a.s, b.s) or endswith(a.s, b.s)",
    "contains(a.s, lower(b.s))",
    "a.s like 'a%' or a.s like '_bc '",
    "a.s like '%t_/%' escape '/'",
    "a.s ilike 'AB%'",
    "a.s rlike '^[aA]b?c* ' or a.s rlike '(b|é)+'",
    r"a.s rlike '^\\w+.$' or a.s regexp '[\\d,]{2}' or regexp_like(a.s, '^\\s')",
    "split(a.s, 'b')[0] = 'a' or size(split(a.s, '[ ]', -1)) = 2",
    "array_contains(split(a.s, ' '), 'x')",
    # times
    "b.t >= a.t + interval 1 minute",
    "a.t between b.t - interval 1 day and b.t + interval '2 3' day to hour",
    "b.t - a.t = interval 1 minute",
    "abs(a.t - b.t) < interval 1 day",
    "a.t + a.v > b.t",
    "a.v + b.v > interval 4 minutes",
    "-a.v > interval 6 minutes",
    "a.t + interval 1 month > b.t",
    "a.z + interval 1 day < b.z",
    "a.z - b.z < interval 0 seconds",
    "a.day + 1 = b.day",
    "date_sub(a.day, a.i) < b.day",
    "datediff(b.day, a.day) > 1",
    "b.day - a.day > interval 1 day",
    "a.day + interval 1 month = date'2024-03-29' or add_months(a.day, -1) = '2024-02-29'",
    "a.t + interval 30 hours = timestamp'2024-03-31 07:30:00Z'",
    "unix_timestamp(a.t) = 0 or unix_seconds(a.t) = -1 or cast(a.t as bigint) = 1711848600",
    "timestamp_seconds(a.l) < b.t and unix_millis(a.t) < 0",
    "date_trunc('hour', a.t) = date_trunc('HOUR', b.t)",
    "date_trunc('week', a.t) = date_trunc('week', b.t) or date_trunc('month', a.t) < b.t",
    "year(a.t) = 2024 and month(a.t) = 3 and day(a.t) = 31",
    "hour(a.t) = 1 or minute(a.t) = 59 or second(a.t) = 59",
    "extract(dayofweek from a.day) = 1 or weekday(a.day) = 6 or weekofyear(a.day) = 9",
    "hour(a.z) = hour(b.t)",
    "timestampadd(minute, 1, a.t) = b.t or dateadd(day, a.i, b.t) < a.t",
    "timestampadd(hour, 30, a.t) < timestamp'2024-03-31 08:00:00Z'",
    "timestampadd(month, 1, a.t) >= b.t or timestampadd(quarter, -2, a.z) < b.z",
    "timestampadd(week, 4, a.z) < b.z or timestampadd(year, 1, a.day) > b.t",
    "timestampadd(second, a.i, a.day) >= b.t or dateadd(dayofyear, 1, a.t) > b.t",
    "quarter(a.t) = quarter(b.t)",
    "timestampdiff(minute, a.t, b.t) in (0, 1, -1440) or datediff(second, a.t, b.t) < 0",
    "timestampdiff(day, a.t, b.t) = 1 or timestampdiff(week, b.t, a.t) = -4",
    "timestampdiff(month, a.t, b.t) in (1, -2) or timestampdiff(year, a.t, b.t) = 54",
    "timestampdiff(quarter, b.t, a.t) = 0 and timestampdiff(hour, a.z, b.z) > 5",
    # nested values
    "a.p.x = b.i and a.p.q < 2.05",
    "a.p.at < b.t",
    "get(a.xs, 0) = b.i",
    "size(a.xs) = 2",
    "array_contains(a.xs, b.i)",
    "a.xs = b.xs or a.xs <> array(b.i)",
    "a.xs <=> b.xs",
    "array(a.i, null, 7) = a.xs or array(b.i, null) = a.xs",
    "arrays_overlap(a.xs, b.xs) or arrays_overlap(split(a.s, ' '), split(b.s, '_'))",
    "split(a.s, 'b') = split(b.s, 'c')",
    # names
    "`a`.`i` = B.I",
]

#: Conditions that stop the query in ANSI mode, beside what they mean in a join.
ANSI = [
    ("a.i / b.h > 0 or a.d / a.i > 0", "a.i / nullif(b.h, 0) > 0 or a.d / nullif(a.i, 0) > 0"),
    ("b.i % a.i = 1 or b.i div a.i < 0", "try_mod(b.i, a.i) = 1 or b.i div nullif(a.i, 0) < 0"),
    ("a.c / b.i < 1", "a.c / nullif(b.i, 0) < 1"),
    ("2147483647 + a.i > 0", "try_add(2147483647, a.i) > 0"),
    ("a.l * 9223372036L * b.i > 0", "try_multiply(try_multiply(a.l, 9223372036L), b.i) > 0"),
    ("cast(a.s as int) = 1", "try_cast(a.s as int) = 1"),
    ("cast(a.d as int) = 2", "try_cast(a.d as int) = 2"),
    ("cast(a.c as tinyint) > 0", "try_cast(a.c as tinyint) > 0"),
    ("cast(a.c as decimal(4,2)) > 0", "try_cast(a.c as decimal(4,2)) > 0"),
    (
        "floor(a.d) = 1 or ceil(a.d) = 3 or floor(a.d) = 0",
        "nullif(a.d, double('Infinity')) in (1.5D, 2.675D, 0.0D, double('NaN'))",
    ),
    ("a.xs[b.i] = 7", "get(a.xs, b.i) = 7"),
    # It is the part that fails which is null, not all of the condition.
    (
        "coalesce(a.i / b.h, 5) > 3 or a.i / b.h is null",
        "coalesce(a.i / nullif(b.h, 0), 5) > 3 or a.i / nullif(b.h, 0) is null",
    ),
]

#: Texts that are whole numbers in one of ANSI mode and the other.
WHOLE = ["'.7'", "'.'", "'x'", "'. 1'", "'.0e1'", "' '"]


def arrow_pairs() -> pa.Table:
    """Each row of LEFT beside each of RIGHT, as structs a and b."""
    pair = StructType.fromDDL(PAIR)
    assert isinstance(pair, StructType)
    schema = to_arrow_schema(pair, timezone="UTC")
    return pa.Table.from_pylist([{"a": a, "b": b} for a in LEFT for b in RIGHT], schema)


@pytest.fixture(scope="module")
def pairs(spark: SparkSession) -> DataFrame:
    """The pairs in the driver's memory: Spark computes conditions over them without a job."""
    return spark.createDataFrame(arrow_pairs(), PAIR)


@pytest.fixture(scope="module")
def streams(pairs: DataFrame) -> list[tuple[str, DataFrame]]:
    return [("a", pairs.select("a.*")), ("b", pairs.select("b.*"))]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """The session with another setting, for a while."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "")


def translated(
    spark: SparkSession, sql: str, streams: Sequence[tuple[str, DataFrame]]
) -> SqlPredicate:
    """All terms of a condition, as one."""
    predicate = conjunction(where.translate(spark, sql, streams))
    assert predicate is not None
    return predicate


def assert_as_spark(
    pairs: DataFrame,
    streams: Sequence[tuple[str, DataFrame]],
    conditions: Sequence[tuple[str, str]],
) -> None:
    """Each condition is true, false or null for the same pairs here as its reference in Spark."""
    references = [f"({reference}) as c{i}" for i, (_, reference) in enumerate(conditions)]
    columns = list(zip(*pairs.selectExpr(*references).collect(), strict=True))
    rows = [column.combine_chunks() for column in arrow_pairs().columns]
    different = {}
    for (sql, _), expected in zip(conditions, columns, strict=True):
        predicate = translated(pairs.sparkSession, sql, streams)
        opposite = replace(predicate, expression=~predicate.expression)
        inputs = [pc.struct_field(rows[index], name) for index, name in predicate.columns]
        masks = zip(predicate.mask(inputs), opposite.mask(inputs), strict=True)
        found = tuple(True if holds else False if fails else None for holds, fails in masks)
        if found != expected:
            different[sql] = list(zip(expected, found, strict=True))
    assert different == {}


def test_conditions_hold_where_spark_says_so(
    pairs: DataFrame, streams: list[tuple[str, DataFrame]]
) -> None:
    assert_as_spark(pairs, streams, [(sql, sql) for sql in SAME])


@pytest.mark.parametrize("zone", ["Europe/Vienna", "GMT-9:30"])
def test_times_are_those_of_the_sessions_zone(
    spark: SparkSession, pairs: DataFrame, streams: list[tuple[str, DataFrame]], zone: str
) -> None:
    times = SAME[SAME.index("b.t >= a.t + interval 1 minute") :]
    with setting(spark, "spark.sql.session.timeZone", zone):
        assert_as_spark(
            pairs, streams, [(sql, sql) for sql in [*times, "a.t > b.day", "a.z <= b.t"]]
        )


def test_timestamp_is_a_point_in_time_whatever_sql_means_by_it(
    spark: SparkSession, pairs: DataFrame, streams: list[tuple[str, DataFrame]]
) -> None:
    times = ["hour(a.t) = 1", "a.t < b.t", "a.z < b.z", "date_trunc('day', a.t) = a.t"]
    with (
        setting(spark, "spark.sql.session.timeZone", "Europe/Vienna"),
        setting(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"),
    ):
        assert_as_spark(pairs, streams, [(sql, sql) for sql in times])


def test_the_size_of_null_is_what_the_session_says(
    spark: SparkSession, pairs: DataFrame, streams: list[tuple[str, DataFrame]]
) -> None:
    with (
        setting(spark, "spark.sql.ansi.enabled", "false"),
        setting(spark, "spark.sql.legacy.sizeOfNull", "true"),
    ):
        assert_as_spark(pairs, streams, [("size(a.xs) = -1", "size(a.xs) = -1")])


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_ansi_mode_stops_at_is_no_match_in_either_mode(
    spark: SparkSession, pairs: DataFrame, streams: list[tuple[str, DataFrame]], ansi: str
) -> None:
    with setting(spark, "spark.sql.ansi.enabled", ansi):
        assert_as_spark(pairs, streams, ANSI)


def test_a_text_is_a_whole_number_as_the_session_says(
    spark: SparkSession, pairs: DataFrame, streams: list[tuple[str, DataFrame]]
) -> None:
    casts = [f"cast(a.n || {tail} as {kind})" for tail in WHOLE for kind in ("int", "tinyint")]
    casts += [
        "cast('.' || trim(a.n) as int)",
        "cast(a.s as bigint)",
        "try_cast(a.n || '.7' as int)",
    ]
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        assert_as_spark(pairs, streams, [(f"{sql} <= b.i",) * 2 for sql in casts])
    tried = [
        (f"{sql} <= b.i", f"{sql.replace('try_', '')} <= b.i".replace("cast(", "try_cast("))
        for sql in casts
    ]
    assert_as_spark(pairs, streams, tried)


def test_the_inputs_are_the_columns_it_mentions(
    spark: SparkSession, streams: list[tuple[str, DataFrame]]
) -> None:
    predicate = translated(spark, "b.i > A.I and b.i < a.d", streams)
    assert predicate.text == "b.i > A.I AND b.i < a.d"
    assert predicate.columns == ((1, "i"), (0, "i"), (0, "d"))


def test_an_unqualified_column_may_be_of_any_stream(spark: SparkSession) -> None:
    views = spark.createDataFrame([], "ad int, price double")
    clicks = spark.createDataFrame([], "ad int, bid double")
    predicate = translated(spark, "price < bid", [("views", views), ("clicks", clicks)])
    assert predicate.columns == ((0, "price"), (1, "bid"))


def test_three_streams(spark: SparkSession) -> None:
    one = spark.createDataFrame([], "x int")
    predicate = translated(spark, "a.x + b.x = c.x", [("a", one), ("b", one), ("c", one)])
    assert predicate.columns == ((0, "x"), (1, "x"), (2, "x"))
    assert predicate.mask([pa.array([1, 1]), pa.array([2, 2]), pa.array([3, 4])]).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("a.i <", "Syntax error at or near end of input. Give a Spark SQL condition"),
        ("a.dd > 1", "there is no column a.dd. Did you mean 'a.d'? The columns are a.i, a.l, "),
        ("daz > 1", "there is no column daz. Did you mean 'day'? The columns are"),
        ("q.i > 1", "there is no column q.i."),
        ("i = 1", "i is a column of several streams. Put the stream's name before it: a.i or b.i."),
        ("a.p.y = 1", "No such struct field `y` in `x`, `q`, `at`."),
        ("a.i", 'of type "INT" is not a boolean. Give a condition'),
        ("a.i > a.b", "incompatible types"),
        ("foo(a.i)", "Cannot resolve routine `foo`"),
        ("sum(a.i) > 1", "contains invalid expressions: sum(a.i). Aggregates"),
        ("a.d > rand()", "it is not deterministic."),
        ("a.i in (select 1)", "it contains a subquery."),
        ("a.t > now() - interval 1 day", "it depends on the current time, user or session."),
        ("a.day = current_date()", "it depends on the current time"),
        ("a.day = '2024-13-01'", "has no value: The value '2024-13-01'"),
        ("hash(a.i) = b.i", "the function hash (in hash(a.i)) is not supported. "),
        ("date_diff2(a.day, b.day) = 1", "Similar is datediff"),
        ("regex_like(a.s, 'x')", "Similar is regexp_like"),
        ("initcap(a.s) = 'x'", f"is not supported. {GUIDE} lists what `where` knows"),
        ("nosuch(a.i) = b.i", "docs/reference.md lists what `where` knows, under Conditions."),
        ("hash(a.i) = b.i", "For an inner join, the same condition can be applied to the result"),
        ("pow(a.d, 2) > b.d", "the function pow (in pow(a.d, "),
        ("round(a.d, 1) = 1", f"is not supported. {GUIDE} lists what `where` knows"),
        ("round(a.d, 1) = 1", "round of double (in round(a.d, 1)) is not supported."),
        ("date_trunc('decade', a.t) = b.t", "date_trunc to DECADE (in"),
        ("timestampadd(month, a.i, b.t) = a.t", "the varying or null argument CAST(a.i AS"),
        ("split(a.s, 'a+')[0] = 'x'", "split by a pattern that is not a plain text (in"),
        ("split(a.s, ',', 2)[0] = 'x'", "split with a limit (in"),
        ("a.i * interval 1 hour > b.v", "the function multiplydtinterval (in"),
        ("a.s like any ('x', 'y')", "the function likeany (in"),
        ("a.d % 2 = 1", "remainder of double (in (a.d % CAST(2 AS DOUBLE))) is not supported."),
        ("cast(a.s as date) = b.day", "the cast from string to date (in CAST(a.s AS DATE)) is"),
        ("a.s like b.s", "the varying or null argument b.s is not supported."),
        ("a.s like '%\\\\x'", "in a LIKE pattern '\\\\' must precede _, % or itself."),
        ("a.s rlike '(?i)x'", "a regular expression other than one of characters, sets, groups,"),
        ("a.xs < b.xs", "a value of type array<int>"),
        ("a.p = b.p", "a value of type struct<"),
        ("a.i = (select max(x) from nosuch)", "it contains a subquery. Join that table first"),
        ("a.i = select max(1)", "it contains a subquery."),
        ("a.s = select 'x'", "it contains a subquery."),
        ("a.s = 'select' 1", "Syntax error at or near '1': extra input '1'. Give a Spark"),
        ("exists (select 1 from nosuch where x = a.i)", "it contains a subquery."),
        ("nosuch(a.i) = b.i", "given by wm.predicate(function, 'views', 'clicks')."),
        ("hash(a.i) = b.i", "given by wm.predicate(function, 'views', 'clicks')."),
        ("one_more(a.i) = b.i", "one_more(i) is a user-defined function. A function of your own"),
        ("a.s collate UNICODE_CI = b.s", "a value of type string collate UNICODE_CI"),
        ("a.w * b.w > 1", "arithmetic that needs decimals of 76 digits"),
    ],
)
def test_a_condition_that_cannot_be_used_is_explained(
    spark: SparkSession, streams: list[tuple[str, DataFrame]], sql: str, message: str
) -> None:
    spark.udf.register("one_more", lambda number: number + 1, "int")
    with pytest.raises(PredicateError) as error:
        where.translate(spark, sql, streams)
    assert str(error.value).startswith(f"where={sql!r}: ")
    assert message in str(error.value)


def test_the_guide_that_messages_name_is_there_and_lists_what_where_knows() -> None:
    text = GUIDE.read_text()
    assert "## Conditions" in text
    assert [name for name in ("rlike", "regexp", "regexp_like") if name not in SUPPORTED] == []
    assert "`regexp_like`" in text


def test_a_refusal_does_not_print_the_jvms_stack(
    spark: SparkSession, streams: list[tuple[str, DataFrame]], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PredicateError):
        where.translate(spark, "a.nope = 1", streams)
    with pytest.raises(PredicateError):
        where.translate(spark, "a.i = cast('one' as int)", streams)
    assert "at org.apache.spark" not in capfd.readouterr().err
