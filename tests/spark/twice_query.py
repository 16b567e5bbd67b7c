"""A query that executes a micro-batch twice, on two executors, in a process of its own.

In micro-batch 1 the first attempt of the task that joins fails after it has committed its state,
so that it runs again, on the other executor. That one is killed before micro-batch 2, which thus
runs where the first attempt did. Then the query is stopped and started again.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.streams import read

TWICE = 1
#: The micro-batches before the query is started again.
FIRST = 3


def attempt(number: int, log: str) -> object:
    """A function for ``mapInArrow``, behind the join, that notes where it runs. When it has got
    all rows, the join's state is committed."""

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        assert task is not None
        with open(log, "a") as file:
            print(number, task.attemptNumber(), _parent(os.getppid()), file=file)
        if number == TWICE and task.attemptNumber() == 0:
            raise RuntimeError("the task fails after the commit")

    return passed


def _parent(pid: int) -> int:
    """The process that started another one: of a daemon of Python workers, the executor."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main() -> None:
    folder = Path(sys.argv[1])
    builder = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        # In format 2 Spark would not mix the two executions: see docs/spark.md.
        .config("spark.sql.streaming.stateStore.checkpointFormatVersion", "1")
        .config("spark.watersmeet.cache.folder", str(folder / "cache"))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        # A task that has failed goes to the other executor.
        .config("spark.excludeOnFailure.enabled", "true")
        .config("spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout", "1s")
        .config("spark.locality.wait", "0s")
        # Once a minute, an executor would forget state that another one has loaded.
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1h")
    )
    spark = wm.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    log = folder / "log"

    def written(rows: DataFrame, number: int) -> None:
        if number == TWICE + 1:
            os.kill(int(log.read_text().split()[-1]), signal.SIGKILL)
        rows = rows.mapInArrow(attempt(number, str(log)), rows.schema)  # type: ignore[arg-type]
        rows.write.mode("overwrite").parquet(str(folder / f"out/batch={number}"))

    def run() -> None:
        streams = [
            wm.stream(read(spark, folder / "views"), "views", time="viewed", delay="2 minutes"),
            wm.stream(read(spark, folder / "clicks"), "clicks", time="clicked", delay="2 minutes"),
        ]
        joined = wm.join(streams, on="ad", within="45 seconds", how="left")
        writer = joined.writeStream.foreachBatch(written).trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()

    later = [f for name in ("views", "clicks") for f in sorted((folder / name).iterdir())[FIRST:]]
    for file in later:
        file.rename(file.with_name(f".{file.name}"))
    run()
    for line in log.read_text().splitlines():
        print("batch {}, attempt {}: {}".format(*line.split()), flush=True)
    for file in later:
        file.with_name(f".{file.name}").rename(file)
    shutil.rmtree(folder / "cache")
    run()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
