"""A segment: rows of one stream that arrived together, with an index by key and time.

The rows stay in the order in which they arrived; the index is three arrays of
the same length, sorted by (code, time):

    codes[i], times[i]   the i-th smallest (key code, time)
    order[i]             the position of that row among the rows

So a merge of segments copies rows without moving them, and merges the sorted
indexes alone; a mark on a row ("has matched") keeps its position.

Invariant: ``codes`` is ascending, ``times`` is ascending within equal codes,
and ``codes[i], times[i]`` are the code and time of row ``order[i]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: Names of the columns that every stored row has; a stream without time lacks TIME.
CODE = "#code"
TIME = "#time"

_INDEX_COLUMNS = ("#codes", "#times", "#order")

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Segment:
    """Rows with their index. A stream without time has all times zero."""

    rows: pa.RecordBatch
    codes: Ints
    times: Ints
    order: npt.NDArray[np.int32]
    min_time: int
    max_time: int

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Segment:
        """Index rows that have neither a null code nor a null time."""
        codes, times = codes_of(rows), times_of(rows)
        order = sort_order(codes, times)
        bounds = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        return cls(rows, codes[order], times[order], order.astype(np.int32), *bounds)

    @classmethod
    def merge(cls, segments: Sequence[Segment]) -> Segment:
        """One segment with the rows of all, in the given order."""
        rows = concat([segment.rows for segment in segments])
        starts = np.cumsum([0] + [len(segment) for segment in segments[:-1]])
        codes = np.concatenate([segment.codes for segment in segments])
        times = np.concatenate([segment.times for segment in segments])
        positions = np.concatenate(
            [segment.order + start for segment, start in zip(segments, starts, strict=True)]
        )
        order = sort_order(codes, times)
        bounds = min(s.min_time for s in segments), max(s.max_time for s in segments)
        return cls(rows, codes[order], times[order], positions[order].astype(np.int32), *bounds)

    def __len__(self) -> int:
        return len(self.order)

    def indexed(self) -> pa.RecordBatch:
        """Rows and index as one record batch: the form kept in the local cache."""
        columns = [*self.rows.columns]
        columns += [pa.array(self.codes), pa.array(self.times), pa.array(self.order)]
        names = [*self.rows.schema.names, *_INDEX_COLUMNS]
        bounds = {"min_time": str(self.min_time), "max_time": str(self.max_time)}
        return pa.RecordBatch.from_arrays(columns, names, metadata=bounds)

    @classmethod
    def from_indexed(cls, batch: pa.RecordBatch) -> Segment:
        """The inverse of :meth:`indexed`; nothing is copied."""
        user = batch.num_columns - len(_INDEX_COLUMNS)
        codes, times, order = (
            batch.column(user + i).to_numpy(zero_copy_only=True) for i in range(3)
        )
        bounds = (int(batch.schema.metadata[name]) for name in (b"min_time", b"max_time"))
        rows = pa.RecordBatch.from_arrays(
            batch.columns[:user], schema=pa.schema([batch.schema.field(i) for i in range(user)])
        )
        return cls(rows, codes, times, order, *bounds)


def codes_of(rows: pa.RecordBatch) -> Ints:
    """The key codes of rows without null codes."""
    codes: Ints = rows.column(CODE).to_numpy(zero_copy_only=True)
    return codes


def times_of(rows: pa.RecordBatch) -> Ints:
    """The times of rows in microseconds; zeros for a stream without time."""
    if TIME not in rows.schema.names:
        return np.zeros(len(rows), dtype=np.int64)
    times: Ints = rows.column(TIME).view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=True)
    return times


def sort_order(codes: Ints, times: Ints) -> Ints:
    """The permutation that sorts by (code, time).

    A stable sort by code alone leaves times in order wherever rows came in
    order of time, which is the rule; only the codes where it did not are
    sorted again. Sorted runs, as in a merge, cost one pass.

    >>> sort_order(np.array([7, 5, 7]), np.array([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    order = np.argsort(codes, kind="stable")
    sorted_codes, sorted_times = codes[order], times[order]
    same = sorted_codes[1:] == sorted_codes[:-1]
    inverted = same & (sorted_times[1:] < sorted_times[:-1])
    if inverted.any():
        groups = np.concatenate([[0], np.cumsum(~same)])
        unsorted = np.flatnonzero(np.isin(groups, groups[1:][inverted]))
        rows = order[unsorted]
        order[unsorted] = rows[np.lexsort((times[rows], codes[rows]))]
    return order


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch with the rows of all."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def encode(rows: pa.RecordBatch) -> bytes:
    """Rows as compressed Arrow IPC: the form kept in the store."""
    return to_ipc(rows, compression="lz4")


def decode(value: bytes) -> pa.RecordBatch:
    """The inverse of :func:`encode`."""
    return from_ipc(value)


def to_ipc(rows: pa.RecordBatch, *, compression: str | None = None) -> bytes:
    """A record batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    value: bytes = sink.getvalue().to_pybytes()
    return value


def from_ipc(value: bytes | pa.Buffer) -> pa.RecordBatch:
    """The one record batch of an Arrow IPC stream; nothing is copied."""
    with pa.ipc.open_stream(value) as reader:
        return reader.read_next_batch()
