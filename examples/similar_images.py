"""Which pictures of two cameras show the same?

Two streams of pictures, as arrays of bytes. No column is equal, so there is no key: a Python
function compares the pictures, pixel by pixel. Run it as it is: it makes a few files first.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pyarrow as pa

import watersmeet as wm

PIXELS = 1_000
SCHEMA = "number bigint, pixels binary, taken_at timestamp"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def write_some_files(folder: Path) -> None:
    """Each camera takes a picture every second for two minutes. Every tenth scene passes both
    cameras, the second one three seconds later; its pictures differ by a little noise."""
    random = np.random.default_rng(1)
    scenes = random.integers(0, 256, (2, 120, 3 * PIXELS))
    scenes[1, 3::10] = scenes[0, 0::10]
    for camera, name in enumerate(("cam1", "cam2")):
        noisy = np.clip(scenes[camera] + random.integers(-8, 9, scenes[camera].shape), 0, 255)
        pictures = pl.DataFrame(
            {
                "number": range(120),
                "pixels": [picture.tobytes() for picture in noisy.astype(np.uint8)],
                "taken_at": [NOON + timedelta(seconds=second) for second in range(120)],
            }
        )
        (folder / name).mkdir()
        for number, part in enumerate(pictures.iter_slices(30)):
            part.write_parquet(folder / name / f"{number}.parquet")


def similar(one: pa.Table, other: pa.Table) -> np.ndarray:
    """Are pictures alike? Row i of one table is compared with row i of the other."""
    return np.abs(pixels(one) - pixels(other)).mean(axis=1) < 10


def pixels(pictures: pa.Table) -> np.ndarray:
    values = b"".join(pictures["pixels"].to_pylist())
    return np.frombuffer(values, np.uint8).reshape(-1, 3 * PIXELS).astype(np.int16)


def main(folder: Path) -> None:
    write_some_files(folder)
    spark = wm.local_session()
    spark.sparkContext.setLogLevel("ERROR")

    def stream(name: str) -> wm.Stream:
        df = spark.readStream.schema(SCHEMA).parquet(str(folder / name))
        return wm.stream(df, name, time="taken_at", delay="5 seconds")

    compare = {"cam1": ["pixels"], "cam2": ["pixels"]}
    plan = wm.plan(
        [stream("cam1"), stream("cam2")],
        where=wm.predicate(similar, "cam1", "cam2", columns=compare),
        within="10 seconds",
    )
    print(plan.explain())
    query = (
        plan.dataframe()
        .select("cam1_number", "cam2_number", "cam1_taken_at", "cam2_taken_at")
        .writeStream.format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    found = spark.read.parquet(str(folder / "results")).orderBy("cam1_number")
    found.show()
    pairs = [(row.cam1_number, row.cam2_number) for row in found.collect()]
    assert pairs == [(scene, scene + 3) for scene in range(0, 120, 10)]
    spark.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
