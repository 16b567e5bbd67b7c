"""A stream enriched from a table, against Spark's own stream-static join, in one run.

    python -m benchmarks.enrich            # everything, about 40 minutes
    python -m benchmarks.enrich large      # one part: large, large-one-file, fits, growth

- ours: ``wm.enrich``, within 256 MB
- native: Spark's join of a stream and a table, which reads and shuffles the table in every
  micro-batch
- native, in memory: the same with the table partitioned and sorted by the key, and kept in memory,
  so that only the stream's rows are shuffled and sorted; for a table that fits there
- native, broadcast: the same with the table broadcast
- floor: the rows are handed to Python, and as many columns as the result has come back; nothing is
  looked up

The table has rows of about 120 bytes, the stream 100,000 rows a micro-batch, whose keys follow
Zipf's law (exponent 1). They come in two files, so that a machine with two cores reads them with
both; with one file (``large-one-file``) one task reads, and answers, all of them. How ways are run
and compared: :mod:`benchmarks.harness`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from benchmarks import harness
from benchmarks.harness import Report, Run, collect_garbage, completed, console, stream, times_of
from benchmarks.workload import SECOND, START
from tests.spark.worker_memory import grown, watched

ROWS = 100_000
#: The files of a micro-batch.
FILES = 2
#: Micro-batches of a run, and how many of the last ones are judged.
BATCHES, STEADY = 24, 12
#: The native join takes seconds for each.
FEW, FEW_STEADY = 5, 3
MEMORY = "256 MB"
_FILE_ROWS = 1_000_000

#: From a stream and a table to the result.
Way = Callable[[DataFrame, DataFrame, str], DataFrame]


def ours(rows: DataFrame, table: DataFrame, stage: str) -> DataFrame:
    named = wm.stream(rows, "orders", time="at", delay="10 seconds")
    return wm.enrich(named, table, on="key", memory=MEMORY, stage=stage)


def native(rows: DataFrame, table: DataFrame, _stage: str) -> DataFrame:
    return rows.join(table.hint("shuffle_merge"), "key")


def in_memory(rows: DataFrame, table: DataFrame, _stage: str) -> DataFrame:
    shards = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    kept = table.repartition(shards, "key").sortWithinPartitions("key").persist()
    return rows.join(kept.hint("shuffle_merge"), "key")


def broadcast(rows: DataFrame, table: DataFrame, _stage: str) -> DataFrame:
    return rows.join(F.broadcast(table), "key")


def floor(rows: DataFrame, table: DataFrame, _stage: str) -> DataFrame:
    added = [field for field in table.schema if field.name != "key"]
    constants = {"double": pa.scalar(0.5), "string": pa.scalar("product-name-1234567")}
    values = [constants[field.dataType.simpleString()] for field in added]

    def widened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for field, value in zip(added, values, strict=True):
                batch = batch.append_column(field.name, pa.repeat(value, len(batch)))
            yield batch

    return rows.mapInArrow(widened, T.StructType([*rows.schema, *added]))


def write_table(folder: Path, rows: int) -> None:
    """One row a key, of about 120 bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(7)
    for first in range(0, rows, _FILE_ROWS):
        keys = np.arange(first, min(first + _FILE_ROWS, rows))
        numbers = {f"v{i}": generator.random(len(keys)) for i in range(9)}
        names = pa.array(np.char.add("product-name-", keys.astype(str)))
        group = pa.array(np.char.add("group-", (keys % 1000).astype(str)))
        table = pa.table({"key": keys, **numbers, "name": names, "group": group})
        pq.write_table(table, folder / f"{first:010d}.parquet")


def write_stream(folder: Path, keys: int, batches: int, *, files: int) -> None:
    """Keys by Zipf's law: the r-th most frequent of them has a share of about 1 / r."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(11)
    ranked = generator.permutation(keys)
    for batch in range(batches):
        ranks = np.exp(generator.random(ROWS) * np.log(keys + 1)).astype(np.int64) - 1
        times = START + batch * 60 * SECOND + np.sort(generator.integers(0, 60 * SECOND, ROWS))
        table = pa.table(
            {
                "key": ranked[np.minimum(ranks, keys - 1)],
                "at": pa.array(times).view(pa.timestamp("us", "UTC")),
                "id": np.arange(ROWS) + batch * ROWS,
                "amount": generator.random(ROWS),
            }
        )
        for part in range(files):
            path = folder / f"{batch:05d}-{part}.parquet"
            pq.write_table(table.slice(part * ROWS // files, ROWS // files), path)
            second = START // SECOND + batch * files + part
            os.utime(path, (second, second))


def start(
    spark: SparkSession, way: Way, folder: Path, rows: str, checkpoint: Path
) -> StreamingQuery:
    table = spark.read.parquet(str(folder / "table"))
    files = len(list((folder / rows).glob("00000-*.parquet")))
    joined = way(stream(spark, folder, rows, files=files), table, str(folder / "stage"))
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def timed(
    spark: SparkSession, name: str, way: Way, folder: Path, rows: str, *, part: str, steady: int
) -> Run:
    """Run one way over all files of a stream."""
    collect_garbage(spark)
    with completed(partial(start, spark, way, folder, rows)) as (query, _):
        data = [progress for progress in query.recentProgress if progress.numInputRows]
        result = Run(
            way=name,
            workload=part,
            rows=ROWS,
            times=times_of(query)[-steady:],
            results=sum(progress.sink.numOutputRows for progress in data) // len(data),
            state_rows=0,
            state_bytes=0,
        )
        steps = [step for step in wm.metrics(query) if step.rows]
        if steps:
            last = steps[-1]
            assert isinstance(last, wm.EnrichMetrics)
            console.print(
                f"    cache {last.cached_keys:,} keys, {last.cached_bytes / 1e6:,.1f} MB, "
                f"{last.hit_rate:.0%} of the rows; {last.sought} partitions sought, "
                f"{last.scanned} scanned"
            )
    console.print(
        f"  {part}: {name}: {result.batch_ms:,.0f} ms a micro-batch, "
        f"{result.rows_per_second:,.0f} rows/s"
    )
    return result


def compared(
    spark: SparkSession,
    report: Report,
    part: str,
    folder: Path,
    ways: Mapping[str, tuple[Way, str, int]],
) -> dict[str, Run]:
    """Warm all ways up, then time them in turn, twice. A way comes with the stream that it
    reads, and how many of its micro-batches are judged."""
    for name, (way, rows, _) in ways.items():
        with console.status(f"{part}: {name}, warming up"):
            harness.warm_up(partial(start, spark, way, folder, rows))
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for _ in range(harness.PASSES):
        for name, (way, rows, steady) in ways.items():
            runs[name].append(timed(spark, name, way, folder, rows, part=part, steady=steady))
    assert {run.results for some in runs.values() for run in some} == {ROWS}, "every row matches"
    merged = {
        name: replace(some[-1], times=[ms for run in some for ms in run.times])
        for name, some in runs.items()
    }
    report.runs += merged.values()
    return merged


def prepared(folder: Path, rows: int, *, files: int = FILES) -> Path:
    """A table of so many rows, and streams of its keys."""
    write_table(folder / "table", rows)
    write_stream(folder / "many", rows, BATCHES, files=files)
    write_stream(folder / "few", rows, FEW, files=files)
    return folder


def large(spark: SparkSession, report: Report, folder: Path, *, files: int = FILES) -> None:
    ways = {
        "ours": (ours, "many", STEADY),
        "native": (native, "few", FEW_STEADY),
        "native, in memory": (in_memory, "many", STEADY),
        "floor": (floor, "many", STEADY),
    }
    part = f"large, {files} files"
    place = prepared(folder / f"large-{files}", 5_000_000, files=files)
    runs = compared(spark, report, part, place, ways)
    ratio = runs["native"].batch_ms / runs["ours"].batch_ms
    report.claim(f"5 million rows, {files} files: native / ours, batch time", ratio, at_least=20)
    ratio = runs["native, in memory"].batch_ms / runs["ours"].batch_ms
    claim = f"5 million rows, {files} files: native, in memory / ours, batch time"
    report.claim(claim, ratio, at_least=2.5)

    memory(spark, report, place)


def memory(spark: SparkSession, report: Report, place: Path) -> None:
    """By how much do the workers grow, beyond what they take for a table of a thousand rows?"""
    write_table(place / "small" / "table", 1_000)
    write_stream(place / "small" / "many", 1_000, BATCHES, files=FILES)
    took = []
    for folder in (place / "small", place):
        with watched(spark) as taken, completed(partial(start, spark, ours, folder, "many")):
            pass
        took.append(taken)
    report.claim("5 million rows: MB that the workers take", grown(*took) / 1e6, at_most=256)


def fits(spark: SparkSession, report: Report, folder: Path) -> None:
    ways = {"ours": (ours, "many", STEADY), "native, broadcast": (broadcast, "many", STEADY)}
    runs = compared(spark, report, "fits", prepared(folder / "fits", 500_000), ways)
    ratio = runs["native, broadcast"].batch_ms / runs["ours"].batch_ms
    report.claim("500,000 rows: native broadcast / ours, batch time", ratio, at_least=1)


def growth(spark: SparkSession, report: Report, folder: Path) -> None:
    times = []
    for rows in (5_000_000, 40_000_000):
        ways = {"ours": (ours, "many", STEADY)}
        place = prepared(folder / f"growth-{rows}", rows)
        times.append(compared(spark, report, f"{rows:,} rows", place, ways)["ours"].batch_ms)
    report.claim("40 million rows / 5 million, ours, batch time", times[1] / times[0], at_most=2)


PARTS: dict[str, Callable[[SparkSession, Report, Path], None]] = {
    "large": large,
    "large-one-file": partial(large, files=1),
    "fits": fits,
    "growth": growth,
}


if __name__ == "__main__":
    harness.main("enrich", __doc__, PARTS)
