"""The contenders: the same join of the same files, by Watersmeet and by Spark itself.

Each runs alone, at full speed, from the first file to the last. Two figures are given, by the same
rule for both: one of the whole run, in which Python workers start and the JVM compiles the query;
and one of its second half, which is what a query that runs for long is like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import watersmeet as wm
from watersmeet.demo import ads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STORES = "org.apache.spark.sql.execution.streaming.state"


@dataclass(frozen=True)
class Contender:
    """A join with a name, and the state store that it uses; ``results`` is the folder that it
    writes to. All else in the session is the same for both."""

    name: str
    df: DataFrame
    provider: str
    results: Path

    def start(self, checkpoint: Path) -> StreamingQuery:
        self.df.sparkSession.conf.set(_PROVIDER, f"{_STORES}.{self.provider}")
        return (
            self.df.writeStream.format("parquet")
            .option("path", str(self.results))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )


@dataclass(frozen=True)
class Run:
    """What a contender has done so far: rows and seconds of each micro-batch."""

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
    def warm(self) -> Run:
        """The second half of it."""
        return Run(self.batches[len(self.batches) // 2 :])


def ours(spark: SparkSession, folder: Path, results: Path) -> tuple[wm.Plan, Contender]:
    views_df, clicks_df = _streams(spark, folder)
    views = wm.stream(views_df, "views", time="viewed_at", delay=ads.VIEW_DELAY)
    clicks = wm.stream(clicks_df, "clicks", time="clicked_at", delay=ads.CLICK_DELAY)
    plan = wm.plan([views, clicks], on="ad_id", within=ads.WITHIN)
    return plan, Contender("Watersmeet", plan.dataframe(), "RocksDBStateStoreProvider", results)


def sparks_own(spark: SparkSession, folder: Path, results: Path) -> Contender:
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
    return Contender("Spark's own", rows, "HDFSBackedStateStoreProvider", results)


def run(
    contender: Contender, checkpoint: Path, watch: Callable[[StreamingQuery], None]
) -> tuple[Run, StreamingQuery]:
    """Run a contender to the end of the files, while something watches."""
    query = contender.start(checkpoint)
    try:
        watch(query)
        query.awaitTermination()
    finally:
        query.stop()
    return Run.of(query), query


def _streams(spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
    reader = spark.readStream.format("parquet").option("maxFilesPerTrigger", 1)
    return (
        reader.schema(ads.VIEW_COLUMNS).load(str(folder / "views")),
        reader.schema(ads.CLICK_COLUMNS).load(str(folder / "clicks")),
    )


def _watermarked(df: DataFrame, time: str, delay: Any) -> DataFrame:
    return df.withWatermark(time, f"{delay.total_seconds():.0f} seconds")
