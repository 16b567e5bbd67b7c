"""Joins without a key: what they cost, beside what else there is.

    python -m benchmarks.ring_join            # everything, about 25 minutes
    python -m benchmarks.ring_join ranges     # one part

- workers: a predicate of 50 microseconds a pair, on a local cluster of one worker and of two, one
  core each; micro-batches of half a minute, as those of a query that has fallen behind
- today: pictures compared pixel by pixel, and numbers, beside what a Spark user can do:
  ``foreachBatch``, the window in files, ``crossJoin`` and a pandas UDF; in a process of its own, as
  Spark would let it use Python workers that Watersmeet has prepared
- ranges: ``abs(left - right) < d`` in SQL, which is searched, beside the same as a Python function,
  which sees all pairs; windows of 100,000 rows, which are full, and as many new rows of each
  stream a micro-batch
- inequality: ``left * right > p`` in SQL, which cannot be searched, beside DuckDB's nested-loop
  join of the same 100,000 rows of each stream, which come in one micro-batch, the second of its
  query: to start a query takes a second, which has nothing to do with it
- overhead: micro-batches of 1,000 rows of each of 2 and of 5 streams, beside the equality join

How ways are run and compared: :mod:`benchmarks.harness`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from benchmarks import harness
from benchmarks.harness import DELAY, ROCKSDB, Report, Run, compare, completed, times_of
from benchmarks.workload import Workload

STEADY = 4


# -- one worker and two ------------------------------------------------------------------------

#: So long a pair is to take, in seconds.
COST = 50e-6
_SLOW = Workload("slow", rows=300, keys=1, batches=7, minutes=3)
#: What the last ones of them take is judged: their windows are full.
_SLOW_STEADY = 3


def slow(rounds: int) -> Callable[[pa.Table, pa.Table], np.ndarray]:
    """A predicate that does so many rounds of arithmetic for each pair."""

    def near(left: pa.Table, right: pa.Table) -> np.ndarray:
        x = left["left_value"].to_numpy() - right["right_value"].to_numpy()
        distance = np.abs(x)
        for _ in range(rounds):
            x = np.sin(x) + 0.5
        return (distance < 0.01) & np.isfinite(x)

    return near


def rounds_of(cost: float) -> int:
    """How many rounds take so long a pair, on this machine."""
    tried, pairs = 200, 20_000
    values = np.random.default_rng(1).random((2, pairs))
    tables = [pa.table({f"{n}_value": v}) for n, v in zip(("left", "right"), values, strict=True)]
    took = []
    for _ in range(10):
        # The least of CPU times: the session that has just begun still uses the machine.
        began = time.process_time()
        slow(tried)(*tables)
        took.append(time.process_time() - began)
    return round(cost * pairs / min(took) * tried)


def workers(_spark: SparkSession, report: Report, folder: Path) -> None:
    _SLOW.write(folder / "slow")
    rounds = rounds_of(COST)
    times = []
    for count in (1, 2):
        asked = ["--worker", str(folder / "slow"), str(count), str(rounds)]
        with harness.console.status(f"{count} workers"):
            found = harness.in_process("benchmarks.ring_join", *asked)
        times.append(found["ms"])
        harness.console.print(
            f"  slow: {count} workers: {found['ms']:,.0f} ms a micro-batch, "
            f"{found['us']:.0f} us a pair"
        )
    report.claim("50 us a pair: throughput of 2 workers / 1", times[0] / times[1], at_least=1.8)


def on_workers(folder: Path, count: int, rounds: int) -> None:
    """In a process of its own."""
    spark = harness.cluster(count)
    values = {name: [f"{name}_value"] for name in ("left", "right")}

    def begin(rounds: int, checkpoint: Path) -> StreamingQuery:
        predicate = wm.predicate(slow(rounds), "left", "right", columns=values)
        way = (ring(predicate), ROCKSDB)
        return harness.start(spark, way, _SLOW, folder, checkpoint)

    harness.warm_up(partial(begin, 0))
    with completed(partial(begin, rounds)) as (query, _):
        steady = times_of(query)[-_SLOW_STEADY:]
        steps = [step for step in wm.metrics(query) if isinstance(step, wm.RingMetrics)]
        last = [step for step in steps if step.rows][-_SLOW_STEADY:]
        pairs = sum(step.pairs for step in last)
        cost = sum(step.predicate_ms for step in last) / pairs * 1000
    spark.stop()
    print(json.dumps({"ms": statistics.median(steady), "us": cost}))


def ring(where: str | wm.PredicateFunction) -> harness.Build:
    """A join on that condition alone."""

    def build(streams: dict[str, DataFrame], window: str) -> DataFrame:
        named = [
            wm.stream(df.drop("key"), name, time=f"{name}_time", delay=DELAY)
            for name, df in streams.items()
        ]
        return wm.join(named, where=where, within=window)

    return build


# -- what a Spark user can do today --------------------------------------------------------------

PIXELS = 1_000


@dataclass(frozen=True)
class Pictures(Workload):
    """Each row has a picture of a thousand pixels, three bytes each."""

    def table(self, stream: str, batch: int, generator: np.random.Generator) -> pa.Table:
        rows = super().table(stream, batch, generator)
        pixels = generator.integers(0, 256, (self.rows, 3 * PIXELS), dtype=np.uint8)
        values = pa.array([picture.tobytes() for picture in pixels])
        return rows.append_column(f"{stream}_pixels", values)


_PICTURES = Pictures("pictures", rows=200, keys=1, batches=9, minutes=5)
_NUMBERS = Workload("numbers", rows=2_000, keys=1, batches=9, minutes=5)


def _distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The mean difference of pixels, of each of many pairs of pictures, as bytes in a row."""
    pairs = [each.reshape(-1, 3 * PIXELS) for each in (one, other)]
    return np.abs(np.subtract(*pairs, dtype=np.int16)).mean(axis=1)


def _bytes_of(pictures: pa.ChunkedArray) -> np.ndarray:
    """The bytes of pictures in a row, where Arrow has them."""
    pixels = pa.concat_arrays(pictures.chunks)
    start, size = pixels.offset * 3 * PIXELS, len(pixels) * 3 * PIXELS
    return np.frombuffer(pixels.buffers()[2], np.uint8, size, start)


def alike(left: pa.Table, right: pa.Table) -> np.ndarray:
    return _distance(_bytes_of(left["left_pixels"]), _bytes_of(right["right_pixels"])) < 82


def alike_series(left: pd.Series, right: pd.Series) -> pd.Series:
    pictures = [np.frombuffer(b"".join(each), np.uint8) for each in (left, right)]
    return pd.Series(_distance(*pictures) < 82)


#: About one pair in ten thousand.
_CLOSE = 5e-5


def close(left: pa.Table, right: pa.Table) -> np.ndarray:
    return np.abs(left["left_value"].to_numpy() - right["right_value"].to_numpy()) < _CLOSE


def close_series(left: pd.Series, right: pd.Series) -> pd.Series:
    return (left - right).abs() < _CLOSE


#: What is compared: the rows, their column, and the predicate for both ways.
_TODAY = {
    "pictures": (_PICTURES, "pixels", alike, alike_series),
    "numbers": (_NUMBERS, "value", close, close_series),
}


def today(spark: SparkSession, report: Report, folder: Path) -> None:
    """A predicate that takes microseconds a pair, and one that takes nanoseconds."""
    for workload, column, mine, _ in _TODAY.values():
        columns = {name: [f"{name}_{column}"] for name in workload.streams}
        ways = {"ours": (ring(wm.predicate(mine, "left", "right", columns=columns)), ROCKSDB)}
        files = folder / workload.name
        ours = compare(spark, report, workload, files, ways, steady=STEADY)["ours"]
        with harness.console.status(f"{workload.name}: by hand"):
            found = harness.in_process(
                "benchmarks.ring_join", "--by-hand", workload.name, str(files)
            )
        results, theirs = found["results"], found["ms"]
        assert results == ours.results, f"{results:,} results by hand, {ours.results:,} of ours"
        harness.console.print(f"  {workload.name}: by hand: {theirs:,.0f} ms a micro-batch")
        report.runs.append(replace(ours, way="foreachBatch and crossJoin", times=[round(theirs)]))
        report.claim(
            f"{workload.name}: foreachBatch and crossJoin / ours",
            theirs / ours.batch_ms,
            at_least=5,
        )


def on_their_own(name: str, files: Path) -> None:
    """In a process of its own."""
    spark = harness.session()
    workload, column, _, predicate = _TODAY[name]
    window = files.with_name(f"{name}-window")
    times, results = by_hand(spark, workload, column, predicate, files, window)
    spark.stop()
    print(json.dumps({"ms": statistics.median(times[-STEADY:]), "results": results}))


def by_hand(
    spark: SparkSession,
    workload: Workload,
    column: str,
    predicate: Callable[[pd.Series, pd.Series], pd.Series],
    folder: Path,
    window: Path,
) -> tuple[list[int], int]:
    """New rows with stored ones, and with one another: the milliseconds of each micro-batch, and
    the number of results."""
    same = F.pandas_udf(predicate, "boolean")  # type: ignore[attr-defined]
    streams = {name: harness.stream(spark, folder, name) for name in workload.streams}
    plain = [
        df.select(
            F.lit(name).alias("stream"),
            *(F.col(f"{name}_{c}").alias(c) for c in ("time", "id", column)),
        )
        for name, df in streams.items()
    ]
    counted = []

    def side(rows: DataFrame, name: str) -> DataFrame:
        of = rows.filter(F.col("stream") == name).drop("stream")
        return of.toDF(*(f"{name}_{column}" for column in of.columns))

    def step(rows: DataFrame, number: int) -> None:
        rows = rows.repartition(2).persist()
        kept = [str(path) for path in sorted(window.glob("batch=*"))[-workload.minutes - 1 :]]
        stored = spark.read.parquet(*kept).repartition(2) if kept else rows.limit(0)
        new_left, new_right = side(rows, "left"), side(rows, "right")
        pairs = new_left.crossJoin(side(stored, "right").union(new_right)).union(
            side(stored, "left").crossJoin(new_right).select(*new_left.columns, *new_right.columns)
        )
        close = F.expr(
            f"left_time between right_time - interval {workload.window} "
            f"and right_time + interval {workload.window}"
        )
        found = pairs.filter(close).filter(same(f"left_{column}", f"right_{column}"))
        counted.append(found.count())
        rows.write.parquet(str(window / f"batch={number:05d}"))
        rows.unpersist()

    def begin(checkpoint: Path) -> StreamingQuery:
        shutil.rmtree(window, ignore_errors=True)
        counted.clear()
        writer = plain[0].union(plain[1]).writeStream.foreachBatch(step)
        writer = writer.option("checkpointLocation", str(checkpoint))
        return writer.trigger(availableNow=True).start()

    for _ in range(2):
        with completed(begin):
            pass  # to warm up
    with completed(begin) as (query, _):
        return times_of(query), sum(counted)


# -- conditions that can be searched, and others ---------------------------------------------------

#: With windows of 100,000 rows, a row meets one of the other stream on average.
_NEAR = 5e-6
SEARCHED = f"abs(left.left_value - right.right_value) < {_NEAR}"
#: About one pair in ten thousand satisfies it.
_PRODUCT = "left.left_value * right.right_value > 0.985"


@dataclass(frozen=True)
class AtOnce(Workload):
    """A row of long ago, with which the query starts, and then all rows in one micro-batch."""

    batches: int = 2
    minutes: int = 5

    def table(self, stream: str, batch: int, generator: np.random.Generator) -> pa.Table:
        if batch:
            return super().table(stream, batch, generator)
        return replace(self, rows=1).table(stream, -24 * 60, generator)


def near(left: pa.Table, right: pa.Table) -> np.ndarray:
    difference = left["left_value"].to_numpy() - right["right_value"].to_numpy()
    return np.abs(difference) < _NEAR


#: A window is as long as the time of a micro-batch.
RANGES = Workload("ranges", rows=100_000, keys=1, batches=8, minutes=1)
#: The windows are full from the third micro-batch on.
_RANGES_STEADY = 6


def ranges(spark: SparkSession, report: Report, folder: Path) -> None:
    """A new row meets the 100,000 rows of the other stream's window. To compare all pairs takes so
    long that it is done once, after the other way has warmed up what they share."""
    files = folder / "ranges"
    searched = (ring(SEARCHED), ROCKSDB)
    ways = {"searched": searched}
    ours = compare(spark, report, RANGES, files, ways, steady=_RANGES_STEADY)["searched"]
    values = {name: [f"{name}_value"] for name in RANGES.streams}
    everything = (ring(wm.predicate(near, "left", "right", columns=values)), ROCKSDB)
    compared = harness.run(spark, "all pairs", everything, RANGES, files, steady=_RANGES_STEADY)
    assert compared.results == ours.results, f"{compared.results:,} results, {ours.results:,}"
    report.runs.append(compared)
    report.claim(
        "abs(left - right) < d, windows of 100,000 rows: all pairs / searched, batch time",
        compared.batch_ms / ours.batch_ms,
        at_least=50,
    )


def inequality(spark: SparkSession, report: Report, folder: Path) -> None:
    workload = AtOnce("inequality", rows=100_000, keys=1)
    files = folder / "inequality"
    ours = in_one_batch(spark, report, workload, files, ring(_PRODUCT))
    found = [nested_loops(files, _PRODUCT) for _ in range(5)]
    theirs = statistics.median(ms for ms, _ in found)
    results = found[0][1]
    assert results == ours.results, f"{results:,} results of DuckDB, {ours.results:,} of ours"
    harness.console.print(f"  inequality: DuckDB: {theirs:,.0f} ms")
    report.claim(
        "left * right > p: DuckDB's nested-loop join / ours, time",
        theirs / ours.batch_ms,
        at_least=1,
    )


def in_one_batch(
    spark: SparkSession, report: Report, workload: Workload, folder: Path, way: harness.Build
) -> Run:
    """A micro-batch that brings all rows, timed in the last of many runs."""
    workload.write(folder)
    runs = [
        harness.run(spark, "ours", (way, ROCKSDB), workload, folder, steady=1) for _ in range(12)
    ]
    timed = replace(runs[-1], times=[ms for run in runs[-6:] for ms in run.times])
    report.runs.append(timed)
    return timed


def nested_loops(folder: Path, condition: str) -> tuple[float, int]:
    """The milliseconds of DuckDB, with two threads, for the rows of the last file, from and into
    memory; and the number of results."""
    with duckdb.connect() as db:
        db.execute("SET threads = 2")
        for name in ("left", "right"):
            last = max((folder / name).iterdir())
            db.execute(f"CREATE TABLE \"{name}\" AS FROM read_parquet('{last}')")
        quoted = condition.replace("left.", '"left".').replace("right.", '"right".')
        join = f'SELECT * FROM "left" JOIN "right" ON {quoted}'
        plan = str(db.execute(f"EXPLAIN {join}").fetchall())
        assert "Nl Join" in plan, plan
        began = time.perf_counter()
        [(count,)] = db.execute(f"CREATE TABLE result AS {join}").fetchall()
        return (time.perf_counter() - began) * 1000, count


# -- small micro-batches ---------------------------------------------------------------------------


def overhead(spark: SparkSession, report: Report, folder: Path) -> None:
    """A window of 5,000 rows; one pair of neighbours in 1,000 matches, as a key does."""
    for count in (2, 5):
        names = tuple(f"s{number}" for number in range(1, count + 1))
        workload = Workload(
            f"{count} streams, small",
            rows=1_000,
            keys=1_000_000,
            batches=30,
            minutes=5,
            streams=names,
        )
        first, *others = names
        close = " AND ".join(
            f"abs({first}.{first}_value - {name}.{name}_value) < 0.0000005" for name in others
        )
        ways = {"a key": (harness.ours, ROCKSDB), "ours": (ring(close), ROCKSDB)}
        folder_of = folder / f"small{count}"
        runs = {
            name: compare(spark, report, workload, folder_of, {name: way}, steady=15)[name]
            for name, way in ways.items()
        }
        report.claim(
            f"{count} streams, 1,000 rows each a micro-batch: without a key / with one, batch time",
            runs["ours"].batch_ms / runs["a key"].batch_ms,
            at_most=1.5 if count == 2 else 5,
        )


PARTS = {
    "workers": workers,
    "today": today,
    "ranges": ranges,
    "inequality": inequality,
    "overhead": overhead,
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        on_workers(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1:2] == ["--by-hand"]:
        on_their_own(sys.argv[2], Path(sys.argv[3]))
    else:
        harness.main("ring_join", __doc__, PARTS)
