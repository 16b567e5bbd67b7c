"""Columns with nested fields that are NOT NULL, and variants: of a row without a match they are
null as a whole, and their fields have no value at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import assert_same_rows
from tests.spark.streams import read, result, start, table

pytestmark = pytest.mark.spark

NAMES = ("strict", "deep", "variant")


def with_strict(df: DataFrame) -> DataFrame:
    """Rows with columns of such types. (Parquet files have none: there all may be null.)"""
    item = F.struct(F.coalesce("k", F.lit(0)).alias("x"), F.lit("text").alias("y"))
    return df.select(
        "*",
        F.struct(F.lit(1).alias("a"), item.alias("b")).alias("strict"),
        F.array(F.struct(F.create_map(F.lit("key"), item).alias("map"))).alias("deep"),
        F.parse_json(F.format_string('{"k": %d}', "k")).alias("variant"),
    )


def as_text(df: DataFrame, *sides: str) -> DataFrame:
    """The key, and the columns of both sides as text."""
    texts = [
        F.to_json(F.struct(*(F.col(f"{side}{name}").alias(name) for name in NAMES)))
        for side in sides
    ]
    return df.select(f"{sides[0]}k", *texts).toDF("k", "ours", "theirs")


JOINS: dict[str, Callable[[wm.Stream, wm.Stream], DataFrame]] = {
    "with a key": lambda a, b: wm.join([a, b], on="k", how="left", within="1 hour"),
    "without a key": lambda a, b: wm.join(
        [a, b], where="a.k <= b.k AND a.k >= b.k", how="left", within="1 hour"
    ),
}


@pytest.fixture
def frames(spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Two inputs, and what Spark's own left join makes of them."""
    a, b = (
        with_strict(spark.range(first, first + 3).selectExpr("id k", "timestamp_seconds(id) t"))
        for first in (1, 2)
    )
    wanted = as_text(
        a.alias("a").join(b.alias("b"), F.col("a.k") == F.col("b.k"), "left"), "a.", "b."
    )
    return a, b, wanted


@pytest.mark.parametrize("name", JOINS)
def test_fields_that_are_not_null_pass_every_join(
    frames: tuple[DataFrame, DataFrame, DataFrame], name: str
) -> None:
    a, b, wanted = frames
    joined = JOINS[name](wm.stream(a, "a", time="t"), wm.stream(b, "b", time="t"))
    key = "k" if "k" in joined.columns else "a_k"
    assert_same_rows(
        table(as_text(joined.withColumnRenamed(key, "a_k"), "a_", "b_")), table(wanted)
    )


@pytest.mark.parametrize("refresh", [None, "1 hour"], ids=["in place", "with state"])
def test_fields_that_are_not_null_pass_every_enrichment(
    spark: SparkSession,
    tmp_path: Path,
    frames: tuple[DataFrame, DataFrame, DataFrame],
    refresh: str | None,
) -> None:
    a, b, wanted = frames
    a.select("k", "t").write.parquet(str(tmp_path / "a"))
    stream = wm.stream(with_strict(read(spark, tmp_path / "a")), "a", time="t", delay="0 s")
    stage = str(tmp_path / "stage")
    rich = wm.enrich(stream, b.drop("t"), on="k", how="left", refresh=refresh, stage=stage)
    found = as_text(rich.withColumnRenamed("k", "a_k"), "a_", "table_")
    assert_same_rows(result(spark, start(found)), table(wanted))
