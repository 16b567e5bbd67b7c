"""Joins of three and more streams on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.streams import (
    SECOND,
    TIMESTAMP,
    at,
    events,
    read,
    result,
    rows_of,
    run,
    start,
    table,
    without_end,
    write,
)
from watersmeet.spec.join_type import How
from watersmeet.spec.tuning import DriverChoice

pytestmark = pytest.mark.spark

NAMES = ("views", "clicks", "sales", "refunds")
BATCHES = {
    name: events(number, key="ad", time=f"{name}_at", value=f"{name}_n", rows=25)
    for number, name in enumerate(NAMES, start=1)
}
WINDOWS = {"views": 60, "clicks": 45, "sales": 20, "refunds": 30}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    root = tmp_path_factory.mktemp("streams")
    return {name: write(root / name, batches) for name, batches in BATCHES.items()}


def streams(
    spark: SparkSession, folders: Mapping[str, Path], names: tuple[str, ...]
) -> list[wm.Stream]:
    return [
        wm.stream(read(spark, folders[name]), name, time=f"{name}_at", delay="2 minutes")
        for name in names
    ]


def within(names: tuple[str, ...]) -> dict[str, str]:
    return {name: f"{WINDOWS[name]} seconds" for name in names}


def expected(names: tuple[str, ...], how: How, where: str | None = None) -> pa.Table:
    rows = {name: without_end(BATCHES[name], "ad") for name in names}
    return sql_join(
        {n: Stream(rows[n], ["ad"], f"{n}_at", WINDOWS[n] * SECOND) for n in names},
        how=how,
        where=where,
    )


@pytest.mark.parametrize("names", [NAMES[:3], NAMES], ids=["three", "four"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_streams_give_what_sql_gives(
    spark: SparkSession, folders: Mapping[str, Path], names: tuple[str, ...], how: How
) -> None:
    joined = wm.join(streams(spark, folders, names), on="ad", within=within(names), how=how)
    rows = run(joined)
    # The rows that let the watermark pass are unmatched; what SQL sees lacks them.
    if how == "left":
        kept = [key is None or key < 1_000_000 for key in rows.column("ad").to_pylist()]
        rows = rows.filter(pa.array(kept))
    assert rows.num_rows > 100
    assert_same_rows(rows, expected(names, how))


def test_a_restarted_query_goes_on_and_says_what_it_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a query over the first files that is stopped, and started again with all of them,
    names = NAMES[:3]
    folders = {name: write(tmp_path / name, BATCHES[name][:2]) for name in names}

    def query(driver: DriverChoice) -> list[wm.StepMetrics]:
        joined = wm.join(
            streams(spark, folders, names),
            on="ad",
            within=within(names),
            tuning=wm.Tuning(driver=driver),
            where="views.views_n % 2 = 0 OR sales.sales_n % 3 > 0",
        )
        writer = joined.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        return wm.metrics(running)

    first = query("timestamp")
    for name in names:
        write(folders[name], BATCHES[name][2:], first=2)
    # with another policy,
    second = query("output-rate")
    # then together they have given everything once.
    assert min(sum(record.results for record in part) for part in (first, second)) > 0
    assert_same_rows(
        table(spark.read.parquet(str(tmp_path / "out"))),
        expected(names, "inner", "views.views_n % 2 = 0 OR sales.sales_n % 3 > 0"),
    )
    assert max(record.largest.fanout for record in second) > 1
    assert {record.largest.stream for record in second} <= {*names, ""}


def test_batch_dataframes_and_aggregation(spark: SparkSession, folders: Mapping[str, Path]) -> None:
    names = NAMES[:3]
    inputs = [
        wm.stream(
            spark.read.parquet(str(folders[name])).where("ad IS NULL OR ad < 1000000"),
            name,
            time=f"{name}_at",
        )
        for name in names
    ]
    for how in ("inner", "left"):
        joined = wm.join(inputs, on="ad", within=within(names), how=how)
        assert_same_rows(table(joined), expected(names, how))
    # An inner join's event time goes on in the same streaming query.
    counted = (
        wm.join(streams(spark, folders, names), on="ad", within=within(names))
        .groupBy(F.window("event_time", "1 minute"))
        .agg(F.count("*").alias("n"))
        .select("n")
    )
    assert sum(run(counted).column("n").to_pylist()) == expected(names, "inner").num_rows


def test_a_hot_key_is_reported_and_capped(spark: SparkSession, tmp_path: Path) -> None:
    types = {"k": pa.int64(), "t": TIMESTAMP, "v": pa.int64()}
    batches = [[(7, at(n / 100), n) for n in range(50)], [(8, at(100), 50)]]
    folders = {
        name: write(tmp_path / name, [rows_of(batch, **types) for batch in batches])
        for name in "abc"
    }
    inputs = [
        wm.stream(read(spark, folders[name]), name, time="t", delay="1 second") for name in "abc"
    ]
    query = start(
        wm.join(inputs, on="k", within="10 seconds", budget=wm.Budget(fanout=100, overflow="shed"))
    )
    rows = result(spark, query)
    [first, *_] = wm.metrics(query)
    assert (first.largest.fanout, first.largest.key) == (100, "7")
    assert first.capped == 50  # every row of the stream that was taken last
    assert rows.num_rows == 50 * 100 + 1
