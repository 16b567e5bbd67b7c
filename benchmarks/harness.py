"""What the benchmarks on Spark share: a way runs over files, is timed by Spark, and is
compared with the others.

Every way reads the same files, one file of each stream a micro-batch, and writes
to the same sink (``noop``). A micro-batch's time is Spark's own
``triggerExecution``; what is compared is the median over the micro-batches
after the windows have filled. Before that, every way runs over the same files, again and
again, for the JVM to compile what it uses: a minute and a half at least, and until it gets no
faster (three minutes at most). Then the ways take turns, so that a machine that gets slower or
faster does so for all of them. All ways must give equally many results.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import watersmeet as wm
from benchmarks.workload import Workload

DELAY = "10 seconds"
#: Warming up takes at least and at most this long, and ends when this many runs over all files
#: were no faster than one before them.
WARM_UP_SECONDS = (90, 180)
WARM_UP_PASSES = 3
#: How often each way is timed.
PASSES = 2
_STATE = "org.apache.spark.sql.execution.streaming.state"


@dataclass(frozen=True)
class Store:
    """Where state is stored: a state store's ``provider``, and the ``join_format`` in which Spark's
    own join of streams stores its rows; None: Spark's usual one."""

    provider: str
    join_format: int | None = None

    def use(self, spark: SparkSession) -> None:
        """Let queries that start from now on store their state so."""
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{_STATE}.{self.provider}")
        if self.join_format is None:
            spark.conf.unset(_JOIN_FORMAT)
        else:
            spark.conf.set(_JOIN_FORMAT, str(self.join_format))


_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
ROCKSDB = Store("RocksDBStateStoreProvider")
DEFAULT = Store("HDFSBackedStateStoreProvider")
#: Spark's newest format of a join's state, which RocksDB alone can have.
FORMAT_4 = Store("RocksDBStateStoreProvider", 4)
#: In which ways Spark's own joins store their state.
NATIVE_STORES = {"RocksDB": ROCKSDB, "RocksDB, format 4": FORMAT_4, "default": DEFAULT}

console = Console(width=110)


@dataclass(frozen=True)
class Run:
    """What one way did with one workload: the milliseconds of its last, steady micro-batches,
    of so many rows each, and what it had stored in the end."""

    way: str
    workload: str
    rows: int
    times: list[int]
    results: int
    state_rows: int
    state_bytes: int

    @property
    def batch_ms(self) -> float:
        return statistics.median(self.times)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.batch_ms * 1000

    @property
    def bytes_per_row(self) -> float:
        return self.state_bytes / self.state_rows if self.state_rows else 0.0


def stream(spark: SparkSession, folder: Path, name: str, *, files: int = 1) -> DataFrame:
    """A folder of files, so many of them a micro-batch."""
    schema = spark.read.parquet(str(folder / name)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder / name))


def session() -> SparkSession:
    """The session that ways run in."""
    spark = wm.local_session(cores=2, memory="8g", name="watersmeet-bench")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark


def cluster(workers: int) -> SparkSession:
    """A session on a cluster of this machine: so many workers, one core each."""
    builder = (
        SparkSession.builder.master(f"local-cluster[{workers},1,2048]")
        .config("spark.executor.memory", "2g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
    )
    spark = wm.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def in_process(module: str, *arguments: str) -> dict[str, float]:
    """What a module prints last, as JSON, when a process of its own runs it: a session's master
    cannot change."""
    command = [sys.executable, "-m", module, *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


#: From the streams by name, and the window, to the result; and where state is stored.
Build = Callable[[dict[str, DataFrame], str], DataFrame]
Way = tuple[Build, Store]


def ours(streams: dict[str, DataFrame], window: str) -> DataFrame:
    named = [wm.stream(df, name, time=f"{name}_time", delay=DELAY) for name, df in streams.items()]
    return wm.join(named, on="key", within=window)


def natives(name: str, build: Build) -> dict[str, Way]:
    """Spark's own join, in every way in which it can store its state."""
    return {f"{name}, {kind}": (build, store) for kind, store in NATIVE_STORES.items()}


def best_native(runs: Mapping[str, Run]) -> Run:
    """The fastest of the ways in which Spark's own join can store its state."""
    native = (run for way, run in runs.items() if way.startswith("native"))
    return min(native, key=lambda run: run.batch_ms)


def floor(streams: dict[str, DataFrame], _window: str) -> DataFrame:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": [sum(map(len, batches))]})

    first, *others = streams.values()
    rows = first
    for other in others:
        rows = rows.union(other.toDF(*first.columns))
    return rows.mapInArrow(count, "rows long")


def start(
    spark: SparkSession, way: Way, workload: Workload, folder: Path, checkpoint: Path
) -> StreamingQuery:
    build, store = way
    store.use(spark)
    streams = {name: stream(spark, folder, name) for name in workload.streams}
    joined = build(streams, workload.window)
    return (
        joined.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def warm_up(begin: Callable[[Path], StreamingQuery]) -> None:
    """Have a query run over its files, again and again, from an empty checkpoint each time,
    until it gets no faster."""
    began, medians = time.monotonic(), []
    least, most = WARM_UP_SECONDS
    while (left := began + most - time.monotonic()) > 0:
        with completed(begin, max(1, round(left))) as (query, _):
            medians.append(statistics.median(times_of(query) or [0]))
        settled = len(medians) - 1 - medians.index(min(medians)) >= WARM_UP_PASSES
        if settled and time.monotonic() - began > least:
            return


@contextmanager
def completed(
    begin: Callable[[Path], StreamingQuery], seconds: int | None = None
) -> Iterator[tuple[StreamingQuery, Path]]:
    """A query that has run over its files, from an empty checkpoint, for so long at most; and
    that checkpoint."""
    with tempfile.TemporaryDirectory("-watersmeet-bench", ignore_cleanup_errors=True) as folder:
        query = begin(Path(folder))
        query.awaitTermination(seconds)
        query.stop()
        yield query, Path(folder)


def collect_garbage(spark: SparkSession) -> None:
    """Free what the query before has left in the JVM."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()


def times_of(query: StreamingQuery) -> list[int]:
    """The milliseconds of each micro-batch with data."""
    return [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]


def run(
    spark: SparkSession, name: str, way: Way, workload: Workload, folder: Path, *, steady: int
) -> Run:
    """Run one way over all files; judge it by the last ``steady`` micro-batches with data."""
    collect_garbage(spark)
    with completed(partial(start, spark, way, workload, folder)) as (query, checkpoint):
        files = [file for file in (checkpoint / "state").rglob("*") if file.is_file()]
        state_bytes = sum(file.stat().st_size for file in files)
    # The last progress of all is a batch without data, which only purges state.
    data = [progress for progress in query.recentProgress if progress.numInputRows]
    assert len(data) == workload.batches, f"{name}: {len(data)} batches"
    steps = wm.metrics(data[-1])  # of every hop
    if steps:
        state_rows = sum(step.state_rows for step in steps)
    else:
        state_rows = sum(op.numRowsTotal for op in data[-1].stateOperators)
    result = Run(
        way=name,
        workload=workload.name,
        rows=len(workload.streams) * workload.rows,
        times=times_of(query)[-steady:],
        results=sum(p.sink.numOutputRows for p in data),
        state_rows=state_rows,
        state_bytes=state_bytes,
    )
    console.print(
        f"  {workload.name}: {name}: {result.batch_ms:,.0f} ms a micro-batch, "
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
        self.show_claims()

    def show_claims(self) -> None:
        table = Table("ratio, measured in this run", "goal", "measured", "holds")
        for c in self.claims:
            holds = "yes" if c["holds"] else "NO"
            table.add_row(str(c["claim"]), str(c["bound"]), f"{c['measured']:.2f}", holds)
        console.print(table)

    def save(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        runs = [{**asdict(r), "rows_per_second": r.rows_per_second} for r in self.runs]
        content = {"runs": runs, "claims": self.claims}
        path.write_text(json.dumps(content, indent=2))


def compare(
    spark: SparkSession,
    report: Report,
    workload: Workload,
    folder: Path,
    ways: Mapping[str, Way],
    *,
    steady: int,
    passes: int = PASSES,
) -> dict[str, Run]:
    """All ways over one workload, in turn; joins must agree on the number of results."""
    workload.write(folder)
    for name, way in ways.items():
        with console.status(f"{workload.name}: {name}, warming up"):
            warm_up(partial(start, spark, way, workload, folder))
    timed: dict[str, list[Run]] = {name: [] for name in ways}
    for number in range(passes):
        for name, way in ways.items():
            with console.status(f"{workload.name}: {name}, pass {number + 1} of {passes}"):
                done = run(spark, name, way, workload, folder, steady=steady)
            timed[name].append(done)
    counts = {name: {d.results for d in done} for name, done in timed.items() if name != "floor"}
    assert len(set.union(*counts.values())) == 1, f"different results: {counts}"
    runs = {
        name: replace(done[-1], times=[ms for each in done for ms in each.times])
        for name, done in timed.items()
    }
    report.runs += runs.values()
    return runs


Part = Callable[[SparkSession, Report, Path], None]


def main(name: str, about: str, parts: Mapping[str, Part]) -> None:
    """Run the parts that the command line names, or all; show and save what they measure."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    chosen: Sequence[str] = parser.parse_args().parts or list(parts)
    if unknown := set(chosen) - set(parts):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    spark = session()
    report = Report()
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-data-"))
    try:
        for part in chosen:
            parts[part](spark, report, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.show()
    report.save(Path(f"bench-output/{name}.json"))
    spark.stop()
