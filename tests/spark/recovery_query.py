"""A query in a process of its own, for the tests that kill it.

It joins what comes into ``<folder>/views`` and ``<folder>/clicks`` and runs until it
is killed, or until its progress says that all files have been read and time has passed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.streams import read


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--batches", type=int, required=True)
    options = parser.parse_args()
    folder: Path = options.folder

    builder = (
        SparkSession.builder.master(options.master)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.watersmeet.cache.folder", str(folder / "cache"))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        # Killed while it writes its first offsets, a query leaves a temporary file behind, and
        # Spark would take the checkpoint for another query's.
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
    )
    spark = wm.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    streams = [
        wm.stream(read(spark, folder / "views"), "views", time="viewed", delay="2 minutes"),
        wm.stream(read(spark, folder / "clicks"), "clicks", time="clicked", delay="2 minutes"),
    ]
    joined = wm.join(streams, on="ad", within="45 seconds", how="left")
    query = (
        joined.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    print("started", flush=True)
    seen = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress.batchId > seen:
            seen = progress.batchId
            print(f"batch {seen}", flush=True)
        # The batches with data are 0 to batches - 1; one more lets time pass.
        if seen >= options.batches:
            query.stop()
            print("done", flush=True)
            break
        time.sleep(0.05)
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    spark.stop()


if __name__ == "__main__":
    main()
