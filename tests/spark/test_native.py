"""The same files through Spark's own stream-stream join give the same rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, multiset, sql_join
from tests.spark.streams import SECOND, TIMESTAMP, at, events, read, rows_of, run, write
from watersmeet.spec.join_type import How

pytestmark = pytest.mark.spark

DELAY = "2 minutes"
WITHIN = {"views": "20 seconds", "clicks": "45 seconds"}
NATIVE = {
    "inner": "inner",
    "left": "leftOuter",
    "right": "rightOuter",
    "full": "fullOuter",
    "semi": "leftSemi",
}


def ours(spark: SparkSession, folder: Path, how: How) -> DataFrame:
    streams = [
        wm.stream(read(spark, folder / "views"), "views", time="viewed", delay=DELAY),
        wm.stream(read(spark, folder / "clicks"), "clicks", time="clicked", delay=DELAY),
    ]
    return wm.join(streams, on="ad", within=WITHIN, how=how)


def native(spark: SparkSession, folder: Path, how: How) -> DataFrame:
    views = read(spark, folder / "views").withWatermark("viewed", DELAY).alias("views")
    clicks = read(spark, folder / "clicks").withWatermark("clicked", DELAY).alias("clicks")
    condition = F.expr(
        "views.ad = clicks.ad AND clicked >= viewed - INTERVAL 45 SECONDS "
        "AND clicked <= viewed + INTERVAL 20 SECONDS"
    )
    joined = views.join(clicks, condition, NATIVE[how])
    if how == "semi":
        return joined
    return joined.select(
        F.coalesce("views.ad", "clicks.ad").alias("ad"), "viewed", "view", "clicked", "click"
    )


@pytest.mark.parametrize("how", NATIVE)
def test_spark_itself_gives_the_same_rows(spark: SparkSession, tmp_path: Path, how: How) -> None:
    # Spark never gives out an outer join's rows without a time: nothing passes them.
    nulls = {"null_keys": how != "full", "null_times": how in ("inner", "semi")}
    write(tmp_path / "views", events(4, key="ad", time="viewed", value="view", **nulls))
    write(tmp_path / "clicks", events(5, key="ad", time="clicked", value="click", **nulls))

    wanted = run(native(spark, tmp_path, how))
    assert wanted.num_rows > 10
    assert_same_rows(run(ours(spark, tmp_path, how)).select(wanted.column_names), wanted)


def test_null_keys_match_nothing_in_a_full_join_unlike_in_spark_4_3(
    spark: SparkSession, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    types = {"ad": pa.int64(), "viewed": TIMESTAMP, "view": pa.string()}
    views = rows_of([(None, at(0), "v1"), (1, at(0), "v2")], **types)
    clicks = rows_of([(None, at(1), "c1"), (1, at(1), "c2")], **types)
    clicks = clicks.rename_columns(["ad", "clicked", "click"])
    for name, rows in (("views", views), ("clicks", clicks)):
        # A row of an hour later, of a key of its own, lets the watermark pass the others.
        end = rows_of([(len(name), at(3600), "")], **types).rename_columns(rows.column_names)
        write(tmp_path / name, [rows, end])
    wanted = sql_join(
        {
            "views": Stream(views, ["ad"], "viewed", 20 * SECOND),
            "clicks": Stream(clicks, ["ad"], "clicked", 45 * SECOND),
        },
        how="full",
    )
    assert_same_rows(run(ours(spark, tmp_path, "full")), wanted)
    natively = run(native(spark, tmp_path, "full"))
    record_property("spark_matches_null_keys", multiset(natively) != multiset(wanted))
