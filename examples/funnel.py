"""How far does each view of an ad get: to a click, to a sale?

Three streams of Parquet files, joined by ad in one operator. A left join keeps every view,
with nulls for what did not follow. Run it as it is: it makes a few files first.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from pyspark.sql import functions as F

import watersmeet as wm

VIEWS = "ad_id bigint, campaign string, viewed_at timestamp"
CLICKS = "ad_id bigint, device string, clicked_at timestamp"
SALES = "ad_id bigint, amount double, sold_at timestamp"


def write_some_files(folder: Path) -> None:
    """A thousand views a minute for ten minutes; every fifth is clicked on, and every
    twentieth leads to a sale. A view an hour later lets the watermark pass them all."""
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    views = pl.DataFrame({"ad_id": range(10_000)}).with_columns(
        campaign=pl.when(pl.col("ad_id") % 2 == 0)
        .then(pl.lit("spring sale"))
        .otherwise(pl.lit("city trips")),
        viewed_at=pl.lit(noon) + pl.duration(milliseconds=60 * pl.col("ad_id")),
    )
    clicks = views.gather_every(5).select(
        "ad_id",
        device=pl.lit("phone"),
        clicked_at=pl.col("viewed_at") + pl.duration(seconds=20 + pl.col("ad_id") % 60),
    )
    sales = views.gather_every(20).select(
        "ad_id",
        amount=pl.lit(9.5),
        sold_at=pl.col("viewed_at") + pl.duration(seconds=120 + pl.col("ad_id") % 60),
    )
    streams = {"views": views, "clicks": clicks, "sales": sales}
    for name, rows in streams.items():
        (folder / name).mkdir()
        later = rows.tail(1).with_columns(
            ad_id=pl.lit(-1, pl.Int64), **{rows.columns[2]: noon + timedelta(hours=1)}
        )
        for number, part in enumerate([*rows.sort(rows.columns[2]).iter_slices(2_500), later]):
            part.write_parquet(folder / name / f"{number}.parquet")


def main(folder: Path) -> None:
    write_some_files(folder)
    spark = wm.local_session()
    spark.sparkContext.setLogLevel("ERROR")

    def stream(name: str, schema: str, time: str) -> wm.Stream:
        df = spark.readStream.schema(schema).parquet(str(folder / name))
        return wm.stream(df, name, time=time, delay="10 seconds")

    views = stream("views", VIEWS, "viewed_at")
    clicks = stream("clicks", CLICKS, "clicked_at")
    sales = stream("sales", SALES, "sold_at")
    plan = wm.plan(
        [views, clicks, sales],
        on="ad_id",
        within={"views": "5 minutes", "clicks": "0 seconds", "sales": "0 seconds"},
        how="left",
    )
    print(plan.explain())

    query = (
        plan.dataframe()
        .where("ad_id >= 0")
        .writeStream.format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    for step in wm.metrics(query):
        print(f"batch {step.batch}: {step.rows:,} rows in, {step.results:,} results", *step.notes)
    reached = spark.read.parquet(str(folder / "results")).groupBy("campaign")
    reached.agg(
        F.count("*").alias("views"), F.count("device").alias("clicks"), F.sum("amount")
    ).show()
    spark.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
