"""The contenders: the same join of the same files, by Watersmeet and by Spark itself.

Each runs alone, by the same rules. First both are warmed up: they join the first files, while
Python workers start and the JVM compiles what it runs. Then both go on with the others at full
speed, for the same time. What counts is what a query that runs for long does: the time begins with
the end of the first micro-batch, in which a query that is started again reads its state.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import watersmeet as wm
from watersmeet.demo import ads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: A race goes on until it has so many micro-batches, on a slow machine too.
_LEAST_BATCHES = 3
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STORES = "org.apache.spark.sql.execution.streaming.state"


@dataclass(frozen=True)
class Contender:
    """A join with a name, and the state store that it uses; ``results`` is the folder that it
    writes to, beside its ``checkpoint``. All else in the session is the same for both."""

    name: str
    df: DataFrame
    provider: str
    results: Path
    checkpoint: Path

    def start(self) -> StreamingQuery:
        """Begin, or go on, with all files that are there."""
        self.df.sparkSession.conf.set(_PROVIDER, f"{_STORES}.{self.provider}")
        return (
            self.df.writeStream.format("parquet")
            .option("path", str(self.results))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    def joined_files(self) -> int:
        """Of how many files of each stream the results are. The last micro-batch counts if the
        sink has its results, also if the query was stopped then."""
        log = self.results / "_spark_metadata"
        last = max(int(path.name.partition(".")[0]) for path in log.glob("[0-9]*"))
        offsets = (self.checkpoint / "offsets" / f"{last}").read_text()
        (files,) = {int(number) + 1 for number in re.findall(r'"logOffset":(\d+)', offsets)}
        return files


@dataclass(frozen=True)
class Run:
    """What a query has done so far: rows and seconds of each micro-batch."""

    batches: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, query: StreamingQuery) -> Run:
        progress: list[Any] = [report for report in query.recentProgress if report.numInputRows]
        return cls(
            tuple(
                (report.numInputRows, report.durationMs["triggerExecution"] / 1000)
                for report in progress
            )
        )

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.batches)

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.batches)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def steady(self) -> Run:
        """It without the first micro-batch."""
        return Run(self.batches[1:])


def ours(spark: SparkSession, folder: Path, results: Path) -> tuple[wm.Plan, Contender]:
    """Watersmeet's join, as it is planned, and as it runs."""
    views_df, clicks_df = _streams(spark, folder)
    views = wm.stream(views_df, "views", time="viewed_at", delay=ads.VIEW_DELAY)
    clicks = wm.stream(clicks_df, "clicks", time="clicked_at", delay=ads.CLICK_DELAY)
    plan = wm.plan([views, clicks], on="ad_id", within=ads.WITHIN)
    df, checkpoint = plan.dataframe(), folder / "checkpoint"
    return plan, Contender("Watersmeet", df, "RocksDBStateStoreProvider", results, checkpoint)


def sparks_own(spark: SparkSession, folder: Path) -> Contender:
    """Spark's join, with its default state store: the faster one of its two for this join."""
    views_df, clicks_df = _streams(spark, folder)
    views = _watermarked(views_df, "viewed_at", ads.VIEW_DELAY).alias("views")
    clicks = _watermarked(clicks_df, "clicked_at", ads.CLICK_DELAY).alias("clicks")
    viewed, clicked = views["viewed_at"], clicks["clicked_at"]
    within: Any = ads.WITHIN  # pyspark takes it; its annotations do not say so
    apart = (clicked >= viewed - within) & (clicked <= viewed + within)
    joined = views.join(clicks, (views["ad_id"] == clicks["ad_id"]) & apart)
    columns = ("views.ad_id", "user_id", "campaign", "price", "viewed_at", "device", "clicked_at")
    latest = "greatest(viewed_at, clicked_at) AS event_time"
    rows = joined.selectExpr(*columns, latest)
    results, checkpoint = folder / "spark-results", folder / "spark-checkpoint"
    return Contender("Spark's own", rows, "HDFSBackedStateStoreProvider", results, checkpoint)


def run(
    contender: Contender,
    *,
    seconds: float | None = None,
    watch: Callable[[Run, float], None] | None = None,
) -> StreamingQuery:
    """Run a contender to the end of the files, or for so many ``seconds`` after its first
    micro-batch. Something may ``watch`` what it has done since then, and for how long."""
    query, began = contender.start(), None
    try:
        while query.isActive:
            time.sleep(0.25)
            now, done = time.monotonic(), Run.of(query)
            if began is None and done.batches:
                began = now
            if began is not None:
                if watch is not None:
                    watch(done.steady, now - began)
                enough = len(done.steady.batches) >= _LEAST_BATCHES
                if seconds is not None and enough and now - began >= seconds:
                    break
        else:
            query.awaitTermination()  # raises what it has ended by
    finally:
        query.stop()
    return query


def _streams(spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
    reader = spark.readStream.format("parquet").option("maxFilesPerTrigger", 1)
    return (
        reader.schema(ads.VIEW_COLUMNS).load(str(folder / "views")),
        reader.schema(ads.CLICK_COLUMNS).load(str(folder / "clicks")),
    )


def _watermarked(df: DataFrame, time: str, delay: Any) -> DataFrame:
    return df.withWatermark(time, f"{delay.total_seconds():.0f} seconds")
