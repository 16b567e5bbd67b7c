"""Which news stories are nearly the same?

Stories of two agencies, as text. Two stories are near duplicates if they share most of their
*shingles*, sequences of three words. That is estimated from 64 numbers a story, its MinHash:
the share of numbers that two stories have in common is about the share of shingles that they
have in common. The numbers are worked out once for each story, before the join. The predicate
compares them. Run it as it is: it makes a few files first.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

import watersmeet as wm

HASHES = 64
SCHEMA = "title string, text string, at timestamp"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
WORDS = [
    "the",
    "council",
    "of",
    "city",
    "trains",
    "new",
    "bridge",
    "votes",
    "late",
    "rain",
    "over",
    "river",
    "market",
    "opens",
]


def write_some_files(folder: Path) -> None:
    """A story a minute from each agency. Every eighth of the second agency is one of the first
    agency's, of two minutes before, with a few words changed and another title."""
    random = np.random.default_rng(2)
    first = [list(random.choice(WORDS, 120)) for _ in range(80)]
    second = [list(random.choice(WORDS, 120)) for _ in range(80)]
    for story in range(2, 80, 8):
        second[story] = [*first[story - 2][:60], "indeed", *first[story - 2][60:]]
    for name, stories in (("wire", first), ("post", second)):
        rows = pl.DataFrame(
            {
                "title": [f"{name} {number}" for number in range(80)],
                "text": [" ".join(words) for words in stories],
                "at": [NOON + timedelta(minutes=number) for number in range(80)],
            }
        )
        (folder / name).mkdir()
        for number, part in enumerate(rows.iter_slices(20)):
            part.write_parquet(folder / name / f"{number}.parquet")


@F.udf(T.ArrayType(T.LongType()))
def minhash(text: str) -> list[int]:
    """The least of the shingles' hashes, by 64 hash functions."""
    words = text.split()
    shingles = {" ".join(words[start : start + 3]) for start in range(len(words) - 2)}
    codes = np.array([crc32(shingle.encode()) for shingle in shingles], np.uint64)
    factors = np.random.default_rng(0).integers(1, 2**31, (2, HASHES, 1), np.uint64)
    hashes = (factors[0] * codes + factors[1]) % np.uint64(2**31 - 1)
    return [int(number) for number in hashes.min(axis=1)]


def near_duplicates(wire: pa.Table, post: pa.Table) -> np.ndarray:
    """Do pairs of stories share at least three fifths of their MinHash?"""
    return (numbers(wire) == numbers(post)).mean(axis=1) >= 0.6


def numbers(stories: pa.Table) -> np.ndarray:
    lists = stories["minhash"].combine_chunks()
    return lists.flatten().to_numpy().reshape(-1, HASHES)


def main(folder: Path) -> None:
    write_some_files(folder)
    spark = wm.local_session()
    spark.sparkContext.setLogLevel("ERROR")

    def stream(name: str) -> wm.Stream:
        df = spark.readStream.schema(SCHEMA).parquet(str(folder / name))
        df = df.withColumn("minhash", minhash("text"))
        return wm.stream(df, name, time="at", delay="1 minute")

    compare = {"wire": ["minhash"], "post": ["minhash"]}
    joined = wm.join(
        [stream("wire"), stream("post")],
        where=wm.predicate(near_duplicates, "wire", "post", columns=compare),
        within="10 minutes",
    )
    query = (
        joined.select("wire_title", "post_title", "event_time")
        .writeStream.format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    found = spark.read.parquet(str(folder / "results")).orderBy("event_time")
    found.show(truncate=False)
    pairs = [(row.wire_title, row.post_title) for row in found.collect()]
    assert pairs == [(f"wire {story - 2}", f"post {story}") for story in range(2, 80, 8)]
    spark.stop()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
