"""A mistake in a call is found when the join is planned, with no job run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet import errors
from watersmeet.spark.session.master import cores

pytestmark = pytest.mark.spark

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def rates(spark: SparkSession) -> DataFrame:
    """A stream: timestamp, value, name, day, months (an interval)."""
    return (
        spark.readStream.format("rate")
        .load()
        .withColumn("name", F.col("value").cast("string"))
        .withColumn("day", F.to_date("timestamp"))
        .withColumn("months", F.expr("make_ym_interval(1, 2)"))
    )


@pytest.fixture(autouse=True)
def no_job_runs(spark: SparkSession) -> Iterator[None]:
    spark.sparkContext.setJobGroup("errors", "a mistake in a call")
    before = set(spark.sparkContext.statusTracker().getJobIdsForGroup("errors"))
    yield
    after = set(spark.sparkContext.statusTracker().getJobIdsForGroup("errors"))
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert after == before, "a job ran"


def timed(df: DataFrame, name: str) -> wm.Stream:
    df = df.select("timestamp", "value", "name", "day")
    return wm.stream(df, name, time="timestamp", delay="1 second")


def join(df: DataFrame, **options: Any) -> DataFrame:
    options = {"on": "value", "within": "1 minute", **options}
    return wm.join([timed(df, "a"), timed(df, "b")], **options)


def counted(df: DataFrame) -> DataFrame:
    """Rows counted by windows of time: a watermark, and an aggregation behind it."""
    minutes = df.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 minute"))
    ends = F.col("window.end").alias("end"), F.window_time("window").alias("time")
    return minutes.count().select(*ends, F.col("count").alias("value"))


def test_the_time_of_windows_is_a_time_to_join_by(rates: DataFrame) -> None:
    windows = wm.stream(counted(rates), "windows", time="time")
    assert wm.join([windows, timed(rates, "b")], on="value", within="1 minute").isStreaming


def test_the_join_itself_can_be_planned(rates: DataFrame) -> None:
    assert join(rates).isStreaming


MISTAKES: dict[str, tuple[Callable[[DataFrame], Any], type[Exception], list[str]]] = {
    "unknown key": (
        lambda df: join(df, on="vaule"),
        errors.UnknownColumnError,
        ["on='vaule'", "'a'", "Did you mean 'value'?"],
    ),
    "unknown time": (
        lambda df: wm.join(
            [timed(df, "a"), wm.stream(df, "b", time="at", delay="1 second")], on="value"
        ),
        errors.UnknownColumnError,
        ["time", "'b'", "'at'"],
    ),
    "ambiguous key": (
        lambda df: wm.join(
            [wm.stream(df.select("value", F.col("value")), "a"), timed(df, "b")],
            on="value",
            unbounded=True,
        ),
        errors.AmbiguousColumnError,
        ["'value'", "'a'", "Rename or drop"],
    ),
    "ambiguous column": (
        lambda df: wm.join(
            [wm.stream(df.select("value", "day", F.col("day")), "a"), timed(df, "b")],
            on="value",
            unbounded=True,
        ),
        errors.AmbiguousColumnError,
        ["'day'", "'a'", "Rename or drop"],
    ),
    "keys do not compare": (
        lambda df: join(df, on={"a": "value", "b": "name"}),
        errors.KeyTypeError,
        ["a.value is bigint", "b.name is string", "Cast"],
    ),
    "a key of a wrong type": (
        lambda df: wm.join([wm.stream(df, "a"), wm.stream(df, "b")], on="months", unbounded=True),
        errors.UnsupportedTypeError,
        ["a.months", "interval", "cannot be a key"],
    ),
    "time is no timestamp": (
        lambda df: wm.join(
            [wm.stream(df, "a", time="day", delay="1 second"), timed(df, "b")],
            on="value",
            within="1 minute",
        ),
        errors.TimeColumnError,
        ["'a'", "'day'", "'date'", "'timestamp'", "F.col('day').cast('timestamp')"],
    ),
    "time is a text": (
        lambda df: wm.stream(df, "a", time="name", delay="1 second"),
        errors.TimeColumnError,
        ["of type 'string'", "df.withColumn('name', F.to_timestamp('name'))."],
    ),
    "time is a number": (
        lambda df: wm.stream(df, "a", time="value", delay="1 second"),
        errors.TimeColumnError,
        ["df.withColumn('value', F.timestamp_seconds('value'))", "F.timestamp_millis('value')"],
    ),
    "time without delay": (
        lambda df: wm.join([wm.stream(df, "a", time="timestamp"), timed(df, "b")], on="value"),
        errors.TimeColumnError,
        ["delay", "'a'", "withWatermark"],
    ),
    "delay without time": (
        lambda df: wm.stream(df, "a", delay="1 second"),
        errors.TimeColumnError,
        ["'a'", "delay='1 second'", "time"],
    ),
    "delay and a watermark": (
        lambda df: wm.stream(
            df.withWatermark("timestamp", "5 seconds"), "a", time="timestamp", delay="1 second"
        ),
        errors.TimeColumnError,
        ["'timestamp'", "watermark of 5 s", "leave out delay='1 second'"],
    ),
    "a watermark on another column": (
        lambda df: wm.join(
            [
                wm.stream(
                    df.drop("months")
                    .withColumn("came", F.col("timestamp"))
                    .withWatermark("came", "5 seconds"),
                    "a",
                    time="timestamp",
                    delay="1 second",
                ),
                timed(df, "b"),
            ],
            on="value",
            within="1 minute",
        ),
        errors.TimeColumnError,
        ["'a'", "time='timestamp' has no watermark", "on 'came'", "take 'came' as time"],
    ),
    "a watermark behind another one": (
        lambda df: wm.stream(counted(df).withWatermark("end", "5 seconds"), "a", time="end"),
        errors.TimeColumnError,
        ["two watermarks", "'timestamp', then on 'end'", 'F.window_time("window")'],
    ),
    "the end of a window as time": (
        lambda df: wm.stream(counted(df), "a", time="end", delay="5 seconds"),
        errors.TimeColumnError,
        ["time='end' has no watermark", "on 'timestamp'", 'F.window_time("window")'],
    ),
    "a window as time": (
        lambda df: wm.stream(
            df.withWatermark("timestamp", "1 second")
            .groupBy(F.window("timestamp", "1 minute"))
            .count(),
            "a",
            time="window",
        ),
        errors.TimeColumnError,
        ["'window' is a window, a start and an end", 'F.window_time("window").alias("time")'],
    ),
    "another time than event_time behind a join": (
        lambda df: wm.stream(join(df, how="left"), "c", time="a_timestamp", delay="1 second"),
        errors.TimeColumnError,
        [
            "'a_timestamp' has no watermark",
            "inside a join",
            "`event_time`",
            "give event_time='...'",
        ],
    ),
    "the time of a stream with a watermark behind a join": (
        lambda df: wm.stream(
            wm.join(
                [
                    wm.stream(
                        df.select("value", "timestamp").withWatermark("timestamp", "1 second"),
                        "a",
                        time="timestamp",
                    ),
                    timed(df, "b"),
                ],
                on="value",
                within="1 minute",
                how="anti",
            ),
            "c",
            time="timestamp",
        ),
        errors.TimeColumnError,
        ["time='timestamp' has no watermark", "Behind wm.join, `event_time` is the event time"],
    ),
    "a watermark behind a join": (
        lambda df: wm.stream(
            join(df, how="semi").withWatermark("timestamp", "1 second"), "c", time="timestamp"
        ),
        errors.TimeColumnError,
        ["Leave out withWatermark('timestamp', ...)", "Behind wm.join, `event_time` is the event"],
    ),
    "another time than event_time, which is there": (
        lambda df: wm.stream(join(df), "c", time="a_timestamp", delay="1 second"),
        errors.TimeColumnError,
        ["'a_timestamp' has no watermark", "take time='event_time'; it stays the event time"],
    ),
    "negative duration": (
        lambda df: join(df, within="-1 minute"),
        errors.DurationError,
        ["within='-1 minute'", "negative"],
    ),
    "no duration": (
        lambda df: join(df, within={"a": "1 minute", "b": "soon"}),
        errors.DurationError,
        ["within['b']='soon'", "5 minutes"],
    ),
    "no delay": (
        lambda df: wm.stream(df, "a", time="timestamp", delay="1 month"),
        errors.DurationError,
        ["delay of stream 'a'='1 month'", "no fixed length"],
    ),
    "a memory of a few bytes": (
        lambda df: join(df, budget=wm.Budget(memory=512)),
        errors.BudgetError,
        ["memory=512 is 512 bytes", "'512 MiB'"],
    ),
    "a memory in megabytes, without the unit": (
        lambda df: join(df, budget=wm.Budget(memory=2048)),
        errors.BudgetError,
        ["memory=2048 is 2048 bytes", "'2 GB'"],
    ),
    "one name twice": (
        lambda df: wm.join([timed(df, "a"), timed(df, "A")], on="value", within="1 minute"),
        errors.StreamNameError,
        ["'A'", "name of its own"],
    ),
    "unknown stream in a dict": (
        lambda df: join(df, within={"a": "1 minute", "c": "1 minute"}),
        errors.StreamNameError,
        ["within", "'c'", "a, b"],
    ),
    "batch and streaming": (
        lambda df: wm.join(
            [timed(df, "a"), wm.stream(df.sparkSession.range(3).toDF("value"), "b")], on="value"
        ),
        errors.MixedInputError,
        ["a is a streaming DataFrame, b a batch one.", "wm.enrich", "joined.join(table, "],
    ),
    "batch and several streams": (
        lambda df: wm.join(
            [timed(df, "a"), timed(df, "b"), wm.stream(df.sparkSession.range(3), "c")], on="value"
        ),
        errors.MixedInputError,
        ["a and b are streaming DataFrames, c a batch one."],
    ),
    "within without time": (
        lambda df: wm.join([timed(df, "a"), wm.stream(df, "b")], on="value", within="1 minute"),
        errors.TimeColumnError,
        ["within='1 minute'", "'b'", 'time="timestamp"'],
    ),
    "no within": (
        lambda df: join(df, within=None),
        errors.UnboundedStateError,
        ["within: missing", "unbounded=True"],
    ),
    "an outer join without within": (
        lambda df: join(df, within=None, how="left", unbounded=True),
        errors.WindowError,
        ["within: missing", "how='left'"],
    ),
    "unknown how": (
        lambda df: join(df, how="left_outter"),
        errors.JoinTypeError,
        ["how='left_outter'", "Did you mean 'left_outer'?"],
    ),
    "a condition that is no SQL": (
        lambda df: join(df, where="a.value <"),
        errors.PredicateError,
        ["where='a.value <'"],
    ),
    "a condition over an unknown column": (
        lambda df: join(df, where="a.value < b.price"),
        errors.PredicateError,
        ["b.price", "b.value"],
    ),
    "a condition that is no text": (
        lambda df: join(df, where=F.col("value") > 1),
        errors.PredicateError,
        ["where=", "SQL"],
    ),
    "no DataFrame": (
        lambda df: wm.stream([1, 2], "a"),  # type: ignore[arg-type]
        errors.PlanError,
        ["'a'", "Spark DataFrame, got list", "spark.createDataFrame"],
    ),
    "a name before its DataFrame": (
        lambda df: wm.stream("flights", df),  # type: ignore[arg-type]
        errors.PlanError,
        ["swapped", "wm.stream(df, 'flights', "],
    ),
    "a function that uses the session": (
        lambda df: join(df, where=wm.predicate(lambda a, b: df.sparkSession.range(9), "a", "b")),
        errors.PredicateError,
        ["where=<lambda>(a, b): the function cannot be sent", "not to the Spark session"],
    ),
    "a function of an enrichment that uses a DataFrame": (
        lambda df: wm.enrich(
            wm.stream(df, "a"),
            df.sparkSession.range(1).toDF("value"),
            on="value",
            where=wm.predicate(lambda a, table: df.columns, "a", "table"),
        ),
        errors.PredicateError,
        ["where=<lambda>(a, table): the function cannot be sent", "DataFrames"],
    ),
    "neither a key nor a condition": (
        lambda df: join(df, on=None),
        errors.PlanError,
        ["on: missing", "where='true'"],
    ),
    "a DataFrame of pandas": (
        lambda df: wm.stream(pd.DataFrame({"k": [1]}), "a"),
        errors.PlanError,
        ["Spark DataFrame, got pandas's DataFrame", "spark.createDataFrame"],
    ),
    "a misspelt time": (
        lambda df: wm.stream(df, "a", time="timestmap", delay="1 second"),
        errors.UnknownColumnError,
        ["time of the stream 'a'", "Did you mean 'timestamp'?"],
    ),
    "a name with a space": (
        lambda df: wm.stream(df, "ad views"),
        errors.StreamNameError,
        ["'ad views' is not an identifier"],
    ),
    "a column of our own": (
        lambda df: wm.stream(df.withColumn("_watersmeet_report", F.lit(1)), "a"),
        errors.PlanError,
        ["'_watersmeet_report'", "Rename it"],
    ),
    "streams that are not in a list": (
        lambda df: wm.join(timed(df, "a"), timed(df, "b"), on="value"),  # type: ignore[arg-type, misc]
        errors.PlanError,
        ["give the streams as one list", "wm.join([views, clicks], on='ad_id'"],
    ),
    "a DataFrame that is no stream": (
        lambda df: wm.join([df, timed(df, "b")], on="value"),  # type: ignore[list-item]
        errors.PlanError,
        ["streams", "wm.stream"],
    ),
    "a table without a name beside a stream": (
        lambda df: wm.join(
            [timed(df, "a"), df.sparkSession.range(1).withColumnRenamed("id", "value")],  # type: ignore[list-item]
            on="value",
        ),
        errors.MixedInputError,
        ["streams[1] is a batch DataFrame beside streams: a table.", "wm.enrich(views, table, "],
    ),
    "a stream without a name": (
        lambda df: wm.join([timed(df, "a"), df], on="value"),  # type: ignore[list-item]
        errors.PlanError,
        ["streams[1] is a DataFrame, not a stream: name it with wm.stream("],
    ),
    "two watermarks on one column": (
        lambda df: wm.stream(
            df.withWatermark("timestamp", "1 second").withWatermark("timestamp", "2 seconds"), "a"
        ),
        errors.TimeColumnError,
        ["one behind the other", "one on 'timestamp' is enough, with the delay that rows need"],
    ),
    "eleven streams": (
        lambda df: wm.join([timed(df, f"s{i}") for i in range(11)], on="value", within="1 minute"),
        errors.PlanError,
        ["two to 10 streams", "11 given"],
    ),
    "three streams in a join for two": (
        lambda df: wm.join(
            [timed(df, name) for name in "abc"], on="value", within="1 minute", how="anti"
        ),
        errors.JoinTypeError,
        ["how='anti'", "two streams", "inner, left"],
    ),
    "a driver that there is not": (
        lambda df: join(df, tuning=wm.Tuning(driver="fastest")),  # type: ignore[arg-type]
        errors.StrategyError,
        ["driver='fastest'", "output-rate"],
    ),
    "a column of a type that Python does not have": (
        lambda df: wm.join([wm.stream(df, "a"), wm.stream(df, "b")], on="value", unbounded=True),
        errors.UnsupportedTypeError,
        ["'months'", "'a'", "interval year to month", ".drop()"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(rates: DataFrame, mistake: str) -> None:
    call, error, words = MISTAKES[mistake]
    with pytest.raises(error) as caught:
        call(rates)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert isinstance(caught.value, errors.PlanError)


def test_a_session_that_lacks_a_setting_is_told_so(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set(
        PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    )
    numbers = session.range(3)
    streams = [wm.stream(numbers, "a"), wm.stream(numbers, "b")]
    with pytest.raises(errors.SessionError) as caught:
        wm.join(streams, on="id")
    assert f'spark.conf.set("{PROVIDER}", "{ROCKSDB}")' in str(caught.value)
    session.conf.set(PROVIDER, ROCKSDB)
    assert wm.join(streams, on="id").columns == ["id"]


@pytest.mark.parametrize("event_time", ["a", "greatest"])
def test_a_session_that_takes_the_greatest_watermark_cannot_hold_it_back(
    spark: SparkSession, rates: DataFrame, event_time: str
) -> None:
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    spark.conf.set(policy, "MAX")
    try:
        assert join(rates, how="left").isStreaming, "nothing is held back"
        with pytest.raises(errors.SessionError, match=f"{policy} is 'max'") as caught:
            join(rates, how="left", event_time=event_time)
    finally:
        spark.conf.unset(policy)
    assert f"event_time={event_time!r}" in str(caught.value)
    assert join(rates, how="left", event_time=event_time).isStreaming


def test_far_more_partitions_than_cores_are_warned_of(
    spark: SparkSession, rates: DataFrame
) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", 200)
    try:
        with pytest.warns(UserWarning, match="200 shards on 2 cores") as caught:
            join(rates)
        assert [warning.filename for warning in caught] == [__file__], "the caller's line is shown"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)


@pytest.mark.parametrize(
    ("master", "settings", "known"),
    [
        ("local[7]", {"spark.default.parallelism": "100"}, 7),
        ("local[3,2]", {}, 3),
        ("local", {}, 1),
        ("local-cluster[2, 3, 1024]", {}, 6),
        ("yarn", {"spark.executor.cores": "4", "spark.executor.instances": "3"}, 12),
        ("yarn", {"spark.executor.cores": "4", "spark.dynamicAllocation.enabled": "true"}, None),
        ("spark://host:7077", {"spark.default.parallelism": "100"}, None),
        ("spark://host:7077", {}, 100),
    ],
)
def test_the_cores_are_those_of_the_master_or_of_the_executors(
    spark: SparkSession, master: str, settings: dict[str, str], known: int | None
) -> None:
    context = Mock(master=master, defaultParallelism=100, getConf=lambda: settings)
    context._jsc.sc().getExecutorMemoryStatus().size.return_value = 2  # the driver, one executor
    assert cores(Mock(sparkContext=context, _jvm=spark._jvm)) == known


def test_a_local_master_may_take_all_cores_of_the_machine(spark: SparkSession) -> None:
    master = Mock(sparkContext=Mock(master="local[*]"), _jvm=spark._jvm)
    assert cores(master) == master._jvm.java.lang.Runtime.getRuntime().availableProcessors()


def test_results_without_an_event_time_are_warned_of(rates: DataFrame) -> None:
    with pytest.warns(UserWarning, match="null for rows of a without a match in b"):
        join(rates, how="left", event_time="b")


def test_streams_and_plans_are_shown_in_words(rates: DataFrame) -> None:
    a, b = timed(rates, "a"), timed(rates, "b")
    shown = "<streaming 'a', time='timestamp', columns: timestamp, value, name, day>"
    assert repr(a) == shown
    wide = wm.stream(rates.select("*", *(F.lit(n).alias(f"c{n}") for n in range(20))), "wide")
    assert repr(wide).endswith("c13, c14 and 5 more>")
    plan = wm.plan([a, b], on="value", within="1 minute")
    assert repr(plan) == plan.explain()
    names = rates.sparkSession.createDataFrame([(1, "one")], "value bigint, word string")
    enrichment = wm.plan_enrich(a, names, on="value", how="left")
    columns = "value, timestamp, name, day, word"
    assert repr(enrichment) == f"<left enrichment of 'a' from 'table', columns: {columns}>"
