"""Capsules: one row of Spark's that holds many of the user's, as Arrow bytes.

``Pack`` runs where the source's rows are: it deals them out to shards and
sends one capsule for each. Between there and the operator Spark handles capsules
only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as T

from watersmeet.operators.equi.promises.closing import for_one_shard
from watersmeet.rows.columns import CODE, TIME, concat
from watersmeet.rows.ipc import write_ipc
from watersmeet.rows.shard import shard_numbers
from watersmeet.spark.arrow import canonical_rows
from watersmeet.spark.worker import settle

#: What travels to the operator.
CAPSULE = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("stream", T.IntegerType()),
        T.StructField("event_time", T.TimestampType()),
        T.StructField("payload", T.BinaryType()),
    ]
)
_CAPSULE_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("stream", pa.int32()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("payload", pa.binary()),
    ]
)

#: A task packs so many rows, or so many bytes, at a time.
PACK_ROWS = 1 << 16
PACK_BYTES = 64 << 20
#: A capsule has about so many bytes at most. Spark hands the operator as many capsules at
#: once as ``spark.sql.execution.arrow.maxRecordsPerBatch`` says, whatever their size.
CAPSULE_BYTES = 128 << 10


@dataclass(frozen=True)
class Pack:
    """Turns one stream's rows into capsules; a function for ``mapInArrow``.

    The first task also sends an empty capsule to every shard, so that each
    shard takes a step, and reports its state, in every micro-batch with data.
    """

    stream: int
    shard_ids: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            yield self._capsules([(shard, None) for shard in self.shard_ids])
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            waiting.append(batch)
            rows, size = rows + len(batch), size + batch.nbytes
            if rows >= PACK_ROWS or size >= PACK_BYTES:
                yield self._pack(waiting)
                waiting, rows, size = [], 0, 0
        if rows:
            yield self._pack(waiting)

    def _pack(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = canonical_rows(concat(batches))
        most = max(1, CAPSULE_BYTES * len(rows) // max(1, rows.nbytes))
        count = len(self.shard_ids)
        if count == 1:
            return self._capsules([(self.shard_ids[0], part) for part in _parts(rows, most)])
        rows, everywhere = for_one_shard(rows)
        # Sixteen bits make numpy sort by radix: one pass, whatever the number of rows.
        numbers = shard_numbers(rows.column(CODE), count).astype(
            np.uint16 if count <= 1 << 16 else np.int64
        )
        order = np.argsort(numbers, kind="stable")
        rows = rows.take(pa.array(order))
        ends = np.searchsorted(numbers[order], np.arange(count), side="right")
        slices, start = [], 0
        for shard, end in zip(self.shard_ids, ends.tolist(), strict=True):
            of_shard = rows.slice(start, end - start)
            slices += [(shard, part) for part in _parts(of_shard, most)]
            slices += [(shard, part) for part in _parts(everywhere, most)]
            start = end
        return self._capsules(slices)

    def _capsules(self, slices: list[tuple[int, pa.RecordBatch | None]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                pa.array([shard for shard, _ in slices], pa.int32()),
                pa.array([self.stream] * len(slices), pa.int32()),
                pa.array([greatest_time(rows) for _, rows in slices], pa.int64()).view(
                    pa.timestamp("us", "UTC")
                ),
                payloads([rows for _, rows in slices]),
            ],
            schema=_CAPSULE_ARROW,
        )


def payloads(parts: Sequence[pa.RecordBatch | None]) -> pa.Array:
    """Each of the record batches as an Arrow IPC stream, written where it stays; None as
    null."""
    sink, ends = pa.BufferOutputStream(), [0]
    for rows in parts:
        if rows is not None:
            write_ipc(rows, sink)
        ends.append(sink.tell())
    valid = pa.array([rows is not None for rows in parts], pa.bool_()).buffers()[1]
    offsets = pa.py_buffer(np.array(ends, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), len(parts), [valid, offsets, sink.getvalue()])


def _parts(rows: pa.RecordBatch, most: int) -> list[pa.RecordBatch]:
    """Rows, cut after every so many."""
    return [rows.slice(start, most) for start in range(0, len(rows), most)]


def greatest_time(rows: pa.RecordBatch | None) -> int | None:
    """The greatest time in rows, in microseconds, if they have any."""
    if rows is None or TIME not in rows.schema.names:
        return None
    greatest: int | None = pc.max(rows.column(TIME).view(pa.int64())).as_py()
    return greatest
