"""A segment: rows of one stream that arrived together, with an index by key and time.

The rows stay in the order in which they arrived; the index is three arrays of
the same length, sorted by (code, time):

    codes[i], times[i]   the i-th smallest (key code, time)
    order[i]             the position of that row among the rows

So a merge of segments copies rows without moving them, and merges the sorted
indexes alone; a mark on a row ("has matched") keeps its position.

Invariant: ``codes`` is ascending, ``times`` is ascending within equal codes,
and ``codes[i], times[i]`` are the code and time of row ``order[i]``.

An index is made when it is first asked for. A segment whose index nobody asks for
is *plain*: it costs nothing to keep, and a probe scans it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
class Index:
    """Where rows are, by (code, time)."""

    codes: Ints
    times: Ints
    order: npt.NDArray[np.int32]

    @classmethod
    def of(cls, codes: Ints, times: Ints) -> Index:
        order = sort_order(codes, times)
        return cls(codes[order], times[order], order.astype(np.int32))


@dataclass(frozen=True)
class Segment:
    """Rows and the bounds of their times. A stream without time has all times zero."""

    rows: pa.RecordBatch
    min_time: int
    max_time: int

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Segment:
        """Rows that have neither a null code nor a null time."""
        times = times_of(rows)
        bounds = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        return cls(rows, *bounds)

    @classmethod
    def merge(cls, segments: Sequence[Segment], *, indexed: bool = True) -> Segment:
        """One segment with the rows of all, in the given order."""
        rows = concat([segment.rows for segment in segments])
        bounds = min(s.min_time for s in segments), max(s.max_time for s in segments)
        merged = cls(rows, *bounds)
        return merged.with_index(_merged_index(segments)) if indexed else merged

    @cached_property
    def index(self) -> Index:
        """The index, made now if there is none yet."""
        return Index.of(codes_of(self.rows), times_of(self.rows))

    @property
    def has_index(self) -> bool:
        return "index" in self.__dict__

    def indexed(self) -> Segment:
        """This segment, its index made."""
        assert len(self.index.order) == len(self), "every row has its place in the index"
        return self

    def with_index(self, index: Index) -> Segment:
        """This segment, with an index that was made before."""
        self.__dict__["index"] = index
        return self

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """What the rows and the index, if there is one, take in memory."""
        return int(self.rows.nbytes) + (20 * len(self) if self.has_index else 0)

    def to_batch(self) -> pa.RecordBatch:
        """Rows, and the index if there is one, as one record batch: the form kept in
        the local cache."""
        columns, names = [*self.rows.columns], [*self.rows.schema.names]
        if self.has_index:
            index = self.index
            columns += [pa.array(index.codes), pa.array(index.times), pa.array(index.order)]
            names += _INDEX_COLUMNS
        known = {"min_time": self.min_time, "max_time": self.max_time, "index": self.has_index}
        metadata = {name: str(int(value)) for name, value in known.items()}
        return pa.RecordBatch.from_arrays(columns, names, metadata=metadata)

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Segment:
        """The inverse of :meth:`to_batch`; nothing is copied."""
        known = (b"min_time", b"max_time", b"index")
        *bounds, indexed = (int(batch.schema.metadata[name]) for name in known)
        user = batch.num_columns - (len(_INDEX_COLUMNS) if indexed else 0)
        rows = pa.RecordBatch.from_arrays(
            batch.columns[:user], schema=pa.schema([batch.schema.field(i) for i in range(user)])
        )
        segment = cls(rows, *bounds)
        if indexed:
            arrays = (batch.column(user + i).to_numpy(zero_copy_only=True) for i in range(3))
            segment.with_index(Index(*arrays))
        return segment


def _merged_index(segments: Sequence[Segment]) -> Index:
    starts = np.cumsum([0] + [len(segment) for segment in segments[:-1]])
    codes = np.concatenate([segment.index.codes for segment in segments])
    times = np.concatenate([segment.index.times for segment in segments])
    positions = np.concatenate(
        [segment.index.order + start for segment, start in zip(segments, starts, strict=True)]
    )
    order = sort_order(codes, times)
    return Index(codes[order], times[order], positions[order].astype(np.int32))


def codes_of(rows: pa.RecordBatch) -> Ints:
    """The key codes of rows without null codes."""
    codes: Ints = rows.column(CODE).to_numpy(zero_copy_only=True)
    return codes


def codes_or_zero(rows: pa.RecordBatch) -> Ints:
    """The key codes of rows, zero for a null."""
    codes: Ints = rows.column(CODE).fill_null(0).to_numpy(zero_copy_only=False)
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
    sink = pa.BufferOutputStream()
    write_ipc(rows, sink, compression="lz4")
    value: bytes = sink.getvalue().to_pybytes()
    return value


def decode(value: bytes) -> pa.RecordBatch:
    """The inverse of :func:`encode`."""
    return from_ipc(value)


def write_ipc(rows: pa.RecordBatch, sink: pa.NativeFile, *, compression: str | None = None) -> None:
    """Write a record batch to a sink, as an Arrow IPC stream."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)


def from_ipc(value: bytes | pa.Buffer) -> pa.RecordBatch:
    """The one record batch of an Arrow IPC stream; nothing is copied."""
    with pa.ipc.open_stream(value) as reader:
        return reader.read_next_batch()
