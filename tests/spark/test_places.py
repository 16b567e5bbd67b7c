"""Wide rows take up several places, so that batches of so many rows are bounded in bytes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.rows.columns import CODE
from watersmeet.rows.ipc import from_ipc
from watersmeet.rows.route import ByKey
from watersmeet.spark.query.capsule import CAPSULE_BYTES, Pack
from watersmeet.spark.query.places import PLACE, PLACE_BYTES, with_places, without_places

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def ten_rows(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark hands over ten rows at a time."""
    before = spark.conf.get(ROWS)
    spark.conf.set(ROWS, "10")
    yield spark
    spark.conf.set(ROWS, str(before))


def batches(df: DataFrame) -> list[tuple[list[int], int]]:
    """Of each batch that Python gets: the rows' numbers, and its bytes."""

    def measure(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            rows = without_places(batch)
            numbers = pa.array([rows.column("n").to_pylist()], pa.list_(pa.int64()))
            yield pa.RecordBatch.from_arrays([numbers, pa.array([batch.nbytes])], ["n", "bytes"])

    sent = with_places(df.coalesce(1)).mapInArrow(measure, "n array<bigint>, bytes bigint")
    return [(row["n"], row["bytes"]) for row in sent.collect()]


#: An expression for a value of a type that takes about ``w`` bytes.
WIDE = {
    "string": "repeat('x', w)",
    "binary": "cast(repeat('x', w) as binary)",
    "array<double>": "array_repeat(1.0D, cast(w / 8 as int))",
    "array<string>": "array_repeat(repeat('x', 1000), cast(w / 1000 as int))",
    "map<bigint,string>": "map(1L, repeat('x', w))",
    "variant": """parse_json(concat('"', repeat('x', w), '"'))""",
    "struct<a:int,b:string>": "named_struct('a', 1, 'b', repeat('x', w))",
    "array<struct<a:string,b:array<int>>>": (
        "array_repeat(named_struct('a', repeat('x', 500), 'b', array_repeat(1, 125)), "
        "cast(w / 1000 as int))"
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", WIDE)
def test_a_batch_is_bounded_in_bytes(ten_rows: SparkSession, kind: str) -> None:
    # Given narrow rows, and wide ones of all widths, one after the other, and nulls,
    widest = 20 * PLACE_BYTES
    width = f"if(id % 3 = 0, (id * 7919) % {widest}, id % 5)"
    df = ten_rows.range(0, 60, 1, 1).selectExpr("id as n", f"cast({width} as int) as w")
    df = df.withColumn("value", F.expr(f"if(n % 7 = 0, null, {WIDE[kind]})").cast(kind)).drop("w")
    # when they are handed to Python,
    got = batches(df)
    # then every row comes once, in order, and no batch is much larger than its places.
    assert [number for numbers, _ in got for number in numbers] == list(range(60))
    assert max(size for _, size in got) < 2 * 10 * PLACE_BYTES + widest
    assert len(got) > 12


@pytest.mark.spark
def test_rows_that_cannot_be_wide_are_left_alone(spark: SparkSession) -> None:
    df = spark.range(5).selectExpr("id as n", "named_struct('t', now(), 'd', 1.5) as s")
    assert with_places(df) is df


@pytest.mark.spark
def test_narrow_rows_are_as_many_as_before(ten_rows: SparkSession) -> None:
    df = ten_rows.range(0, 40, 1, 1).selectExpr("id as n", "cast(id as string) as text")
    assert [len(numbers) for numbers, _ in batches(df)] == [10, 10, 10, 10]


def test_places_are_dropped_before_rows_are_packed() -> None:
    columns: dict[str, Any] = {
        CODE: pa.array([1, 1, 1, 2], pa.int64()),
        "text": ["a", None, None, None],
        PLACE: pa.array([0, 1, 2, 0], pa.int32()),
    }
    [capsules] = Pack(0, ByKey(), (0,))(iter([pa.RecordBatch.from_pydict(columns)]))
    rows = from_ipc(capsules.column("payload")[0].as_py())
    assert rows.to_pydict() == {CODE: [1, 2], "text": ["a", None]}


def test_a_wide_capsule_takes_up_places_too() -> None:
    widths = [1, 10 * PLACE_BYTES, CAPSULE_BYTES - PLACE_BYTES, PLACE_BYTES // 2]
    texts = [b"x" * width for width in widths]
    rows = pa.RecordBatch.from_pydict({CODE: pa.array(range(4), pa.int64()), "text": texts})
    [capsules] = Pack(0, ByKey(), (5,)).packed(rows)
    full = [value is not None for value in capsules["payload"].to_pylist()]
    assert full == [True, True, *[False] * 10, True, *[False] * 3]
    assert capsules["shard"].to_pylist() == [5] * len(full)


def body(name: str) -> str:
    """A document of one to three megabytes, by its id."""
    return f"repeat(md5(concat('{name}', id)), cast(32768 * (1 + id % 3) as int))"


@pytest.mark.spark
def test_documents_of_a_megabyte_and_more_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    # Given two streams of documents,
    now = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)

    def stream(name: str) -> wm.Stream:
        columns = F.expr(body(name)).alias(name), F.lit(now).alias(f"{name}_time")
        df = spark.range(0, 12, 1, 2).select("id", *columns)
        df.write.parquet(str(tmp_path / name))
        read = spark.readStream.schema(df.schema).parquet(str(tmp_path / name))
        return wm.stream(read, name, time=f"{name}_time", delay="1 minute")

    # when they are joined,
    joined = wm.join([stream("a"), stream("b")], on="id", within="1 hour")
    digests = joined.selectExpr("id", "md5(a) as a", "md5(b) as b")
    writer = digests.writeStream.format("memory").queryName("documents").outputMode("append")
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    query.processAllAvailable()
    query.stop()
    # then each is as it was.
    same = (f"md5({body(name)}) as {name}" for name in "ab")
    expected = spark.range(12).selectExpr("id", *same)
    assert sorted(spark.table("documents").collect()) == sorted(expected.collect())
