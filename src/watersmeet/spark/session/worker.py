"""What our functions do to the Python worker they run in."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import socket
import sys
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import TypeVar

Received = TypeVar("Received")

#: What a worker keeps of the memory that it has freed, and up to which size it keeps a piece.
KEPT_BYTES, LARGEST_KEPT = 64 << 20, 16 << 20
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)
#: The module that forks workers, as they see it: it is run, not imported.
_DAEMON = ("__main__", "pyspark.daemon")
_found: list[socket.socket] = []


@cache
def prepare() -> None:
    """Prepare a worker for task after task, once a process.

    PySpark collects garbage after every task of a reused worker. With Arrow, pandas
    and Polars loaded that alone takes some 30 ms, a third of a small task; modules
    and functions are not garbage, so it is in vain.

    The C library returns the memory of every large array to the system, and gets it back
    page by page for the next one, which takes longer than to compute what is in it. This is so for
    the arrays of a user's predicate too."""
    gc.freeze()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # glibc has it, others do not
        library = ctypes.CDLL(None)
        # Who sets one of these fixes all of them: glibc no longer learns which sizes are common.
        library.mallopt(_M_TOP_PAD, KEPT_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT)


def acknowledge() -> None:
    """Have neither the JVM nor this worker wait for an acknowledgement of TCP's.

    Whoever has sent little over TCP keeps the next little back until the first has been
    acknowledged; and Linux acknowledges only after 40 ms, if there is nothing to answer. So what
    has arrived is acknowledged now. (Linux forgets that option, so each task sets it again.) What
    is sent from here is never kept back. A Unix socket has neither option, and needs none."""
    connection = _connection()
    if connection is None:
        return
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_QUICKACK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def promptly(received: Iterator[Received]) -> Iterator[Received]:
    """The same things, as the JVM sends them; each is acknowledged as soon as it has come."""
    for each in received:
        acknowledge()
        yield each


def _connection() -> socket.socket | None:
    """The socket over which this worker gets all of its tasks. PySpark has it in a variable of the
    function that runs in a forked worker; None in any other process."""
    frame: FrameType | None = None if _found else sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "worker" and frame.f_globals.get("__name__") in _DAEMON:
            sock = frame.f_locals.get("sock")
            if isinstance(sock, socket.socket):
                _found.append(sock)
        frame = frame.f_back
    return _found[0] if _found else None
