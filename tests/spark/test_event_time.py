"""What follows a join in the same query can go on with its event time: nothing is dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.streams import SECOND, events, read, run, without_end, write
from watersmeet.spec.join_type import How

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
        given: dict[str, Any] = {
            "key": "ad",
            "time": time,
            "value": name[:-1],
            "keys": 25,
            "null_times": False,
        }
        write(folder / name, events(seed, batches=6, **given))
    return folder


def stream(spark: SparkSession, folder: Path, name: str, time: str) -> wm.Stream:
    return wm.stream(read(spark, folder / name), name, time=time, delay=DELAY)


def joined(
    spark: SparkSession, folder: Path, how: How, event_time: str | None, *, keyless: bool = False
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
    spark: SparkSession, folder: Path, how: How, event_time: str, keyless: bool
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
    ("how", "event_time", "time"),
    [
        ("left", "views", "viewed"),
        ("right", "clicks", "clicked"),
        ("semi", "views", "viewed"),
    ],
)
def test_sparks_own_join_gives_the_same_windows(
    spark: SparkSession, folder: Path, how: How, event_time: str, time: str
) -> None:
    views = read(spark, folder / "views").withWatermark("viewed", DELAY).alias("views")
    clicks = read(spark, folder / "clicks").withWatermark("clicked", DELAY).alias("clicks")
    condition = (
        f"views.ad = clicks.ad AND clicked >= viewed - INTERVAL {CLICK_WAITS} SECONDS "
        f"AND clicked <= viewed + INTERVAL {VIEW_WAITS} SECONDS"
    )
    native = views.join(clicks, F.expr(condition), how)
    ours = minutes(joined(spark, folder, how, event_time), "event_time")
    assert_same_rows(run(ours), run(minutes(native, time)))


def test_an_aggregation_after_a_left_join_of_many_gets_every_row(
    spark: SparkSession, folder: Path
) -> None:
    times = {"views": "viewed", "clicks": "clicked", "sales": "sold"}
    windows = {"views": VIEW_WAITS, "clicks": CLICK_WAITS, "sales": 30}
    rows = sql_join(
        {
            name: Stream(accepted(spark, folder, name), ["ad"], times[name], windows[name] * SECOND)
            for name in times
        },
        how="left",
    )
    joined = wm.join(
        [stream(spark, folder, name, time) for name, time in times.items()],
        on="ad",
        within={name: f"{window} seconds" for name, window in windows.items()},
        how="left",
        event_time="views",
    )
    wanted = minutes_of(micros(rows.column("viewed")))
    assert wanted.num_rows >= 6
    assert_same_rows(run(minutes(joined, "event_time")), wanted)


@pytest.mark.parametrize(
    ("how", "event_time", "second"),
    [
        ("left", "views", "inner"),
        ("right", "clicks", "inner"),
        ("semi", "views", "inner"),
        ("anti", "views", "inner"),
        ("full", "greatest", "inner"),
        ("left", "views", "left"),
    ],
)
def test_a_join_can_follow_any_join(
    spark: SparkSession, folder: Path, how: How, event_time: str, second: How
) -> None:
    # Given a join whose event time is carried on, and one behind it in the same query,
    first = joined(spark, folder, how, event_time).select("ad", "event_time")
    seen = wm.stream(first, "seen", time="event_time")
    sales = stream(spark, folder, "sales", "sold")
    chain = wm.join([seen, sales], on="ad", within="30 seconds", how=second)
    # when it runs, and an aggregation behind it, if it carries a time on,
    if second == "inner":
        shown = minutes(chain, "event_time")
    else:
        shown = chain.select("ad", F.unix_micros("event_time").alias("seen_at"), "sale")
    found = run(shown)
    # then no row is missing.
    wanted = sql_join(
        {
            "seen": Stream(seen_at(spark, folder, how), ["ad"], "seen_at", 30 * SECOND),
            "sales": Stream(accepted(spark, folder, "sales"), ["ad"], "sold", 30 * SECOND),
        },
        how=second,
    )
    if second == "inner":
        wanted = minutes_of(micros(wanted.column("event_time")))
    else:
        times = micros(wanted.column("seen_at"))
        wanted = pa.table({"ad": wanted["ad"], "seen_at": times, "sale": wanted["sale"]})
    assert wanted.num_rows >= 3
    assert_same_rows(found, wanted)


def seen_at(spark: SparkSession, folder: Path, how: How) -> pa.Table:
    """What a join of views and clicks gives: the key, and the time that is carried on."""
    rows = sql_join(
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
    shown = {"full": ["viewed", "clicked"], "right": ["clicked"]}.get(how, ["viewed"])
    latest = pc.max_element_wise(*(micros(rows.column(name)) for name in shown))
    times = latest.cast(pa.timestamp("us", "UTC"))
    return pa.table({"ad": rows.column("ad"), "seen_at": times})


def test_windows_behind_two_outer_joins_are_those_of_sparks_own(
    spark: SparkSession, folder: Path
) -> None:
    # Given a left join, a left join behind it, and rows counted by minute behind both,
    first = wm.join(
        [stream(spark, folder, "views", "viewed"), stream(spark, folder, "clicks", "clicked")],
        on="ad",
        within=WITHIN,
        how="left",
        event_time="views",
        hold="30 seconds",
    )
    seen = wm.stream(
        first.select("ad", "event_time").where("ad is not null"), "seen", time="event_time"
    )
    sales = stream(spark, folder, "sales", "sold")
    chain = wm.join([seen, sales], on="ad", within="30 seconds", how="left", event_time="seen")
    # when they run, and Spark's own joins of the same rows,
    ours = run(minutes(chain, "event_time"))
    named = {
        name: read(spark, folder / name).withWatermark(time, DELAY).alias(name)
        for name, time in (("views", "viewed"), ("clicks", "clicked"), ("sales", "sold"))
    }
    clicked = (
        f"views.ad = clicks.ad AND clicked >= viewed - INTERVAL {CLICK_WAITS} SECONDS "
        f"AND clicked <= viewed + INTERVAL {VIEW_WAITS} SECONDS"
    )
    sold = (
        "seen.ad = sales.ad AND sold >= viewed - INTERVAL 30 SECONDS "
        "AND sold <= viewed + INTERVAL 30 SECONDS"
    )
    viewed = named["views"].where("ad is not null")
    native_seen = viewed.join(named["clicks"], F.expr(clicked), "left").select("views.ad", "viewed")
    native = native_seen.alias("seen").join(named["sales"], F.expr(sold), "left")
    # then all windows are the same, with all rows.
    assert ours.num_rows >= 6
    assert_same_rows(ours, run(minutes(native, "viewed")))


def test_rows_from_elsewhere_need_not_be_ahead(spark: SparkSession, folder: Path) -> None:
    left = [stream(spark, folder, "views", "viewed"), stream(spark, folder, "clicks", "clicked")]
    given: dict[str, Any] = {
        "on": "ad",
        "within": WITHIN,
        "how": "left",
        "event_time": "views",
        "hold": "1 hour",
    }
    joined = wm.join(left, **given).select("ad", "event_time")
    assert wm.stream(joined.where("ad > 3"), "seen", time="event_time").spec.ahead == 3600 * SECOND
    assert wm.stream(joined.union(joined), "seen", time="event_time").spec.ahead == 0


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_watermark_behind_a_join_ends_the_query_at_its_start(
    spark: SparkSession, folder: Path, how: How
) -> None:
    again = joined(spark, folder, how, None).withWatermark("viewed", DELAY)
    with pytest.raises(StreamingQueryException) as caught:
        run(minutes(again, "viewed"))
    assert "TimeColumnError: withWatermark('viewed', ...) sets a second" in str(caught.value)
    assert "give event_time='...'" in str(caught.value)


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_window_over_a_stream_s_own_time_is_answered_with_what_to_give(
    spark: SparkSession, folder: Path, how: How
) -> None:
    # Given a join that carries no event time on, or another one, when a stream's own time is
    # counted by minute, then Spark refuses that, and a note says what to give the join.
    counted = minutes(joined(spark, folder, how, None), "viewed")
    with pytest.raises(AnalysisException) as refused:
        counted.writeStream.format("noop").outputMode("append").start()
    [note] = refused.value.__notes__
    assert "give event_time='...', a stream's name, to any other join" in note
    # Where there is no join, nothing is said.
    with pytest.raises(AnalysisException) as other:
        minutes(read(spark, folder / "views"), "viewed").writeStream.format("noop").start()
    assert not hasattr(other.value, "__notes__")
