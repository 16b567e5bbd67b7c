"""The process that the soak kills: a Spark driver with the queries of a round.

It starts Spark and says that it is ready. Then each line on its standard input is an order: start
these queries. In an orderly life they end when they have read all there is; otherwise they run
until the process is killed. What happens is told on the standard output, a JSON object a line.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from soak import tasks
from soak.case import Start
from soak.plan import Order, RoundPlan, Trial
from soak.sinks import SINKS

LOCAL = "local[2,8]"
CLUSTER = "local-cluster[2,1,1024]"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "768m",
    # Executors are killed again and again: none of that may end the application, nor a query.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "12",
    "spark.stage.maxConsecutiveAttempts": "30",
    "spark.excludeOnFailure.enabled": "false",
    # Nor may it that the machine is slow.
    "spark.python.authenticate.socketTimeout": "120s",
    # A task that takes longer than the others is started a second time.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "200ms",
    # Snapshots of the state, and their maintenance, within the short life of a query.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
    # The logs in the checkpoint stay complete: see `soak.history`.
    "spark.sql.streaming.minBatchesToRetain": "1000",
    # What the tasks did is read from here: see `soak.tasks`.
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}


def main() -> None:
    plan = RoundPlan.of(json.loads(sys.argv[1]))
    folder, master = Path(sys.argv[2]), sys.argv[3]
    spark = _session(folder, master)
    _say("ready", application=spark.sparkContext.applicationId)
    queries = Queries(spark, plan, folder)
    for line in sys.stdin:
        queries.run(Order.of(json.loads(line)))
        _say("ended")
    # Nothing is left to do, and to stop in order takes seconds.
    os._exit(0)


def _say(event: str, **details: Any) -> None:
    print(json.dumps({"event": event, **details}), flush=True)


def _session(folder: Path, master: str) -> SparkSession:
    builder = SparkSession.builder.appName("watersmeet soak").master(master)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    builder = (
        builder.config("spark.local.dir", os.environ["TMPDIR"])
        .config("spark.eventLog.dir", str(folder / "events"))
        # A kill while the first offsets are written leaves a file that Spark takes for another's.
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
    )
    spark = wm.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Queries:
    """The queries of a round, in one session each."""

    def __init__(self, spark: SparkSession, plan: RoundPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._sessions = [spark.newSession() for _ in plan.trials]

    def run(self, order: Order) -> None:
        """Start all queries, and again those that fail, until all have ended."""
        dice = random.Random(f"{self._plan.seed}, life {order.starts[0].life}")
        running: dict[int, StreamingQuery] = {}
        failures = 0
        for number, start in enumerate(order.starts):
            running[number] = self._start(number, start, order, dice)
        _say("started")
        seen = dict.fromkeys(running, -1)
        while running:
            for number, query in list(running.items()):
                seen[number] = _told(number, query, seen[number])
                if query.isActive:
                    continue
                del running[number]
                try:
                    query.awaitTermination()
                except StreamingQueryException as error:
                    failures += 1
                    _say("failed", case=number, error=str(error))
                    if failures <= order.patience:
                        running[number] = self._start(number, order.starts[number], order, dice)
            time.sleep(0.05)

    def _start(
        self, number: int, start: Start, order: Order, dice: random.Random
    ) -> StreamingQuery:
        trial, session = self._plan.trials[number], self._sessions[number]
        folder = self._folder / str(number)
        for name, value in {
            "spark.sql.shuffle.partitions": str(trial.shards),
            "spark.watersmeet.cache.folder": str(self._folder / "cache"),
            "spark.watersmeet.stage.folder": str(folder / "tables"),
            "spark.watersmeet.cache.size": str(dice.choice([1 << 30, 1 << 30, 1 << 18])),
        }.items():
            session.conf.set(name, value)
        # In an orderly life there may be a backlog, and it is to end.
        most = dice.choice([2, 4, 8] if order.orderly else [1, 1, 2])
        frames = {
            name: session.readStream.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True))
            .option("maxFilesPerTrigger", most)
            .parquet(str(folder / name))
            for name, schema in trial.case.schemas.items()
        }
        result = _disturbed(trial.case.query(frames, start), trial, start)
        writer = SINKS[trial.sink].writer(result, folder / "out", dice)
        trigger = {"availableNow": True} if order.orderly else {"processingTime": "0 seconds"}
        return (
            writer.option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )


def _told(number: int, query: StreamingQuery, seen: int) -> int:
    """Say which micro-batch is complete, if it is another than before."""
    progress = query.lastProgress
    if progress is None or progress.batchId == seen:
        return seen
    late = sum(step.late for step in wm.metrics(query) if step.batch > seen)
    _say("batch", case=number, batch=progress.batchId, late=late)
    return progress.batchId


@dataclass(frozen=True)
class Disturbance:
    """Hands rows on as they are, in the tasks of the join itself. Some tasks wait, so that Spark
    starts them a second time; some fail when they have taken all rows, and so after the state was
    committed. The second try of a task does neither. Once in a while all tasks fail, again and
    again, and the query with them."""

    seed: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        assert task is not None
        if self._dice("stage", task.stageId()).random() < 0.01:
            raise RuntimeError(tasks.ALL_ON_PURPOSE)
        if task.attemptNumber() > 0:
            return
        dice = self._dice("task", task.taskAttemptId())
        chance = dice.random()
        if chance < 0.1:
            time.sleep(dice.uniform(0, 2))
        elif chance > 0.95:
            raise RuntimeError(tasks.ON_PURPOSE)

    def _dice(self, what: str, number: int) -> random.Random:
        return random.Random(f"{self.seed}, {what} {number}")


def _disturbed(result: DataFrame, trial: Trial, start: Start) -> DataFrame:
    if not trial.disturbed:
        return result
    return result.mapInArrow(Disturbance(f"{trial.seed}, life {start.life}"), result.schema)


if __name__ == "__main__":
    main()
