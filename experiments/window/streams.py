"""Streams of a constant rate with uniform keys, and a join to drive with them."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.spec.budget import Budget
from watersmeet.spec.tuning import Tuning
from watersmeet.testing import LocalJoin, LocalStream

INSTANT = pa.timestamp("us", "UTC")
START = 1_700_000_000_000_000
SCHEMA = pa.schema([("key", pa.int64()), ("at", INSTANT)])
#: The paper's names for the ways to hold the two windows, A's first.
PLANS = {
    "HHJ": {"a": "always", "b": "always"},
    "HNJ": {"a": "always", "b": "never"},
    "NHJ": {"a": "never", "b": "always"},
    "NNJ": {"a": "never", "b": "never"},
}


@dataclass(frozen=True)
class Source:
    """A stream with so many rows a second and so many keys."""

    rate: float
    keys: int
    seed: int

    def rows(self, second: float, seconds: float) -> pa.Table:
        """What comes in so many seconds."""
        random = np.random.default_rng((self.seed, int(second * 1000)))
        count = round(self.rate * (second + seconds)) - round(self.rate * second)
        times = START + (second + np.sort(random.random(count)) * seconds) * 1e6
        instants = pa.array(times.astype(np.int64)).view(INSTANT)
        return pa.table({"key": random.integers(0, self.keys, count), "at": instants}, SCHEMA)


@contextmanager
def join(
    T_a: float,
    T_b: float,
    *,
    plan: Any = "auto",
    budget: Budget | None = None,
    shards: int = 1,
) -> Iterator[LocalJoin]:
    """A join of A and B with windows of so many seconds, over so many shards."""
    folder = tempfile.mkdtemp(prefix="watersmeet-experiment-")
    stream = LocalStream(SCHEMA, time="at", delay=timedelta(0))
    within = {"a": timedelta(seconds=T_a), "b": timedelta(seconds=T_b)}
    try:
        yield LocalJoin(
            {"a": stream, "b": stream},
            on="key",
            within=within,
            tuning=Tuning(index=plan),
            budget=budget,
            folder=folder,
            shards=shards,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def results(
    a: Source,
    b: Source,
    T_a: float,
    T_b: float,
    *,
    seconds: float,
    step: float = 10.0,
    budget: Budget | None = None,
    shards: int = 1,
) -> float:
    """Results a second, after the windows have filled."""
    fill = max(T_a, T_b)
    total = second = 0.0
    with join(T_a, T_b, budget=budget, shards=shards) as running:
        while second < fill + seconds:
            found = running.batch(a=a.rows(second, step), b=b.rows(second, step)).num_rows
            total += found if second >= fill else 0
            second += step
    return total / seconds


def cpu(
    a: Source, b: Source, T_a: float, T_b: float, plan: object, *, seconds: int = 10
) -> tuple[float, float]:
    """CPU seconds that a second of the streams takes, and results in it, in micro-batches
    of a second, after the windows have filled."""
    fill = max(T_a, T_b)
    times, found = [], 0
    with join(T_a, T_b, plan=plan) as running:
        for second in np.arange(0, fill, fill / 10):
            running.batch(a=a.rows(second, fill / 10), b=b.rows(second, fill / 10))
        for second in range(int(fill), int(fill) + seconds):
            batch = {"a": a.rows(second, 1), "b": b.rows(second, 1)}
            began = time.process_time()
            found += running.batch(**batch).num_rows
            times.append(time.process_time() - began)
    return float(np.median(times)), found / seconds
