"""A short job: how long does the first micro-batch take, beside Spark's own join's?

    python -m benchmarks.cold_start          # about five minutes
    python -m benchmarks.cold_start ../before    # and beside another checkout's code

Every run is a process of its own, with a JVM of its own, so nothing is warm: the ways take turns.
What is compared are medians: of the time to plan the join, of the first micro-batch, and of the
whole query, from its start to its end. The goal: the first micro-batch takes no longer than that
of Spark's own join with RocksDB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.table import Table

import watersmeet as wm
from benchmarks import harness, window_join
from benchmarks.workload import Workload
from watersmeet.spark.session import warm_up as warm

ROOT = Path(__file__).parent.parent
RUNS = 5
GOAL = 1.0
PARTS = ("plan", "first", "query")
_WORKLOAD = Workload("cold", rows=50_000, keys=250_000, batches=4, minutes=5)
_WAYS = {
    "ours": (harness.ours, harness.ROCKSDB),
    "native": (window_join.native, harness.ROCKSDB),
    "native, format 4": (window_join.native, harness.FORMAT_4),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", type=Path, help="another checkout")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _one(options.one[0], Path(options.one[1]))
        return
    ways = dict.fromkeys(_WAYS, ROOT)
    if options.other:
        ways["the other's"] = options.other.resolve()
    measured: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory("-watersmeet-bench") as folder:
        _WORKLOAD.write(Path(folder))
        for _ in range(RUNS):
            for way, checkout in ways.items():
                measured[way].append(_in_process(way, checkout, Path(folder)))
    _show(measured)


def _in_process(way: str, checkout: Path, folder: Path) -> dict[str, float]:
    name = way if way in _WAYS else "ours"
    path = os.pathsep.join([str(checkout / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cold_start", "--one", name, str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(way: str, folder: Path) -> None:
    """One run, in this process; prints its seconds."""
    ours = way == "ours"
    # Python workers are of no use to Spark's own join: it does not pay for their start.
    spark = wm.local_session(name="cold start", config={warm.SETTING: str(ours).lower()})
    spark.sparkContext.setLogLevel("ERROR")
    build, store = _WAYS[way]
    store.use(spark)
    streams = {name: harness.stream(spark, folder, name) for name in _WORKLOAD.streams}
    began = time.perf_counter()
    joined = build(streams, _WORKLOAD.window)
    planned = time.perf_counter()
    with tempfile.TemporaryDirectory("-watersmeet-bench", ignore_cleanup_errors=True) as checkpoint:
        query = (
            joined.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        ended = time.perf_counter()
    first = harness.times_of(query)[0] / 1000
    spark.stop()
    print(json.dumps({"plan": planned - began, "first": first, "query": ended - planned}))


def _show(measured: dict[str, list[dict[str, float]]]) -> None:
    table = Table(title="seconds, medians")
    for title in ("way", "to plan", "first micro-batch", "whole query"):
        table.add_column(title)
    medians = {
        way: {part: statistics.median(run[part] for run in runs) for part in PARTS}
        for way, runs in measured.items()
    }
    for way, of_way in medians.items():
        table.add_row(way, *(f"{of_way[part]:.1f}" for part in PARTS))
    harness.console.print(table)
    for part in ("first", "query"):
        for way in medians:
            if way != "ours":
                ratio = medians["ours"][part] / medians[way][part]
                harness.console.print(f"{part}: ours takes {ratio:.2f} of the time of {way}")
    report = harness.Report()
    ratio = medians["ours"]["first"] / medians["native"]["first"]
    report.claim("first micro-batch: ours / native, RocksDB", ratio, at_most=GOAL)
    report.show_claims()


if __name__ == "__main__":
    main()
