"""Memory is a promise: what the Python workers of a query take stays within it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.operators.enrich.memory_use import ORDERS, table
from tests.spark.streams import write
from watersmeet.sizes import parse

MEMORY = "20 MB"
#: A table of 58 MB, and large micro-batches of a stream.
MASTER_ROWS, ROWS, BATCHES = 600_000, 200_000, 5


def orders() -> list[pa.Table]:
    """Micro-batches with keys by Zipf's law."""
    dice = np.random.default_rng(1)
    ranks = [
        np.exp(dice.random(ROWS) * np.log(MASTER_ROWS)).astype(np.int64) - 1 for _ in range(BATCHES)
    ]
    return [
        pa.table({"key": some * 7919 % MASTER_ROWS, "id": np.arange(ROWS)}, ORDERS)
        for some in ranks
    ]


def workers(spark: SparkSession) -> dict[int, int]:
    """The Python processes that the session's JVM has started, and their memory in bytes: their
    own, and the files that they have mapped and touched."""
    parents, memory = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text().splitlines()
            status = dict(line.split(":", 1) for line in lines)
            parents[int(folder.name)] = int(status["PPid"])
            program, *arguments = (folder / "cmdline").read_text().split("\0")
            if "python" in program and any("pyspark" in given for given in arguments):
                kib = sum(int(status[name].split()[0]) for name in ("RssAnon", "RssFile"))
                memory[int(folder.name)] = 1024 * kib
        except (OSError, KeyError):
            continue  # it has ended
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc.pid

    def started_by_it(pid: int) -> bool:
        while pid in parents and pid != jvm:
            pid = parents[pid]
        return pid == jvm

    return {pid: used for pid, used in memory.items() if started_by_it(pid)}


@contextmanager
def watched(spark: SparkSession) -> Iterator[dict[int, list[int]]]:
    """What each worker takes while something runs, again and again."""
    taken: dict[int, list[int]] = defaultdict(list)
    done = threading.Event()

    def watch() -> None:
        moment = 0
        while not done.wait(0.05):
            for pid, used in workers(spark).items():
                taken[pid] += [0] * (moment - len(taken[pid])) + [used]
            moment += 1

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield taken
    finally:
        done.set()
        thread.join()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_the_workers_of_a_query_stay_within_the_memory(spark: SparkSession, tmp_path: Path) -> None:
    # Given a stream, a table that is three times the memory, and one that is as good as none,
    write(tmp_path / "orders", orders())
    stream = wm.stream(
        spark.readStream.schema("key bigint, id bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "orders")),
        "orders",
    )

    def enriched(name: str, rows: int) -> DataFrame:
        pq.write_table(table(rows), tmp_path / f"{name}.parquet")
        given = spark.read.parquet(str(tmp_path / f"{name}.parquet"))
        return wm.enrich(stream, given, on="key", memory=MEMORY, how="left", stage=str(tmp_path))

    large, small = enriched("large", MASTER_ROWS), enriched("small", 1000)
    # when both are run, one after the other, in the same workers,
    took, hits = [], 0
    for df in (small, large):
        with watched(spark) as taken:
            query = df.writeStream.format("noop").trigger(availableNow=True).start()
            query.awaitTermination()
        steps = wm.metrics(query)
        assert sum(step.results for step in steps) == ROWS * BATCHES
        hits = steps[-1].hits
        took.append(taken)
    # then those of the large table take no more than the small one's and the memory, at any time.
    base = {pid: max(used) for pid, used in took[0].items()}
    usual = max(base.values())
    moments = max(map(len, took[1].values()))
    grown = np.zeros(moments)
    for pid, used in took[1].items():
        padded = np.array(used + [0] * (moments - len(used)))
        grown += np.maximum(padded - base.get(pid, usual), 0)
    assert hits > 0, "the cache was of use"
    assert grown.max() <= parse(MEMORY, argument="memory"), f"{grown.max() / 1e6:.0f} MB"
