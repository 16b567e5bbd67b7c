"""Plans and budgets on Spark: the same result whatever the plan, and metrics that tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.oracle import assert_same_rows
from tests.spark.streams import TIMESTAMP, at, metrics_of, read, result, start, write
from watersmeet.testing import LocalJoin, LocalStream

pytestmark = pytest.mark.spark

START = int(at(0).timestamp())


def rows(count: int, second: int, *, seed: int) -> pa.Table:
    random = np.random.default_rng((second, seed))
    times = (START + second) * 1_000_000 + np.sort(random.integers(0, 1_000_000, count))
    columns = {"k": random.integers(0, 300, count), "t": pa.array(times).view(TIMESTAMP)}
    return pa.table({**columns, f"n{seed}": np.arange(count) + 10_000 * second})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strategies")
    for name, count, seed in (("slow", 20, 0), ("fast", 400, 1)):
        write(folder / name, [rows(count, second, seed=seed) for second in range(8)])
    return folder


def joined(spark: SparkSession, folder: Path, **options: Any) -> Any:
    streams = [
        wm.stream(read(spark, folder / name), name, time="t", delay="0 seconds")
        for name in ("slow", "fast")
    ]
    return wm.join(streams, on="k", within="3 seconds", **options)


def locally(budget: wm.Budget, *, shards: int) -> pa.Table:
    """The results of the same micro-batches, in this process."""
    given = {"slow": (20, 0), "fast": (400, 1)}
    streams = {
        name: LocalStream(rows(count, 0, seed=seed).schema, time="t", delay="0 seconds")
        for name, (count, seed) in given.items()
    }
    join = LocalJoin(streams, on="k", within="3 seconds", budget=budget, shards=shards)
    found = []
    for second in range(8):
        batch = {name: rows(count, second, seed=seed) for name, (count, seed) in given.items()}
        found.append(join.batch(**batch))
    return pa.concat_tables(found)


def test_every_plan_gives_the_same_result(spark: SparkSession, folder: Path) -> None:
    expected = result(spark, start(joined(spark, folder)))
    assert expected.num_rows > 0
    plans: list[dict[str, Any]] = [
        {"tuning": wm.Tuning(index={"slow": "always", "fast": "never"}, invalidation="lazy")},
        {"tuning": wm.Tuning(index="never"), "budget": wm.Budget(memory="1 MB")},
    ]
    for plan in plans:
        query = start(joined(spark, folder, **plan))
        assert_same_rows(result(spark, query), expected, note=str(plan))
        last = [record for record in metrics_of(query, wm.EquiMetrics) if record.rows][-1]
        assert last.streams["fast"].indexed == 0 < last.streams["fast"].segments
        assert last.expected_share == 1


def test_shedding_is_counted_and_its_price_is_stated(spark: SparkSession, folder: Path) -> None:
    full = result(spark, start(joined(spark, folder)))
    budget = wm.Budget(rate=100, overflow="shed")
    query = start(joined(spark, folder, budget=budget))
    shed = result(spark, query)
    records = [record for record in metrics_of(query, wm.EquiMetrics) if record.rows]
    assert 0 < shed.num_rows < full.num_rows
    assert sum(record.streams["slow"].shed for record in records) == 0
    kept = [record.rows - record.shed for record in records]
    assert np.mean(kept) == pytest.approx(100, rel=0.1)
    assert records[-1].expected_share == pytest.approx(80 / 400, rel=0.3)
    # Each shard is told what all of them get: so the same rows remain over any number of shards.
    assert_same_rows(shed, locally(budget, shards=7))


def test_a_budget_that_must_not_be_passed_stops_the_query(
    spark: SparkSession, folder: Path
) -> None:
    budget = wm.Budget(memory="20 kB", overflow="fail")
    with pytest.raises(
        StreamingQueryException,
        match=r"the budget leaves it [0-9.]+ kB \(it gets [0-9.]+% of all rows\)",
    ):
        result(spark, start(joined(spark, folder, budget=budget)))
