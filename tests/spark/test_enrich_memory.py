"""Memory is a promise: what the Python workers of a query take stays within it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.joins.enrich.memory_use import ORDERS, table
from tests.spark.streams import metrics_of, write
from tests.spark.worker_memory import grown, watched
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
        steps = metrics_of(query, wm.EnrichMetrics)
        assert sum(step.results for step in steps) == ROWS * BATCHES
        hits = steps[-1].hits
        took.append(taken)
    # then those of the large table take no more than the small one's and the memory, at any time.
    assert hits > 0, "the cache was of use"
    most = grown(*took)
    assert most <= parse(MEMORY, argument="memory"), f"{most / 1e6:.0f} MB"
