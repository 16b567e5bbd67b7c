"""Runs in the paper's regime, with the operator itself.

An iteration is a step that reads one partition of the table, as a whole, and takes in ``rows`` rows
of the stream. Rows whose key is not cached wait until their partition comes. SSBJ is the operator
with its cache, MESHJOIN without.

**Memory** is what the paper counts in equation 1: the disk buffer, the cache and the waiting rows.
A run either has a number of rows for each iteration, and the memory is measured; or it has a
memory, and takes as many rows as fit.

**Reading is real.** Partitions are synced to the disk when they are staged, and before each
iteration the system is told to drop them from its memory (``POSIX_FADV_DONTNEED``). So an
iteration has two times: that of the CPU, and that of the clock, which has the reading as well.
Dropping, and making the rows of the stream, is not part of either.

**Two differences** from the paper, for both algorithms. Its table is not sorted, so a row must see
all partitions: it waits for a whole cycle. Ours is sorted by key, so a row waits for half a cycle
on average. And rows whose key is not in the table at all, a third of them in table 2, are answered
at once, by the filters of the partitions: in the paper they wait like others.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.semi_stream.datasets import Dataset
from experiments.semi_stream.model import least_memory, most_rows, service_rate
from watersmeet.joins.enrich.spec import EnrichTuning
from watersmeet.rows.shard import Shard
from watersmeet.testing import LocalEnrich, LocalStream

INSTANT = pa.timestamp("us", "UTC")
#: 20 bytes, as in table 2.
STREAM = pa.schema([("key", pa.int64()), ("id", pa.int32()), ("at", INSTANT)])
#: The disk buffer is this part of the memory.
BUFFERS = 4
#: A waiting row: the same, and the step in which it came.
ROW_BYTES = 28
#: What is measured are the last cycles.
_MEASURED = 2
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Measured:
    """What the last cycles of a run were like, as means. Of an iteration: its ``rows``, the share
    of these that the cache answered (``hits``), and its seconds, of the ``cpu`` and of the
    ``clock``. Bytes in use: the ``buffer``, the ``cache`` and the ``waiting`` rows. The table:
    ``partitions`` of ``b`` rows; a byte of it took ``read`` nanoseconds to read."""

    rows: float
    hits: float
    cpu: float
    clock: float
    buffer: float
    cache: float
    waiting: float
    partitions: int
    b: float
    read: float

    @property
    def memory(self) -> float:
        """The bytes in use, by equation 1."""
        return self.buffer + self.cache + self.waiting

    @property
    def cycle(self) -> float:
        """The rows that come in one cycle: the service rate, if nothing but reading takes
        time."""
        return self.rows * self.partitions

    @property
    def w_N(self) -> float:
        """The rows that the cache answers."""
        return self.rows * self.hits

    @property
    def w_S(self) -> float:
        """The rows that the disk phase answers."""
        return self.rows * (1 - self.hits)

    @property
    def rate(self) -> float:
        """Rows a second, by the clock: equation 3."""
        return service_rate(self.w_N, self.w_S, self.clock)

    @property
    def cpu_rate(self) -> float:
        """Rows a second of the CPU: the service rate, if reading takes no time."""
        return self.rows / self.cpu

    @property
    def disk_rate(self) -> float:
        """Rows a second that the disk phase answers."""
        return self.rate * (1 - self.hits)

    def rate_with(self, disk: float) -> float:
        """Rows a second, computed for a disk of so many bytes a second."""
        return self.rows / (self.cpu + self.buffer / disk)


def at_rows(dataset: Dataset, rows: int, *, cached: bool, **settings: Any) -> Measured:
    """A run with so many rows in an iteration."""
    return _run(dataset, rows=rows, memory=None, cached=cached, **settings)


def at_memory(dataset: Dataset, memory: float, *, cached: bool, **settings: Any) -> Measured:
    """A run with as many rows in an iteration as fit into so many bytes."""
    return _run(dataset, rows=None, memory=memory, cached=cached, **settings)


def most(dataset: Dataset, room: float, partitions: int, *, cached: bool) -> float:
    """The rows of a cycle that fit into so many bytes beside the disk buffer, at best."""
    m, p, v_R, v_S = _sizes(dataset, partitions)
    return most_rows(m, p, room, v_R=v_R, v_S=v_S) if cached else room / (p.sum() * v_S)


def least(dataset: Dataset, rows: float, partitions: int, *, cached: bool) -> float:
    """The bytes, beside the disk buffer, that so many rows of a cycle take, at best."""
    m, p, v_R, v_S = _sizes(dataset, partitions)
    return least_memory(m, rows * p, v_R, v_S) if cached else float(rows * p.sum() * v_S)


def _sizes(dataset: Dataset, partitions: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The paper's m, p, v_R and v_S. A row waits for half a cycle, less the iteration in which it
    comes; one whose key is not in the table does not."""
    m, p = dataset.matching
    v_R = dataset.table.nbytes / dataset.table.num_rows
    return m, p, v_R, ROW_BYTES * (partitions - 1) / (2 * partitions)


def _run(
    dataset: Dataset,
    *,
    rows: int | None,
    memory: float | None,
    cached: bool,
    partitions: int | None = None,
    cycles: int | None = None,
    policy: Mapping[str, Any] | None = None,
) -> Measured:
    size = dataset.table.nbytes
    # Without a cache, a run is steady from the second cycle on.
    cycles = cycles or (5 if cached else 3)
    if partitions is None:
        partitions = 40 if memory is None else max(10, math.ceil(BUFFERS * size / memory))
    with tempfile.TemporaryDirectory() as folder:
        local = _started(dataset, size // partitions, folder, memory, cached, policy or {})
        partitions = len(local.staged.shard(Shard()))
        buffer = size / partitions
        room = None if memory is None else memory - buffer
        count = float(rows or 0)
        if room is not None:
            count = max(most(dataset, room, partitions, cached=cached) / partitions, 1.0)
        iterations = Iterations(local, dataset)
        measured: list[_Iteration] = []
        for cycle in range(cycles):
            seen = [iterations.next(round(count)) for _ in range(partitions)]
            if cycle >= cycles - _MEASURED:
                measured += seen
            elif room is not None and cycle:
                # The first cycle begins without a cache.
                used = np.mean([one.cache + one.waiting for one in seen[-len(seen) // 3 :]])
                count = max(count * float(np.clip(room / max(used, 1), 0.5, 1.5)), 1.0)
        reading = local.run.state(0).reading.read
        iterations.close()
    taken = sum(one.rows for one in measured)
    return Measured(
        rows=taken / len(measured),
        hits=sum(one.hits for one in measured) / taken,
        cpu=float(np.mean([one.cpu for one in measured])),
        clock=float(np.mean([one.clock for one in measured])),
        buffer=buffer,
        cache=float(np.mean([one.cache for one in measured])),
        waiting=float(np.mean([one.waiting for one in measured])),
        partitions=partitions,
        b=dataset.table.num_rows / partitions,
        read=float(reading or 0.0),
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
    cpu: float
    clock: float
    cache: float
    waiting: float


class Iterations:
    """The iterations of a run, one after the other."""

    def __init__(self, local: LocalEnrich, dataset: Dataset) -> None:
        self._local = local
        self._dataset = dataset
        self._dice = np.random.default_rng(3)
        self._number = 0
        files = Path(local.staged.folder).glob("*/[0-9]*.arrow")
        self._files = [os.open(file, os.O_RDONLY) for file in files]
        for file in self._files:
            os.fsync(file)

    def next(self, rows: int) -> _Iteration:
        """One iteration with so many rows."""
        self._number += 1
        at = _START + timedelta(seconds=self._number)
        batch = pa.table(
            {
                "key": self._dataset.keys(self._dice, rows).astype(np.int64),
                "id": np.arange(rows, dtype=np.int32),
                "at": pa.repeat(pa.scalar(at, INSTANT), rows),
            },
            STREAM,
        )
        for file in self._files:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        cpu, clock = time.process_time(), time.perf_counter()
        self._local.batch(batch)
        cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
        counters = self._local.counters
        waiting = ROW_BYTES * counters.streams[0].state_rows
        return _Iteration(rows, counters.hits, cpu, clock, counters.cached_bytes, waiting)

    def close(self) -> None:
        """Close the files of the table."""
        for file in self._files:
            os.close(file)
