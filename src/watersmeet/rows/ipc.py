"""Rows as bytes, in Arrow's IPC format.

Invariant: one value holds one record batch, with its schema. Decoding returns the same rows.

Rule: rows in the store are compressed (:func:`encode`); rows on their way between processes, or in
files that are mapped into memory, are not (:func:`write_ipc`, :func:`write_file`).
"""

from __future__ import annotations

import pyarrow as pa

#: A file of at most so many bytes is written by a single call.
_AT_ONCE = 72 << 20


def encode(rows: pa.RecordBatch) -> bytes:
    """Rows as a compressed Arrow IPC stream: the form in the store."""
    sink = pa.BufferOutputStream()
    write_ipc(rows, sink, compression="lz4")
    value: bytes = sink.getvalue().to_pybytes()
    return value


def decode(value: bytes) -> pa.RecordBatch:
    """The inverse of :func:`encode`."""
    return from_ipc(value)


def write_ipc(rows: pa.RecordBatch, sink: pa.NativeFile, *, compression: str | None = None) -> None:
    """Write a record batch to a sink, as an Arrow IPC stream; not compressed unless told."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)


def from_ipc(value: bytes | pa.Buffer) -> pa.RecordBatch:
    """The only record batch of an Arrow IPC stream; nothing is copied unless it is compressed."""
    with pa.ipc.open_stream(value) as reader:
        return reader.read_next_batch()


def write_file(rows: pa.RecordBatch, sink: pa.NativeFile) -> None:
    """Write a record batch to a file that is going to be mapped into memory, not compressed.

    It is written by a single call: Linux then holds it in pages of up to 2 MB, where the file
    system can, and mapping it takes a tenth of the time. Written piece by piece, its pages are
    small. For that it is made in memory first, unless it is large."""
    if rows.nbytes > _AT_ONCE:
        _write_file(rows, sink)
        return
    size = pa.MockOutputStream()
    _write_file(rows, size)
    content = pa.allocate_buffer(size.size())
    _write_file(rows, pa.FixedSizeBufferWriter(content))
    sink.write(content)


def _write_file(rows: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_batch(rows)
