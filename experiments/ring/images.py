"""The paper's predicate: are two images alike, pixel by pixel? And what it costs here.

An image is an array of bytes, three for each pixel (section 8.1). Images are small, middle or
large: 5,000, 10,000 or 20,000 pixels.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet.cost.ring import Times
from watersmeet.rows import ipc

PIXELS = {"small": 5_000, "middle": 10_000, "large": 20_000}
#: The paper's network, in bytes a second. What a local socket takes is added to it.
GIGABIT = 125e6
_PAIRS = 64


def images(count: int, pixels: int, random: np.random.Generator) -> pa.RecordBatch:
    """Random images, as a stream brings them."""
    values = random.integers(0, 256, (count, 3 * pixels), dtype=np.uint8)
    return pa.RecordBatch.from_pydict(
        {"image": pa.array([row.tobytes() for row in values], pa.binary())}
    )


def difference(a: pa.Table, b: pa.Table) -> np.ndarray:
    """How far apart images are, from 0 to 255: the mean over all bytes."""
    left, right = _bytes(a), _bytes(b)
    return np.abs(left.astype(np.int16) - right).mean(axis=1)


def _bytes(images: pa.Table) -> np.ndarray:
    column = images.column("image").combine_chunks()
    count = len(column)
    values = np.frombuffer(column.buffers()[2], np.uint8)
    width = len(column[0].as_py()) if count else 0
    start = column.offset * width
    return values[start : start + count * width].reshape(count, width)


def measured(pixels: int) -> Times:
    """The times of the cost model on this machine, for images of this size."""
    random = np.random.default_rng(0)
    rows = images(_PAIRS, pixels, random)
    table = pa.Table.from_batches([rows])
    comparing = _seconds(lambda: difference(table, table)) / _PAIRS
    return Times(T_j=comparing, T_s=sending(rows), T_n=hop(3 * pixels))


def sending(rows: pa.RecordBatch) -> float:
    """T_s: seconds that it takes to pack one of these rows, and to unpack it."""
    return _seconds(lambda: _sent(rows)) / len(rows)


def hop(size: int) -> float:
    """T_n: seconds that a row of so many bytes travels from one node to the next."""
    return _between_sockets(size) + size / GIGABIT


def _sent(rows: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    ipc.write_ipc(rows, sink)
    return ipc.from_ipc(sink.getvalue().to_pybytes())


def _between_sockets(size: int) -> float:
    """Seconds from one socket of this machine to another, for one row."""
    here, there = socket.socketpair()

    def echo() -> None:
        with contextlib.suppress(OSError):
            while _received(there, size):
                there.sendall(b".")

    def trip() -> None:
        here.sendall(bytes(size))
        _received(here, 1)

    with here, there:
        threading.Thread(target=echo, daemon=True).start()
        return _seconds(trip)


def _received(end: socket.socket, size: int) -> bool:
    """Has all of it come?"""
    while size:
        part = end.recv(size)
        if not part:
            return False
        size -= len(part)
    return True


def _seconds(work: Callable[[], object]) -> float:
    """The least of many times."""
    times = []
    for _ in range(20):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
