"""The join of three streams, run by each policy, with the times at which results come out.

All values are relative to the *timestamp* policy, as in the paper: time 1 is the time which
that takes for the same micro-batch.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.multiway.datasets import DATASETS, STREAMS, UNITS, Dataset, Floats
from watersmeet.rows.columns import CODE, TIME
from watersmeet.spec.tuning import DRIVERS, Tuning
from watersmeet.testing import LocalJoin, LocalStream

INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("key", pa.int64()), ("at", INSTANT)])
STORED = pa.schema([(CODE, pa.int64()), (TIME, INSTANT)])
#: The fixed policies, and what the goals choose.
_FIXED = tuple(driver for driver in DRIVERS if driver != "auto")
POLICIES: tuple[str, ...] = _FIXED
WAYS: dict[str, dict[str, Any]] = {
    **{policy: {"tuning": Tuning(index="always", driver=policy)} for policy in _FIXED},
    "auto": {"goal": "throughput", "tuning": Tuning(index="always")},
    "auto, early": {"goal": "early", "tuning": Tuning(index="always")},
}
#: The paper's micro-batches: of 0.1M and of 1M time units, 100 and 10 of them.
PERIODS = {"0.1M": 100, "1M": 10}
#: Windows fill in the first fifth of a run, which does not count.
LAST = (0.2, 1.0)
FIRST_HALF, SECOND_HALF = (0.2, 0.6), (0.6, 1.0)
Part = tuple[float, float]


@dataclass(frozen=True)
class Load:
    """How much of the paper's rows is run: one in ``divided``; how often."""

    divided: int
    repetitions: int


@dataclass(frozen=True)
class Trace:
    """One run: the CPU seconds of each micro-batch; and of each, the CPU seconds after which
    a piece of results came out, and the results that were out by then."""

    seconds: Floats
    pieces: list[tuple[Floats, Floats]]

    @property
    def results(self) -> int:
        return int(sum(out[-1] for _, out in self.pieces if len(out)))


def micro_batches(dataset: Dataset, count: int) -> Iterator[list[pa.RecordBatch]]:
    """New rows of each stream, as the operator takes them."""
    streams = []
    for position in range(len(STREAMS)):
        keys, times = dataset.stream(position)
        columns = [pa.array(keys), pa.array(times).view(INSTANT)]
        ends = np.searchsorted(times, np.arange(count + 1) * UNITS // count)
        streams.append((pa.RecordBatch.from_arrays(columns, schema=STORED), ends))
    for number in range(count):
        yield [rows.slice(ends[number], ends[number + 1] - ends[number]) for rows, ends in streams]


def trace(dataset: Dataset, count: int, way: str) -> Trace:
    """Run the join over a dataset in so many micro-batches."""
    folder = tempfile.mkdtemp(prefix="watersmeet-experiment-")
    streams = {name: LocalStream(SCHEMA, time="at", delay="0 seconds") for name in STREAMS}
    local = LocalJoin(streams, on="key", unbounded=True, folder=folder, **WAYS[way])
    done = Trace(np.zeros(count), [])
    try:
        for number, rows in enumerate(micro_batches(dataset, count)):
            at, out, results = [], [], 0
            began = time.process_time()
            state = local.run.state(0)
            for piece in local.join.step([rows], None, state, local.join.counters()):
                results += len(piece)
                at.append(time.process_time() - began)
                out.append(results)
            state.commit()
            done.seconds[number] = time.process_time() - began
            done.pieces.append((np.array(at), np.array(out)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return done


@dataclass(frozen=True)
class Measured:
    """All runs over one dataset, in micro-batches of one size."""

    traces: dict[str, list[Trace]]

    def time(self, way: str, part: Part = LAST) -> float:
        """CPU time of a part of the run."""
        return self._seconds(way, part).sum() / self._seconds("timestamp", part).sum()

    def share(
        self, way: str, at: float, part: Part = LAST, *, relative_to: str = "timestamp"
    ) -> float:
        """The share of a micro-batch's results that is out at a time, on average."""
        shares = []
        unit = at * self._seconds(relative_to, part)
        for one in self.traces[way]:
            for until, (times, out) in zip(unit, one.pieces[self._slice(part)], strict=True):
                if len(out):
                    shares.append(np.r_[0, out][np.searchsorted(times, until, "right")] / out[-1])
        return float(np.mean(shares)) if shares else 0.0

    def results(self) -> set[int]:
        """How many results each run had: the same number, if all is well."""
        return {one.results for traces in self.traces.values() for one in traces}

    def _seconds(self, way: str, part: Part) -> Floats:
        """CPU seconds of each micro-batch, the median over the repetitions."""
        return np.median([one.seconds for one in self.traces[way]], axis=0)[self._slice(part)]

    def _slice(self, part: Part) -> slice:
        count = len(self.traces["timestamp"][0].seconds)
        return slice(round(part[0] * count), round(part[1] * count))


@cache
def measured(name: str, period: str, load: Load) -> Measured:
    """Run a dataset by all policies, one after the other, and so on again: what else the
    machine does, slows all of them alike."""
    dataset = DATASETS[name].divided(load.divided)
    traces: dict[str, list[Trace]] = {way: [] for way in WAYS}
    for _ in range(load.repetitions):
        for way in WAYS:
            traces[way].append(trace(dataset, PERIODS[period], way))
    return Measured(traces)
