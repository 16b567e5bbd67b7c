"""Which views of ads led to a click within five minutes?

Two streams of Parquet files, joined by ad and by time. Run it as it is: it makes a
few files first. For your own data, read your own streams instead.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import watersmeet as wm

VIEWS = "ad_id bigint, campaign string, price double, viewed_at timestamp"
CLICKS = "ad_id bigint, device string, clicked_at timestamp"


def write_some_files(folder: Path) -> None:
    """A thousand views a minute for ten minutes, and clicks on every fifth of them."""
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    ids = range(10_000)
    views = pl.DataFrame(
        {
            "ad_id": ids,
            "campaign": [("spring sale", "city trips")[i % 2] for i in ids],
            "price": [i % 7 / 10 for i in ids],
            "viewed_at": [noon + timedelta(milliseconds=60 * i) for i in ids],
        }
    )
    # One click in ten comes after more than five minutes.
    delays = [timedelta(seconds=400 if i % 50 == 0 else 20 + i % 60) for i in ids[::5]]
    clicks = (
        views.gather_every(5)
        .select("ad_id", device=pl.lit("phone"), clicked_at=pl.col("viewed_at") + pl.Series(delays))
        .sort("clicked_at")
    )
    for name, rows in (("views", views), ("clicks", clicks)):
        (folder / name).mkdir()
        for number, part in enumerate(rows.iter_slices(2_500)):
            part.write_parquet(folder / name / f"{number}.parquet")


def main(folder: Path) -> None:
    write_some_files(folder)
    spark = wm.local_session()
    spark.sparkContext.setLogLevel("ERROR")
    views_df = spark.readStream.schema(VIEWS).parquet(str(folder / "views"))
    clicks_df = spark.readStream.schema(CLICKS).parquet(str(folder / "clicks"))

    views = wm.stream(views_df, "views", time="viewed_at", delay="10 seconds")
    clicks = wm.stream(clicks_df, "clicks", time="clicked_at", delay="20 seconds")
    plan = wm.plan([views, clicks], on="ad_id", within="5 minutes")
    print(plan.explain())

    query = (
        plan.dataframe()
        .writeStream.format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    for step in wm.metrics(query):
        print(
            f"batch {step.batch}: {step.rows:,} rows in, {step.results:,} results, "
            f"{step.late:,} late, {step.state_rows:,} in state, watermark {step.watermark}"
        )
    results = spark.read.parquet(str(folder / "results"))
    results.orderBy("ad_id").show(5, truncate=False)
    print(f"{results.count():,} of 2,000 clicks came within five minutes of the view.")
    spark.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
