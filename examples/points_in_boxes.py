"""Which taxis are in which areas while they are closed?

Taxis report their positions; areas, as boxes, are closed for some minutes. Positions and boxes
are compared in SQL, by ranges: Watersmeet sorts them and compares few pairs. A left join also
tells which areas no taxi was in. Run it as it is: it makes a few files first.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

import watersmeet as wm

AREAS = "area bigint, west double, east double, south double, north double, closed_at timestamp"
TAXIS = "taxi bigint, x double, y double, seen_at timestamp"
INSIDE = "taxis.x BETWEEN areas.west AND areas.east AND taxis.y BETWEEN areas.south AND areas.north"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def write_some_files(folder: Path) -> None:
    """An area is closed every ten seconds, and a taxi is seen every tenth of a second, for ten
    minutes in a city of 10 by 10 kilometres. An hour later, one of each: so the watermark
    passes all others."""
    random = np.random.default_rng(3)
    west, south = random.uniform(0, 9.5, (2, 60))
    areas = pl.DataFrame(
        {"area": range(60), "west": west, "east": west + 0.3, "south": south, "north": south + 0.3}
    ).with_columns(closed_at=pl.lit(NOON) + pl.duration(seconds=10 * pl.col("area")))
    x, y = random.uniform(0, 10, (2, 6_000))
    taxis = pl.DataFrame({"taxi": np.arange(6_000) % 200, "x": x, "y": y}).with_columns(
        seen_at=pl.lit(NOON) + pl.duration(milliseconds=100 * pl.int_range(6_000))
    )
    for name, rows in (("areas", areas), ("taxis", taxis)):
        (folder / name).mkdir()
        time, later = rows.columns[-1], NOON + timedelta(hours=1)
        last = rows.tail(1).with_columns(
            pl.lit(-1, pl.Int64).alias(rows.columns[0]), pl.lit(later).alias(time)
        )
        for number, part in enumerate([*rows.iter_slices(len(rows) // 4), last]):
            part.write_parquet(folder / name / f"{number}.parquet")


def main(folder: Path) -> None:
    write_some_files(folder)
    spark = wm.local_session()
    spark.sparkContext.setLogLevel("ERROR")

    def stream(name: str, schema: str, time: str) -> wm.Stream:
        df = spark.readStream.schema(schema).parquet(str(folder / name))
        return wm.stream(df, name, time=time, delay="5 seconds")

    plan = wm.plan(
        [stream("areas", AREAS, "closed_at"), stream("taxis", TAXIS, "seen_at")],
        where=INSIDE,
        within={"areas": "1 minute", "taxis": "0 seconds"},
        how="left",
    )
    print(plan.explain())
    query = (
        plan.dataframe()
        .where("area >= 0")
        .writeStream.format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    found = spark.read.parquet(str(folder / "results"))
    found.groupBy("area").agg({"taxi": "count"}).orderBy("area").show(10)
    assert found.select("area").distinct().count() == 60
    assert found.where("taxi IS NULL").count() > 0
    spark.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
