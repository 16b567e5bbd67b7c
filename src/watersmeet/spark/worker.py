"""What our functions do to the Python worker they run in."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Take what is loaded now out of garbage collection, once a process.

    PySpark collects garbage after every task of a reused worker. With Arrow, pandas
    and Polars loaded that alone takes some 30 ms, a third of a small task; modules
    and functions are not garbage, so it is in vain."""
    gc.freeze()
