"""The contract is one: a fourth family, a folder and a line of registration, runs through it,
locally and on Spark, alone and in hops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.joins.toy import COUNT, CountByKey
from watersmeet.joins import families
from watersmeet.joins.chain import Chain, Hop, Input
from watersmeet.rows.columns import CODE
from watersmeet.rows.encode import encoded
from watersmeet.rows.layout import row_layout
from watersmeet.rows.route import ByKey, Everywhere, Route, StoredInOne
from watersmeet.spark.query.query import run
from watersmeet.spec.stream import Column, StreamSpec
from watersmeet.testing import LocalInput, LocalJoin, LocalRun, LocalStream

STREAM = StreamSpec("rows", (Column("k", "int"),), streaming=True)
LAYOUT = row_layout(STREAM, ["k"], ["int"], needed=())
BATCHES = [[1, 2, 2, 3], [2, 3, 3], [7]]
COUNTS = {1: 1, 2: 3, 3: 3, 7: 1}


class CountOnward(CountByKey):
    """Hands the counts on to another operator, as keys."""

    def step(self, *given: Any) -> Iterator[Any]:
        for counts in super().step(*given):
            yield 0, counts.select(["count"]).rename_columns([CODE])


def rows(keys: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int32())})


@pytest.mark.parametrize("shards", [1, 3])
def test_it_runs_locally_and_goes_on_after_a_restart(shards: int, tmp_path: Path) -> None:
    found: dict[int, int] = {}
    local: LocalRun | None = None
    for batch in BATCHES:
        folder = str(tmp_path)
        inputs = [LocalInput(ByKey())]
        local = LocalRun(CountByKey(), inputs, shards=shards, folder=folder, restart=local)
        for counts in local.step([encoded(rows(batch), LAYOUT)]):
            found |= zip(*counts.to_pydict().values(), strict=True)
        assert local.counters.streams[0].rows == len(batch)
    assert found == COUNTS
    assert local is not None
    assert local.counters.streams[0].state_rows == len(COUNTS)


@pytest.mark.parametrize(
    ("route", "times"), [(ByKey(), 1), (Everywhere(), 3), (StoredInOne(), 3)], ids=str
)
def test_a_route_says_where_rows_go(route: Route, times: int) -> None:
    stored = encoded(rows([*range(100)]), LAYOUT)
    dealt = [part for _, part in route.deal(stored, 3)]
    codes = Counter(code for part in dealt for code in part.column(CODE).to_pylist())
    assert codes == dict.fromkeys(range(100), times)
    homes = [part.column("#home").to_pylist() for part in dealt if "#home" in part.schema.names]
    if isinstance(route, StoredInOne):
        assert [sum(home) for home in zip(*homes, strict=True)] == [1] * 100


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "FAMILIES", [COUNT, *families.FAMILIES])


@pytest.mark.usefixtures("registered")
def test_a_fourth_family_is_planned_and_stepped_by_hand() -> None:
    streams = {name: LocalStream(pa.schema([("k", pa.int32())])) for name in "ab"}
    join = LocalJoin(streams, on="k", goal="count", shards=3)
    found: dict[int, int] = {}
    for batch in BATCHES:
        table = pa.table({"k": pa.array(batch, pa.int32())})
        found |= zip(*join.batch(a=table, b=table).to_pydict().values(), strict=True)
    assert found == {key: 2 * count for key, count in COUNTS.items()}
    assert "keys" in join.plan.explain()


@pytest.mark.spark
class TestOnSpark:
    @pytest.mark.usefixtures("registered")
    def test_a_fourth_family_is_called_like_any_other(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        pq.write_table(pa.Table.from_batches([rows([1, 2, 2])]), tmp_path / "in.parquet")
        files = spark.readStream.schema("k int").parquet(str(tmp_path))
        streams = [wm.stream(files, name) for name in "ab"]
        plan = wm.plan(streams, on="k", goal="count")  # type: ignore[arg-type]
        assert plan.schema.names == ["key", "count"]
        writer = plan.dataframe().writeStream.format("memory").queryName("counted")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        found: dict[int, int] = {}
        for key, count in spark.table("counted").collect():
            found[key] = max(count, found.get(key, 0))
        assert found == {1: 2, 2: 4}
        assert [type(record) for record in wm.metrics(query)] == [wm.StepMetrics]

    def counted(
        self, spark: SparkSession, folder: Path, hops: tuple[Hop, ...]
    ) -> tuple[dict[int, int], list[Any]]:
        (folder / "in").mkdir()
        for number, batch in enumerate(BATCHES):
            pq.write_table(pa.Table.from_batches([rows(batch)]), folder / f"in/{number}.parquet")
        files = spark.readStream.schema("k int").option("maxFilesPerTrigger", 1)
        given = Input("rows", LAYOUT, ByKey())
        schema = spark.createDataFrame([], "key bigint, count bigint").schema
        name = f"counts in {len(hops)}"
        chain = Chain(name, (given,), hops, shards=2, streaming=True, timers=False)
        counts = run(chain, [files.parquet(str(folder / "in"))], schema)
        collected: dict[int, int] = {}

        def collect(batch: DataFrame, number: int) -> None:
            for key, count in batch.collect():
                collected[key] = max(count, collected.get(key, 0))

        writer = counts.writeStream.foreachBatch(collect).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        query.awaitTermination()
        return collected, wm.metrics(query)

    def test_it_runs_through_the_same_contract(self, spark: SparkSession, tmp_path: Path) -> None:
        counts, records = self.counted(spark, tmp_path, (Hop(CountByKey(), "count by key"),))
        assert counts == COUNTS
        assert sum(record.rows for record in records) == 8
        assert records[-1].state_rows == len(COUNTS)
        assert {record.join for record in records} == {"counts in 1"}

    def test_one_operator_hands_its_rows_on_to_another(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        first = Hop(CountOnward(), "count by key", (ByKey(),))
        hops = first, Hop(CountByKey(), "count by key")
        counts, records = self.counted(spark, tmp_path, hops)
        # Keys had the counts 1, 2, 1 after the first batch, 3, 3 after the second, then 1.
        assert counts == {1: 3, 2: 1, 3: 2}
        names = ["counts in 2, hop 1 of 2", "counts in 2, hop 2 of 2"]
        assert {record.join for record in records} == set(names)
        stored = {record.join: record.state_rows for record in records}
        assert [stored[name] for name in names] == [4, 3]
        taken = [sum(r.rows for r in records if r.join == name) for name in names]
        assert taken == [8, 6]
