"""Capsules: one row of Spark's that holds many of the user's, as Arrow bytes.

Invariant: a capsule's rows take at most :data:`CAPSULE_BYTES`, or it has one row. It is followed by
empty ones for the same shard, so that in a batch of Spark's it takes up as many places as it needs
(:mod:`watersmeet.spark.query.places`). The capsules that leave together take at most the limit of
their pack, or only one of them is not empty.

``Pack`` runs where rows are made, in a task of the source or in an operator that hands them on:
it deals them out to shards by a route and makes a capsule for each. Between there and the next
operator Spark handles capsules only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as T

from watersmeet.joins.chain import Input
from watersmeet.rows.columns import TIME
from watersmeet.rows.dealing import Dealer
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.inflow import Inflow
from watersmeet.rows.ipc import write_ipc
from watersmeet.rows.route import Route, with_reach, with_slices
from watersmeet.rows.types import UTC, canonical_rows
from watersmeet.rows.widths import sliced
from watersmeet.spark.query.places import PLACE_BYTES, without_places
from watersmeet.spark.query.shards import ids_in_task, reach_in_task, slices_in_task
from watersmeet.spark.session.worker import prepare, promptly
from watersmeet.spark.session.worker_object import WorkerObject

#: What travels to an operator; the event time leaves before it gets there.
CAPSULE = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("stream", T.IntegerType()),
        T.StructField("event_time", T.TimestampType()),
        T.StructField("payload", T.BinaryType()),
    ]
)
CAPSULE_ARROW = pa.schema(
    [("shard", pa.int32()), ("stream", pa.int32()), ("event_time", UTC), ("payload", pa.binary())]
)

#: A task packs this number of rows, or of bytes, at a time, if there is no lower limit.
PACK_ROWS = 1 << 16
PACK_BYTES = 64 << 20
#: A capsule's rows take this number of bytes at most.
CAPSULE_BYTES = 128 << 10


@dataclass(frozen=True)
class Pack(WorkerObject):
    """Turns rows into capsules for one input (``stream``) of an operator.

    Spark knows shard n as ``ids[n]`` (:mod:`watersmeet.spark.query.shards`). As a function
    for ``mapInArrow``: it deals to the shards of the query that runs it, and the first task also
    sends an empty capsule to every shard, so that each takes a step, and reports its state, in
    every micro-batch with data. ``counted``: rows of equal content are dealt by count
    (:mod:`watersmeet.rows.dealing`). About ``limit`` bytes of rows are packed at a time. ``label``
    is what it is called in Spark's plans. ``told``: each task also tells every shard what it has
    packed, all shards together, by a capsule for no stream (:func:`told_input`).
    """

    stream: int
    route: Route
    ids: tuple[int, ...]
    label: str = "pack"
    counted: bool = False
    limit: int = PACK_BYTES
    told: bool = False

    @classmethod
    def of(
        cls, given: Input, stream: int, ids: tuple[int, ...], label: str, *, told: bool = False
    ) -> Pack:
        """What packs the rows of the first operator's input of that number."""
        limit = PACK_BYTES if given.packed is None else min(given.packed, PACK_BYTES)
        return cls(stream, given.route, ids, label, given.counted, limit, told)

    @property
    def __name__(self) -> str:
        """PySpark shows a function by this name."""
        return self.label

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare()
        yield from self.in_task()._capsules_of(promptly(batches))

    def in_task(self, limit: int | None = None) -> Pack:
        """The same, as the query needs it that this task belongs to, and within another limit, if
        that is lower."""
        route = with_slices(with_reach(self.route, reach_in_task()), slices_in_task())
        limit = self.limit if limit is None else min(self.limit, limit)
        return replace(self, ids=ids_in_task(self.ids), route=route, limit=limit)

    def _capsules_of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            yield self.heartbeat()
        gathering = Gathering(PACK_ROWS, self.limit)
        parts = chain.from_iterable(sliced(batch, self.limit) for batch in batches)
        gathered = chain.from_iterable(map(gathering.add, map(without_places, parts)))
        dealing = Dealer() if self.counted else None
        inflow = Inflow()
        for rows in chain(gathered, gathering.rest()):
            if self.told:
                rows = canonical_rows(rows)
                inflow.add(rows)
            yield from self.packed(rows if dealing is None else dealing.dealt(rows))
        if inflow.rows:
            yield self._telling(inflow)

    def heartbeat(self) -> pa.RecordBatch:
        """An empty capsule for every shard."""
        return self._capsules([(shard, None) for shard in self.ids])

    def packed(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The capsules of some rows. (A route may send each row to many shards.)"""
        waiting: list[tuple[int, pa.RecordBatch | None]] = []
        total = 0
        rows = canonical_rows(rows)
        for number, dealt in self.route.deal(rows, len(self.ids)):
            for part in sliced(dealt, CAPSULE_BYTES):
                size = part.nbytes
                if waiting and total + size > self.limit:
                    yield self._capsules(waiting)
                    waiting, total = [], 0
                waiting.append((self.ids[number], part))
                waiting += [(self.ids[number], None)] * (size // PLACE_BYTES)
                total += size
        yield self._capsules(waiting)

    def _telling(self, inflow: Inflow) -> pa.RecordBatch:
        """A capsule for every shard that says what the task has packed for all of them."""
        count = len(self.ids)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(self.ids, pa.int32()),
                pa.array([told_input(self.stream)] * count, pa.int32()),
                pa.nulls(count, UTC),
                pa.array([inflow.to_bytes()] * count, pa.binary()),
            ],
            schema=CAPSULE_ARROW,
        )

    def _capsules(self, slices: list[tuple[int, pa.RecordBatch | None]]) -> pa.RecordBatch:
        times = pa.array([greatest_time(rows) for _, rows in slices], pa.int64())
        return pa.RecordBatch.from_arrays(
            [
                pa.array([shard for shard, _ in slices], pa.int32()),
                pa.array([self.stream] * len(slices), pa.int32()),
                times.view(UTC),
                payloads([rows for _, rows in slices]),
            ],
            schema=CAPSULE_ARROW,
        )


def told_input(stream: int) -> int:
    """What stands in the place of an input's number, if a capsule holds what a task has packed for
    it, and no rows; and the number again.

    >>> told_input(0), told_input(told_input(3))
    (-1, 3)
    """
    return -1 - stream


def payloads(parts: Sequence[pa.RecordBatch | None]) -> pa.Array:
    """Each of the record batches as an Arrow IPC stream, written into the array's own buffer; None
    as null."""
    sink, ends = pa.BufferOutputStream(), [0]
    for rows in parts:
        if rows is not None:
            write_ipc(rows, sink)
        ends.append(sink.tell())
    valid = pa.array([rows is not None for rows in parts], pa.bool_()).buffers()[1]
    offsets = pa.py_buffer(np.array(ends, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(parts), [valid, offsets, sink.getvalue()])


def greatest_time(rows: pa.RecordBatch | None) -> int | None:
    """The greatest time in rows, in microseconds, if they have any."""
    if rows is None or TIME not in rows.schema.names:
        return None
    greatest: int | None = pc.max(rows.column(TIME).view(pa.int64())).as_py()
    return greatest
