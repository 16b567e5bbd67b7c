"""A join on Spark gives what the same join gives in SQL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.streams import (
    SECOND,
    TIMESTAMP,
    at,
    events,
    read,
    rows_of,
    run,
    table,
    without_end,
    write,
)
from watersmeet.spec.join_type import JOIN_NAMES, How

pytestmark = pytest.mark.spark

VIEWS = events(1, key="ad", time="viewed", value="view")
CLICKS = events(2, key="ad", time="clicked", value="click")
SALES = events(3, key="ad", time="sold", value="sale", null_keys=False)
DELAY = "2 minutes"
WITHIN = {"views": "20 seconds", "clicks": "45 seconds"}
#: `on` in its three forms.
ON: dict[str, Any] = {
    "inner": "ad",
    "left": ["ad"],
    "right": {"views": "ad", "clicks": "ad"},
    "full": {"views": ["ad"], "clicks": ["ad"]},
    "semi": "AD",
    "anti": "ad",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    root = tmp_path_factory.mktemp("streams")
    streams = {"views": VIEWS, "clicks": CLICKS, "sales": SALES}
    return {name: write(root / name, batches) for name, batches in streams.items()}


def both(spark: SparkSession, folders: Mapping[str, Path]) -> list[wm.Stream]:
    return [
        wm.stream(read(spark, folders["views"]), "views", time="viewed", delay=DELAY),
        wm.stream(read(spark, folders["clicks"]), "clicks", time="clicked", delay=DELAY),
    ]


def expected(how: How = "inner", where: str | None = None, *, bounded: bool = True) -> pa.Table:
    views, clicks = without_end(VIEWS, "ad"), without_end(CLICKS, "ad")
    windows = (20 * SECOND, 45 * SECOND) if bounded else (None, None)
    streams = {
        "views": Stream(views, ["ad"], "viewed", windows[0]),
        "clicks": Stream(clicks, ["ad"], "clicked", windows[1]),
    }
    return sql_join(streams, how=how, where=where)


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_streams_give_what_sql_gives(
    spark: SparkSession, folders: Mapping[str, Path], how: How
) -> None:
    joined = wm.join(both(spark, folders), on=ON[how], within=WITHIN, how=how)
    assert_same_rows(run(joined), expected(how))


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_batch_dataframes_give_the_same(
    spark: SparkSession, folders: Mapping[str, Path], how: How
) -> None:
    closing = F.col("ad").isNull() | (F.col("ad") < 1_000_000)
    views = spark.read.parquet(str(folders["views"])).where(closing)
    clicks = spark.read.parquet(str(folders["clicks"])).where(closing)
    streams = [
        wm.stream(views, "views", time="viewed"),
        wm.stream(clicks, "clicks", time="clicked"),
    ]

    joined = wm.join(streams, on="ad", within=WITHIN, how=how)

    assert_same_rows(table(joined), expected(how))


def test_a_condition_is_part_of_the_match(spark: SparkSession, folders: Mapping[str, Path]) -> None:
    where = "views.view % 3 <> clicks.click % 3"
    joined = wm.join(both(spark, folders), on="ad", within=WITHIN, how="semi", where=where)
    assert_same_rows(run(joined), expected("semi", where))


def test_a_condition_alone_is_enough(spark: SparkSession, folders: Mapping[str, Path]) -> None:
    further = "views.view % 3 <> clicks.click % 3"
    where = f"""
        views.ad = clicks.ad
        AND clicks.clicked BETWEEN views.viewed - INTERVAL 45 SECONDS
                               AND views.viewed + INTERVAL 20 SECONDS
        AND {further}
    """
    plan = wm.plan(both(spark, folders), where=where, how="full")
    assert "windows" in plan.explain()
    assert f"{further}: evaluated" in plan.explain()
    assert_same_rows(run(plan.dataframe()), expected("full", further))


def test_a_stream_may_bring_its_own_watermark(
    spark: SparkSession, folders: Mapping[str, Path]
) -> None:
    views = read(spark, folders["views"]).withWatermark("viewed", DELAY)
    clicks = read(spark, folders["clicks"]).withWatermark("clicked", DELAY)
    streams = [
        wm.stream(views, "views", time="viewed"),
        wm.stream(clicks, "clicks", time="clicked"),
    ]
    joined = wm.join(streams, on="ad", within=WITHIN, how="left")
    assert_same_rows(run(joined), expected("left"))


def test_all_shards_judge_a_stream_with_its_own_watermark_alike(
    spark: SparkSession, tmp_path: Path
) -> None:
    def rows(time: str, *keys: int) -> pa.Table:
        return rows_of([(key, at(60)) for key in keys], ad=pa.int64(), **{time: TIMESTAMP})

    # Given two shards, of which one stores rows and the other none,
    streams = []
    for name, time in (("views", "viewed"), ("clicks", "clicked")):
        folder = write(tmp_path / name, [rows(time, 1)])
        df = read(spark, folder).withWatermark(time, "0 seconds")
        streams.append(wm.stream(df, name, time=time))
    query = (
        wm.join(streams, on="ad", within="1 hour")
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    # when a micro-batch without data has run under the watermark that they make,
    query.processAllAvailable()
    # then rows at that watermark are late in both.
    write(tmp_path / "views", [rows("viewed", *range(20))], first=1)
    query.processAllAvailable()
    query.stop()
    assert [step.late for step in wm.metrics(query)] == [0, 0, 20]
    assert [step.steps for step in wm.metrics(query)] == [2, 2, 2]


def test_metadata_of_a_file_is_no_watermark(spark: SparkSession, tmp_path: Path) -> None:
    # Given files that were written from a column with a watermark,
    stale = F.current_timestamp().alias("t", metadata={"spark.watermarkDelayMs": 5000})
    spark.range(3).select("id", stale).write.parquet(str(tmp_path / "t"))
    schema = spark.read.parquet(str(tmp_path / "t")).schema
    assert "spark.watermarkDelayMs" in schema["t"].metadata
    # then a query that streams them sets its own,
    df = spark.readStream.schema(schema).parquet(str(tmp_path / "t"))
    stream = wm.stream(df, "a", time="t", delay="1 second")
    assert (stream.spec.delay, stream.spec.watermarked) == (1_000_000, False)
    # and one that has set one keeps it.
    own = wm.stream(df.withWatermark("t", "2 seconds"), "a", time="t")
    assert (own.spec.delay, own.spec.watermarked) == (2_000_000, True)


@pytest.mark.parametrize("how", ["inner", "semi"])
def test_an_unbounded_join_needs_no_time(
    spark: SparkSession, folders: Mapping[str, Path], how: How
) -> None:
    streams = [wm.stream(read(spark, folders[name]), name) for name in ("views", "clicks")]
    joined = wm.join(streams, on="ad", how=how, unbounded=True)
    wanted = expected(how, bounded=False)
    assert_same_rows(run(joined), wanted.select(joined.columns))


def test_a_table_can_be_joined_and_windows_aggregated_behind_the_join(
    spark: SparkSession, folders: Mapping[str, Path]
) -> None:
    kinds = {ad: ad % 2 for ad in range(4)}
    table = spark.createDataFrame(list(kinds.items()), "ad bigint, kind bigint")
    joined = wm.join(both(spark, folders), on="ad", within=WITHIN).join(table, "ad", "left")
    counted = joined.groupBy(F.window("event_time", "30 seconds"), "ad").agg(
        F.count("*").alias("pairs"), F.sum("click").alias("clicks"), F.max("kind").alias("kind")
    )
    counts = run(counted.select("window.start", "ad", "pairs", "clicks", "kind"))

    pairs = expected()
    pairs = pairs.append_column(
        "kind", pa.array([kinds.get(ad) for ad in pairs.column("ad").to_pylist()], pa.int64())
    )
    length = 30 * SECOND
    begins = [t // length * length for t in pairs.column("event_time").cast("int64").to_pylist()]
    wanted = (
        pairs.append_column("start", pa.array(begins).cast(TIMESTAMP))
        .group_by(["start", "ad"])
        .aggregate([("click", "count"), ("click", "sum"), ("kind", "max")])
        .rename_columns(["start", "ad", "pairs", "clicks", "kind"])
    )
    assert_same_rows(counts, wanted)


def test_a_join_can_follow_a_join_in_the_same_query(
    spark: SparkSession, folders: Mapping[str, Path]
) -> None:
    pairs = wm.join(both(spark, folders), on="ad", within=WITHIN)
    sales = wm.stream(read(spark, folders["sales"]), "sales", time="sold", delay=DELAY)
    joined = wm.join(
        [wm.stream(pairs, "pairs", time="event_time"), sales], on="ad", within="10 seconds"
    )
    streams = {
        "pairs": Stream(expected(), ["ad"], "event_time", 10 * SECOND),
        "sales": Stream(without_end(SALES, "ad"), ["ad"], "sold", 10 * SECOND),
    }
    assert_same_rows(run(joined), sql_join(streams))


def test_a_join_can_follow_an_aggregation_in_the_same_query(
    spark: SparkSession, folders: Mapping[str, Path]
) -> None:
    """Spark gives out a window's count when the watermark has passed the window's end: for
    the join, such a row is not late."""
    views, clicks = both(spark, folders)
    counts = (
        clicks.df.withWatermark("clicked", DELAY)
        .groupBy(F.window("clicked", "30 seconds"), "ad")
        .agg(F.count("*").alias("clicks"))
        .select("ad", "clicks", F.window_time("window").alias("counted"))
    )
    streams = [views, wm.stream(counts, "counts", time="counted")]
    joined = wm.join(streams, on="ad", within="30 seconds", how="inner")

    rows = without_end(CLICKS, "ad")
    rows = rows.filter(rows.column("clicked").is_valid())
    length = 30 * SECOND
    ends = [
        t // length * length + length - 1 for t in rows.column("clicked").cast("int64").to_pylist()
    ]
    counted = (
        rows.append_column("counted", pa.array(ends).cast(TIMESTAMP))
        .group_by(["ad", "counted"])
        .aggregate([("click", "count")])
        .select(["ad", "click_count", "counted"])
        .rename_columns(["ad", "clicks", "counted"])
    )
    wanted = sql_join(
        {
            "views": Stream(without_end(VIEWS, "ad"), ["ad"], "viewed", 30 * SECOND),
            "counts": Stream(counted, ["ad"], "counted", 30 * SECOND),
        }
    )
    assert_same_rows(run(joined), wanted)


def test_outer_results_come_once_when_time_has_passed_without_new_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    types = {"k": pa.int64(), "t": TIMESTAMP, "v": pa.string()}
    write(tmp_path / "a", [rows_of([(1, at(0), "x"), (2, at(1), "y")], **types)])
    write(tmp_path / "b", [rows_of([(1, at(2), "z")], **types)])
    streams = [
        wm.stream(read(spark, tmp_path / name), name, time="t", delay="0 seconds") for name in "ab"
    ]
    joined = wm.join(streams, on="k", within="5 seconds", how="full")
    writer = joined.writeStream.format("memory").queryName("silence")
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        assert table(spark.table("silence")).num_rows == 1, "nothing is proven unmatched yet"
        for name in "ab":
            write(tmp_path / name, [rows_of([(9, at(60), "")], **types)], first=1)
        query.processAllAvailable()
        later = spark.table("silence").where("k < 8").orderBy("k").collect()
        write(tmp_path / "a", [rows_of([(7, at(120), "")], **types)], first=2)
        write(tmp_path / "b", [rows_of([(8, at(120), "")], **types)], first=2)
        query.processAllAvailable()
        last = spark.table("silence").where("k < 7").orderBy("k").collect()
    finally:
        query.stop()
    assert [(row.k, row.a_v, row.b_v) for row in later] == [(1, "x", "z"), (2, "y", None)]
    assert last == later


def test_names_may_have_dots_spaces_and_backticks(spark: SparkSession) -> None:
    a = spark.createDataFrame([(1, 2, at(0))], "`the key` int, `a.b` int, `when``s` timestamp")
    b = spark.createDataFrame([(1, 3, at(1))], "`k.e.y` int, `a.b` int, `it``s` timestamp")
    joined = wm.join(
        [wm.stream(a, "a", time="when`s"), wm.stream(b, "b", time="it`s")],
        on={"a": "the key", "b": "k.e.y"},
        within="1 second",
        where="a.`a.b` < b.`a.b`",
    )
    assert joined.columns == ["the key", "a_a.b", "when`s", "b_a.b", "it`s", "event_time"]
    assert [tuple(row)[:2] for row in joined.collect()] == [(1, 2)]


PAYLOAD = (
    "k int, at timestamp, text string, bytes binary, price decimal(20,4), day date, "
    "local timestamp_ntz, yes boolean, f float, d double, span interval day to second, "
    "nested struct<at: timestamp, list: array<struct<x: int, at: timestamp>>>, "
    "list array<timestamp>, map map<string, timestamp>, tiny tinyint, small smallint"
)


def test_columns_of_every_type_pass_unchanged_in_any_time_zone(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    moment = dt.datetime(2024, 7, 1, 3, 4, 5, 678901)
    full = (
        "größe",
        b"\x00\xff",
        Decimal("1234567890123456.7891"),
        dt.date(1583, 1, 1),
        moment,
        True,
        math.nan,
        -0.0,
        dt.timedelta(days=3, microseconds=-1),
        Row(at=at(0), list=[Row(x=1, at=at(7)), None]),
        [at(1), None],
        {"a": at(2), "b": None},
        -128,
        32767,
    )
    rows = [(1, at(0), *full), (2, at(1), *([None] * len(full))), (3, at(2), *full)]
    source = session.createDataFrame(rows, PAYLOAD)
    source.coalesce(1).write.parquet(str(tmp_path / "a"))
    # Of the second stream, one row matches; of the first, one does not: nulls on both sides.
    source.where("k > 1").coalesce(1).write.parquet(str(tmp_path / "b"))

    def stream(name: str) -> wm.Stream:
        df = session.readStream.schema(source.schema).parquet(str(tmp_path / name))
        return wm.stream(df.withColumn("nothing", F.lit(None)), name)

    joined = wm.join([stream("a"), stream("b")], on="k", unbounded=True)
    native = source.withColumn("nothing", F.lit(None)).alias("a")
    others = native.where("k > 1").alias("b")
    names = [name for name in native.columns if name != "k"]
    wanted = native.join(others, F.col("a.k") == F.col("b.k")).select(
        "a.k",
        *(F.col(f"{side}.{name}").alias(f"{side}_{name}") for side in "ab" for name in names),
    )
    assert joined.schema.simpleString() == wanted.schema.simpleString()
    got = run(joined)
    assert_same_rows(got, table(wanted))
    assert all(math.copysign(1, d) < 0 for d in got.column("a_d").to_pylist() if d is not None)


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (pa.int8(), [-128, 0, 127]),
    "smallint": (pa.int16(), [-32768, 0, 7]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "float": (pa.float32(), [math.nan, 0.0, -0.0, math.inf, 1.5]),
    "double": (pa.float64(), [math.nan, 0.0, -0.0, -math.inf, 1e300]),
    "decimal(38,10)": (pa.decimal128(38, 10), [Decimal("0"), Decimal("-1.5"), Decimal("9e27")]),
    "string": (pa.string(), ["", "a", "A", "é", "e\u0301"]),
    "binary": (pa.binary(), [b"", b"\x00", b"a"]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "timestamp": (TIMESTAMP, [at(0), at(0.000001), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)]),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(2024, 3, 31, 2, 30), dt.datetime(1, 1, 1)]),
}


def of_keys(kinds: dict[str, pa.DataType], keys: list[tuple[Any, ...]], value: str) -> pa.Table:
    columns = {name: pa.array([k[i] for k in keys], t) for i, (name, t) in enumerate(kinds.items())}
    return pa.table({**columns, value: pa.array(range(len(keys)))})


def batch_join(
    spark: SparkSession, a: pa.Table, b: pa.Table, schema: str, how: How = "full"
) -> DataFrame:
    """A join on all columns of the schema; the tables have one more."""
    streams = []
    for name, rows, value in (("a", a, "x"), ("b", b, "y")):
        kinds: Any = T.StructType.fromDDL(f"{schema}, {value} bigint")
        streams.append(wm.stream(spark.createDataFrame(rows, kinds), name))
    return wm.join(streams, on=a.column_names[:-1], how=how)


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(spark: SparkSession, name: str) -> None:
    kind, values = KEYS[name]
    a = of_keys({"k": kind}, [(v,) for v in [*values, None, values[0]]], "x")
    b = of_keys({"k": kind}, [(v,) for v in [*values[1:], None, values[-1]]], "y")
    for how in ("full", "inner"):
        joined = batch_join(spark, a, b, f"k {name}", how)
        assert joined.schema["k"] == T.StructField("k", T.DataType.fromDDL(name))
        assert_same_rows(
            table(joined), sql_join({"a": Stream(a, ["k"]), "b": Stream(b, ["k"])}, how=how)
        )


def test_keys_of_several_columns(spark: SparkSession) -> None:
    kinds = {"s": pa.string(), "d": pa.float64(), "i": pa.int32()}
    keys = [(s, d, i) for s in ("a", "b", None) for d in (0.5, math.nan, None) for i in (1, None)]
    a = of_keys(kinds, keys, "x")
    b = of_keys(kinds, keys[::-2] * 2, "y")
    joined = batch_join(spark, a, b, "s string, d double, i int")
    streams = {"a": Stream(a, list(kinds)), "b": Stream(b, list(kinds))}
    assert_same_rows(table(joined), sql_join(streams, how="full"))


def test_keys_of_different_numeric_types_meet_in_their_common_type(spark: SparkSession) -> None:
    a = spark.createDataFrame([(1, "a"), (2, "b")], "k int, x string")
    b = spark.createDataFrame(
        [(Decimal("2.00"), 5), (Decimal("1.50"), 6)], "k decimal(10,2), y int"
    )
    joined = wm.join([wm.stream(a, "a"), wm.stream(b, "b")], on="k", how="full")
    got = sorted((str(row.k), row.x, row.y) for row in joined.collect())
    assert got == [("1.00", "a", None), ("1.50", None, 6), ("2.00", "b", 5)]


def test_two_joins_of_the_same_streams_fit_into_one_query(spark: SparkSession) -> None:
    streams = [wm.stream(spark.range(4), "a"), wm.stream(spark.range(2, 6), "b")]
    both_ways = wm.join(streams, on="id", how="semi").union(wm.join(streams, on="id", how="anti"))
    assert sorted(row.id for row in both_ways.collect()) == [0, 1, 2, 3]
    twice = wm.join(streams, on="id").union(wm.join(streams, on="id"))
    assert sorted(row.id for row in twice.collect()) == [2, 2, 3, 3]
    named = wm.join(streams, on="id", name="ours").union(wm.join(streams, on="id", name="ours"))
    assert named.count() == 4


def test_the_event_time_is_a_timestamp_whatever_sql_means_by_timestamp(
    spark: SparkSession,
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    instants = session.createDataFrame([(at(0),)], "t timestamp_ltz")
    streams = [wm.stream(instants, name, time="t") for name in "ab"]
    joined = wm.join(streams, on="t", within="1 second")
    assert [field.dataType for field in joined.schema] == [T.TimestampType()] * 2


def test_one_row_may_match_very_many(spark: SparkSession, tmp_path: Path) -> None:
    many = 300_000
    types = {"k": pa.int64(), "t": TIMESTAMP}
    stored = pa.table(
        {
            "k": pa.array([7] * many),
            "t": pa.array([at(0)] * many, TIMESTAMP),
            "n": pa.array(range(many)),
        }
    )
    write(tmp_path / "a", [stored])
    write(tmp_path / "b", [rows_of([], **types), rows_of([(7, at(1)), (7, at(30))], **types)])
    streams = [
        wm.stream(read(spark, tmp_path / name), name, time="t", delay="1 minute") for name in "ab"
    ]
    joined = wm.join(streams, on="k", within="10 seconds")
    numbers = run(joined.select("n")).column("n").to_numpy()
    assert len(numbers) == many
    assert len(set(numbers.tolist())) == many
