"""What ``wm.metrics`` says about a query is what happened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from tests.spark.streams import TIMESTAMP, at, metrics_of, read, result, rows_of, start, write

pytestmark = pytest.mark.spark

ADDS_UP = "spark.sql.legacy.observeMetricsAggregateAllAttempts"
TYPES = {"k": pa.int64(), "t": TIMESTAMP, "v": pa.int64()}
Rows = list[tuple[Any, ...]]
#: In batch 1 the watermark is at 0 s, in 2 and 3 at 100 s, then, without data, at 1000 s.
A: list[Rows] = [
    [(1, at(0), 0), (2, at(10), 1), (None, at(10), 2), (3, None, 3)],
    [(1, at(-5), 4), (1, at(110), 5)],
    [(4, at(100), 6), (4, at(100.001), 7)],
    [(5, at(1010), 8)],
]
B: list[Rows] = [
    [(1, at(1), 0), (1, at(2), 1), (2, at(10), 2)],
    [(1, at(111), 3)],
    [(None, at(50), 4), (4, at(101), 5)],
    [(6, at(1010), 6)],
]


@pytest.fixture(scope="module")
def query(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamingQuery:
    """A left join, ended: five batches, of which the last has no data."""
    folder = tmp_path_factory.mktemp("metrics")
    for name, batches in (("a", A), ("b", B)):
        write(folder / name, [rows_of(batch, **TYPES) for batch in batches])
    streams = [
        wm.stream(read(spark, folder / name), name, time="t", delay="10 seconds") for name in "ab"
    ]
    heard: list[wm.StepMetrics] = []
    listener = wm.Listener(heard.append)
    spark.streams.addListener(listener)
    query = start(wm.join(streams, on="k", within="20 seconds", how="left", name="a with b"))
    rows = result(spark, query)
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    spark.streams.removeListener(listener)
    assert heard == wm.metrics(query) != []
    assert wm.metrics(query.recentProgress[1]) == heard[1:2]
    assert rows.num_rows == sum(metrics.results for metrics in wm.metrics(query))
    return query


def test_the_plan_in_the_ui_names_the_join_and_its_streams(query: StreamingQuery) -> None:
    plan = query._jsq.explainInternal(False)
    assert re.findall(r"(?:MapInArrow|CollectMetrics) ([^(,]*)", plan) == [
        "watersmeet: a with b",
        "a with b: pack a",
        "a with b: pack b",
    ]
    # What is counted is in one line, whose length does not depend on the number of counters.
    (counted,) = re.findall(r".*CollectMetrics.*", plan)
    assert len(counted) < 1_200


def test_jobs_and_stages_in_the_ui_are_called_by_the_join(
    spark: SparkSession, query: StreamingQuery
) -> None:
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(str(query.runId))
    infos = [info for info in map(tracker.getJobInfo, jobs) if info is not None]
    stages = {stage for info in infos for stage in info.stageIds}
    names = {found.name for found in map(tracker.getStageInfo, stages) if found is not None}
    assert names == {wm.metrics(query)[0].join}


def test_rows_that_may_still_come_out_unmatched_are_counted(query: StreamingQuery) -> None:
    records = metrics_of(query, wm.EquiMetrics)
    assert [record.unproven for record in records] == [0, 0, 0, 1, 1]
    assert [record.streams["b"].unproven for record in records] == [0] * 5


def test_there_is_one_record_for_each_batch(query: StreamingQuery) -> None:
    records = wm.metrics(query)
    assert [record.batch for record in records] == [0, 1, 2, 3, 4]
    assert {record.join for record in records} == {"a with b"}
    watermarks = [record.watermark for record in records]
    assert watermarks == [None, at(0), at(100), at(100), at(1000)]
    assert all(isinstance(record, wm.EquiMetrics) for record in records)
    assert all(record.timestamp.tzinfo is not None for record in records)


def test_rows_and_results_are_counted(query: StreamingQuery) -> None:
    records = wm.metrics(query)
    assert [record.streams["a"].rows for record in records] == [4, 2, 2, 1, 0]
    assert [record.streams["b"].rows for record in records] == [3, 1, 2, 1, 0]
    assert [record.rows for record in records] == [7, 3, 4, 2, 0]
    # Three pairs and two unmatchable rows; one pair; one pair; the last row is not proven yet.
    assert [record.results for record in records] == [5, 1, 1, 0, 0]


def test_late_rows_are_dropped_and_counted(query: StreamingQuery) -> None:
    records = wm.metrics(query)
    assert [record.streams["a"].late for record in records] == [0, 1, 1, 0, 0]
    assert [record.streams["b"].late for record in records] == [0, 0, 1, 0, 0]
    assert [record.late for record in records] == [0, 1, 2, 0, 0]
    assert [record.streams["a"].unmatchable for record in records] == [2, 0, 0, 0, 0]
    assert [record.streams["b"].unmatchable for record in records] == [0, 0, 0, 0, 0]


def test_every_row_is_stored_or_accounted_for(query: StreamingQuery) -> None:
    records = wm.metrics(query)
    for name in "ab":
        stored = 0
        for counters in (record.streams[name] for record in records):
            stored += counters.rows - counters.late - counters.unmatchable - counters.expired
            assert counters.state_rows == stored
            assert (counters.state_bytes > 0) == (counters.segments > 0) == (stored > 0)
    assert [record.streams["a"].state_rows for record in records] == [2, 3, 2, 3, 1]
    assert [record.streams["b"].state_rows for record in records] == [3, 4, 2, 3, 1]
    assert records[-1].state_rows == 2
    assert records[-1].state_bytes == sum(s.state_bytes for s in records[-1].streams.values())


def test_work_is_counted(query: StreamingQuery) -> None:
    records = wm.metrics(query)
    assert [record.probes > 0 for record in records] == [True, True, True, False, False]
    read = sum(record.cache_hits + record.cache_misses for record in records)
    assert read == 0, "so few rows are in the manifest, and need no cache"
    assert sum(record.cache_damaged + record.cache_unsaved for record in records) == 0
    assert all(record.step_ms > 0 for record in records)
    assert [record.steps for record in records[:4]] == [2, 2, 2, 2], "both shards take each step"


def test_listeners_see_the_same_numbers(query: StreamingQuery) -> None:
    for progress, record in zip(query.recentProgress, wm.metrics(query), strict=True):
        seen = progress.observedMetrics["watersmeet: a with b"]["step"]["counters"]
        assert seen["results"] == record.results
        assert seen["a.rows"] == record.streams["a"].rows
        assert seen["b.late"] == record.streams["b"].late
        assert seen["a.state_rows"] + seen["b.state_rows"] == record.state_rows


def test_sparks_own_numbers_are_those_that_the_guide_says(query: StreamingQuery) -> None:
    reports = query.recentProgress
    assert [report.numInputRows for report in reports] == [7, 3, 4, 2, 0]
    states = [state for report in reports for state in report.stateOperators]
    assert len(states) == len(reports)
    assert {state.numRowsDroppedByWatermark for state in states} == {0}
    assert sum(record.late for record in wm.metrics(query)) > 0
    # One value for each of the two shards, however many rows it holds.
    assert [state.numRowsTotal for state in states] == [2] * 5
    assert [record.state_rows for record in wm.metrics(query)] == [5, 7, 4, 6, 2]


def test_rows_that_wait_at_the_end_of_the_input_leave_after_a_later_row_of_each_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given an anti join that has read all there is, and waits,
    for name, keys in (("a", [1, 2, 3]), ("b", [1])):
        write(tmp_path / name, [rows_of([(key, at(key), key) for key in keys], **TYPES)])
    streams = [
        wm.stream(read(spark, tmp_path / name), name, time="t", delay="10 seconds") for name in "ab"
    ]
    plan = wm.plan(streams, on="k", within="20 seconds", how="anti")
    assert "end every stream with a row that is more than 30 s later" in plan.explain()
    assert unproven_after(plan, tmp_path) == 2
    assert spark.read.schema("k long").parquet(str(tmp_path / "out")).count() == 0
    # when a later row comes in each stream, then all but these leave.
    for name, key in (("a", 8), ("b", 9)):
        write(tmp_path / name, [rows_of([(key, at(34), key)], **TYPES)], first=1)
    assert unproven_after(plan, tmp_path) == 1
    assert {row.k for row in spark.read.parquet(str(tmp_path / "out")).collect()} == {2, 3}


def unproven_after(plan: wm.Plan, folder: Path) -> int:
    """How many rows wait for a proof when a query has read all there is, and has ended."""
    writer = plan.dataframe().writeStream.option("checkpointLocation", str(folder / "ck"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"), format="parquet")
    query.awaitTermination()
    last = wm.metrics(query)[-1]
    assert isinstance(last, wm.EquiMetrics)
    return last.unproven


def test_the_state_is_complete_when_only_one_shard_gets_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    many = [(key, at(0), key) for key in range(100)]
    write(tmp_path / "a", [rows_of(batch, **TYPES) for batch in (many, [], [(1, at(1), 1)])])
    write(tmp_path / "b", [rows_of(batch, **TYPES) for batch in (many, [(1, at(1), 1)], [])])
    streams = [
        wm.stream(read(spark, tmp_path / name), name, time="t", delay="10 seconds") for name in "ab"
    ]
    query = start(wm.join(streams, on="k", within="20 seconds", how="inner"))
    query.awaitTermination()
    records = [record for record in wm.metrics(query) if record.rows]
    assert {record.join for record in records} == {"inner join of a and b"}
    assert [record.streams["a"].state_rows for record in records] == [100, 100, 101]
    assert [record.streams["b"].state_rows for record in records] == [100, 101, 101]
    assert [record.results for record in records] == [100, 1, 2]


@pytest.mark.parametrize(
    ("persisted", "adds_up", "times"), [(True, True, 1), (False, True, 2), (False, False, 1)]
)
def test_with_foreach_batch_what_is_persisted_is_done_and_counted_once(
    spark: SparkSession, tmp_path: Path, persisted: bool, adds_up: bool, times: int
) -> None:
    # Given a join whose rows are used twice in each micro-batch, and a Spark that adds up what was
    # executed twice, as before 4.3, or does not,
    for name, batches in (("a", A), ("b", B)):
        write(tmp_path / name, [rows_of(batch, **TYPES) for batch in batches])
    streams = [
        wm.stream(read(spark, tmp_path / name), name, time="t", delay="10 seconds") for name in "ab"
    ]

    def count_and_write(rows: DataFrame, _: int) -> None:
        if persisted:
            rows.persist()
        rows.count()
        rows.write.format("noop").mode("overwrite").save()
        rows.unpersist()

    joined = wm.join(streams, on="k", within="20 seconds", how="left")
    spark.conf.set(ADDS_UP, str(adds_up).lower())
    try:
        query = joined.writeStream.foreachBatch(count_and_write).trigger(availableNow=True).start()
    finally:
        spark.conf.unset(ADDS_UP)
    query.awaitTermination()
    # when it has ended, then everything is counted once, or once for each use if it is added up.
    records = wm.metrics(query)
    for wanted, found in (
        ([7, 3, 4, 2, 0], [record.rows for record in records]),
        ([5, 1, 1, 0, 0], [record.results for record in records]),
        ([5, 7, 4, 6, 2], [record.state_rows for record in records]),
        ([2, 2, 2, 2], [record.steps for record in records[:4]]),
    ):
        assert found == [times * number for number in wanted]


def test_joins_of_one_name_in_a_query_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    for name, keys in (("a", [1, 2]), ("b", [2, 3])):
        write(tmp_path / name, [rows_of([(key, at(0), key) for key in keys], **TYPES)])
    streams = [
        wm.stream(read(spark, tmp_path / name), name, time="t", delay="0 seconds") for name in "ab"
    ]
    joins = [
        wm.join(streams, on="k", within="1 second", how="semi", name="twice") for _ in range(2)
    ]
    query = start(joins[0].union(joins[1]))
    query.awaitTermination()
    named = {record.join for record in wm.metrics(query)}
    assert len(named) == 2
    assert all(name.startswith("twice") for name in named)
