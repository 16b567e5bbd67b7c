"""What follows a join in the same query can go on with its event time: nothing is dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.streams import SECOND, events, read, run, without_end, write

pytestmark = pytest.mark.spark

DELAY = "1 minute"
VIEW_WAITS, CLICK_WAITS = 100, 45
WITHIN = {"views": f"{VIEW_WAITS} seconds", "clicks": f"{CLICK_WAITS} seconds"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of views, clicks and sales: a row is at most 50 seconds out of order."""
    folder = tmp_path_factory.mktemp("event-time")
    for seed, name, time in (
        (4, "views", "viewed"),
        (5, "clicks", "clicked"),
        (6, "sales", "sold"),
    ):
        given = {"key": "ad", "time": time, "value": name[:-1], "keys": 25, "null_times": False}
        write(folder / name, events(seed, batches=6, **given))
    return folder


def stream(spark: SparkSession, folder: Path, name: str, time: str) -> wm.Stream:
    return wm.stream(read(spark, folder / name), name, time=time, delay=DELAY)


def joined(
    spark: SparkSession, folder: Path, how: str, event_time: str | None, *, keyless: bool = False
) -> DataFrame:
    streams = [
        stream(spark, folder, "views", "viewed"),
        stream(spark, folder, "clicks", "clicked"),
    ]
    what: dict[str, Any] = {"on": "ad"}
    if keyless:
        what = {"where": wm.predicate(_equal, "views", "clicks")}
    return wm.join(streams, **what, within=WITHIN, how=how, event_time=event_time)


def _equal(views: pa.Table, clicks: pa.Table) -> pa.ChunkedArray:
    return pc.equal(views["ad"], clicks["ad"])


def accepted(spark: SparkSession, folder: Path, name: str) -> pa.Table:
    return without_end([spark.read.parquet(str(folder / name)).toArrow()], "ad")


def minutes(df: DataFrame, time: str) -> DataFrame:
    """Rows counted by minute, in the same query."""
    counted = df.groupBy(F.window(time, "1 minute")).count()
    return counted.select(F.unix_micros("window.start").alias("minute"), "count")


def micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def minutes_of(times: pa.ChunkedArray) -> pa.Table:
    minute = 60 * SECOND
    counted = pc.value_counts(pa.array(times.drop_null().to_numpy() // minute * minute))
    return pa.table({"minute": counted.field(0), "count": counted.field(1)})


@pytest.mark.parametrize(
    ("how", "event_time", "keyless"),
    [
        ("inner", "clicks", False),
        ("left", "views", False),
        ("left", "greatest", False),
        ("right", "clicks", False),
        ("full", "greatest", False),
        ("semi", "views", False),
        ("anti", "greatest", False),
        ("left", "views", True),
    ],
)
def test_an_aggregation_after_any_join_gets_every_row(
    spark: SparkSession, folder: Path, how: str, event_time: str, keyless: bool
) -> None:
    result = sql_join(
        {
            "views": Stream(
                accepted(spark, folder, "views"), ["ad"], "viewed", VIEW_WAITS * SECOND
            ),
            "clicks": Stream(
                accepted(spark, folder, "clicks"), ["ad"], "clicked", CLICK_WAITS * SECOND
            ),
        },
        how=how,
    )
    columns = {"views": ["viewed"], "clicks": ["clicked"], "greatest": ["viewed", "clicked"]}
    shown = [name for name in columns[event_time] if name in result.column_names]
    wanted = minutes_of(pc.max_element_wise(*(micros(result.column(name)) for name in shown)))
    assert wanted.num_rows >= 6
    ours = joined(spark, folder, how, event_time, keyless=keyless)
    assert_same_rows(run(minutes(ours, "event_time")), wanted)


@pytest.mark.parametrize(
    ("how", "event_time", "time"), [("left", "views", "viewed"), ("right", "clicks", "clicked")]
)
def test_sparks_own_outer_join_gives_the_same_windows(
    spark: SparkSession, folder: Path, how: str, event_time: str, time: str
) -> None:
    views = read(spark, folder / "views").withWatermark("viewed", DELAY).alias("views")
    clicks = read(spark, folder / "clicks").withWatermark("clicked", DELAY).alias("clicks")
    condition = (
        f"views.ad = clicks.ad AND clicked >= viewed - INTERVAL {CLICK_WAITS} SECONDS "
        f"AND clicked <= viewed + INTERVAL {VIEW_WAITS} SECONDS"
    )
    native = views.join(clicks, F.expr(condition), f"{how}Outer")
    ours = minutes(joined(spark, folder, how, event_time), "event_time")
    assert_same_rows(run(ours), run(minutes(native, time)))


def test_a_join_can_follow_a_left_join(spark: SparkSession, folder: Path) -> None:
    left = joined(spark, folder, "left", "views")
    seen = wm.stream(left.drop("viewed"), "seen", time="event_time")
    sales = stream(spark, folder, "sales", "sold")
    chain = wm.join([seen, sales], on="ad", within="30 seconds", name="seen and sold")
    views, clicks, sold = (accepted(spark, folder, name) for name in ("views", "clicks", "sales"))
    first = sql_join(
        {
            "views": Stream(views, ["ad"], "viewed", VIEW_WAITS * SECOND),
            "clicks": Stream(clicks, ["ad"], "clicked", CLICK_WAITS * SECOND),
        },
        how="left",
    )
    second = sql_join(
        {
            "first": Stream(first, ["ad"], "viewed", 30 * SECOND),
            "sales": Stream(sold, ["ad"], "sold", 30 * SECOND),
        }
    )
    wanted = minutes_of(micros(second.column("event_time")))
    assert_same_rows(run(minutes(chain, "event_time")), wanted)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_watermark_behind_a_join_ends_the_query_at_its_start(
    spark: SparkSession, folder: Path, how: str
) -> None:
    again = joined(spark, folder, how, None).withWatermark("viewed", DELAY)
    with pytest.raises(StreamingQueryException) as caught:
        run(minutes(again, "viewed"))
    assert "TimeColumnError: withWatermark('viewed', ...) sets a second" in str(caught.value)
    assert "give event_time='...'" in str(caught.value)
