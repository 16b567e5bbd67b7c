"""Real runs: the ring, and aligned tuple routing, on one worker and on two.

    python -m experiments.ring.workers

The simulation (:mod:`experiments.ring.simulation`) claims to know what more nodes bring. With one
worker and with two of a local cluster, one core each, that can be seen. A predicate takes about
50 microseconds a pair; both ways get the same files and give the same results. What is compared is
the median micro-batch after the windows have filled, less that of the same query with a predicate
that takes next to nothing: the simulation knows no micro-batches, and nothing of what they cost.

**ATR on Spark** is an equality join: time is cut into segments, and a row is copied into every
segment in which a later row may meet it. The segment is the key, so one shard does all the work of
a segment. A pair counts in the segment of its later row, and nowhere else.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import watersmeet as wm
from benchmarks import harness
from benchmarks.ring_join import COST, ring, rounds_of, slow
from benchmarks.workload import SECOND, Workload
from experiments.ring.simulation import Load, Run, atr, psp
from watersmeet.cost.ring import Times

WORKERS = (1, 2)
STEADY = 4
#: A segment is as long as a file, a sixth of the window.
LOAD = Workload("workers", rows=80, keys=1, batches=11, minutes=6)
SEGMENT = LOAD.seconds


def aligned(where: object, window: int, segment: int) -> harness.Build:
    """Two streams by aligned tuple routing; lengths in seconds."""

    def build(streams: dict[str, DataFrame], _: str) -> DataFrame:
        named = [
            wm.stream(_copied(df, f"{name}_time"), name, time=f"{name}_time", delay=harness.DELAY)
            for name, df in streams.items()
        ]
        times = {name: [f"{name}_time", "segment"] for name in streams}
        here = wm.predicate(partial(_here, segment=segment), *streams, columns=times)
        return wm.join(named, on="segment", where=[here, where], within=f"{window} seconds")

    def _copied(df: DataFrame, time: str) -> DataFrame:
        seconds = F.unix_seconds(time)
        first, last = (F.floor(each / segment) for each in (seconds, seconds + window))
        return df.drop("key").withColumn("segment", F.explode(F.sequence(first, last)))

    return build


def _here(*rows: pa.Table, segment: int) -> np.ndarray:
    """Is the later row of each pair in this segment?"""
    micros = [next(c for c in t.columns if pa.types.is_timestamp(c.type)) for t in rows]
    newest = np.maximum(*(times.cast(pa.int64()).to_numpy() for times in micros))
    here: np.ndarray = newest // (segment * SECOND) == rows[0]["segment"].to_numpy()
    return here


def ways(rounds: int) -> dict[str, harness.Build]:
    values = {name: [f"{name}_value"] for name in LOAD.streams}
    predicate = wm.predicate(slow(rounds), *LOAD.streams, columns=values)
    return {
        "ring": ring(predicate),
        "ATR": aligned(predicate, LOAD.minutes * 60, SEGMENT),
    }


def measure(folder: Path, workers: int, way: str, rounds: int) -> dict[str, float]:
    """In a process of its own: the milliseconds of a micro-batch, and what is stored and found."""
    spark = harness.cluster(workers)
    begin = partial(harness.start, spark, (ways(rounds)[way], harness.ROCKSDB), LOAD, folder)
    with harness.completed(begin) as (query, _):
        steps = wm.metrics(query)
        found = {
            "ms": statistics.median(harness.times_of(query)[-STEADY:]),
            "stored": [step for step in steps if step.rows][-1].state_rows,
            "results": sum(step.results for step in steps),
        }
    spark.stop()
    return found


def simulated(simulate: Callable[[Load, Times, int], Run]) -> float:
    """How many times as many rows two nodes manage as one: both work off the same burst."""
    window = LOAD.minutes * 60.0
    rate = LOAD.rows / LOAD.seconds
    times = Times(T_j=COST, T_s=1e-5, T_n=1e-4)
    # So many rows a second that no node is ever idle.
    load = Load(2, 1000 * rate, window / 1000, 0.02, 5 * window / 1000)
    spans = [_end(simulate(load, times, nodes)) for nodes in WORKERS]
    return spans[0] / spans[1]


def _end(run: Run) -> float:
    return float((run.arrived + run.response).max())


def main() -> None:
    rounds = rounds_of(COST)
    with tempfile.TemporaryDirectory() as folder:
        LOAD.write(Path(folder))
        found = {
            (way, count, each): harness.in_process(
                "experiments.ring.workers", folder, str(count), way, str(each)
            )
            for way in ways(rounds)
            for count in WORKERS
            for each in (rounds, 1)
        }
    assert len({one["results"] for one in found.values()}) == 1, f"different results: {found}"
    expected = {
        "ring": simulated(lambda load, times, nodes: psp(load, times, nodes, seed=1)),
        "ATR": simulated(
            lambda load, times, nodes: atr(load, times, nodes, load.window / 6, seed=1)
        ),
    }
    for way, ratio in expected.items():
        one, two = (found[way, count, rounds]["ms"] for count in WORKERS)
        compared = [
            found[way, count, rounds]["ms"] - found[way, count, 1]["ms"] for count in WORKERS
        ]
        print(
            f"{way}: {one:,.0f} ms a micro-batch on one worker, {two:,.0f} on two: "
            f"{one / two:.2f} times the throughput; of comparisons alone "
            f"{compared[0] / compared[1]:.2f}; simulated {ratio:.2f}; "
            f"{found[way, 2, rounds]['stored']:,.0f} rows are stored"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        given, count, way, rounds = sys.argv[1:]
        print(json.dumps(measure(Path(given), int(count), way, int(rounds))))
    else:
        main()
