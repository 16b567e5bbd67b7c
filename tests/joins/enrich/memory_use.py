"""An enrichment in a process of its own, which says how much memory it has taken.

    python -m tests.joins.enrich.memory_use FOLDER MEMORY [in-place]

The table is in the folder already; rows come in micro-batches, with keys by Zipf's law. Printed is
by how many bytes the process has grown, at most, since it had answered its first row: its own
memory, and the files that it has mapped and touched.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.policy import enrich_policy
from watersmeet.table.staged_table import StagedTable
from watersmeet.testing import LocalEnrich, LocalStream

ORDERS = pa.schema([("key", pa.int64()), ("id", pa.int64())])
TABLE = pa.schema([("key", pa.int64()), *((f"v{i}", pa.int64()) for i in range(11))])
ROWS, BATCHES = 50_000, 25


def table(rows: int) -> pa.Table:
    """A table with rows of 96 bytes."""
    return pa.table({name: np.arange(rows) for name in TABLE.names}, TABLE)


def resident() -> int:
    """The memory of this process, in bytes."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return 1024 * sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssFile"))


def in_place(memory: str) -> dict[str, Any]:
    """What is different where rows are answered by the tasks that read them, by one process."""
    stream = LocalStream(ORDERS)
    planned = LocalEnrich("orders", stream, TABLE.empty_table(), on="key", memory=memory)
    policy = enrich_policy(planned.plan.spec, shards=1, cores=1, wakes=False, hosts=1)
    return {field.name: getattr(policy, field.name) for field in fields(policy)}


def main(folder: str, memory: str, *where: str) -> None:
    staged = StagedTable(folder)
    size = staged.size()
    assert size is not None, "the table has been staged before"
    enrich = LocalEnrich(
        "orders",
        LocalStream(ORDERS),
        TABLE.empty_table(),
        on="key",
        memory=memory,
        staged=staged,
        policy=in_place(memory) if where else None,
    )
    enrich.batch(pa.table({"key": [1], "id": [1]}, ORDERS))
    dice = np.random.default_rng(1)
    hits = 0
    with growth() as grown:
        for _ in range(BATCHES):
            ranks = np.exp(dice.random(ROWS) * np.log(size.rows)).astype(np.int64) - 1
            keys = ranks * 7919 % size.rows
            rows = [pa.RecordBatch.from_pydict({"key": keys, "id": np.arange(ROWS)}, ORDERS)]
            encoded = enrich._encoded(0, pa.Table.from_batches(rows))
            for _ in stepped(enrich, encoded):
                pass
            hits = enrich.counters.hits
    print(f"{grown[0]} {hits}")


@contextlib.contextmanager
def growth() -> Iterator[list[int]]:
    """By how many bytes this process grows in the block, at most; known behind it."""
    pa.default_memory_pool().release_unused()
    before, grown, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            grown[0] = max(grown[0], resident() - before)
            time.sleep(0.001)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield grown
    done.set()
    thread.join()


def stepped(enrich: LocalEnrich, rows: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
    """Results as a backend takes them: one after the other."""
    operator, counters = enrich.run.operator, enrich.run.operator.counters()
    state = enrich.run.state(0)
    limit = operator.chunk_bytes or 1
    assert rows is not None, "rows come"
    size = max(1, len(rows) * limit // rows.nbytes)
    chunks = [[rows.slice(start, size)] for start in range(0, len(rows), size)]
    yield from operator.step(chunks, None, state, counters)
    state.commit()
    operator.report(state, counters)
    enrich.run.counters = counters


if __name__ == "__main__":
    main(*sys.argv[1:])
