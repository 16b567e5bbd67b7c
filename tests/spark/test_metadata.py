"""Punctuations and promises about keys, on Spark: over a shuffle, in batches, in chains."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.streams import (
    CLOSING,
    SECOND,
    events,
    metrics_of,
    read,
    result,
    start,
    without_end,
    write,
)
from watersmeet.spec.join_type import How

pytestmark = pytest.mark.spark

NEWS = pa.schema([("sno", pa.int64()), ("title", pa.string())])
ACCESS = pa.schema(
    [("sno", pa.int64()), ("ip", pa.string()), ("over", pa.bool_()), ("upto", pa.int64())]
)
ENDS = wm.Punctuation(when="over", high="upto")


def rows(schema: pa.Schema, values: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, v, strict=True)) for v in values], schema)


def news(batches: int) -> list[pa.Table]:
    return [rows(NEWS, [(n, f"news {n}") for n in range(4 * b, 4 * b + 4)]) for b in range(batches)]


def access(batches: int, *, ranges: bool) -> list[pa.Table]:
    """Records of each batch's news, in each of them twice; the news of the batch before are
    over then: by a punctuation each, or by a range."""
    tables = []
    for b in range(batches):
        values: list[tuple[Any, ...]] = [
            (n, f"{b}-{n}-{i}", False, None) for n in range(4 * b, 4 * b + 4) for i in range(2)
        ]
        if b and ranges:
            values.append((None, None, True, 4 * b - 1))
        elif b:
            values += [(n, None, True, None) for n in range(4 * b - 4, 4 * b)]
        tables.append(rows(ACCESS, values))
    return tables


def written(folder: Path, *, ranges: bool = False) -> dict[str, list[pa.Table]]:
    batches = {"news": news(5), "access": access(5, ranges=ranges)}
    for name, tables in batches.items():
        write(folder / name, tables)
    return batches


def streams(spark: SparkSession, folder: Path) -> list[wm.Stream]:
    return [
        wm.stream(read(spark, folder / "news"), "news", unique=True),
        wm.stream(read(spark, folder / "access"), "access", punctuation=ENDS),
    ]


@pytest.mark.parametrize("ranges", [False, True], ids=["constants", "ranges"])
def test_state_is_bounded_without_a_window(
    spark: SparkSession, tmp_path: Path, ranges: bool
) -> None:
    batches = written(tmp_path, ranges=ranges)
    query = start(wm.join(streams(spark, tmp_path), on="sno", goal="memory", how="left"))
    found = result(spark, query)
    tables = {name: pa.concat_tables(parts) for name, parts in batches.items()}
    data = tables["access"].filter(pa.compute.invert(tables["access"].column("over")))
    sides = {"news": tables["news"], "access": data}
    expected = sql_join(
        {name: Stream(table, ["sno"], None, None) for name, table in sides.items()}, how="left"
    )
    assert_same_rows(found, expected)
    records = [record for record in metrics_of(query, wm.EquiMetrics) if record.rows]
    assert [record.streams["news"].state_rows for record in records] == [4] * 5
    assert [record.streams["access"].state_rows for record in records] == [0] * 5
    # A range goes to both shards, a single key to its own.
    came = sum(record.streams["access"].punctuations for record in records)
    assert came == (4 * 2 if ranges else 16)


def test_two_joins_are_chained_by_what_the_first_hands_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    written(tmp_path)
    pages = pa.schema([("sno", pa.int64()), ("page", pa.string())])
    write(
        tmp_path / "pages",
        [rows(pages, [(n, f"page {n}") for n in range(4 * b, 4 * b + 4)]) for b in range(5)],
    )
    first = wm.join(streams(spark, tmp_path), on="sno", goal="memory", emit_punctuations=True)
    second = wm.join(
        [
            wm.stream(read(spark, tmp_path / "pages"), "pages", unique=True),
            wm.stream(first, "read", punctuation=wm.Punctuation(when="is_punctuation")),
        ],
        on="sno",
        goal="memory",
    )
    query = start(second)
    found = result(spark, query)
    assert found.num_rows == 5 * 8
    assert set(found.column("page").to_pylist()) == {f"page {n}" for n in range(20)}
    last = [
        record
        for record in metrics_of(query, wm.EquiMetrics)
        if record.rows and record.join == "inner join of pages and read"
    ]
    assert [record.streams["pages"].state_rows for record in last] == [4] * 5
    assert sum(record.streams["read"].punctuations for record in last) == 16


def test_punctuations_of_unique_keys_and_of_patterns_are_handed_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given carts and payments of shops, each once. In a micro-batch there are so many that closed
    # keys become segments; those of the one before are over, and all of its shop.
    schema = pa.schema([("shop", pa.string()), ("cart", pa.int64()), ("over", pa.bool_())])
    carts, over = range(400), [(f"shop {b}", cart, True) for b in range(4) for cart in range(400)]
    for name in ("carts", "payments"):
        tables = []
        for b in range(4):
            values: list[tuple[Any, ...]] = [(f"shop {b}", cart, False) for cart in carts]
            if b:
                values += [(f"shop {b - 1}", None, True)]
                values += over[400 * b - 400 : 400 * b] if name == "carts" else []
            tables.append(rows(schema, values))
        write(tmp_path / name, tables)
    ends = wm.Punctuation(when="over")
    both = [
        wm.stream(read(spark, tmp_path / name), name, unique=True, punctuation=ends)
        for name in ("carts", "payments")
    ]
    # When they are joined, then every pair leaves, and after it every punctuation, once: those of
    # carts, and those of the shop of both streams.
    query = start(wm.join(both, on=["shop", "cart"], goal="memory", emit_punctuations=True))
    found = result(spark, query)
    handed = Counter(zip(found["shop"].to_pylist(), found["cart"].to_pylist(), strict=True))
    for b in range(4):
        counts = [handed[f"shop {b}", cart] for cart in carts]
        assert counts == [2 if b < 3 else 1] * 400
        assert handed[f"shop {b}", None] == (2 if b < 3 else 0)
    records = [record for record in metrics_of(query, wm.EquiMetrics) if record.rows]
    assert sum(record.streams["carts"].propagated for record in records) == 3 * 401
    assert {stream.state_rows for record in records for stream in record.streams.values()} == {0}


def test_a_broken_promise_stops_the_query_and_says_whose(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "news", news(2))
    tables = access(2, ranges=False)
    tables.append(rows(ACCESS, [(2, "too late", False, None)]))
    write(tmp_path / "access", tables)
    with pytest.raises(StreamingQueryException, match="stream 'access' brought 1 row.*the key 2"):
        result(spark, start(wm.join(streams(spark, tmp_path), on="sno")))


@pytest.mark.parametrize(
    ("when", "message"),
    [("nowhere = 1", "not a condition over its columns sno, ip"), ("sno + 1", "is of type bigint")],
)
def test_a_condition_that_is_none_is_refused_at_once(
    spark: SparkSession, tmp_path: Path, when: str, message: str
) -> None:
    write(tmp_path / "access", access(1, ranges=False))
    df = read(spark, tmp_path / "access")
    with pytest.raises(wm.errors.PunctuationError, match=message):
        wm.stream(df, "access", punctuation=wm.Punctuation(when=when))


class TestInStages:
    """A budget far too small, and goal="early": what is on disk is probed later."""

    BATCHES: ClassVar = {
        "views": events(1, key="ad", time="viewed", value="view", batches=6),
        "clicks": events(2, key="ad", time="clicked", value="click", batches=6),
    }
    TIMES: ClassVar = {"views": "viewed", "clicks": "clicked"}

    def joined(self, spark: SparkSession, folder: Path, how: How) -> DataFrame:
        streams = [
            wm.stream(
                read(spark, write(folder / name, batches)),
                name,
                time=self.TIMES[name],
                delay="2 minutes",
            )
            for name, batches in self.BATCHES.items()
        ]
        budget = wm.Budget(memory="8 kB")
        return wm.join(streams, on="ad", within="90 seconds", how=how, goal="early", budget=budget)

    def expected(self, how: How) -> pa.Table:
        rows = {name: without_end(batches, "ad") for name, batches in self.BATCHES.items()}
        window = 90 * SECOND
        return sql_join(
            {name: Stream(rows[name], ["ad"], time, window) for name, time in self.TIMES.items()},
            how=how,
        )

    @pytest.mark.parametrize("how", ["inner", "full"])
    def test_nothing_is_lost_by_what_is_put_off(
        self, spark: SparkSession, tmp_path: Path, how: How
    ) -> None:
        query = start(self.joined(spark, tmp_path, how))
        found = result(spark, query)
        data = found.filter(pc.fill_null(pc.less(found.column("ad"), CLOSING), True))
        assert_same_rows(data, self.expected(how))
        records = metrics_of(query, wm.EquiMetrics)
        assert sum(record.deferred for record in records) > 0
        assert max(record.owed for record in records) > 0
        assert records[-1].owed == 0

    def test_what_was_put_off_is_not_late_for_an_aggregation(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        joined = self.joined(spark, tmp_path, "inner")
        counts = joined.groupBy(F.window("event_time", "30 seconds")).count()
        query = start(counts.select(F.col("window.start").alias("at"), "count"))
        found = result(spark, query)
        assert max(record.owed for record in metrics_of(query, wm.EquiMetrics)) > 0
        instants = self.expected("inner").column("event_time").cast(pa.int64()).to_pylist()
        expected = Counter(instant // (30 * SECOND) * 30 * SECOND for instant in instants)
        starts = found.column("at").cast(pa.int64()).to_pylist()
        assert dict(zip(starts, found.column("count").to_pylist(), strict=True)) == expected
