"""Runs in the paper's regime, with the operator itself.

An iteration is a step that reads one partition of the table, as a whole, and takes in ``rows`` rows
of the stream. Rows whose key is not cached wait until their partition comes. SSBJ is the operator
with its cache, MESHJOIN without.

Memory is what the paper counts in equation 1: the disk buffer, the cache and the waiting rows. A
run either has a number of rows for each iteration, and the memory is measured; or it has a memory,
and takes as many rows as fit.

**A difference.** The paper's table is not sorted, so a row must see all partitions: it waits for a
whole cycle. Ours is sorted by key, so a row waits for half a cycle on average. That is so for both
algorithms.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.semi_stream.datasets import Dataset
from watersmeet.rows.shard import Shard
from watersmeet.spec.enrich import EnrichTuning
from watersmeet.testing import LocalEnrich, LocalStream

INSTANT = pa.timestamp("us", "UTC")
STREAM = pa.schema([("key", pa.int64()), ("id", pa.int64()), ("at", INSTANT)])
#: The disk buffer is this part of the memory.
BUFFERS = 4
#: A waiting row: code, time, id, and the step in which it came.
ROW_BYTES = 32
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Measured:
    """What the last cycle of a run was like: the ``rows`` of an iteration, and of these the share
    that the cache answered (``hits``); the ``seconds`` of an iteration (median, CPU time); the
    bytes of ``memory`` in use (mean); the rows of a partition (``b``)."""

    rows: float
    hits: float
    seconds: float
    memory: float
    b: float

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    @property
    def disk_rate(self) -> float:
        """Rows a second that the disk phase answers."""
        return self.rate * (1 - self.hits)


def at_rows(dataset: Dataset, rows: int, *, cached: bool, **settings: Any) -> Measured:
    """A run with so many rows in an iteration."""
    return _run(dataset, rows=rows, memory=None, cached=cached, **settings)


def at_memory(dataset: Dataset, memory: float, *, cached: bool, **settings: Any) -> Measured:
    """A run with as many rows in an iteration as fit into so many bytes."""
    return _run(dataset, rows=None, memory=memory, cached=cached, **settings)


def _run(
    dataset: Dataset,
    *,
    rows: int | None,
    memory: float | None,
    cached: bool,
    partitions: int | None = None,
    cycles: int = 6,
    policy: Mapping[str, Any] | None = None,
) -> Measured:
    size = dataset.table.nbytes
    if partitions is None:
        partitions = 40 if memory is None else math.ceil(BUFFERS * size / memory)
    with tempfile.TemporaryDirectory() as folder:
        local = _started(dataset, size // partitions, folder, memory, cached, policy or {})
        partitions = len(local.staged.shard(Shard()))
        buffer = size / partitions
        room = None if memory is None else max(memory - buffer, ROW_BYTES * partitions)
        count = float(rows or 2 * (room or 0) / ROW_BYTES / partitions)
        iterations = Iterations(local, dataset)
        for _ in range(cycles):
            seen = [iterations.next(round(count)) for _ in range(partitions)]
            used = float(np.mean([one.memory for one in seen[-3:]]))
            if room is not None:
                count *= float(np.clip(room / max(used, 1), 0.5, 2))
                count = max(count, 1.0)
    return Measured(
        rows=float(np.mean([one.rows for one in seen])),
        hits=float(np.sum([one.hits for one in seen]) / np.sum([one.rows for one in seen])),
        seconds=float(np.median([one.seconds for one in seen])),
        memory=buffer + float(np.mean([one.memory for one in seen])),
        b=dataset.table.num_rows / partitions,
    )


def _started(
    dataset: Dataset,
    partition: int,
    folder: str,
    memory: float | None,
    cached: bool,
    policy: Mapping[str, Any],
) -> LocalEnrich:
    return LocalEnrich(
        "s",
        LocalStream(STREAM, time="at", delay=timedelta(days=1)),
        dataset.table,
        on="key",
        folder=folder,
        max_wait="1000000 batches",
        tuning=EnrichTuning(cache=cached, access="scan"),
        policy={
            "partition": partition,
            "resident": 0,
            "cache": 1 << 40 if memory is None else int(memory),
            "queue": 1 << 40,
            "at_once": -1.0,
            **policy,
        },
    )


@dataclass(frozen=True)
class _Iteration:
    rows: int
    hits: int
    seconds: float
    memory: float


class Iterations:
    """The iterations of a run, one after the other."""

    def __init__(self, local: LocalEnrich, dataset: Dataset) -> None:
        self._local = local
        self._dataset = dataset
        self._dice = np.random.default_rng(3)
        self._number = 0

    def next(self, rows: int) -> _Iteration:
        """One iteration with so many rows."""
        self._number += 1
        at = _START + timedelta(seconds=self._number)
        batch = pa.table(
            {
                "key": self._dataset.keys(self._dice, rows).astype(np.int64),
                "id": np.arange(rows),
                "at": pa.array([at] * rows, INSTANT),
            },
            STREAM,
        )
        began = time.process_time()
        self._local.batch(batch)
        seconds = time.process_time() - began
        counters = self._local.counters
        waiting = ROW_BYTES * counters.streams[0].state_rows
        return _Iteration(rows, counters.hits, seconds, waiting + counters.cached_bytes)
