"""The two-stream window join against Spark's own, and against the floor, in one run.

    python -m benchmarks.window_join            # everything, about 50 minutes
    python -m benchmarks.window_join numeric    # one part: numeric, strings, growth, small

- ours: ``wm.join``
- native, RocksDB and native, default: Spark's stream-stream join with either
  state store provider; native, RocksDB, format 4: in the newest format of its state
- floor: the same files through a ``mapInArrow`` that only counts rows

How they are run and compared: :mod:`benchmarks.harness`.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import harness
from benchmarks.harness import DELAY, ROCKSDB, Report, best_native, compare
from benchmarks.workload import Workload


def native(streams: dict[str, DataFrame], window: str) -> DataFrame:
    left = streams["left"].withWatermark("left_time", DELAY).alias("l")
    right = streams["right"].withWatermark("right_time", DELAY).alias("r")
    close = f"""l.key = r.key
        and left_time between right_time - interval {window} and right_time + interval {window}"""
    return left.join(right, F.expr(close))


WAYS = {
    "ours": (harness.ours, ROCKSDB),
    **harness.natives("native", native),
    "floor": (harness.floor, ROCKSDB),
}


def throughput(spark: SparkSession, report: Report, folder: Path, *, strings: bool) -> None:
    name = "strings" if strings else "numeric"
    load = Workload(name, rows=200_000, keys=1_000_000, batches=9, minutes=5, strings=strings)
    runs = compare(spark, report, load, folder / name, WAYS, steady=3)
    mine = runs["ours"].batch_ms
    goals = (10, 4) if strings else (15, 5)
    for way, goal in zip(("native, RocksDB", "native, default"), goals, strict=True):
        ratio = runs[way].batch_ms / mine
        report.claim(f"{name}: {way} / ours, batch time", ratio, at_least=goal)
    best = best_native(runs)
    report.claim(
        f"{name}: best of Spark's ({best.way}) / ours, batch time",
        best.batch_ms / mine,
        at_least=goals[1],
    )
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
        ways = {"ours": WAYS["ours"]}
        runs = compare(spark, report, load, folder / f"growth{factor}", ways, steady=10)
        times.append(runs["ours"].batch_ms)
    report.claim("batch time with 8 times the state / without", times[1] / times[0], at_most=1.5)


def small(spark: SparkSession, report: Report, folder: Path) -> None:
    """Micro-batches of 2,000 rows: all that is left is overhead."""
    load = Workload("small", rows=1_000, keys=5_000, batches=45, minutes=5)
    ways = {name: way for name, way in WAYS.items() if name != "floor"}
    runs = compare(spark, report, load, folder / "small", ways, steady=20)
    ratio = runs["ours"].batch_ms / runs["native, RocksDB"].batch_ms
    claim = "2,000 rows a micro-batch: ours / native, RocksDB, batch time"
    report.claim(claim, ratio, at_most=1.2)


PARTS = {
    "numeric": lambda spark, report, folder: throughput(spark, report, folder, strings=False),
    "strings": lambda spark, report, folder: throughput(spark, report, folder, strings=True),
    "growth": growth,
    "small": small,
}


if __name__ == "__main__":
    harness.main("window_join", __doc__, PARTS)
