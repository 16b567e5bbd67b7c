"""The code of two checkouts, in turn: is this one slower than the other?

    git worktree add ../before main~10
    python -m benchmarks.alternate ../before                  # every workload, about 20 minutes
    python -m benchmarks.alternate ../before numeric small    # some: the list is below
    python -m benchmarks.alternate ../before --passes 20      # steadier

Each checkout runs in a process of its own, with a Spark session of its own. They never run at the
same time: one pass over the files of this one, one of the other, and so on, first to warm up, then
to be timed. What is compared is the median micro-batch of each pass, as a ratio. So a machine that
gets slower or faster does so for both.

The benchmarks' own code is that of this checkout; the other's ``src`` takes the place of this
one's, so both must know the public calls that are used here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

import watersmeet as wm
from benchmarks import enrich, harness, metadata_join, multiway_join, ring_join
from benchmarks.workload import Workload

ROOT = Path(__file__).parent.parent
WARM_UP_SECONDS = 75
PASSES = 6
console = Console(width=110)

_NUMERIC = Workload("numeric", rows=200_000, keys=1_000_000, batches=9, minutes=5)
_SMALL = Workload("small", rows=1_000, keys=5_000, batches=45, minutes=5)
_METADATA_ROWS = 400_000
_METADATA_BATCHES = 8

Start = Callable[[SparkSession, Path, Path], StreamingQuery]


def _joined(
    workload: Workload, build: harness.Build = harness.ours
) -> tuple[Callable[[Path], None], Start, int]:
    def start(spark: SparkSession, folder: Path, checkpoint: Path) -> StreamingQuery:
        return harness.start(spark, (build, harness.ROCKSDB), workload, folder, checkpoint)

    return workload.write, start, workload.batches // 2


def _enriched() -> tuple[Callable[[Path], None], Start, int]:
    def start(spark: SparkSession, folder: Path, checkpoint: Path) -> StreamingQuery:
        return enrich.start(spark, enrich.ours, folder, "many", checkpoint)

    def write(folder: Path) -> None:
        enrich.prepared(folder, 5_000_000)

    return write, start, enrich.STEADY


def _metadata() -> tuple[Callable[[Path], None], Start, int]:
    def start(spark: SparkSession, folder: Path, checkpoint: Path) -> StreamingQuery:
        return metadata_join.start(spark, "ours", folder, checkpoint)

    def write(folder: Path) -> None:
        metadata_join.write(folder, _METADATA_ROWS, _METADATA_BATCHES)

    return write, start, _METADATA_BATCHES // 2


#: For each workload: what writes its files, what starts the join over them, and how many of its
#: last micro-batches are timed.
WORKLOADS = {
    "numeric": _joined(_NUMERIC),
    "small": _joined(_SMALL),
    "three": _joined(multiway_join.workload(3)),
    "metadata": _metadata(),
    "ranges": _joined(ring_join.RANGES, ring_join.ring(ring_join.SEARCHED)),
    "enrich": _enriched(),
}


def serve() -> None:
    """Run passes as they are asked for, one a line: a workload and its folder."""
    spark = wm.local_session(cores=2, memory="4g", name="watersmeet-alternate")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    print(json.dumps({"source": str(Path(wm.__file__).parent)}), flush=True)
    for line in sys.stdin:
        name, folder = json.loads(line)
        _, start, timed = WORKLOADS[name]
        harness.collect_garbage(spark)
        with harness.completed(partial(start, spark, Path(folder))) as (query, _):
            results = sum(p.sink.numOutputRows for p in query.recentProgress)
        answer = {"times": harness.times_of(query)[-timed:], "results": results}
        print(json.dumps(answer), flush=True)
    spark.stop()


class Checkout:
    """A process that runs the code of a checkout."""

    def __init__(self, root: Path) -> None:
        paths = [str(root / "src"), str(ROOT)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.alternate", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        source = self._answer()["source"]
        assert Path(source).is_relative_to(root.resolve()), f"{source} is not of {root}"

    def run(self, name: str, folder: Path) -> dict[str, Any]:
        """One pass over the files."""
        assert self._process.stdin is not None, "it is asked by its input"
        self._process.stdin.write(json.dumps([name, str(folder)]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout is not None, "it answers by its output"
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError("the process has ended")


def compare(
    name: str, folder: Path, pair: dict[str, Checkout], passes: int
) -> dict[str, list[float]]:
    """The median milliseconds of a micro-batch in each pass, of both checkouts."""
    write, *_ = WORKLOADS[name]
    write(folder)
    began = time.monotonic()
    with console.status(f"{name}: warming up"):
        while time.monotonic() - began < WARM_UP_SECONDS:
            for checkout in pair.values():
                checkout.run(name, folder)
    times: dict[str, list[float]] = {which: [] for which in pair}
    results = set()
    for number in range(passes):
        with console.status(f"{name}: pass {number + 1} of {passes}"):
            for which, checkout in list(pair.items())[:: 1 if number % 2 else -1]:
                done = checkout.run(name, folder)
                times[which].append(statistics.median(done["times"]))
                results.add(done["results"])
    assert len(results) == 1, f"{name}: different results: {results}"
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", nargs="?", type=Path, help="the other checkout")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--passes", type=int, default=PASSES, help="timed passes of each")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve()
    if arguments.other is None or set(arguments.workloads) - set(WORKLOADS):
        parser.error(f"give another checkout, and any of {', '.join(WORKLOADS)}")
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-data-"))
    table = Table("workload", "ms, the other", "ms, this one", "this one / the other")
    pair = {}
    try:
        pair = {"other": Checkout(arguments.other), "this": Checkout(ROOT)}
        for name in arguments.workloads or WORKLOADS:
            times = compare(name, folder / name, pair, arguments.passes)
            ratio = statistics.median(
                this / other for this, other in zip(times["this"], times["other"], strict=True)
            )
            medians = [f"{statistics.median(times[which]):,.0f}" for which in ("other", "this")]
            table.add_row(name, *medians, f"{ratio:.3f}")
            console.print(f"  {name}: {ratio:.3f} ({times})")
    finally:
        for checkout in pair.values():
            checkout.stop()
        shutil.rmtree(folder, ignore_errors=True)
    console.print(table)


if __name__ == "__main__":
    main()
