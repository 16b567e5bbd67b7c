"""Enrichments on a cluster of two executors that keep copies of partitions, in a process of its
own.

The first query loses the staged partitions before its micro-batch 1. The second has little room for
copies, and all partitions. What both have counted is printed as JSON, one line for each.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.streams import metrics_of, read
from watersmeet.joins.enrich.spec import EnrichTuning

#: The micro-batch from which on there are copies alone.
WITHOUT = 1
#: The room for copies of the second query, in bytes.
LITTLE = 30_000


def main() -> None:
    folder = Path(sys.argv[1])
    builder = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # All executors are on this machine, so that no copies would be made.
        .config("spark.watersmeet.stage.copies", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
    )
    spark = wm.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def run(name: str, *, lose: bool) -> None:
        spark.conf.set("spark.watersmeet.cache.folder", str(folder / name / "cache"))
        (folder / name).mkdir()

        def written(rows: DataFrame, number: int) -> None:
            if lose and number == WITHOUT:
                for file in partitions(folder):
                    file.rename(file.with_suffix(".lost"))
            rows.write.parquet(str(folder / name / f"out/batch={number}"))

        planned = wm.plan_enrich(
            wm.stream(read(spark, folder / "views"), "views", time="seen", delay="10 seconds"),
            spark.read.parquet(str(folder / "products")),
            on="product",
            how="left",
            max_wait="5 batches",
            stage=str(folder / "stage"),
            tuning=EnrichTuning(cache=False, access="scan"),
        )
        small = replace(planned.plan.policy, partition=4000, resident=0)
        planned = replace(planned, plan=replace(planned.plan, policy=small))
        writer = planned.dataframe().writeStream.foreachBatch(written).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / name / "checkpoint"))
        query = writer.start()
        query.awaitTermination()
        steps = [
            {"rows": step.rows, "scanned": step.scanned, "copied": step.copied}
            for step in metrics_of(query, wm.EnrichMetrics)
        ]
        print(json.dumps([len(partitions(folder)), steps]), flush=True)

    run("first", lose=True)
    for file in folder.glob("stage/*/*/*/*.lost"):
        file.rename(file.with_suffix(".arrow"))
    spark.conf.set("spark.watersmeet.cache.size", str(LITTLE))
    run("second", lose=False)
    print("done", flush=True)
    spark.stop()


def partitions(folder: Path) -> list[Path]:
    """The files of the staged partitions."""
    return [*folder.glob("stage/*/*/*/[0-9]*.arrow")]


if __name__ == "__main__":
    main()
