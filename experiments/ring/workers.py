"""Real runs: the ring, and aligned tuple routing, on one worker and on two.

    python -m experiments.ring.workers [OUTPUT]

The simulation (:mod:`experiments.ring.simulation`) claims to know what more nodes bring. With one
worker and with two of a local cluster, one core each, that can be seen. A predicate takes about
50 microseconds a pair; both ways get the same files and give the same results. What is compared is
the median micro-batch after the windows have filled, less that of the same query with a predicate
that takes next to nothing: the simulation knows no micro-batches, and nothing of what they cost.

**ATR on Spark** is an equality join whose key is the segment (see :mod:`experiments.ring.routing`),
so one shard does all the work of a segment. Segments are ten windows long. Two loads show both
sides of it: a micro-batch that is a small part of a segment, as in a query that keeps up, and one
that brings forty segments at once, as in a query that has fallen far behind.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from benchmarks import harness
from benchmarks.ring_join import COST, ring, rounds_of, slow
from benchmarks.workload import Workload
from experiments import report
from experiments.report import Claim, Outcome
from experiments.ring.images import hop, sending
from experiments.ring.routing import WINDOWS, first_and_last
from experiments.ring.simulation import Load, Run, atr, psp
from watersmeet.cost.ring import Times

WORKERS = (1, 2)
STEADY = 4
#: About as many pairs a micro-batch.
LOADS = {
    "keeps up": Workload("keeps up", rows=90, keys=1, batches=8, minutes=3),
    "behind": Workload("behind", rows=3400, keys=1, batches=5, minutes=1, seconds=400 * 60),
}
WAYS = ("ring", "ATR")
#: Ratios of real runs are as far as this from what they would be without chance.
ALIKE = 0.2


def window_of(load: Workload) -> int:
    """In seconds."""
    return load.minutes * 60


def aligned(where: str | wm.PredicateFunction, window: int, segment: int) -> harness.Build:
    """Two streams by aligned tuple routing, the first one the master; lengths in seconds."""

    def build(streams: dict[str, DataFrame], _: str) -> DataFrame:
        (master, rows), (slave, others) = streams.items()
        routed = {
            master: rows.withColumn("segment", _segments(f"{master}_time", 0)[0]),
            slave: others.withColumn(
                "segment", F.explode(F.sequence(*_segments(f"{slave}_time", window)))
            ),
        }
        named = [
            wm.stream(df.drop("key"), name, time=f"{name}_time", delay=harness.DELAY)
            for name, df in routed.items()
        ]
        return wm.join(named, on="segment", where=where, within=f"{window} seconds")

    def _segments(time: str, reach: int) -> tuple[Column, Column]:
        # Lengths are whole seconds, so fractions of a second do not change the segment.
        first, last = first_and_last(F.unix_seconds(time), reach, segment, F.floor)
        return first, last

    return build


def way(name: str, load: Workload, rounds: int) -> harness.Build:
    values = {stream: [f"{stream}_value"] for stream in load.streams}
    predicate = wm.predicate(slow(rounds), *load.streams, columns=values)
    window = window_of(load)
    return ring(predicate) if name == "ring" else aligned(predicate, window, WINDOWS * window)


# -- one real run --------------------------------------------------------------------------------


def measure(folder: Path, workers: int, load: Workload, name: str, rounds: int) -> dict[str, float]:
    """In a process of its own: the milliseconds of a micro-batch, those without the predicate, and
    what is stored and found."""
    spark = harness.cluster(workers)
    run = partial(_run, spark, load, folder, name)
    run(1)  # to warm up
    without, found = run(1), run(rounds)
    spark.stop()
    return {**found, "fixed": without["ms"]}


def _run(
    spark: SparkSession, load: Workload, folder: Path, name: str, rounds: int
) -> dict[str, float]:
    begin = partial(harness.start, spark, (way(name, load, rounds), harness.ROCKSDB), load, folder)
    with harness.completed(begin) as (query, _):
        steps = [s for s in wm.metrics(query) if isinstance(s, wm.JoinMetrics) and s.rows]
        assert len(steps) == load.batches, f"{len(steps)} micro-batches of {load.batches}"
        return {
            "ms": statistics.median(harness.times_of(query)[-STEADY:]),
            **{
                f"stored {stream}": statistics.mean(
                    step.streams[stream].state_rows for step in steps[-STEADY:]
                )
                for stream in load.streams
            },
            "results": sum(step.results for step in steps),
        }


# -- the same, simulated -------------------------------------------------------------------------


def simulated(load: Workload, name: str) -> float:
    """How many times as fast two nodes work off a burst of these rows as one."""
    spans = [_span(_simulate(load, name, nodes)) for nodes in WORKERS]
    return spans[0] / spans[1]


def _simulate(load: Workload, name: str, nodes: int) -> Run:
    seconds, window = load.batches * load.seconds, window_of(load)
    # All rows come within a millisecond, so that no node is ever idle for want of them.
    scale = seconds / 1e-3
    rate = load.rows / load.seconds
    burst = Load(len(load.streams), scale * rate, window / scale, 0.02, seconds / scale)
    if name == "ring":
        return psp(burst, times(), nodes, seed=1)
    return atr(burst, times(), nodes, WINDOWS * burst.window, seed=1)


@cache
def times() -> Times:
    """What it takes to send these rows, measured here; the predicate takes what it is made to."""
    rows = LOADS["keeps up"].table("left", 0, np.random.default_rng(0))
    (batch,) = rows.combine_chunks().to_batches()
    return Times(T_j=COST, T_s=sending(batch), T_n=hop(round(batch.nbytes / len(batch))))


def _span(run: Run) -> float:
    return float((run.arrived + run.response).max())


# -- claims --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """One way and one load, on one worker and on two."""

    load: str
    way: str
    found: list[dict[str, float]]
    simulated: float

    @property
    def batches(self) -> float:
        """How many times as fast two workers are."""
        one, two = (each["ms"] for each in self.found)
        return one / two

    @property
    def comparisons(self) -> float:
        """The same, of comparisons alone."""
        one, two = (each["ms"] - each["fixed"] for each in self.found)
        return one / two

    @property
    def stored(self) -> tuple[float, float]:
        """Rows of the master, and of the slave."""
        return self.found[-1]["stored left"], self.found[-1]["stored right"]

    def __str__(self) -> str:
        one, two = (each["ms"] for each in self.found)
        return (
            f"{one:,.0f} ms a micro-batch on one worker, {two:,.0f} on two: {self.batches:.2f} "
            f"times as fast; of comparisons alone {self.comparisons:.2f}; "
            f"simulated {self.simulated:.2f}; {sum(self.stored):,.0f} rows stored"
        )


def real_runs() -> Outcome:
    """The ring and ATR on Spark, beside the simulation."""
    rounds = rounds_of(COST)
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            (load, name): _compared(Path(folder) / load, load, name, rounds)
            for load in LOADS
            for name in WAYS
        }
    for load in LOADS:
        results = {each["results"] for name in WAYS for each in runs[load, name].found}
        assert len(results) == 1, f"{load}: different results: {results}"
    agree = [
        Claim(
            f"{load}: {name}",
            "two workers bring as much as the simulation says",
            str(run),
            abs(run.comparisons / run.simulated - 1) < ALIKE,
        )
        for (load, name), run in runs.items()
    ]
    return Outcome("workers", [*agree, *_of_the_paper(runs)], _drawn(list(runs.values())))


def _compared(folder: Path, load: str, name: str, rounds: int) -> Compared:
    LOADS[load].write(folder)
    found = [
        harness.in_process(
            "experiments.ring.workers",
            "--worker",
            *(str(folder), str(count), load, name, str(rounds)),
        )
        for count in WORKERS
    ]
    return Compared(load, name, found, simulated(LOADS[load], name))


def _of_the_paper(runs: dict[tuple[str, str], Compared]) -> list[Claim]:
    rings, aligned = ([runs[load, name] for load in LOADS] for name in WAYS)
    live, behind = aligned
    copied = [run.stored[1] / run.stored[0] for run in aligned]
    return [
        Claim(
            "section 8.3",
            "ATR: one node does all the work for a row, so more of them do not answer sooner",
            f"{live.comparisons:.2f} times as fast with two workers",
            live.comparisons < 1 + ALIKE,
        ),
        Claim(
            "section 8.3",
            "ATR: the throughput may increase",
            f"{behind.comparisons:.2f} times, if a micro-batch brings many segments",
            behind.comparisons > 2 * (1 - ALIKE),
        ),
        Claim(
            "section 4",
            "the ring: every row's work is spread, so more nodes answer sooner",
            " and ".join(f"{run.comparisons:.2f}" for run in rings) + " times as fast",
            all(run.comparisons > 2 * (1 - ALIKE) for run in rings),
        ),
        Claim(
            "section 7",
            "ATR stores slaves' rows more than once, but few of them if W is much smaller than T",
            f"for a row of the master, {copied[0]:.2f} of the slave's within a segment, "
            f"{copied[1]:.2f} over many",
            1 < copied[1] < 1.1 * (1 + 2 / WINDOWS),
            f"T = {WINDOWS} W: {1 + 2 / WINDOWS:.1f} on average.",
        ),
    ]


def _drawn(runs: list[Compared]) -> Figure:
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    bars = {
        "micro-batches": [run.batches for run in runs],
        "comparisons alone": [run.comparisons for run in runs],
        "simulated": [run.simulated for run in runs],
    }
    for number, (label, values) in enumerate(bars.items()):
        axes.bar(np.arange(len(runs)) + 0.27 * (number - 1), values, 0.25, label=label)
    axes.set_xticks(range(len(runs)), [f"{run.way}, {run.load}" for run in runs])
    axes.set(title="Two workers beside one", ylabel="times as fast")
    axes.legend()
    return figure


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        given, count, load, name, rounds = sys.argv[2:]
        print(json.dumps(measure(Path(given), int(count), LOADS[load], name, int(rounds))))
    else:
        output = Path(sys.argv[1] if len(sys.argv) > 1 else "experiment-output/ring/workers")
        report.run("The ring and ATR on one worker and on two", [real_runs], output)
