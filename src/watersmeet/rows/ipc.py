"""Rows as bytes: Arrow IPC, compressed in the store, plain on the way."""

from __future__ import annotations

import pyarrow as pa


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
