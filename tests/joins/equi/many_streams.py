"""Joins of three and more streams, for tests with literal data."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from tests.conformance.join import START, Join
from tests.conformance.strategies import INSTANT
from watersmeet.testing import LocalJoin, LocalStream

SECOND = timedelta(seconds=1)


def join_of(names: str, *, within: Any = 10 * SECOND, how: str = "inner", **further: Any) -> Join:
    """Streams with the columns `k`, `<name>_t` and `<name>_n`, ten seconds late at most."""
    streams = {
        name: LocalStream(
            pa.schema([("k", pa.int64()), (f"{name}_t", INSTANT), (f"{name}_n", pa.int64())]),
            time=f"{name}_t",
            delay=10 * SECOND,
        )
        for name in names
    }
    return Join(streams, on="k", within=within, how=how, further=further)


def local(join: Join, **options: Any) -> LocalJoin:
    return LocalJoin(join.streams, **(join.options | options))


def rows(name: str, keys: Any, seconds: Any) -> pa.Table:
    """As many rows as keys; `seconds` are their times."""
    keys = np.asarray(keys, dtype=np.int64)
    times = np.int64(START.timestamp() * 1e6) + np.int64(np.broadcast_to(seconds, keys.shape) * 1e6)
    instants = pa.array(times).view(INSTANT)
    return pa.table({"k": keys, f"{name}_t": instants, f"{name}_n": np.arange(len(keys))})
