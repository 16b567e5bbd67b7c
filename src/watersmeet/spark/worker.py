"""What our functions do to the Python worker they run in."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from functools import cache

#: What a worker keeps of the memory that it has freed.
KEPT_BYTES = 64 << 20
_M_TOP_PAD = -2  # of mallopt(3)


@cache
def settle() -> None:
    """Prepare a worker for task after task, once a process.

    PySpark collects garbage after every task of a reused worker. With Arrow, pandas
    and Polars loaded that alone takes some 30 ms, a third of a small task; modules
    and functions are not garbage, so it is in vain.

    The C library returns the memory of every large array to the system, and gets it back
    page by page for the next one, which takes longer than to compute what is in it."""
    gc.freeze()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # glibc has it, others do not
        ctypes.CDLL(None).mallopt(_M_TOP_PAD, KEPT_BYTES)
