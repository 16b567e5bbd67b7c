"""Capsules: one row of Spark's that holds many of the user's, as Arrow bytes.

``Pack`` runs where the source's rows are: it deals them out to buckets and
sends one capsule for each. Between there and the operator Spark handles capsules
only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as T

from watersmeet.operators.closing import for_one_bucket
from watersmeet.spark.arrow import canonical_rows
from watersmeet.spark.buckets import bucket_numbers
from watersmeet.spark.worker import settle
from watersmeet.state.segment import CODE, TIME, concat, to_ipc

#: What travels to the operator.
CAPSULE = T.StructType(
    [
        T.StructField("bucket", T.IntegerType()),
        T.StructField("stream", T.IntegerType()),
        T.StructField("event_time", T.TimestampType()),
        T.StructField("payload", T.BinaryType()),
    ]
)
_CAPSULE_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("stream", pa.int32()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("payload", pa.binary()),
    ]
)

#: A task packs so many rows, or so many bytes, at a time.
PACK_ROWS = 1 << 18
PACK_BYTES = 64 << 20


@dataclass(frozen=True)
class Pack:
    """Turns one stream's rows into capsules; a function for ``mapInArrow``.

    The first task also sends an empty capsule to every bucket, so that each
    bucket takes a step, and reports its state, in every micro-batch with data.
    """

    stream: int
    bucket_ids: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            yield self._capsules([(bucket, None) for bucket in self.bucket_ids])
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            rows, size = sum(map(len, waiting)), sum(b.nbytes for b in waiting)
            if rows >= PACK_ROWS or size >= PACK_BYTES:
                yield self._pack(waiting)
                waiting = []
        if sum(map(len, waiting)):
            yield self._pack(waiting)

    def _pack(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = canonical_rows(concat(batches))
        count = len(self.bucket_ids)
        if count == 1:
            return self._capsules([(self.bucket_ids[0], rows)])
        rows, everywhere = for_one_bucket(rows)
        # Sixteen bits make numpy sort by radix: one pass, whatever the number of rows.
        numbers = bucket_numbers(rows.column(CODE), count).astype(
            np.uint16 if count <= 1 << 16 else np.int64
        )
        order = np.argsort(numbers, kind="stable")
        rows = rows.take(pa.array(order))
        ends = np.searchsorted(numbers[order], np.arange(count), side="right")
        slices, start = [], 0
        for bucket, end in zip(self.bucket_ids, ends.tolist(), strict=True):
            if end > start:
                slices.append((bucket, rows.slice(start, end - start)))
            if len(everywhere):
                slices.append((bucket, everywhere))
            start = end
        return self._capsules(slices)

    def _capsules(self, slices: list[tuple[int, pa.RecordBatch | None]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                pa.array([bucket for bucket, _ in slices], pa.int32()),
                pa.array([self.stream] * len(slices), pa.int32()),
                pa.array([greatest_time(rows) for _, rows in slices], pa.int64()).view(
                    pa.timestamp("us", "UTC")
                ),
                pa.array(
                    [None if rows is None else to_ipc(rows) for _, rows in slices], pa.binary()
                ),
            ],
            schema=_CAPSULE_ARROW,
        )


def greatest_time(rows: pa.RecordBatch | None) -> int | None:
    """The greatest time in rows, in microseconds, if they have any."""
    if rows is None or TIME not in rows.schema.names:
        return None
    greatest: int | None = pc.max(rows.column(TIME).view(pa.int64())).as_py()
    return greatest
