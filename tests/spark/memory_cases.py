"""What Spark's workers do with the rows of an enrichment, each case in a process of its own.

    python -m tests.spark.memory_cases CASE FOLDER

Printed is by how many bytes the process has grown, at most, in the steps that matter, and how many
rows have left it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tests.joins.enrich.memory_cases import INSTANT, STREAM, TABLE
from tests.joins.enrich.memory_use import growth
from tests.joins.enrich.memory_use import in_place as alone_in_place
from watersmeet.joins.enrich.operator import Enrich
from watersmeet.rows.route import ByKey
from watersmeet.spark.query import capsule, processor
from watersmeet.spark.query import in_place as in_place_module
from watersmeet.spark.query.capsule import Pack
from watersmeet.spark.query.exits import ResultExit
from watersmeet.spark.query.in_place import InPlace
from watersmeet.spark.query.processor import Processor
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import MemoryStore
from watersmeet.testing import LocalEnrich, LocalStream

MASTER_ROWS, BATCHES = 30_000, 6

Rows: TypeAlias = pa.RecordBatch


def started(folder: str, memory: str, **options: Any) -> LocalEnrich:
    """An enrichment from a table with rows of 3 kB, 90 MB in all."""
    stream = LocalStream(STREAM, time="t", delay="0 seconds")
    columns = {"key": np.arange(MASTER_ROWS), "text": pa.array(["x" * 3000] * MASTER_ROWS)}
    table = pa.table(columns, TABLE)
    return LocalEnrich(
        "a", stream, table, on="key", how="left", memory=memory, folder=folder, **options
    )


def micro_batches(enrich: LocalEnrich, count: int, width: int) -> Iterator[Iterator[Rows]]:
    """A micro-batch of a few rows, then others, whose keys follow Zipf's law."""
    dice = np.random.default_rng(1)
    yield rows(enrich, np.arange(5), width)
    for _ in range(BATCHES):
        keys = np.exp(dice.random(count) * np.log(MASTER_ROWS)).astype(np.int64) - 1
        yield rows(enrich, keys, width)


def rows(enrich: LocalEnrich, keys: np.ndarray, width: int) -> Iterator[Rows]:
    """Rows of the stream, a few at a time: what Spark hands over at a time is not limited here."""
    for some in np.array_split(keys, max(1, len(keys) // 16)):
        times = pa.array(np.zeros(len(some), np.int64)).cast(INSTANT)
        given = {"key": some, "pay": ["p" * width] * len(some), "t": times}
        encoded = enrich._encoded(0, pa.table(given, STREAM))
        assert encoded is not None, "there are rows"
        yield encoded


def measured(
    folder: str, given: Iterable[Iterator[Rows]], work: Callable[[Iterator[Rows]], Iterator[Any]]
) -> tuple[int, int]:
    """The growth, and the rows that leave, in all micro-batches but the first. All of these are
    made before, and wait in files."""
    first, *others = [stored(f"{folder}/{i}", batches) for i, batches in enumerate(given)]
    for _ in work(read(first)):
        pass
    left = 0
    with growth() as grown:
        for path in others:
            left += sum(map(len, work(read(path))))
    return grown[0], left


def stored(path: str, batches: Iterator[Rows]) -> str:
    """A file of those batches."""
    one = next(batches)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, one.schema) as writer:
        for batch in chain([one], batches):
            writer.write_batch(batch)
    return path


def read(path: str) -> Iterator[Rows]:
    with pa.OSFile(path) as source, pa.ipc.open_stream(source) as reader:
        yield from reader


def in_place(folder: str, memory: str, *, count: int, width: int) -> tuple[int, int]:
    """Rows are answered by the tasks that read them."""
    enrich = started(folder, memory, policy=alone_in_place(memory))
    cache = SegmentCache(f"{folder}/cache", 1 << 30)
    answer = InPlace(Enrich(enrich.layout, enrich.staged), cache, "query", "answer")
    return measured(folder, micro_batches(enrich, count, width), answer)


def packed(folder: str, memory: str, *, count: int, width: int) -> tuple[int, int]:
    """Rows are packed for the stateful operator."""
    enrich = started(folder, memory, refresh="1 minute")
    pack = packing(enrich.plan.policy.packed)
    return measured(folder, micro_batches(enrich, count, width), pack)


def stepped(folder: str, memory: str, *, count: int, width: int) -> tuple[int, int]:
    """The only shard is stepped, with capsules."""
    enrich = started(folder, memory, refresh="1 minute")
    operator, cache = enrich.run.operator, SegmentCache(f"{folder}/cache", 1 << 30)
    ids, leave = (0,), ResultExit(operator.output)
    shard = Processor(operator, leave, cache, ids, streaming=True, timers=False)
    shard.init(None)  # type: ignore[arg-type]
    timers: Any = SimpleNamespace(getCurrentWatermarkInMs=lambda: 0)

    def step(capsules: Iterator[Rows]) -> Iterator[Any]:
        return shard.handleInputRows((0,), (some.to_pandas() for some in capsules), timers)

    return measured(folder, map(packing(100_000), micro_batches(enrich, count, width)), step)


def packing(limit: int) -> Pack:
    """What packs the rows of the stream, so many bytes at a time."""
    return Pack(0, ByKey(), (0,), limit=limit)


MEMORY = "28 MB"
NARROW: dict[str, Any] = {"count": 10_000, "width": 0}
WIDE: dict[str, Any] = {"count": 2_000, "width": 20_000}
CASES = {
    "in place, wide table": partial(in_place, **NARROW),
    "in place, wide stream": partial(in_place, **WIDE),
    "packed, wide stream": partial(packed, **WIDE),
    "stepped, wide table": partial(stepped, **NARROW),
    "stepped, wide stream": partial(stepped, **WIDE),
}

if __name__ == "__main__":
    # What a worker keeps of freed memory is not the enrichment's.
    for module in (in_place_module, capsule, processor):
        module.prepare = lambda: None  # type: ignore[attr-defined]
    store = MemoryStore()
    processor.SparkStore = SimpleNamespace(of=lambda _: store)  # type: ignore[assignment, attr-defined]
    print(*CASES[sys.argv[1]](sys.argv[2], MEMORY))
