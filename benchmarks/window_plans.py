"""The planner's choice against each of the four fixed plans, in one run.

    python -m benchmarks.window_plans

A slow stream and one a hundred times as fast, through the operator alone: on Spark the
same work is a smaller part of a micro-batch. All plans take the same micro-batches in
turn, so that whatever else the machine does hits them alike; a plan's time is the
median over micro-batches of a second, after the windows have filled. HNJ reads: the slow stream's
window has an index, the fast one's has none.

Then a stream changes its rate in mid-run, and the planner's notes are printed.
"""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from watersmeet.spec.tuning import IndexChoice, Tuning
from watersmeet.testing import LocalJoin, LocalStream

console = Console(width=110)

INSTANT = pa.timestamp("us", "UTC")
START = 1_700_000_000_000_000
Plan = IndexChoice | Mapping[str, IndexChoice]
PLANS: dict[str, Plan] = {
    "auto": "auto",
    "HHJ": {"slow": "always", "fast": "always"},
    "HNJ": {"slow": "always", "fast": "never"},
    "NHJ": {"slow": "never", "fast": "always"},
    "NNJ": {"slow": "never", "fast": "never"},
}


@dataclass(frozen=True)
class Load:
    """``fast`` and ``slow`` rows a second, windows of so many ``seconds``, ``keys`` in all."""

    name: str
    fast: int
    slow: int
    seconds: int
    keys: int

    def batches(self, *lengths: int) -> Iterator[dict[str, pa.Table]]:
        """Micro-batches that last so many seconds each."""
        random, second = np.random.default_rng(7), 0
        for length in lengths:
            yield {name: self._table(random, name, second, length) for name in ("slow", "fast")}
            second += length

    def _table(self, random: np.random.Generator, name: str, second: int, length: int) -> pa.Table:
        rows = length * (self.slow if name == "slow" else self.fast)
        times = START + second * 1_000_000 + np.sort(random.integers(0, length * 1_000_000, rows))
        return pa.table(
            {
                "key": random.integers(0, self.keys, rows),
                f"{name}_at": pa.array(times).view(INSTANT),
                f"{name}_value": random.random(rows),
            }
        )


LOADS = [
    Load("1,000 keys, 10 minutes", fast=10_000, slow=100, seconds=600, keys=1_000),
    Load("10,000 keys, 30 minutes", fast=10_000, slow=100, seconds=1800, keys=10_000),
    Load("a million keys, 20 seconds", fast=100_000, slow=1_000, seconds=20, keys=1_000_000),
]
#: The windows are filled in so many micro-batches; then they last a second.
FILL = 60
STEADY = 20


def start(load: Load, plan: Plan, folder: str) -> LocalJoin:
    streams = {
        name: LocalStream(
            pa.schema(
                [("key", pa.int64()), (f"{name}_at", INSTANT), (f"{name}_value", pa.float64())]
            ),
            time=f"{name}_at",
            delay="0 seconds",
        )
        for name in ("slow", "fast")
    }
    return LocalJoin(
        streams,
        on="key",
        within=f"{load.seconds} seconds",
        tuning=Tuning(index=plan),
        folder=folder,
    )


def measure(load: Load) -> dict[str, float]:
    """Milliseconds a micro-batch, for each plan."""
    times: dict[str, list[float]] = {name: [] for name in PLANS}
    results = dict.fromkeys(PLANS, 0)
    with tempfile.TemporaryDirectory() as folder:
        joins = {name: start(load, plan, f"{folder}/{name}") for name, plan in PLANS.items()}
        filling = [-(-load.seconds // FILL)] * FILL
        for number, batch in enumerate(load.batches(*filling, *[1] * 2 * STEADY)):
            for name, join in joins.items():
                gc.collect()
                began = time.perf_counter()
                results[name] += join.batch(**batch).num_rows
                if number >= FILL + STEADY:
                    times[name].append((time.perf_counter() - began) * 1000)
    assert len(set(results.values())) == 1, f"different results: {results}"
    return {name: statistics.median(taken) for name, taken in times.items()}


def rate_change() -> list[str]:
    """What the planner says when the slow stream falls silent, and when it is back."""
    load = Load("rate change", fast=20_000, slow=2_000, seconds=100, keys=1_000_000)
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        join = start(load, "auto", folder)
        for number, batch in enumerate(load.batches(*[1] * 240)):
            if 120 <= number < 180 and number % 20:
                batch["slow"] = batch["slow"].slice(0, 0)
            join.batch(**batch)
            notes += [f"micro-batch {number}: {note}" for note in join.counters.notes]
    return notes


def main() -> None:
    claims = []
    table = Table("workload", *PLANS, "auto / best", "worst / auto")
    for load in LOADS:
        with console.status(load.name):
            taken = measure(load)
        fixed = [taken[name] for name in PLANS if name != "auto"]
        near, far = taken["auto"] / min(fixed), max(fixed) / taken["auto"]
        times = [f"{taken[name]:.1f} ms" for name in PLANS]
        table.add_row(load.name, *times, f"{near:.2f}", f"{far:.2f}")
        claims.append({"workload": load.name, "ms": taken, "near": near, "far": far})
    console.print(table)
    console.print("goals: auto / best at most 1.10; worst / auto at least 2 with few keys\n")
    for note in rate_change():
        console.print(note)
    output = Path("bench-output/window_plans.json")
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps(claims, indent=2))


if __name__ == "__main__":
    main()
