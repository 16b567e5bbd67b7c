"""A join of three and of six streams in one operator, against Spark's own chain of joins.

    python -m benchmarks.multiway_join          # everything, about 20 minutes
    python -m benchmarks.multiway_join three    # one part: three, six

- ours: ``wm.join`` of all streams
- native chain, RocksDB and native chain, default: Spark's stream-stream join of the first
  two streams, and of the result with the third, with either state store provider; native chain,
  RocksDB, format 4: in the newest format of their state
- floor: the same files through a ``mapInArrow`` that only counts rows

A row meets one row of every other stream on average. How the ways are run and compared:
:mod:`benchmarks.harness`.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import harness
from benchmarks.harness import DELAY, ROCKSDB, Report, best_native, compare
from benchmarks.workload import Workload

STEADY = 3


def chain(streams: dict[str, DataFrame], window: str) -> DataFrame:
    """Spark's own joins, two streams at a time."""
    (first, joined), *others = (
        (name, df.withWatermark(f"{name}_time", DELAY)) for name, df in streams.items()
    )
    met = [first]
    for name, df in others:
        close = " and ".join(
            f"{name}_time between {other}_time - interval {window} "
            f"and {other}_time + interval {window}"
            for other in met
        )
        right = df.withColumnRenamed("key", "other_key")
        joined = joined.join(right, F.expr(f"key = other_key and {close}")).drop("other_key")
        # Spark takes one column of event time only into the next join.
        plain = F.timestamp_micros(F.unix_micros(f"{name}_time"))
        joined = joined.withColumn(f"{name}_time", plain)
        met.append(name)
    return joined


WAYS = {
    "ours": (harness.ours, ROCKSDB),
    **harness.natives("native chain", chain),
    "floor": (harness.floor, ROCKSDB),
}


def workload(streams: int) -> Workload:
    names = tuple(f"s{number}" for number in range(1, streams + 1))
    return Workload(
        f"{streams} streams", rows=200_000, keys=1_000_000, batches=9, minutes=5, streams=names
    )


def three(spark: SparkSession, report: Report, folder: Path) -> None:
    # A chain of Spark's own takes minutes to pass over the files: once is enough for such a ratio.
    runs = compare(spark, report, workload(3), folder / "three", WAYS, steady=STEADY, passes=1)
    mine = runs["ours"]
    for way, goal in (("native chain, RocksDB", 20), ("native chain, default", 6)):
        ratio = runs[way].batch_ms / mine.batch_ms
        report.claim(f"3 streams: {way} / ours, batch time", ratio, at_least=goal)
        state = mine.state_bytes / runs[way].state_bytes
        report.claim(f"3 streams: ours / {way}, bytes of state on disk", state, at_most=0.33)
    best = best_native(runs)
    claim = f"3 streams: best of Spark's ({best.way}) / ours, batch time"
    report.claim(claim, best.batch_ms / mine.batch_ms, at_least=6)


def six(spark: SparkSession, report: Report, folder: Path) -> None:
    alone = {"ours": WAYS["ours"]}
    times = [
        compare(spark, report, workload(count), folder / f"ours{count}", alone, steady=STEADY)[
            "ours"
        ].batch_ms
        for count in (3, 6)
    ]
    report.claim("6 streams / 3 streams, ours, batch time", times[1] / times[0], at_most=3)


PARTS = {"three": three, "six": six}


if __name__ == "__main__":
    harness.main("multiway_join", __doc__, PARTS)
