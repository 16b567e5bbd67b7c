"""wm.enrich on Spark: the table is staged once, and every row is answered."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
import warnings
from dataclasses import replace
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.copies_query import LITTLE
from tests.spark.driver import driver
from tests.spark.streams import (
    SECOND,
    TIMESTAMP,
    at,
    metrics_of,
    read,
    result,
    rows_of,
    run,
    start,
    table,
    write,
)
from watersmeet.joins.enrich.spec import ENRICH_NAMES, EnrichHow
from watersmeet.rows.layout import row_layout
from watersmeet.spark.query.inputs import describe
from watersmeet.spark.tables import stage_job
from watersmeet.spark.tables.folders import remove_idle
from watersmeet.spark.tables.identity import identity
from watersmeet.spark.tables.settings import stage_folder
from watersmeet.table.staged_table import StagedTable
from watersmeet.table.versions import Versions

pytestmark = pytest.mark.spark

VIEWS = {"product": pa.int64(), "seen": TIMESTAMP, "view": pa.int64()}
PRODUCTS = {"product": pa.int64(), "name": pa.string(), "price": pa.float64()}


def views(batches: int = 3, rows: int = 60, *, seed: int = 1) -> list[pa.Table]:
    """Micro-batches of a stream, a minute each, of which some keys are in no table."""
    dice = random.Random(seed)
    return [
        rows_of(
            [
                (
                    None if dice.random() < 0.05 else int(dice.paretovariate(0.6)) % 60,
                    at(60 * batch + dice.uniform(0, 59)),
                    batch * rows + number,
                )
                for number in range(rows)
            ],
            **VIEWS,
        )
        for batch in range(batches)
    ]


def products(count: int = 50) -> pa.Table:
    """Every fifth product is there twice, and one has no key."""
    keys = [*range(count), *range(0, count, 5), None]
    return rows_of([(key, f"product {key}", n / 4) for n, key in enumerate(keys)], **PRODUCTS)


def expected(batches: list[pa.Table], master: pa.Table, how: str = "inner") -> pa.Table:
    streams = {
        "views": Stream(pa.concat_tables(batches), ["product"]),
        "products": Stream(master, ["product"]),
    }
    return sql_join(streams, how=how)


def small(planned: wm.Enrichment, **policy: Any) -> wm.Enrichment:
    """Little data does what much data does."""
    given = {"partition": 400, "resident": 0, "cache": 4000} | policy
    changed = replace(planned.plan, policy=replace(planned.plan.policy, **given))
    return replace(planned, plan=changed)


def to_files(df: DataFrame, folder: Path) -> StreamingQuery:
    """Run the query over what is there now, into files: a memory sink cannot be started again."""
    writer = df.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.fixture
def stage(tmp_path: Path) -> str:
    return str(tmp_path / "stage")


def staged_tables(stage: str) -> list[str]:
    return sorted(os.listdir(os.path.join(stage, "watersmeet-tables")))


def as_table(spark: SparkSession, folder: Path, rows: pa.Table) -> DataFrame:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "part.parquet")
    return spark.read.parquet(str(folder))


def replace_file(rows: pa.Table, path: Path) -> None:
    """Another file of the same name, which is there as a whole at any time."""
    pq.write_table(rows, path.with_name("_other"))
    os.replace(path.with_name("_other"), path)


def as_stream(spark: SparkSession, folder: Path, batches: list[pa.Table]) -> wm.Stream:
    write(folder, batches)
    return wm.stream(read(spark, folder), "views", time="seen", delay="10 seconds")


@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_every_row_is_answered(
    spark: SparkSession, tmp_path: Path, stage: str, how: EnrichHow
) -> None:
    # Given a stream of which no row may wait: it is answered where it is read.
    batches, master = views(10), products()
    stream = as_stream(spark, tmp_path / "views", batches)
    given = as_table(spark, tmp_path / "products", master)
    planned = small(wm.plan_enrich(stream, given, on="product", how=how, stage=stage))
    assert "no shuffle, no state" in planned.explain()
    query = start(planned.dataframe())
    # when it has ended, then every row was answered, frequent ones from the cache,
    assert_same_rows(result(spark, query), expected(batches, master, how))
    steps = metrics_of(query, wm.EnrichMetrics)
    assert all(isinstance(step, wm.EnrichMetrics) for step in steps)
    assert sum(step.rows for step in steps) == 600
    assert sum(step.hits for step in steps) > 0
    last = [step for step in steps if step.rows][-1]
    assert 0 < last.cached_keys < 60
    assert min(last.seek_ns, last.read_us, last.find_ns) > 0
    # and Spark has kept nothing.
    assert not any(progress.stateOperators for progress in query.recentProgress)


def test_rows_may_wait_and_none_is_left_waiting(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    batches, master = views(8), products()
    stream = as_stream(spark, tmp_path / "views", batches)
    given = as_table(spark, tmp_path / "products", master)
    planned = wm.plan_enrich(stream, given, on="product", max_wait="6 batches", stage=stage)
    query = start(small(planned, at_once=-1.0, cache=0).dataframe(), tmp_path / "checkpoint")
    assert_same_rows(result(spark, query), expected(batches, master))
    steps = metrics_of(query, wm.EnrichMetrics)
    assert max(step.state_rows for step in steps) > 0
    assert 0 < max(step.oldest_wait for step in steps) <= 6
    assert sum(step.waited for step in steps) > 0
    assert steps[-1].state_rows == 0
    # The last micro-batch has no data: the watermark had moved.
    assert steps[-1].rows == 0


def test_a_single_micro_batch_that_would_leave_rows_waiting_is_refused(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    stream = as_stream(spark, tmp_path / "views", views(1))
    given = as_table(spark, tmp_path / "products", products())

    def run_once(max_wait: str | None) -> None:
        rich = wm.enrich(stream, given, on="product", max_wait=max_wait, stage=stage)
        rich.writeStream.format("noop").trigger(once=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match=r"max_wait would stay.*availableNow=True"):
        run_once("6 batches")
    run_once(None)


def test_a_query_that_starts_again_finds_its_table_and_its_rows(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    batches, master = views(6), products()
    write(tmp_path / "views", batches[:3])
    given = as_table(spark, tmp_path / "products", master)

    def query() -> None:
        stream = wm.stream(
            read(spark, tmp_path / "views"), "views", time="seen", delay="10 seconds"
        )
        planned = wm.plan_enrich(
            stream, given, on="product", how="left", max_wait="9 batches", stage=stage
        )
        to_files(small(planned, at_once=-1.0).dataframe(), tmp_path)

    query()
    (version,) = staged_tables(stage)
    made = os.stat(os.path.join(stage, "watersmeet-tables", version, "0", "0.arrow")).st_mtime_ns
    write(tmp_path / "views", batches[3:], first=3)
    query()
    found = table(spark.read.parquet(str(tmp_path / "out")))
    assert_same_rows(found, expected(batches, master, "left"))
    assert staged_tables(stage) == [version]
    again = os.stat(os.path.join(stage, "watersmeet-tables", version, "0", "0.arrow")).st_mtime_ns
    assert again == made


def test_a_checkpoint_keeps_its_number_of_shards(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    # Given a query that has been started with two shuffle partitions,
    batches, master = views(6), products()
    as_table(spark, tmp_path / "products", master)

    def planned(
        session: SparkSession, how: EnrichHow = "left", max_wait: str | None = "9 batches"
    ) -> wm.Enrichment:
        streamed = read(session, tmp_path / "views")
        stream = wm.stream(streamed, "views", time="seen", delay="10 seconds")
        given = session.read.parquet(str(tmp_path / "products"))
        return wm.plan_enrich(stream, given, on="product", how=how, max_wait=max_wait, stage=stage)

    def query(session: SparkSession) -> StreamingQuery:
        return to_files(small(planned(session)).dataframe(), tmp_path)

    write(tmp_path / "views", batches[:3])
    query(spark)
    # when it goes on in a session with three,
    write(tmp_path / "views", batches[3:], first=3)
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "3")
    other.conf.set("spark.sql.session.timeZone", "UTC")
    again = query(other)
    # then its two shards find all rows of a table that was staged for three.
    found = table(spark.read.parquet(str(tmp_path / "out")))
    assert_same_rows(found, expected(batches, master, "left"))
    assert len(staged_tables(stage)) == 2
    assert sum(step.hits for step in metrics_of(again, wm.EnrichMetrics)) > 0
    # And another enrichment is refused, when it is checked, and when it is started.
    planned(other).check(str(tmp_path / "checkpoint"))
    with pytest.raises(wm.errors.StateError, match="join type: was left enrichment, now inner"):
        planned(other, "inner").check(str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match="join type: was left enrichment, now inner"):
        to_files(planned(other, "inner").dataframe(), tmp_path)
    # So is the same one, when it is checked, if it keeps no state any more.
    with pytest.raises(wm.errors.StateError, match="Give one of them, or start"):
        planned(other, max_wait=None).check(str(tmp_path / "checkpoint"))


def test_queries_over_one_table_share_it_and_others_do_not(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    batches, master = views(2), products()
    stream = as_stream(spark, tmp_path / "views", batches)
    given = as_table(spark, tmp_path / "products", master)
    same = spark.read.parquet(str(tmp_path / "products"))
    queries = [start(wm.enrich(stream, df, on="product", stage=stage)) for df in (given, same)]
    for query in queries:
        assert_same_rows(result(spark, query), expected(batches, master))
    assert len(staged_tables(stage)) == 1
    # Given another filter, another projection, or other files, then it is another table.
    wm.enrich(stream, given.where("price > 3"), on="product", stage=stage)
    assert len(staged_tables(stage)) == 2
    wm.enrich(stream, given, on="product", how="semi", stage=stage)
    assert len(staged_tables(stage)) == 3
    pq.write_table(products(20), tmp_path / "products" / "more.parquet")
    more = spark.read.parquet(str(tmp_path / "products"))
    wm.enrich(stream, more, on="product", stage=stage)
    assert len(staged_tables(stage)) == 4


def test_tables_in_different_folders_are_different_series(
    spark: SparkSession, tmp_path: Path
) -> None:
    layout = row_layout(
        describe(as_table(spark, tmp_path / "one", products()), "products", time=None, delay=None),
        ["product"],
        ["bigint"],
        needed={"price"},
    )
    named = [
        identity(df, layout, shards=2, partition=100, owner="test")
        for df in (as_table(spark, tmp_path / name, products()) for name in ("one", "two"))
    ]
    assert named[0].series != named[1].series
    assert named[0].version != named[1].version


def test_a_table_from_no_files_is_staged_too(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    batches, master = views(1), products()
    stream = as_stream(spark, tmp_path / "views", batches)
    given = spark.createDataFrame(master.to_pandas(), "product bigint, name string, price double")
    given = given.withColumn("product", F.when(~F.isnan(F.col("product")), F.col("product")))
    assert_same_rows(
        run(wm.enrich(stream, given, on="product", stage=stage)), expected(batches, master)
    )


@pytest.mark.parametrize("refresh", [None, "1 hour"])
def test_a_table_that_cannot_be_known_to_be_the_same_is_staged_for_each_plan(
    spark: SparkSession, tmp_path: Path, stage: str, refresh: str | None
) -> None:
    # Given a table whose query may give something else each time,
    batches = [rows_of([(1, at(0), 0)], **VIEWS)]
    stream = as_stream(spark, tmp_path / "views", batches)

    def planned() -> wm.Enrichment:
        files = spark.read.parquet(str(tmp_path / "products"))
        named = F.coalesce("name", F.current_date().cast("string")).alias("name")
        given = files.select("product", named)
        return wm.plan_enrich(stream, given, on="product", refresh=refresh, stage=stage)

    as_table(spark, tmp_path / "products", rows_of([(1, "old", 1.0)], **PRODUCTS))
    first = planned()
    assert run(first.dataframe())["name"].to_pylist() == ["old"]
    # when its files are replaced, then a new plan has what is there now,
    replace_file(rows_of([(1, "new", 2.0)], **PRODUCTS), tmp_path / "products" / "part.parquet")
    assert run(planned().dataframe())["name"].to_pylist() == ["new"]
    # and the plan before it has what it has staged.
    assert run(first.dataframe())["name"].to_pylist() == ["old"]


@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_an_empty_table(spark: SparkSession, tmp_path: Path, stage: str, how: EnrichHow) -> None:
    batches, master = views(1), products().slice(0, 0)
    stream = as_stream(spark, tmp_path / "views", batches)
    given = as_table(spark, tmp_path / "products", master)
    found = run(wm.enrich(stream, given, on="product", how=how, stage=stage))
    assert_same_rows(found, expected(batches, master, how))


@pytest.mark.parametrize("on", ["product", None])
def test_a_batch_of_rows_is_enriched_in_one_run(
    spark: SparkSession, tmp_path: Path, stage: str, on: str | None
) -> None:
    # Given a key, or an equality in the condition that becomes the key,
    batches, master = views(2), products()
    write(tmp_path / "views", batches)
    rows = wm.stream(spark.read.parquet(str(tmp_path / "views")), "views")
    given = wm.stream(as_table(spark, tmp_path / "products", master), "products")
    where = "views.view % 2 = 0 AND products.price < 10"
    whole = where if on else f"views.product = products.product AND {where}"
    planned = wm.plan_enrich(rows, given, on=on, how="left", where=whole, stage=stage)
    assert planned.plan.spec.keys == (("product",), ("product",))
    found = table(planned.dataframe())
    streams = {
        "views": Stream(pa.concat_tables(batches), ["product"]),
        "products": Stream(master, ["product"]),
    }
    assert_same_rows(found, sql_join(streams, how="left", where=where))


@pytest.mark.parametrize("max_wait", [None, "6 batches"])
def test_windows_follow_in_the_same_query(
    spark: SparkSession, tmp_path: Path, stage: str, max_wait: str | None
) -> None:
    # Given rows that are answered in place, or wait, and a count of them in windows of a minute,
    batches, master = views(8), products()
    end = rows_of([(1, at(3600), -1)], **VIEWS)
    stream = as_stream(spark, tmp_path / "views", [*batches, end])
    given = as_table(spark, tmp_path / "products", master)
    planned = wm.plan_enrich(
        stream, given, on="product", how="left", max_wait=max_wait, stage=stage
    )
    assert planned.plan.policy.in_place == (max_wait is None)
    enriched = small(planned, at_once=-1.0, cache=0).dataframe()
    counted = enriched.groupBy(F.window("seen", "1 minute")).count()
    query = start(counted.select(F.col("window.start").alias("start"), "count"))
    found = dict(zip(*result(spark, query).to_pydict().values(), strict=True))
    # when the query has ended, then no row was late for its window.
    assert (sum(step.waited for step in metrics_of(query, wm.EnrichMetrics)) > 0) == (
        max_wait is not None
    )
    everything = expected(batches, master, "left")
    assert sum(found.values()) == everything.num_rows
    assert len(found) == 8


def test_windows_count_rows_that_were_retried(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    # Given rows of which some have no match, and are retried for five minutes, and rows at the end
    # by which they are given up, and by which all windows close,
    batches, master = views(2), products()
    ends = [rows_of([(1, at(3600 * n), -n)], **VIEWS) for n in (1, 2)]
    stream = as_stream(spark, tmp_path / "views", [*batches, *ends])
    given = as_table(spark, tmp_path / "products", master)
    enriched = wm.enrich(
        stream, given, on="product", how="left", refresh="1 hour", retry="5 minutes", stage=stage
    )
    counted = enriched.groupBy(F.window("seen", "1 minute")).agg(
        F.count("*").alias("count"), F.count("name").alias("named")
    )
    query = start(counted.select(F.col("window.start").alias("start"), "count", "named"))
    found = result(spark, query).sort_by("start")
    # when the query has ended, then they were given up, and none was late for its window.
    assert max(step.retried for step in metrics_of(query, wm.EnrichMetrics)) > 0
    assert sum(step.given_up for step in metrics_of(query, wm.EnrichMetrics)) > 0
    everything = [expected([batch], master, "left") for batch in batches]
    assert found["count"].to_pylist()[:2] == [rows.num_rows for rows in everything]
    unnamed = [rows["name"].null_count for rows in everything]
    assert min(unnamed) > 0
    assert [row["count"] - row["named"] for row in found.to_pylist()[:2]] == unnamed


@pytest.mark.parametrize(
    ("ours", "theirs", "keys"),
    [
        (
            [pa.decimal128(9, 2), pa.string()],
            [pa.decimal128(12, 4), pa.string()],
            [(Decimal("1.50"), ""), (Decimal("-0.01"), "x"), (Decimal("1.50"), "x"), (None, "x")],
        ),
        ([pa.int32()], [pa.int64()], [(0,), (-(2**31),), (2**31 - 1,), (None,)]),
        (
            [pa.float64(), TIMESTAMP],
            [pa.float64(), TIMESTAMP],
            [(nan, at(0)), (0.0, at(0)), (0.1, at(0.000001)), (nan, None), (0.1, at(-7e9))],
        ),
    ],
    ids=["decimals and strings", "integers of two sizes", "doubles and times"],
)
def test_keys_of_every_type(
    spark: SparkSession,
    tmp_path: Path,
    stage: str,
    ours: list[pa.DataType],
    theirs: list[pa.DataType],
    keys: list[tuple[Any, ...]],
) -> None:
    # Given each key three times in the stream, and all but the last but one in the table, once,
    names = ["a", "b"][: len(ours)]

    def rows(types: list[pa.DataType], of: list[tuple[Any, ...]], value: str) -> pa.Table:
        numbered = [(*key, n) for n, key in enumerate(of)]
        return rows_of(numbered, **dict(zip(names, types, strict=True)), **{value: pa.int64()})

    batch, master = rows(ours, keys * 3, "n"), rows(theirs, [*keys[:-2], keys[-1]], "m")
    rich = wm.enrich(
        wm.stream(read(spark, write(tmp_path / "stream", [batch])), "rows"),
        as_table(spark, tmp_path / "table", master),
        on=names,
        how="left",
        stage=stage,
    )
    # when they are enriched, then a key finds its own row, as Spark's own join does.
    streamed, known = (spark.read.parquet(str(tmp_path / name)) for name in ("stream", "table"))
    wanted = {row.n: row.m for row in streamed.join(known, names, "left").collect()}
    found = run(rich)
    assert found.num_rows == len(batch)
    assert dict(zip(found["n"].to_pylist(), found["m"].to_pylist(), strict=True)) == wanted
    assert sum(match is None for match in wanted.values()) in (3, 6)


@pytest.mark.parametrize("max_wait", [None, "6 batches"])
def test_a_watermark_behind_an_enrichment_is_refused(
    spark: SparkSession, tmp_path: Path, stage: str, max_wait: str | None
) -> None:
    # Given rows that are answered in place, or wait, and have a second time,
    seen = read(spark, write(tmp_path / "views", views(3))).withColumn("other", F.col("seen"))
    stream = wm.stream(seen, "views", time="seen", delay="10 seconds")
    given = as_table(spark, tmp_path / "products", products())
    rich = wm.enrich(stream, given, on="product", max_wait=max_wait, stage=stage)
    # when another time than the stream's is taken, then the message names the stream's;
    with pytest.raises(wm.errors.TimeColumnError, match="time='other' has no") as caught:
        wm.stream(rich, "rich", time="other", delay="1 second")
    assert "take time='seen'; it stays the event time" in str(caught.value)
    stays = "Behind wm.enrich, the stream's own time column stays the event time"
    with pytest.raises(wm.errors.TimeColumnError, match="two watermarks") as caught:
        wm.stream(rich.withWatermark("other", "1 second"), "rich", time="other")
    assert "Leave out withWatermark('other', ...)" in str(caught.value)
    assert stays in str(caught.value)
    # when a second watermark is set in a query, even on the same column, then it ends at its start.
    again = rich.withWatermark("seen", "10 seconds").groupBy(F.window("seen", "1 minute"))
    with pytest.raises(StreamingQueryException) as ended:
        run(again.count().select(F.col("window.start").alias("start"), "count"))
    assert "TimeColumnError: withWatermark('seen', ...) sets a second" in str(ended.value)
    assert stays in str(ended.value)


def test_another_enrichment_and_a_join_follow_in_the_same_query(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    # Given rows that wait for one table, then for another, and a stream of sales,
    batches, master = views(5), products()
    kinds = rows_of(
        [(key, key % 3) for key in range(0, 50, 2)], product=pa.int64(), kind=pa.int64()
    )
    dice = random.Random(5)
    sold = [
        rows_of(
            [(dice.randrange(9), at(60 * n + dice.uniform(0, 59)), i) for i in range(40)],
            product=pa.int64(),
            sold=TIMESTAMP,
            sale=pa.int64(),
        )
        for n in range(5)
    ]
    stream = as_stream(spark, tmp_path / "views", batches)
    sales = wm.stream(
        read(spark, write(tmp_path / "sales", sold)), "sales", time="sold", delay="10 seconds"
    )

    def enriched(rows: wm.Stream, given: DataFrame) -> DataFrame:
        planned = wm.plan_enrich(
            rows, given, on="product", how="left", max_wait="6 batches", stage=stage
        )
        return small(planned, at_once=-1.0, cache=0).dataframe()

    # when they are written as they are, and joined with the sales,
    once = enriched(stream, as_table(spark, tmp_path / "products", master))
    named = wm.stream(once, "named", time="seen")
    twice = enriched(named, as_table(spark, tmp_path / "kinds", kinds))
    alone = start(twice)
    both = [wm.stream(twice, "rows", time="seen"), sales]
    with pytest.warns(match="max_wait has no effect .* several watermarks"):
        query = start(wm.join(both, on="product", within="30 seconds"))
    found = result(spark, query)
    # then they wait for both tables, if theirs is the only watermark; and are never late.
    waited = [sum(getattr(s, "waited", 0) for s in wm.metrics(each)) for each in (alone, query)]
    assert waited[0] > 0
    assert waited[1] == 0
    assert sum(step.late for each in (alone, query) for step in wm.metrics(each)) == 0
    of_kinds = {
        "named": Stream(expected(batches, master, "left"), ["product"]),
        "kinds": Stream(kinds, ["product"]),
    }
    window, rich = 30 * SECOND, sql_join(of_kinds, how="left")
    assert_same_rows(result(spark, alone), rich)
    joined = {
        "rows": Stream(rich, ["product"], "seen", window),
        "sales": Stream(pa.concat_tables(sold), ["product"], "sold", window),
    }
    assert found.num_rows > 100
    assert_same_rows(found, sql_join(joined))


@pytest.mark.parametrize("max_wait", [None, "6 batches"])
def test_versions_of_a_key_and_of_the_table(
    spark: SparkSession, tmp_path: Path, stage: str, max_wait: str | None
) -> None:
    # Given prices that are valid from a time on, until the next one is,
    batches = views(4)
    prices = rows_of(
        [
            (key, at(45 * n + key), None if n == 4 else at(45 * (n + 1) + key), n / 4)
            for key in range(40)
            for n in range(5)
        ],
        product=pa.int64(),
        since=TIMESTAMP,
        until=TIMESTAMP,
        price=pa.float64(),
    )
    stream = as_stream(spark, tmp_path / "views", batches)
    given = as_table(spark, tmp_path / "prices", prices)
    planned = wm.plan_enrich(
        stream,
        given,
        on="product",
        how="left",
        as_of="since",
        version="table_version",
        max_wait=max_wait,
        refresh=None if max_wait is None else "1 hour",
        stage=stage,
    )
    query = start(small(planned, at_once=-1.0).dataframe())
    found = result(spark, query)
    # then each row has the price of its time,
    streams = {
        "views": Stream(pa.concat_tables(batches), ["product"]),
        "prices": Stream(prices, ["product"]),
    }
    valid = "prices.since <= views.seen AND views.seen < coalesce(prices.until, 'infinity')"
    wanted = sql_join(streams, how="left", where=valid)
    assert_same_rows(found.drop_columns(["table_version"]), wanted)
    # and the version that it is from.
    (version,) = (name for name in staged_tables(stage) if not name.endswith(".current"))
    assert {*found["table_version"].to_pylist()} == {version}
    assert set.union(*(step.versions for step in metrics_of(query, wm.EnrichMetrics))) == {version}


def test_a_staged_table_that_is_gone_is_said_and_made_again(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    batches, master = views(1), products()
    stream = as_stream(spark, tmp_path / "views", batches)
    given = as_table(spark, tmp_path / "products", master)
    enriched = wm.enrich(stream, given, on="product", stage=stage)
    shutil.rmtree(stage)
    with pytest.raises(StreamingQueryException, match="staged table .*Call wm.enrich again"):
        to_files(enriched, tmp_path)
    planned = wm.plan_enrich(stream, given, on="product", stage=stage)
    to_files(planned.dataframe(), tmp_path)
    found = table(spark.read.parquet(str(tmp_path / "out")))
    assert_same_rows(found, expected(batches, master))
    # Its checkpoint fits, but not if it is to keep state from now on.
    checkpoint = str(tmp_path / "checkpoint")
    planned.check(checkpoint)
    stateful = wm.plan_enrich(stream, given, on="product", max_wait=5, stage=stage)
    with pytest.raises(wm.errors.StateError, match="written by a query that keeps no state"):
        stateful.check(checkpoint)
    write(tmp_path / "views", batches, first=1)
    with pytest.raises(StreamingQueryException, match="STREAMING_STATEFUL_OPERATOR"):
        to_files(stateful.dataframe(), tmp_path)


def test_a_query_without_rows_keeps_its_table(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    # Given a query that has taken no step for a day,
    write(tmp_path / "views", [rows_of([(1, at(0), 0)], **VIEWS)])
    given = as_table(spark, tmp_path / "products", products())
    stream = wm.stream(read(spark, tmp_path / "views"), "views", time="seen", delay="1 second")
    enriched = wm.enrich(stream, given, on="product", how="left", stage=stage)
    (version,) = staged_tables(stage)
    folder = Path(stage, "watersmeet-tables", version)
    query = enriched.writeStream.format("memory").queryName("idle").start()
    try:
        query.processAllAvailable()
        until = time.time() + 60
        while not (folder / "held").exists():
            assert time.time() < until
            time.sleep(0.2)
        os.utime(folder / "table.json", (time.time() - 90_000,) * 2)
        # when another table is staged in the same folder,
        wm.enrich(
            stream, as_table(spark, tmp_path / "others", products(5)), on="product", stage=stage
        )
        # then its own is there, and it goes on.
        write(tmp_path / "views", [rows_of([(1, at(10), 1)], **VIEWS)], first=1)
        query.processAllAvailable()
        assert spark.table("idle").count() == 2
    finally:
        query.stop()


def test_a_folder_that_cannot_be_written_to_is_said(spark: SparkSession, tmp_path: Path) -> None:
    stream = as_stream(spark, tmp_path / "views", views(1))
    given = as_table(spark, tmp_path / "products", products())
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(wm.errors.StagedTableError, match="stage="):
        wm.enrich(stream, given, on="product", stage=str(tmp_path / "file"))
    for folder in ("", "s3://bucket", "hdfs:/folder", "file:folder"):
        with pytest.raises(wm.errors.PlanError, match=f"stage='{folder}' is not the path of a "):
            wm.enrich(stream, given, on="product", stage=folder)
    # A folder is absolute, as executors may work in another one.
    for folder in ("/shared/x", "file:/shared/x", "file:///shared/x"):
        assert stage_folder(spark, folder) == "/shared/x/watersmeet-tables"
    assert stage_folder(spark, "x") == os.path.join(os.getcwd(), "x", "watersmeet-tables")
    # A URI has escapes, and a path has none. Spark's own setting has none either way: it makes a
    # folder of that very name.
    folders = {"file:///a/my%20dir": "/a/my dir", "/a/my%20dir": "/a/my%20dir"}
    settings = spark.newSession()
    for folder, path in (folders | {"~/x": os.path.expanduser("~/x")}).items():
        assert stage_folder(spark, folder) == f"{path}/watersmeet-tables"
        settings.conf.set("spark.watersmeet.stage.folder", folder)
        assert stage_folder(settings, None) == f"{path}/watersmeet-tables"
    settings.conf.unset("spark.watersmeet.stage.folder")
    for folder in folders:
        settings.conf.set("spark.sql.streaming.checkpointLocation", folder)
        assert stage_folder(settings, None) == "/a/my%20dir/watersmeet-tables"


def test_a_file_of_the_table_that_is_gone_when_it_is_staged_is_said(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    stream = as_stream(spark, tmp_path / "views", views(1))
    given = as_table(spark, tmp_path / "products", products())
    for file in (tmp_path / "products").iterdir():
        file.unlink()
    with pytest.raises(wm.errors.StagedTableError) as caught:
        wm.enrich(stream, given, on="product", stage=stage)
    told = str(caught.value)
    assert told.startswith("the table cannot be read: Encountered error while reading file")
    assert "does not exist" in told
    assert "\n" not in told
    assert isinstance(caught.value.__cause__, Py4JJavaError)
    assert staged_tables(stage) == []


def test_a_stream_and_a_table_in_the_wrong_places_are_told_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = as_stream(spark, tmp_path / "views", views(1))
    given = as_table(spark, tmp_path / "products", products())
    with pytest.raises(wm.errors.PlanError, match="swapped: 'views' is the stream, and comes"):
        wm.enrich(given, stream, on="product")  # type: ignore[arg-type]
    with pytest.raises(wm.errors.PlanError, match=r"got str\. Read one .*a table with spark.read"):
        wm.enrich(stream, str(tmp_path / "products"), on="product")  # type: ignore[arg-type]


def test_a_disk_that_is_full_is_said(
    spark: SparkSession, tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = as_stream(spark, tmp_path / "views", views(1))
    given = as_table(spark, tmp_path / "products", products())
    # Given tasks that cannot write what they should: they take another folder for a full one.
    writer = stage_job._ShardWriter
    monkeypatch.setattr(
        stage_job, "_ShardWriter", lambda folder, *rest: writer("/dev/full/x", *rest)
    )
    with pytest.raises(wm.errors.StagedTableError, match="cannot be staged in /dev/full"):
        wm.enrich(stream, given, on="product", stage=stage)
    assert staged_tables(stage) == []


def test_only_idle_tables_of_ours_are_removed(tmp_path: Path) -> None:
    # Given tables that were used just now, two hours ago and long ago,
    now, hours, days = "0" * 32, "1" * 32, "2" * 32
    superseded, kept = "3" * 32, "4" * 32
    for name in (now, hours, days, superseded, kept, "something-else"):
        (tmp_path / name).mkdir()
    for name in (superseded, kept):
        StagedTable(str(tmp_path / name)).supersede(StagedTable(str(tmp_path / now)))
    StagedTable(str(tmp_path / kept)).keep()
    for name in (hours, superseded, kept):
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    for name in (days, "something-else"):
        os.utime(tmp_path / name, (0, 0))
    # when idle ones are removed, then so are those of days ago, and those that have been
    # superseded for hours; and nothing that is not ours.
    remove_idle(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [now, hours, kept, "something-else"]


def test_a_table_is_read_anew_while_the_query_runs(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    # Given a query that reads its table anew every second, and retries rows for an hour,
    write(tmp_path / "views", [rows_of([(1, at(0), 0), (77, at(0), 1)], **VIEWS)])
    as_table(spark, tmp_path / "products", rows_of([(1, "old", 1.0)], **PRODUCTS))
    stream = wm.stream(read(spark, tmp_path / "views"), "views", time="seen", delay="1 second")
    enriched = wm.enrich(
        stream,
        lambda: spark.read.parquet(str(tmp_path / "products")),
        on="product",
        refresh="1 second",
        retry="1 hour",
        stage=stage,
    )
    query = (
        enriched.writeStream.format("memory")
        .queryName("refreshed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert table(spark.table("refreshed"))["name"].to_pylist() == ["old"]
        # when the table changes, and rows come,
        late = [(key, "late", 3.0) for key in range(77, 82)]
        new = rows_of([(1, "new", 2.0), *late], **PRODUCTS)
        replace_file(new, tmp_path / "products" / "part.parquet")
        (series,) = [name for name in staged_tables(stage) if name.endswith(".current")]
        name = series.removesuffix(".current")
        versions = Versions(os.path.join(stage, "watersmeet-tables"), name, name)
        before = versions.current()
        until = time.time() + 60
        while versions.current() == before:
            assert time.time() < until, versions.failure()
            time.sleep(0.2)
        others = [(key, at(20), key) for key in range(78, 82)]
        for number, more in ((1, []), (2, others)):
            batch = rows_of([(1, at(10 * number), 10 * number), *more], **VIEWS)
            write(tmp_path / "views", [batch], first=number)
            query.processAllAvailable()
        found = {row["view"]: row["name"] for row in table(spark.table("refreshed")).to_pylist()}
        # then they are answered from it, also in shards that had none in the micro-batch before,
        # and so is the row whose product was not there before;
        known = {0: "old", 10: found[10], 20: "new", 1: "late"}
        assert found == known | dict.fromkeys(range(78, 82), "late")
        assert len(set.union(*(step.versions for step in metrics_of(query, wm.EnrichMetrics)))) == 2
        # and a table that lacks a column is refused, and the query goes on with the old one.
        replace_file(new.drop_columns(["price"]), tmp_path / "products" / "part.parquet")
        until = time.time() + 60
        while "'price' is gone" not in str(versions.failure()):
            assert time.time() < until, versions.failure()
            time.sleep(0.2)
        # (The next refresh may be on its way, and another failure not known yet.)
        for number in range(3, 30):
            batch = rows_of([(1, at(10 * number), 10 * number)], **VIEWS)
            write(tmp_path / "views", [batch], first=number)
            query.processAllAvailable()
            notes = [note for step in wm.metrics(query) for note in step.notes]
            if any("'price' is gone" in note for note in notes):
                break
        else:
            pytest.fail(f"no note says so: {notes}")
    finally:
        query.stop()
    # When the query has ended, nothing is staged any more.
    until = time.time() + 60
    while any(thread.name == "watersmeet-refresh" for thread in threading.enumerate()):
        assert time.time() < until
        time.sleep(0.2)
    time.sleep(3)
    assert "watersmeet-refresh" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.slow
def test_executors_keep_copies_of_partitions_and_read_these(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given two executors, and a stream that wants every partition in each micro-batch,
    count = 1500
    batches = [
        rows_of([(key, at(60 * n), count * n + key) for key in range(0, 2 * count, 2)], **VIEWS)
        for n in range(2)
    ]
    master = products(count)
    write(tmp_path / "views", batches)
    as_table(spark, tmp_path / "products", master)
    with driver(tmp_path, query="copies_query") as query:
        # when the staged partitions are gone after a micro-batch,
        left, first = json.loads(query.wait_for(r"\[.*\]")[0])
        # and when there is little room for copies,
        partitions, second = json.loads(query.wait_for(r"\[.*\]")[0])
        query.wait_for("done")
    # then the first one's partitions were read once, and later the copies alone,
    assert left == 0
    assert partitions > 10
    counted = [(step["scanned"], step["copied"]) for step in first if step["rows"]]
    assert counted == [(partitions, 0), (0, partitions)]
    # the second one has read again what had no room,
    again = [step["scanned"] for step in second if step["rows"]]
    assert min(again) > partitions // 4
    sizes = {
        name: sum(file.stat().st_size for file in tmp_path.glob(f"{name}/cache/**/*.segment"))
        for name in ("first", "second")
    }
    assert 0 < sizes["second"] <= LITTLE < sizes["first"]
    # and neither is seen in a result.
    for name in ("first", "second"):
        result = spark.read.parquet(str(tmp_path / name / "out")).drop("batch")
        assert_same_rows(table(result), expected(batches, master, "left"))


def test_explain_says_how(spark: SparkSession, tmp_path: Path, stage: str) -> None:
    stream = as_stream(spark, tmp_path / "views", views(1))
    given = as_table(spark, tmp_path / "products", products())
    planned = wm.plan_enrich(stream, given, on="product", max_wait="5 batches", stage=stage)
    # With far more shards than cores, that is worth a warning, unless there are none.
    many = spark.newSession()
    many.conf.set("spark.sql.shuffle.partitions", "200")
    rows = wm.stream(read(many, tmp_path / "views"), "views", time="seen", delay="10 seconds")
    products_there = many.read.parquet(str(tmp_path / "products"))
    with pytest.warns(UserWarning, match="200"):
        wm.plan_enrich(rows, products_there, on="product", max_wait="5 batches", stage=stage)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wm.plan_enrich(rows, products_there, on="product", stage=stage)
    assert "not staged yet" in planned.explain()
    planned.dataframe()
    text = planned.explain()
    assert "60 rows" in text
    assert "main-memory join" in text
    assert "after 5 micro-batches at most" in text
    assert planned.schema.names == ["product", "seen", "view", "name", "price"]
