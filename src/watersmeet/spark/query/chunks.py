"""The chunks of a step: its capsules, in an order that follows from their content.

Invariant: in whatever order the shuffle brings the capsules of a step, the operator gets the same
chunks. So a micro-batch that is executed again does the same. What a step emits may depend on the
order of its rows: which probes it defers, which results a cap leaves out, which of two rows breaks
a promise. And Spark may take the state from one execution and the results from another.

Rule: capsules are ordered by the greatest time in them, then by their input, then by their bytes.
If they are more than a chunk, they wait in a temporary file until all are there.

**Example.** Five capsules of 60 MB come in any order; a chunk has at most 256 MB. They are of two
inputs, with these greatest times::

    as they came   1 at 14, 0 at 12, 0 at 10, 1 at 10, 0 at 13
    in order       0 at 10, 1 at 10, 0 at 12, 0 at 13  │  1 at 14
    chunks         0: three capsules, 1: one capsule      1: one capsule

Only the measurements of a join without a key may differ when a micro-batch is executed again
(:mod:`watersmeet.joins.ring.advice`). They are one capsule, the only one of their input, always of
the same length: so their position does not depend on their content, and other capsules are cut into
the same chunks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing

import pyarrow as pa

from watersmeet.joins.operator import Chunk
from watersmeet.rows.columns import concat
from watersmeet.rows.ipc import from_ipc
from watersmeet.rows.spill import Extent, Spill
from watersmeet.spark.query.capsule import greatest_time

#: The input that a capsule is for, and its rows as Arrow bytes.
Capsule = tuple[int, bytes]


def chunks(capsules: Iterable[Capsule], *, inputs: int, limit: int) -> Iterator[Chunk]:
    """New rows of each input, at most ``limit`` bytes at a time, or a single capsule; at least one
    chunk, if only an empty one."""
    held, size = [], 0
    with closing(Spill()) as spill:
        waiting = _SpilledCapsules(spill)
        for capsule in capsules:
            held.append(capsule)
            size += len(capsule[1])
            if size > limit:
                waiting.add(held)
                held, size = [], 0
        if waiting.extents:
            waiting.add(held)
            yield from waiting.chunks(inputs, limit)
        else:
            yield _chunk(_in_order(held), inputs)


class _SpilledCapsules:
    """Capsules in a file.

    ``extents`` has, for each capsule, the values by which it is ordered (the greatest time in it,
    its input, and a checksum instead of its bytes), and then where it is."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self.extents: list[tuple[int, int, int, Extent]] = []

    def add(self, capsules: Iterable[Capsule]) -> None:
        for stream, payload in capsules:
            order = _time(payload), stream, zlib.crc32(payload)
            self.extents.append((*order, self._spill.add(payload)))

    def chunks(self, inputs: int, limit: int) -> Iterator[Chunk]:
        held: list[tuple[int, pa.RecordBatch]] = []
        size = 0
        for _, stream, _, extent in sorted(self.extents):
            length = extent[1]
            if held and size + length > limit:
                yield _chunk(held, inputs)
                held, size = [], 0
            held.append((stream, from_ipc(self._spill.read(extent))))
            size += length
        if held:
            yield _chunk(held, inputs)


def _in_order(capsules: Iterable[Capsule]) -> list[tuple[int, pa.RecordBatch]]:
    """The rows of each capsule, with the input that they are for. A chunk keeps its inputs apart,
    so they need no order. (To open a capsule takes a tenth of a millisecond, so each is opened
    once.)"""
    opened = [(stream, payload, from_ipc(payload)) for stream, payload in capsules]
    opened.sort(key=lambda it: (greatest_time(it[2]) or 0, it[1]))
    return [(stream, rows) for stream, _, rows in opened]


def _time(payload: bytes) -> int:
    """The greatest time in a capsule, in microseconds; zero if there is none."""
    return greatest_time(from_ipc(payload)) or 0


def _chunk(opened: Iterable[tuple[int, pa.RecordBatch]], inputs: int) -> Chunk:
    rows: list[list[pa.RecordBatch]] = [[] for _ in range(inputs)]
    for stream, batch in opened:
        rows[stream].append(batch)
    return [concat(batches) if batches else None for batches in rows]
