"""A join bounded by punctuations, not by a window, against Spark's own unbounded join.

    python -m benchmarks.metadata_join          # about 12 minutes

The rolling top ten of the metadata paper (section 6.1): news items come once, access
records of the ten latest ones, and a punctuation for each that drops off the list. Ours
runs over five million records and prints the most rows it ever stored. Then both are timed
when two million have come: Spark's own, without windows or punctuations, which it does not
know, stores them all by then. All read the same files and write to the same sink (``noop``).
The *floor* only reads the records and hands them to Python.

Micro-batches have 400,000 or a million records: what Spark does for every micro-batch, whatever
its size, is a good part of the smaller one's time.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import watersmeet as wm
from benchmarks.harness import (
    NATIVE_STORES,
    ROCKSDB,
    collect_garbage,
    completed,
    floor,
    stream,
    times_of,
    warm_up,
)
from watersmeet.testing import LocalJoin, LocalStream

console = Console(width=110)

SIZES = (400_000, 1_000_000)  # records a micro-batch
FILLED = 2_000_000  # records before those that are timed
TIMED = 3  # micro-batches
PASSES = 3
CORES = 2  # and so many files of records a micro-batch: one core alone would read one
PER_ITEM = 1_000
LATEST = 10


def write(folder: Path, size: int, batches: int) -> None:
    """So many micro-batches: the records of an item are among the ten items after it."""
    random = np.random.default_rng(3)
    items = size // PER_ITEM
    for name in ("news", "access"):
        (folder / name).mkdir(parents=True)
    for number in range(batches):
        first = number * items
        published = np.arange(first, first + items)
        pq.write_table(
            pa.table({"sno": published, "title": pa.array([f"news {n}" for n in published])}),
            folder / "news" / f"{number:04}.parquet",
        )
        newest = np.repeat(published, PER_ITEM)
        read = np.maximum(newest - random.integers(0, LATEST, len(newest)), 0)
        over = published - LATEST
        over = over[over >= 0]
        access = pa.table(
            {
                "sno": np.concatenate([read, over]),
                "ip": np.concatenate([random.integers(0, 2**32, len(read)), np.zeros(len(over))]),
                "over": np.concatenate([np.zeros(len(read), bool), np.ones(len(over), bool)]),
            }
        )
        rows = -(-len(access) // CORES)
        for part in range(CORES):
            file = folder / "access" / f"{number:04}-{part}.parquet"
            pq.write_table(access.slice(part * rows, rows), file)


def start(spark: SparkSession, way: str, folder: Path, checkpoint: Path) -> StreamingQuery:
    news, access = stream(spark, folder, "news"), stream(spark, folder, "access", files=CORES)
    if way == "ours":
        ROCKSDB.use(spark)
        streams = [
            wm.stream(news, "news", unique=True),
            wm.stream(access, "access", punctuation=wm.Punctuation(when="over")),
        ]
        joined = wm.join(streams, on="sno", goal="memory", unbounded=True)
    elif way == "floor":
        joined = floor({"access": access}, "")
    else:
        NATIVE_STORES[way.removeprefix("native, ")].use(spark)
        joined = news.join(access.where("not over"), "sno")
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


@dataclass
class Run:
    """What one way did over all files, once: the milliseconds of the micro-batches that are
    timed, results, and rows stored at most."""

    times: list[int]
    results: int
    peak: int


def run(spark: SparkSession, way: str, folder: Path, size: int) -> Run:
    """Run one way over all files; the micro-batches after two million records are timed."""
    collect_garbage(spark)
    with completed(partial(start, spark, way, folder)) as (query, _):
        data = [progress for progress in query.recentProgress if progress.numInputRows]
    if way == "floor":
        stored = [0]
    elif way == "ours":
        stored = [record.state_rows for record in wm.metrics(query)]
    else:
        stored = [sum(op.numRowsTotal for op in p.stateOperators) for p in data]
    results = sum(p.sink.numOutputRows for p in data)
    return Run(times_of(query)[FILLED // size :], results, max(stored))


def rows_per_second(runs: list[Run], size: int) -> float:
    return size / statistics.median(time for run in runs for time in run.times) * 1000


def purging() -> dict[str, float]:
    """Small, frequent punctuations over 200,000 news items, through the operator alone:
    milliseconds a step with immediate and with batch purging, taken in turn."""
    steps, news, batches = 200, 200_000, []
    random = np.random.default_rng(5)
    access = pa.schema([("sno", pa.int64()), ("ip", pa.int64()), ("over", pa.bool_())])
    items = pa.schema([("sno", pa.int64()), ("title", pa.string())])
    for step in range(steps):
        read = random.integers(5 * step + 5, 5 * step + 1000, 200)
        keys = np.concatenate([read, np.arange(5 * step, 5 * step + 5)])
        flags = np.concatenate([np.zeros(200, bool), np.ones(5, bool)])
        batches.append(pa.table({"sno": keys, "ip": keys, "over": flags}, access))
    times: dict[str, list[float]] = {"memory": [], "throughput": []}
    with tempfile.TemporaryDirectory() as folder:
        streams = {
            "news": LocalStream(items, unique=True),
            "access": LocalStream(access, punctuation=wm.Punctuation(when='"over"')),
        }
        joins = {
            goal: LocalJoin(streams, on="sno", goal=goal, folder=f"{folder}/{goal}")
            for goal in times
        }
        for first in range(0, news, 20_000):
            numbers = np.arange(first, first + 20_000)
            table = pa.table({"sno": numbers, "title": pa.array([f"{n}" for n in numbers])}, items)
            for join in joins.values():
                join.batch(news=table)
        for batch in batches:
            for goal, join in joins.items():
                began = time.perf_counter()
                join.batch(access=batch)
                times[goal].append(time.perf_counter() - began)
    return {goal: statistics.mean(taken) * 1000 for goal, taken in times.items()}


def main() -> None:
    spark = wm.local_session(cores=CORES, memory="8g", name="watersmeet-bench")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-data-"))
    ways = ("ours", *(f"native, {kind}" for kind in NATIVE_STORES), "floor")
    runs: dict[str, dict[int, list[Run]]] = {way: {size: [] for size in SIZES} for way in ways}
    try:
        write(folder / "long", SIZES[0], 5_000_000 // SIZES[0] + 1)
        for size in SIZES:
            write(folder / str(size), size, FILLED // size + TIMED)
        with console.status("five million records"):
            long = run(spark, "ours", folder / "long", SIZES[0])
        for way in ways:
            with console.status(f"warming up: {way}"):
                warm_up(partial(start, spark, way, folder / str(SIZES[0])))
        # In turn, so that a machine that gets slower or faster does so for all of them.
        for number, size, way in itertools.product(range(PASSES), SIZES, ways):
            with console.status(f"pass {number + 1} of {PASSES}, {size:,} a micro-batch: {way}"):
                runs[way][size].append(run(spark, way, folder / str(size), size))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    speeds = {
        way: {size: rows_per_second(done, size) for size, done in by_size.items()}
        for way, by_size in runs.items()
    }
    table = Table("when two million records have come", "records/s", "most rows stored")
    for size, way in itertools.product(SIZES, ways):
        peak = max(done.peak for done in runs[way][size])
        table.add_row(f"{size:,} a micro-batch, {way}", f"{speeds[way][size]:,.0f}", f"{peak:,}")
    console.print(table)
    table = Table("ratio, measured in this run", "goal", "measured")
    for size in SIZES:
        results = {done.results for way in ways[:-1] for done in runs[way][size]}
        assert len(results) == 1, "different results"
        for way in ways[1:]:
            ratio = speeds["ours"][size] / speeds[way][size]
            goal = "at least 10" if way == "native, RocksDB" else ""
            text = f"records/s, {size:,} a micro-batch, ours / {way}"
            table.add_row(text, goal, f"{ratio:.1f}")
    table.add_row("most rows stored, over 5 million records", "flat", f"{long.peak:,}")
    taken = purging()
    table.add_row(
        "small, frequent punctuations: immediate / batch purging, time",
        "above 1",
        f"{taken['memory'] / taken['throughput']:.2f}",
    )
    console.print(table)
    output = Path("bench-output/metadata_join.json")
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({"peak": long.peak, "purging": taken, **speeds}, indent=2))
    spark.stop()


if __name__ == "__main__":
    main()
