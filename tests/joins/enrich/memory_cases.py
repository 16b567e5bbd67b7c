"""Enrichments that are hard on the memory, each in a process of its own.

    python -m tests.joins.enrich.memory_cases CASE FOLDER

Printed is by how many bytes the process has grown, at most, in the steps that matter, and how many
bytes are cached behind them.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from tests.joins.enrich.memory_use import growth, stepped
from watersmeet.rows.shard import Shard
from watersmeet.testing import LocalEnrich, LocalStream

MEMORY = "32 MB"
INSTANT = pa.timestamp("us", "UTC")
STREAM = pa.schema([("key", pa.int64()), ("pay", pa.string()), ("t", INSTANT)])
TABLE = pa.schema([("key", pa.int64()), ("text", pa.string())])
#: Rows of the table that are narrow. With them it does not fit into memory.
NARROW = 400_000


def started(folder: str, table: pa.Table, how: str = "inner", **further: Any) -> LocalEnrich:
    stream = LocalStream(STREAM, time="t", delay=timedelta(0))
    options = {"on": "key", "how": how, "memory": MEMORY, "folder": folder, **further}
    return LocalEnrich("a", stream, table, **options)


def table(keys: np.ndarray, texts: list[str]) -> pa.Table:
    return pa.table({"key": keys, "text": pa.array(texts)}, TABLE)


def step(enrich: LocalEnrich, keys: Any, pay: str = "") -> None:
    """One step, whose results are taken one after the other."""
    times = pa.array(np.zeros(len(keys), np.int64)).cast(INSTANT)
    rows = pa.table({"key": keys, "pay": [pay] * len(keys), "t": times}, STREAM)
    for _ in stepped(enrich, enrich._encoded(0, rows)):
        pass


def wide(folder: str) -> LocalEnrich:
    """Frequent keys have rows of 10 kB, 40 MB in all; other rows take 120 bytes."""
    texts = ["x" * 10_000] * 4000 + ["y" * 100] * NARROW
    enrich = started(folder, table(np.arange(len(texts)), texts))
    step(enrich, [5000])
    dice = np.random.default_rng(1)
    with growth() as grown:
        for _ in range(8):
            often, rarely = dice.integers(0, 4000, 16_000), dice.integers(4000, NARROW, 2000)
            step(enrich, np.concatenate([often, rarely]))
    print(grown[0], enrich.counters.cached_bytes)
    return enrich


def retried(folder: str) -> LocalEnrich:
    """Rows of 80 MB wait for a newer version of the table, which has none of their keys."""
    small = table(np.arange(1000), ["y"] * 1000)
    enrich = started(folder, small, "left", refresh="1 minute", retry="1 hour")
    for number in range(32):
        step(enrich, np.arange(10_000) + (1 + number) * 10_000, "p" * 200)
    enrich.refresh(table(np.arange(1001), ["y"] * 1001))
    step(enrich, [1])
    with growth() as grown:
        step(enrich, [1])
    assert enrich.counters.retried == 320_000, "each of them waits again"
    print(grown[0], 0)
    return enrich


def renewed(folder: str) -> LocalEnrich:
    """A hundred cached keys have 4,000 rows each in a newer version, 48 MB in all."""
    texts = ["y" * 100] * NARROW
    enrich = started(folder, table(np.arange(NARROW), texts), refresh="1 minute")
    dice = np.random.default_rng(1)
    while enrich.run.counters is None or enrich.counters.cached_keys < 100:
        step(enrich, np.concatenate([np.repeat(np.arange(100), 50), dice.integers(0, NARROW, 500)]))
    keys = np.concatenate([np.arange(NARROW), np.repeat(np.arange(100), 4000)])
    enrich.refresh(table(keys, ["y" * 100] * len(keys)))
    del keys, texts
    step(enrich, [200_000])
    with growth() as grown:
        step(enrich, [200_001])
    assert 0 < enrich.counters.cached_keys < 100, "there is room for some of them"
    print(grown[0], enrich.counters.cached_bytes)
    return enrich


def backlog(folder: str) -> LocalEnrich:
    """The first micro-batch has four million rows, and the cache answers none of them. They
    ask for all keys of the table, each ten times."""
    enrich = started(folder, table(np.arange(NARROW), ["y" * 100] * NARROW))
    step(enrich, [1])
    keys = np.random.default_rng(1).permutation(np.tile(np.arange(NARROW), 10))
    times = pa.array(np.zeros(len(keys), np.int64)).cast(INSTANT)
    rows = pa.table({"key": keys, "pay": [""] * len(keys), "t": times}, STREAM)
    encoded = enrich._encoded(0, rows)
    del rows, keys, times
    with growth() as grown:
        found = sum(map(len, stepped(enrich, encoded)))
    assert found == 10 * NARROW, "each row has a match"
    print(grown[0], 0)
    return enrich


def many(folder: str) -> LocalEnrich:
    """The table has so many keys that their filters take 24 MB, and any of them is asked for."""
    count = 10_000_000
    enrich = started(folder, table(np.arange(count), [""] * count))
    assert sum(layer.shared for layer in enrich.staged.shard(Shard()).layers) > 24e6
    step(enrich, [1])
    dice = np.random.default_rng(1)
    with growth() as grown:
        for _ in range(8):
            step(enrich, dice.integers(0, count, 5000))
    assert enrich.counters.results == 5000, "each row has a match"
    print(grown[0], enrich.counters.cached_bytes)
    return enrich


CASES = {"wide": wide, "retried": retried, "renewed": renewed, "backlog": backlog, "many": many}

if __name__ == "__main__":
    # What has been made is kept until here, so that no memory is given back while it is measured.
    made = CASES[sys.argv[1]](sys.argv[2])
