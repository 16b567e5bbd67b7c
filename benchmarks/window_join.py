"""The two-stream window join against Spark's own, and against the floor, in one run.

    python -m benchmarks.window_join            # everything, about 25 minutes
    python -m benchmarks.window_join numeric    # one part: numeric, strings, growth, small

Every way reads the same files, one file of each stream a micro-batch, and writes
to the same sink (``noop``). A micro-batch's time is Spark's own
``triggerExecution``; what is compared is the median over the micro-batches
after the windows have filled. Before that, every way runs over the same files for
a minute, for the JVM to compile what it uses. All ways must give equally many
results.

- ours: ``wm.join``
- native, RocksDB and native, default: Spark's stream-stream join with either
  state store provider
- floor: the same files through a ``mapInArrow`` that only counts rows
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import watersmeet as wm
from benchmarks.workload import Workload

DELAY = "10 seconds"
WARM_UP_SECONDS = 60
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

console = Console(width=110)


@dataclass(frozen=True)
class Run:
    """What one way did with one workload, in its last, steady micro-batches."""

    way: str
    workload: str
    batch_ms: float
    rows_per_second: float
    results: int
    state_rows: int
    state_bytes: int

    @property
    def bytes_per_row(self) -> float:
        return self.state_bytes / self.state_rows if self.state_rows else 0.0


def stream(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    schema = spark.read.parquet(str(folder / name)).schema
    return (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
    )


def ours(left: DataFrame, right: DataFrame, window: str) -> DataFrame:
    return wm.join(
        [
            wm.stream(left, "left", time="left_time", delay=DELAY),
            wm.stream(right, "right", time="right_time", delay=DELAY),
        ],
        on="key",
        within=window,
    )


def native(left: DataFrame, right: DataFrame, window: str) -> DataFrame:
    left = left.withWatermark("left_time", DELAY).alias("l")
    right = right.withWatermark("right_time", DELAY).alias("r")
    close = f"""l.key = r.key
        and left_time between right_time - interval {window} and right_time + interval {window}"""
    return left.join(right, F.expr(close))


def floor(left: DataFrame, right: DataFrame, window: str) -> DataFrame:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": [sum(map(len, batches))]})

    right = right.toDF(*left.columns)
    return left.union(right).mapInArrow(count, "rows long")


WAYS = {
    "ours": (ours, ROCKSDB),
    "native, RocksDB": (native, ROCKSDB),
    "native, default": (native, DEFAULT),
    "floor": (floor, ROCKSDB),
}


def start(
    spark: SparkSession, way: str, workload: Workload, folder: Path, checkpoint: Path
) -> StreamingQuery:
    build, provider = WAYS[way]
    spark.conf.set(PROVIDER, provider)
    left, right = stream(spark, folder, "left"), stream(spark, folder, "right")
    joined = build(left, right, workload.window).observe("bench", F.count(F.lit(1)).alias("n"))
    return (
        joined.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def run(spark: SparkSession, way: str, workload: Workload, folder: Path, *, steady: int) -> Run:
    """Run one way over all files; judge it by the last ``steady`` micro-batches with data."""
    with console.status(f"{workload.name}: {way}, warming up"):
        checkpoint = Path(tempfile.mkdtemp(prefix="watersmeet-bench-"))
        query = start(spark, way, workload, folder, checkpoint)
        query.awaitTermination(WARM_UP_SECONDS)
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    with console.status(f"{workload.name}: {way}"):
        checkpoint = Path(tempfile.mkdtemp(prefix="watersmeet-bench-"))
        query = start(spark, way, workload, folder, checkpoint)
        query.awaitTermination()
    # The last progress of all is a batch without data, which only purges state.
    data = [progress for progress in query.recentProgress if progress.numInputRows]
    assert len(data) == workload.batches, f"{way}: {len(data)} batches"
    batch_ms = statistics.median(p.durationMs["triggerExecution"] for p in data[-steady:])
    if way == "ours":
        record = [m for m in wm.metrics(query) if m.rows][-1]
        state_rows = record.state_rows
    else:
        state_rows = sum(op.numRowsTotal for op in data[-1].stateOperators)
    files = [file for file in (checkpoint / "state").rglob("*") if file.is_file()]
    result = Run(
        way=way,
        workload=workload.name,
        batch_ms=batch_ms,
        rows_per_second=2 * workload.rows / batch_ms * 1000,
        results=sum(p.observedMetrics["bench"]["n"] for p in data),
        state_rows=state_rows,
        state_bytes=sum(file.stat().st_size for file in files),
    )
    shutil.rmtree(checkpoint, ignore_errors=True)
    console.print(
        f"  {workload.name}: {way}: {result.batch_ms:,.0f} ms a micro-batch, "
        f"{result.rows_per_second:,.0f} rows/s"
    )
    return result


class Report:
    """Claims and what was measured."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.claims: list[dict[str, object]] = []

    def claim(self, text: str, measured: float, *, at_least: float = 0, at_most: float = 0) -> None:
        bound = f"at least {at_least:g}" if at_least else f"at most {at_most:g}"
        holds = measured >= at_least if at_least else measured <= at_most
        self.claims.append(
            {"claim": text, "bound": bound, "measured": round(measured, 2), "holds": holds}
        )

    def show(self) -> None:
        table = Table("workload", "way", "ms a batch", "rows/s", "results", "state rows")
        table.add_column("bytes on disk a row", justify="right")
        for r in self.runs:
            per_row = f"{r.bytes_per_row:,.0f}" if r.state_rows else ""
            table.add_row(
                r.workload,
                r.way,
                f"{r.batch_ms:,.0f}",
                f"{r.rows_per_second:,.0f}",
                f"{r.results:,}",
                f"{r.state_rows:,}",
                per_row,
            )
        console.print(table)
        table = Table("ratio, measured in this run", "goal", "measured", "holds")
        for c in self.claims:
            holds = "yes" if c["holds"] else "NO"
            table.add_row(str(c["claim"]), str(c["bound"]), f"{c['measured']:.2f}", holds)
        console.print(table)

    def save(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        content = {"runs": [asdict(r) for r in self.runs], "claims": self.claims}
        path.write_text(json.dumps(content, indent=2))


def compare(
    spark: SparkSession,
    report: Report,
    workload: Workload,
    folder: Path,
    ways: list[str],
    *,
    steady: int,
) -> dict[str, Run]:
    """All ways over one workload; joins must agree on the number of results."""
    workload.write(folder)
    runs = {way: run(spark, way, workload, folder, steady=steady) for way in ways}
    counts = {way: r.results for way, r in runs.items() if way != "floor"}
    assert len(set(counts.values())) == 1, f"different results: {counts}"
    report.runs += runs.values()
    return runs


def throughput(spark: SparkSession, report: Report, folder: Path, *, strings: bool) -> None:
    name = "strings" if strings else "numeric"
    load = Workload(name, rows=200_000, keys=1_000_000, batches=11, minutes=5, strings=strings)
    runs = compare(spark, report, load, folder / name, list(WAYS), steady=4)
    mine = runs["ours"].batch_ms
    goals = (10, 4) if strings else (15, 5)
    for way, goal in zip(("native, RocksDB", "native, default"), goals, strict=True):
        ratio = runs[way].batch_ms / mine
        report.claim(f"{name}: {way} / ours, batch time", ratio, at_least=goal)
    report.claim(
        f"{name}: bytes on disk a row, ours / native, RocksDB",
        runs["ours"].bytes_per_row / runs["native, RocksDB"].bytes_per_row,
        at_most=1,
    )


def growth(spark: SparkSession, report: Report, folder: Path) -> None:
    """The same rate and as many matches, with eight times the state."""
    times = []
    for factor in (1, 8):
        load = Workload(
            f"state x{factor}",
            rows=200_000,
            keys=factor * 1_000_000,
            batches=52,
            minutes=5 * factor,
        )
        runs = compare(spark, report, load, folder / f"growth{factor}", ["ours"], steady=10)
        times.append(runs["ours"].batch_ms)
    report.claim("batch time with 8 times the state / without", times[1] / times[0], at_most=1.5)


def small(spark: SparkSession, report: Report, folder: Path) -> None:
    """Micro-batches of 2,000 rows: all that is left is overhead."""
    load = Workload("small", rows=1_000, keys=5_000, batches=45, minutes=5)
    ways = ["ours", "native, RocksDB", "native, default"]
    runs = compare(spark, report, load, folder / "small", ways, steady=20)
    for way in ways[1:2]:
        ratio = runs["ours"].batch_ms / runs[way].batch_ms
        report.claim(f"2,000 rows a micro-batch: ours / {way}, batch time", ratio, at_most=1.2)


PARTS = {
    "numeric": lambda spark, report, folder: throughput(spark, report, folder, strings=False),
    "strings": lambda spark, report, folder: throughput(spark, report, folder, strings=True),
    "growth": growth,
    "small": small,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    chosen = parser.parse_args().parts or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    spark = wm.local_session(cores=2, memory="8g", name="watersmeet-bench")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    report = Report()
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-data-"))
    try:
        for part in chosen:
            PARTS[part](spark, report, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.show()
    report.save(Path("bench-output/window_join.json"))
    spark.stop()


if __name__ == "__main__":
    main()
