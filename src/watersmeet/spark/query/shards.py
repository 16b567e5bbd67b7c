"""Shards on Spark: each has a shuffle partition of its own.

Rows with equal keys share a shard (:mod:`watersmeet.rows.shard`). Spark sends a shard id to
partition ``pmod(murmur3(id), partitions)``; two small ids may well meet there, so the ids are
chosen to be the smallest one for each partition.

A checkpoint keeps the number of partitions that it was begun with, whatever the session says later.
Only a task of the query knows it. So a join is planned for the session's number, and the tasks use
the query's own. In the same way a task learns over how many shards an earlier run of a join without
a key had dealt its rows, whether its micro-batch was begun by an earlier run, and whether the query
has several watermarks (:mod:`watersmeet.spark.checkpoint.start_check`).

The functions here are part of the state's format: a change moves rows away
from the state they belong to.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from pyspark import TaskContext

_SPARK_SEED = np.uint32(42)
#: Where a task finds the number of partitions that its query's state has.
_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
#: Where it finds how many shards new rows must reach at least.
REACH = "spark.watersmeet.reach"
#: Where it finds which micro-batch an earlier run had begun, and over how many shards it had dealt
#: the rows: two numbers, with a colon between.
AGAIN = "spark.watersmeet.again"
#: Where it finds whether the query has several watermarks.
SEVERAL = "spark.watersmeet.several"
_BATCH = "streaming.sql.batchId"


def ids_in_task(planned: tuple[int, ...]) -> tuple[int, ...]:
    """The ids of the shards of the query that this task belongs to; the ``planned`` ones outside
    of a task, and in a batch run."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(_STATE_PARTITIONS)
    return planned if number is None or int(number) == len(planned) else _ids(int(number))


def reach_in_task() -> int:
    """How many shards new rows must reach at least, because an earlier run has stored rows there;
    0 outside of a task, and if the planned number is enough."""
    context = TaskContext.get()
    return int((context and context.getLocalProperty(REACH)) or 0)


def several_in_task() -> bool:
    """Does the query have several watermarks, as far as is known?"""
    context = TaskContext.get()
    return context is not None and context.getLocalProperty(SEVERAL) is not None


def slices_in_task() -> int | None:
    """Over how many shards this task must deal rows, because its micro-batch was begun by an
    earlier run with so many slices; None: as planned."""
    context = TaskContext.get()
    again = context and context.getLocalProperty(AGAIN)
    if not context or not again:
        return None
    batch, slices = again.split(":")
    return int(slices) if context.getLocalProperty(_BATCH) == batch else None


@cache
def _ids(partitions: int) -> tuple[int, ...]:
    return tuple(shard_ids(partitions))


def shard_ids(partitions: int) -> list[int]:
    """For each shuffle partition, the smallest id that Spark sends there.

    >>> shard_ids(2)
    [2, 0]
    """
    chosen: dict[int, int] = {}
    start, size = 0, max(64, 4 * partitions)
    while len(chosen) < partitions:
        ids = np.arange(start, start + size, dtype=np.uint32)
        for identifier, partition in zip(
            ids, murmur3(ids).astype(np.int64) % partitions, strict=True
        ):
            chosen.setdefault(int(partition), int(identifier))
        start += size
    return [chosen[partition] for partition in range(partitions)]


def murmur3(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Spark's hash of int values: 32-bit Murmur3 of one word, with seed 42."""

    def rotate(x: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    with np.errstate(over="ignore"):
        k = rotate(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        h = rotate(_SPARK_SEED ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h.view(np.int32)
