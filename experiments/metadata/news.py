"""The rolling top ten of the paper's section 6.1, and the joins that are compared over it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.metadata.schedules import Runs, ScheduledJoin
from watersmeet.spec.budget import Budget
from watersmeet.spec.stream import Punctuation
from watersmeet.testing import LocalStream

NEWS = pa.schema([("sno", pa.int64()), ("title", pa.string())])
ACCESS = pa.schema([("sno", pa.int64()), ("ip", pa.int64()), ("over", pa.bool_())])
LATEST = 10
Batch = dict[str, pa.Table]


@dataclass(frozen=True)
class Rolling:
    """``items`` news items, with so many access records ``each`` while they are among the ten
    latest; ``step`` items a micro-batch. In the *random* pattern news come in random order,
    up to ``span`` places from where they belong; in the *clustered* one, an item's records
    come together, and there are no punctuations."""

    items: int = 800
    each: int = 25
    step: int = 2
    pattern: str = "ordered"
    span: int = 60

    def batches(self) -> Iterator[Batch]:
        random = np.random.default_rng(11)
        order = np.arange(self.items)
        if self.pattern == "random":
            order = np.argsort(order + random.integers(0, self.span, self.items), kind="stable")
        for first in range(0, self.items, self.step):
            numbers = np.arange(first, min(first + self.step, self.items))
            newest = np.repeat(numbers, self.each)
            if self.pattern == "clustered":
                read, over = newest, numbers[:0]
            else:
                read = np.maximum(newest - random.integers(0, LATEST, len(newest)), 0)
                over = numbers - LATEST
                over = over[over >= 0]
            published = order[first : first + self.step]
            flags = np.concatenate([np.zeros(len(read), bool), np.ones(len(over), bool)])
            keys = np.concatenate([read, over])
            titles = pa.array([f"news {number}" for number in published])
            yield {
                "news": pa.table({"sno": published, "title": titles}, NEWS),
                "access": pa.table({"sno": keys, "ip": keys, "over": flags}, ACCESS),
            }


ENDS = LocalStream(ACCESS, punctuation=Punctuation(when='"over"'))
ONE = LocalStream(NEWS, unique=True)
#: The algorithms by the paper's names: 1-NP for punctuations, 1-NC for clusters; symmetric
#: hash join and XJoin know nothing of either, and XJoin keeps to a memory budget.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "1-NP, immediate": {"streams": (ONE, ENDS), "goal": "memory"},
    "1-NP, batch": {"streams": (ONE, ENDS), "goal": "throughput"},
    "1-NC": {
        "streams": (ONE, LocalStream(ACCESS, arrival="clustered")),
        "goal": "memory",
        "unbounded": True,  # a row whose key never comes would stay: here every key does
    },
    "SHJ": {"streams": (LocalStream(NEWS), LocalStream(ACCESS)), "unbounded": True},
    "XJoin": {
        "streams": (LocalStream(NEWS), LocalStream(ACCESS)),
        "unbounded": True,
        "budget": Budget(memory="1 MB"),
    },
}


@dataclass
class Trace:
    """After each micro-batch: results so far, CPU seconds so far, rows stored."""

    results: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    handed_on: int = 0


def trace(load: Rolling, algorithm: str, schedule: Runs | None = None, **more: Any) -> Trace:
    """Run an algorithm over the workload, in small steps."""
    options = {**ALGORITHMS[algorithm], **more}
    news, access = options.pop("streams")
    folder = tempfile.mkdtemp(prefix="watersmeet-experiment-")
    trace, results, spent = Trace(), 0, 0.0
    ignorant = access.punctuation is None
    try:
        join = ScheduledJoin(
            {"news": news, "access": access}, on="sno", folder=folder, schedule=schedule, **options
        )
        for batch in load.batches():
            if ignorant:
                data = batch["access"]
                batch["access"] = data.filter(pa.compute.invert(data.column("over")))
            began = time.process_time()
            result = join.batch(**batch)
            spent += time.process_time() - began
            if "is_punctuation" in result.schema.names:
                flags = pa.compute.sum(result.column("is_punctuation")).as_py() or 0
                trace.handed_on += flags
                results -= flags
            results += result.num_rows
            trace.results.append(results)
            trace.seconds.append(spent)
            trace.stored.append(sum(join.state_rows()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return trace
