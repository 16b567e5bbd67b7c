"""Joins without a key on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.streams import SECOND, events, read, run, table, without_end, write

pytestmark = pytest.mark.spark

NAMES = ("a", "b", "c")
BATCHES = {
    name: events(number, key="k", time=f"{name}_at", value=f"{name}_n", rows=30)
    for number, name in enumerate(NAMES, start=1)
}
WINDOWS = {"a": 45, "b": 30, "c": 20}


def _close(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less_equal(pc.abs(pc.subtract(a["k"], b["k"])), 1)


close = wm.predicate(_close, "a", "b", columns={"a": ["k"], "b": ["k"]})
CLOSE = "abs(a.k - b.k) <= 1"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    root = tmp_path_factory.mktemp("streams")
    return {name: write(root / name, batches) for name, batches in BATCHES.items()}


def streams(spark: SparkSession, folders: Mapping[str, Path], names: str) -> list[wm.Stream]:
    return [
        wm.stream(read(spark, folders[name]), name, time=f"{name}_at", delay="2 minutes")
        for name in names
    ]


def within(names: str) -> dict[str, str]:
    return {name: f"{WINDOWS[name]} seconds" for name in names}


def expected(names: str, how: str, where: str) -> pa.Table:
    rows = {name: without_end(BATCHES[name], "k") for name in names}
    given = {n: Stream(rows[n], [], f"{n}_at", WINDOWS[n] * SECOND) for n in names}
    return sql_join(given, how=how, where=where)


def without_closing(rows: pa.Table) -> pa.Table:
    """The rows that let the watermark pass are unmatched; what SQL sees lacks them."""
    [key] = [name for name in ("a_k", "k") if name in rows.column_names]
    kept = [value is None or value < 1_000_000 for value in rows.column(key).to_pylist()]
    return rows.filter(pa.array(kept))


@pytest.mark.parametrize(
    ("how", "where", "sql"),
    [
        ("inner", close, CLOSE),
        ("left", [CLOSE, "a.a_n % 2 = 0"], f"{CLOSE} AND a.a_n % 2 = 0"),
        ("semi", close, CLOSE),
        ("anti", f"{CLOSE} AND b.b_n % 5 = 0", f"{CLOSE} AND b.b_n % 5 = 0"),
    ],
)
def test_two_streams_give_what_sql_gives(
    spark: SparkSession, folders: Mapping[str, Path], how: str, where: Any, sql: str
) -> None:
    joined = wm.join(streams(spark, folders, "ab"), where=where, within=within("ab"), how=how)
    rows = without_closing(run(joined))
    assert rows.num_rows > 10
    assert_same_rows(rows, expected("ab", how, sql))


CHAIN = [CLOSE, "b.k = c.k OR b.k > c.k + 3"]


def append(df: DataFrame, folder: Path) -> list[wm.StepMetrics]:
    """Run a query over what is there, from its checkpoint, and append its results."""
    query = (
        df.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return wm.metrics(query)


def test_three_streams_go_on_with_fewer_slices_and_say_what_they_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a query over the first files that is stopped, and started again with all of them,
    folders = {name: write(tmp_path / name, BATCHES[name][:2]) for name in NAMES}

    def query(**tuning: int) -> list[wm.StepMetrics]:
        inputs, tuned = streams(spark, folders, "abc"), wm.Tuning(**tuning)
        return append(
            wm.join(inputs, where=CHAIN, within=within("abc"), name="abc", tuning=tuned), tmp_path
        )

    first = query()
    for name in NAMES:
        write(folders[name], BATCHES[name][2:], first=2)
    # when new rows are stored in one slice, and those of the other still expire,
    second = query(slices=1, draining=2)
    # then together they have given everything once.
    assert min(sum(record.results for record in part) for part in (first, second)) > 0
    assert_same_rows(
        table(spark.read.parquet(str(tmp_path / "out"))),
        expected("abc", "inner", " AND ".join(f"({text})" for text in CHAIN)),
    )
    # There is a record for each hop; b, which is connected with both others, is in the first.
    hops = [f"abc, hop {number} of 3" for number in (1, 2, 3)]
    records = [next(r for r in second if r.join == hop) for hop in hops]
    assert all(isinstance(record, wm.RingMetrics) for record in records)
    stored = [{name for name, of in record.streams.items() if of.state_rows} for record in records]
    assert stored[0] == {"b"}
    assert stored[1] | stored[2] == {"a", "c"}
    assert sum(record.rows for record in second if record.join == hops[0]) > 60


def test_batch_dataframes(spark: SparkSession, folders: Mapping[str, Path]) -> None:
    inputs = [
        wm.stream(
            spark.read.parquet(str(folders[name])).where("k IS NULL OR k < 1000000"),
            name,
            time=f"{name}_at",
        )
        for name in "ab"
    ]
    joined = wm.join(inputs, where=close, within=within("ab"), how="right")
    assert_same_rows(table(joined), expected("ab", "right", CLOSE))
