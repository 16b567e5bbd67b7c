"""Joins two streams whose windows take far more than the budget, and prints by how many
bytes this process has grown at most. The state lives in files, as it does outside the
workers on Spark.

    python -m tests.joins.equi.limits.budget_query FOLDER [BUDGET]
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.conformance.join import START
from tests.conformance.strategies import INSTANT
from watersmeet.spec.budget import Budget
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("text", pa.string())])
STREAM = LocalStream(SCHEMA, time="t", delay=timedelta(0))
ROWS = 10_000
BATCHES = 60


class FileStore:
    """A store whose values are files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)

    def get(self, name: str) -> bytes | None:
        path = self._path(name)
        return path.read_bytes() if path.exists() else None

    def put(self, name: str, value: bytes) -> None:
        self._path(name).write_bytes(value)

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def at_hand(self, name: str) -> bool:
        return False

    def _path(self, name: str) -> Path:
        return self._folder / name.replace("/", "-")


def rows(second: int, seed: int) -> pa.Table:
    random = np.random.default_rng((second, seed))
    start = int(START.timestamp()) + second
    times = start * 1_000_000 + np.sort(random.integers(0, 1_000_000, ROWS))
    values = pa.array(random.integers(0, 10**15, ROWS)).cast(pa.string())
    text = pa.compute.binary_join_element_wise(*[values] * 12, "")
    return pa.table(
        {
            "k": random.integers(0, 1_000_000, ROWS),
            "t": pa.array(times).view(INSTANT),
            "text": text,
        },
        SCHEMA,
    )


def memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def main() -> None:
    folder = Path(sys.argv[1])
    budget = Budget(memory=sys.argv[2]) if len(sys.argv) > 2 else None
    pa.set_memory_pool(pa.system_memory_pool())  # gives back what is freed
    join = LocalJoin(
        {"a": STREAM, "b": STREAM},
        on="k",
        within=timedelta(seconds=BATCHES),
        budget=budget,
        folder=str(folder / "cache"),
    )
    join.run.stores = [FileStore(folder / "store")]  # type: ignore[list-item]
    results = 0
    for second in range(BATCHES):
        batch = {"a": rows(second, 0), "b": rows(second, 1)}
        if second == 2:  # everything is loaded, and has run
            before = memory("VmRSS")
        results += join.batch(**batch).num_rows
    state = join.run.state(0)
    print(
        json.dumps(
            {
                "grown": memory("VmHWM") - before,
                "state": sum(window.memory for window in state.windows),
                "results": results,
            }
        )
    )


if __name__ == "__main__":
    main()
