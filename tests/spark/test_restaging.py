"""A table whose files change: what is staged again, and what is kept."""

from __future__ import annotations

import functools
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.functions import udf
from pyspark.sql.types import StructType

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.streams import TIMESTAMP, at, read, rows_of, table, write
from watersmeet.rows.columns import CODE
from watersmeet.rows.layout import row_layout
from watersmeet.rows.shard import Shard
from watersmeet.spark.query.inputs import describe
from watersmeet.spark.tables import folders, stage_job
from watersmeet.spark.tables import staging as staging_module
from watersmeet.spark.tables.identity import relisted
from watersmeet.spark.tables.staging import Staging
from watersmeet.table.staged_table import StagedTable, stage
from watersmeet.table.versions import Versions

pytestmark = pytest.mark.spark


def prices(keys: range, price: float = 1.0) -> pa.Table:
    return pa.table({"product": [*keys], "price": [price + key for key in keys]})


def add(folder: Path, name: str, rows: pa.Table) -> Path:
    """A file that is there as a whole at any time."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "_hidden")
    os.replace(folder / "_hidden", folder / name)
    return folder / name


def staging(
    df: DataFrame, folder: Path, *, in_layers: bool = True, function: str | None = None
) -> Staging:
    """How a table is staged, by a plan of its own."""
    described = describe(df, "products", time=None, delay=None)
    layout = row_layout(described, ["product"], ["bigint"], needed={*df.columns})
    return Staging(
        layout,
        str(folder),
        shards=2,
        partition=4000,
        in_layers=in_layers,
        owner=uuid.uuid4().hex,
        function=function,
    )


def codes(staged: StagedTable) -> list[int]:
    """The keys of all rows of a staged table."""

    def partitions() -> Iterator[np.ndarray]:
        for number in range(2):
            shard = staged.shard(Shard(number, 2))
            for partition in range(len(shard)):
                yield shard.partition(partition).rows.column(CODE).to_numpy()

    return sorted(np.concatenate([np.empty(0, int), *partitions()]).tolist())


def test_only_files_that_were_added_are_staged(spark: SparkSession, tmp_path: Path) -> None:
    # Given a table in folders that are values of a column, read with a filter and a projection,
    data = tmp_path / "data with space"
    add(data, "day=1/a b.parquet", prices(range(2000)))
    small = add(data, "day=2/c%20ü.parquet", prices(range(2000, 2100)))
    df = spark.read.parquet(str(data)).where("product % 2 = 0")
    df = df.selectExpr("product", "price + day AS price").alias("p")
    tables = staging(df, tmp_path / "stage")
    first = tables.stage(df)
    assert codes(first) == [*range(0, 2100, 2)]
    assert first.layers == [first]
    # when a file is added,
    add(data, "day=3/d.parquet", prices(range(2001, 2101)))
    df = relisted(df)
    second = tables.stage(df, before=first)
    # then it alone is staged, and the version has all rows.
    assert second.layers[0] == first
    assert codes(second.layers[1]) == [*range(2002, 2101, 2)]
    assert codes(second) == sorted([*range(0, 2100, 2), *range(2002, 2101, 2)])
    size = second.size()
    assert size is not None
    assert size.rows == 1050 + 50
    # Whoever finds the table later finds this version, without the one before.
    assert tables.stage(df) == second
    # When further files are added, those of about this size are staged with them.
    add(data, "day=3/e.parquet", prices(range(4000, 4100)))
    third = tables.stage(relisted(df), before=second)
    assert third.layers[0] == first
    assert codes(third.layers[1]) == sorted([*range(2002, 2101, 2), *range(4000, 4100, 2)])
    # When a file is removed, or another one has taken its place, its layer is staged again.
    small.unlink()
    add(data, "day=3/e.parquet", prices(range(4000, 4050)))
    fourth = tables.stage(relisted(df), before=third)
    assert fourth.layers == [fourth]
    assert codes(fourth) == sorted(
        [*range(0, 2000, 2), *range(2002, 2101, 2), *range(4000, 4050, 2)]
    )


@pytest.mark.parametrize(
    ("lost", "left"),
    [
        *((lost, None) for lost in ("1/index.arrow", "0/filter", "0/0.arrow", "1/1.arrow", "1")),
        *((cut, 100) for cut in ("1/index.arrow", "0/fences", "1/1.arrow", "table.json")),
    ],
)
def test_a_table_of_which_a_file_is_gone_or_cut_is_staged_again(
    spark: SparkSession, tmp_path: Path, lost: str, left: int | None
) -> None:
    # Given a table in two layers,
    data = tmp_path / "data"
    add(data, "a.parquet", prices(range(2000)))
    df = spark.read.parquet(str(data))
    tables = staging(df, tmp_path / "stage")
    first = tables.stage(df)
    assert first.intact()
    add(data, "b.parquet", prices(range(2000, 2100)))
    df = relisted(df)
    second = tables.stage(df, before=first)
    assert second.intact()
    assert len(second.layers) == 2
    # when a file of the larger one is deleted, or cut,
    gone = Path(first.folder) / lost
    if left is not None:
        os.truncate(gone, left)
    else:
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    assert not first.intact()
    assert not second.intact()
    # then the table is staged anew, and all of its rows are there again,
    again = tables.stage(df, before=second)
    assert again == second
    assert again.intact()
    assert codes(again) == [*range(2100)]
    # once.
    made = {path: path.stat().st_mtime_ns for path in Path(again.folder).rglob("*.arrow")}
    assert tables.stage(df) == again
    after = {path: path.stat().st_mtime_ns for path in Path(again.folder).rglob("*.arrow")}
    assert after == made


def test_a_table_that_is_being_removed_is_found_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an idle table, and one that was hidden before, whose files cannot be deleted,
    idle, hidden = tmp_path / ("a" * 32), tmp_path / f".{'b' * 32}-01234567"
    for folder in (idle, hidden):
        folder.mkdir()
        os.utime(folder, (0, 0))
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        folders.remove_idle(str(tmp_path))
    # then its name is free, and what is left of both is removed the next time.
    left = sorted(path.name.rpartition("-")[0] for path in tmp_path.iterdir())
    assert left == ["." + "a" * 32, "." + "b" * 32]
    folders.remove_idle(str(tmp_path))
    assert not [*tmp_path.iterdir()]


def test_a_table_that_another_driver_has_just_staged_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a table that is complete, and one of the same name that another driver puts in its place
    # just when a damaged one was seen there,
    folder, hidden = tmp_path / ("a" * 32), tmp_path / f".{'a' * 32}-01234567"
    rows = pa.record_batch({CODE: pa.array([], pa.int64())})
    for path in (folder, hidden):
        stage(rows, str(path), shards=1, partition=1000)
    (folder / "by another driver").touch()
    intact, seen = StagedTable.intact, [False]

    def first_seen_before(staged: StagedTable) -> bool:
        return seen.pop() if seen else intact(staged)

    monkeypatch.setattr(StagedTable, "intact", first_seen_before)
    folders.give_name(str(hidden), StagedTable(str(folder)))
    # then that one stays,
    assert (folder / "by another driver").exists()
    # and a damaged one is replaced.
    (folder / "0" / "filter").unlink()
    folders.give_name(str(hidden), StagedTable(str(folder)))
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert intact(StagedTable(str(folder)))


def test_a_file_that_names_a_version_which_is_gone_is_removed(tmp_path: Path) -> None:
    # Given files that name a version that is there, one that is gone, and one that is being made,
    there, gone, made = ("a" * 32, "b" * 32, "c" * 32)
    for name in (there, gone, made):
        Versions(str(tmp_path), name, name).set(name)
    (tmp_path / there).mkdir()
    for name in (there, gone):
        os.utime(tmp_path / f"{name}.current", (0, 0))
    # when idle versions are removed, then only that of the second one is.
    folders.remove_idle(str(tmp_path))
    left = [there, f"{there}.current", f"{made}.current"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_a_query_that_needs_other_columns_at_a_restart_is_answered_from_these(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a query with `refresh`,
    schema = {"product": pa.int64(), "seen": TIMESTAMP, "view": pa.int64()}
    add(tmp_path / "products", "a.parquet", prices(range(10)).append_column("more", [[*range(10)]]))
    products = spark.read.parquet(str(tmp_path / "products"))

    def run(number: int, table: DataFrame, checkpoint: str = "checkpoint") -> pa.Table:
        rows = rows_of([(number, at(number), number)], **schema)
        write(tmp_path / "views", [rows], first=number)
        stream = wm.stream(read(spark, tmp_path / "views"), "views", time="seen", delay="1 second")
        enriched = wm.enrich(stream, table, on="product", refresh="1 hour", stage=str(tmp_path))
        writer = enriched.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.start(str(tmp_path / f"out{number}")).awaitTermination()
        return pq.read_table(tmp_path / f"out{number}")

    assert run(1, products.select("product", "price"))["price"].to_pylist() == [2.0]
    # when it is started again and needs another column in that place, or more of them, or other
    # values, then its first row is answered from these.
    assert run(2, products.select("product", "more"))["more"].to_pylist() == [2]
    both = run(3, products.select("product", "more", "price"))
    assert both.select(["more", "price"]).to_pylist() == [{"more": 3, "price": 4.0}]
    dearer = products.selectExpr("product", "more", "price * 10 AS price")
    assert run(4, dearer)["price"].to_pylist() == [50.0]
    # So it is with rows in memory.
    for number, price in ((5, 0.5), (6, 0.6)):
        rows = spark.createDataFrame([(number, price)], "product bigint, price double")
        assert run(number, rows, "of rows in memory")["price"].to_pylist() == [price]


def test_a_table_that_is_not_read_row_by_row_is_staged_as_a_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    add(data, "a.parquet", prices(range(1000)))

    def versions(df: DataFrame, *, in_layers: bool = True) -> list[StagedTable]:
        tables = staging(df, tmp_path / "stage", in_layers=in_layers)
        first = tables.stage(df)
        added = add(data, "b.parquet", prices(range(10)))
        second = tables.stage(relisted(df), before=first)
        added.unlink()
        relisted(df)
        assert second != first
        return second.layers

    files = spark.read.parquet(str(data))
    assert len(versions(files)) == 2
    assert len(versions(files, in_layers=False)) == 1
    assert len(versions(files.groupBy("product").sum("price").toDF("product", "price"))) == 1
    assert len(versions(files.join(files.select("product"), "product"))) == 1
    files.createOrReplaceTempView("restaged_files")
    greatest = "SELECT * FROM restaged_files WHERE price <= (SELECT max(price) FROM restaged_files)"
    assert len(versions(spark.sql(greatest))) == 1


def test_a_file_that_comes_while_a_table_is_staged_is_for_the_next_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a DataFrame whose files another query has listed anew just when it is written,
    data = tmp_path / "data"
    add(data, "a.parquet", prices(range(1000)))
    df = spark.read.parquet(str(data))
    tables, write_rows = staging(df, tmp_path / "stage"), stage_job.write_table

    def interrupted(*given: Any, **further: Any) -> None:
        add(data, "b.parquet", prices(range(1000, 1010)))
        relisted(df)
        write_rows(*given, **further)

    monkeypatch.setattr(staging_module, "write_table", interrupted)
    first = tables.stage(df)
    monkeypatch.undo()
    # then the new file is not in that version, and once in the next one.
    assert codes(first) == [*range(1000)]
    assert codes(tables.stage(relisted(df), before=first)) == [*range(1010)]


def test_what_a_table_is_named_after(spark: SparkSession, tmp_path: Path) -> None:
    # Given a table of texts, and one that another one filters,
    texts, limits = tmp_path / "texts", tmp_path / "limits"
    texts.mkdir()
    (texts / "a.csv").write_text("1,2\n3,4\n")
    add(limits, "a.parquet", prices(range(3)))

    def csv(**options: str) -> DataFrame:
        return spark.read.options(**options).schema("product bigint, price int").csv(str(texts))

    def version(df: DataFrame) -> str:
        return staging(df, tmp_path / "stage").identity(df).version

    # when it is read in another way, then it is another one;
    assert version(csv()) == version(csv()) == version(relisted(csv()))
    assert version(csv(header="true")) != version(csv())
    # and so it is when what it is filtered by has changed.
    spark.read.parquet(str(limits)).createOrReplaceTempView("restaged_limits")
    csv().createOrReplaceTempView("restaged_texts")
    text = "SELECT * FROM restaged_texts WHERE price > (SELECT max(product) FROM restaged_limits)"
    filtered = spark.sql(text)
    before = version(filtered)
    assert before == version(filtered)
    add(limits, "b.parquet", prices(range(4)))
    assert version(relisted(filtered)) != before


def test_paths_that_have_no_file_are_known(spark: SparkSession, tmp_path: Path) -> None:
    # Given a table in two folders, read in a way that is known and in one that is not,
    one, other = tmp_path / "one", tmp_path / "other"
    files = [add(folder, "a.parquet", prices(range(3))) for folder in (one, other)]
    both = spark.read.parquet(str(one), str(other))
    tables = [both, both.union(both), both.withColumn("product", udf(int, "bigint")("product"))]

    def bare() -> list[frozenset[str]]:
        return [staging(df, tmp_path).identity(relisted(df)).bare for df in tables]

    assert bare() == [frozenset()] * 3
    # when one folder has only what Spark writes before a file is complete, and one is gone,
    files[0].rename(files[0].with_name("_temporary"))
    assert bare() == [frozenset({f"file:{one}"})] * 3
    shutil.rmtree(other)
    # then that is said.
    assert bare() == [frozenset({f"file:{one}", f"file:{other}"})] * 3


#: The columns of a file of prices, as a user may give them, and what is read of it.
AS_IS = "product bigint, price double"
PAIRS = {
    "another column": ((AS_IS, "price AS v"), ("product bigint, cost double", "cost AS v")),
    "another type": (
        ("product bigint, price date", "cast(price AS string) AS v"),
        ("product bigint, price timestamp", "cast(price AS string) AS v"),
    ),
    "another literal": ((AS_IS, "cast(1.5f AS string) AS v"), (AS_IS, "cast(1.5d AS string) AS v")),
    "a text with a comma": (
        (AS_IS, "cast(price AS string) IN ('a,b') AS v"),
        (AS_IS, "cast(price AS string) IN ('a', 'b') AS v"),
    ),
    "a list of texts": (
        (AS_IS, "array_contains(array('a, b'), cast(price AS string)) AS v"),
        (AS_IS, "array_contains(array('a', 'b'), cast(price AS string)) AS v"),
    ),
    "bytes": ((AS_IS, "X'1C' AS v"), (AS_IS, "X'1D' AS v")),
    "null where it fails": (
        (AS_IS, "cast(cast(price AS string) AS int) AS v"),
        (AS_IS, "try_cast(cast(price AS string) AS int) AS v"),
    ),
    "null where it is too large": (
        (AS_IS, "product + 1 AS v"),
        (AS_IS, "try_add(product, 1) AS v"),
    ),
    "an escape": (
        (AS_IS, "cast(price AS string) LIKE 'a/%' ESCAPE '/' AS v"),
        (AS_IS, "cast(price AS string) LIKE 'a/%' AS v"),
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_two_tables_that_differ_have_two_names(
    spark: SparkSession, tmp_path: Path, pair: tuple[tuple[str, str], tuple[str, str]]
) -> None:
    add(tmp_path / "data", "a.parquet", prices(range(3)))

    def version(schema: str, read: str) -> tuple[bool, str]:
        files = spark.read.schema(schema).parquet(str(tmp_path / "data"))
        df = files.selectExpr("product", read)
        known = staging(df, tmp_path / "stage").identity(df)
        return known.known, known.version

    one, other = pair
    assert version(*one) == version(*one)
    assert version(*other) == version(*other)
    assert version(*one)[0]
    assert version(*one) != version(*other)


def test_a_setting_that_changes_a_result_makes_another_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    add(tmp_path / "data", "a.parquet", prices(range(3)))
    other = spark.newSession()
    read = "cast(concat(cast(price AS string), 'x') AS int) AS v"

    def version(session: SparkSession) -> str:
        df = session.read.parquet(str(tmp_path / "data")).selectExpr("product", read)
        return staging(df, tmp_path / "stage").identity(df).version

    first = version(other)
    other.conf.set("spark.sql.adaptive.enabled", "false")
    assert version(other) == first
    other.conf.set("spark.sql.ansi.enabled", "false")
    assert version(other) != first
    # What a table was made with counts, also if a setting has changed since.
    lenient = other.read.parquet(str(tmp_path / "data")).selectExpr("product", read)
    other.conf.set("spark.sql.ansi.enabled", "true")
    assert staging(lenient, tmp_path / "stage").identity(lenient).version != first


def test_a_table_is_known_whatever_its_columns_and_texts_are_called(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = pa.table({"product": [1], "CurrentTime": [1.0], "Python": ["Lambda"]})
    add(tmp_path / "data", "a.parquet", rows)
    files = spark.read.parquet(str(tmp_path / "data"))

    def known(df: DataFrame) -> bool:
        return staging(df, tmp_path / "stage").identity(df).known

    assert known(files.where("Python != 'UDF'"))
    ranked = "row_number() OVER (PARTITION BY product ORDER BY CurrentTime) AS r"
    assert known(files.selectExpr("product", ranked))
    assert not known(files.selectExpr("product", "now() AS read_at"))
    assert not known(files.selectExpr("product", "current_user() AS reader"))
    assert not known(files.withColumn("f", udf(len, "int")("Python")))


def test_one_table_has_one_name_however_it_is_called(spark: SparkSession, tmp_path: Path) -> None:
    # Given one table, read twice, with a subquery and a join,
    add(tmp_path / "data", "a.parquet", prices(range(3)))

    def version(view: str, price: str) -> str:
        spark.read.parquet(str(tmp_path / "data")).createOrReplaceTempView(view)
        df = spark.sql(
            f"SELECT a.product, a.{price} + 1 AS v FROM (SELECT product, price {price} FROM {view})"
            f" a JOIN {view} b ON a.product = b.product"
            f" WHERE b.price < (SELECT max(price) FROM {view})"
        )
        known = staging(df, tmp_path / "stage").identity(df)
        assert known.known
        return known.version

    # then it has one name, whatever its views and columns on the way are called.
    assert version("restaged_one", "cost") == version("restaged_other", "amount")


@pytest.fixture
def catalog_tables(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """A table of the session's catalog, one in partitions, and a view of each: all of the keys 0 to
    1999."""
    names = ("restaged_plain", "restaged_parted")
    rows = spark.createDataFrame(prices(range(2000)).to_pandas())
    for name, data in zip(names, (rows, rows.selectExpr("*", "product % 2 AS day")), strict=True):
        writer = data.coalesce(1).write.option("path", str(tmp_path / name))
        writer.saveAsTable(name, partitionBy=[*data.columns[2:]])
        spark.sql(f"CREATE VIEW {name}_view AS SELECT product, price FROM {name}")
    yield
    for name in names:
        spark.sql(f"DROP VIEW {name}_view")
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.usefixtures("catalog_tables")
def test_a_table_of_the_catalog_is_read_with_the_files_that_there_are_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given tables that functions take from the session's catalog, which keeps their files,
    write(tmp_path / "views", [rows_of([(1, at(0))], product=pa.int64(), seen=TIMESTAMP)])
    stream = wm.stream(read(spark, tmp_path / "views"), "views", time="seen", delay="1 second")
    text = "SELECT product, price FROM {} WHERE product >= 0"
    made: dict[str, Callable[[], DataFrame]] = {
        f"{name} {form}": functools.partial(by, given)
        for name in ("restaged_plain", "restaged_parted")
        for form, by, given in (
            ("table", spark.table, name),
            ("sql", spark.sql, text.format(name)),
            ("view", spark.table, f"{name}_view"),
        )
    }

    def reading(function: Callable[[], DataFrame]) -> tuple[Callable[[], DataFrame], Staging]:
        planned = wm.plan_enrich(stream, function, on="product", refresh="1 h", stage=str(tmp_path))
        return planned.inputs.read, staging(planned.inputs.table, tmp_path / "stage")

    known = {name: reading(function) for name, function in made.items()}
    first = {name: tables.stage(read_now()) for name, (read_now, tables) in known.items()}
    assert {name: codes(staged) for name, staged in first.items()} == {
        name: [*range(2000)] for name in made
    }
    # when a file comes that the catalog is not told of, then it alone is staged.
    add(tmp_path, "restaged_plain/b.parquet", prices(range(2000, 2010)))
    add(tmp_path, "restaged_parted/day=1/b.parquet", prices(range(2000, 2010)))
    for name, (read_now, tables) in known.items():
        second = tables.stage(read_now(), before=first[name])
        assert codes(second) == [*range(2010)], name
        assert len(second.layers) == 2, name
    # A partition in a folder that is not named after it is of another table as soon as it moves.
    elsewhere = "ALTER TABLE restaged_parted ADD PARTITION (day = {}) LOCATION '{}'"
    add(tmp_path / "elsewhere", "a.parquet", prices(range(3000, 3010)))
    read_now, tables = known["restaged_parted sql"]
    versions = set[str]()
    for day in (7, 8):
        spark.sql(elsewhere.format(day, tmp_path / "elsewhere"))
        identity = tables.identity(read_now())
        assert identity.known
        versions.add(identity.version)
        assert codes(tables.stage(read_now())) == [*range(2010), *range(3000, 3010)]
        spark.sql(f"ALTER TABLE restaged_parted DROP PARTITION (day = {day})")
    assert len(versions) == 2


class Shelf(DataSource):
    """A source in Python, whose rows are named after the place where they are."""

    @classmethod
    def name(cls) -> str:
        return "restaged_shelf"

    def schema(self) -> str:
        return "product bigint, price double"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ShelfReader()


class ShelfReader(DataSourceReader):
    def read(self, partition: object) -> Iterator[tuple[int, float]]:
        yield 1, 1.0


def test_tables_of_two_places_are_two_tables(spark: SparkSession, tmp_path: Path) -> None:
    # Given tables of which nobody can tell whether they have changed, of one text,
    spark.dataSource.register(Shelf)
    for place in ("one", "other"):
        add(tmp_path / place, "a.parquet", prices(range(3)))

    def database(place: str, password: str = "", **further: str) -> DataFrame:
        url = f"jdbc:derby:memory:restaged_{place};create=true"
        reader = spark.read.format("jdbc").options(url=url, password=password)
        rows = reader.options(**further or {"dbtable": "sysibm.sysdummy1"}).load()
        return rows.selectExpr("1L AS product", "1.0D AS price")

    def query(place: str) -> DataFrame:
        return database(place, query="SELECT * FROM sysibm.sysdummy1")

    def connector(place: str) -> DataFrame:
        return spark.read.format("restaged_shelf").option("place", place).load()

    def by_python(place: str) -> DataFrame:
        files = spark.read.parquet(str(tmp_path / place))
        return files.withColumn("price", udf(float, "double")("price"))

    def in_memory(place: str) -> DataFrame:
        return spark.createDataFrame([(1, float(len(place)))], "product bigint, price double")

    def name(df: DataFrame, function: str | None = None) -> str:
        known = staging(df, tmp_path / "stage", function=function).identity(df)
        assert not known.known
        return known.table

    # then those of two places are two,
    for given in (database, query, connector, by_python, in_memory):
        assert name(given("one")) != name(given("other")), given
    # and those of one place are one, whoever reads them,
    for given in (database, query, connector, by_python):
        assert name(given("one")) == name(given("one")), given
    assert name(database("one", "old")) == name(database("one", "new"))
    # also rows in memory, of which a function has made newer ones.
    assert name(in_memory("one"), "app.fetch") == name(in_memory("other"), "app.fetch")
    assert name(in_memory("one"), "app.fetch") != name(in_memory("one"), "app.other")


def test_a_query_goes_on_with_rows_that_were_added(spark: SparkSession, tmp_path: Path) -> None:
    # Given a query over a table of a file,
    schema = {"product": pa.int64(), "seen": TIMESTAMP, "view": pa.int64()}
    views = [rows_of([(1, at(0), 0), (77, at(0), 1), (5000, at(0), 2)], **schema)]
    write(tmp_path / "views", views)
    add(tmp_path / "products", "a.parquet", prices(range(4000)))
    stream = wm.stream(read(spark, tmp_path / "views"), "views", time="seen", delay="1 second")
    planned = wm.plan_enrich(
        stream,
        spark.read.parquet(str(tmp_path / "products")),
        on="product",
        refresh="1 second",
        retry="1 hour",
        stage=str(tmp_path),
    )
    small = replace(planned.plan.policy, partition=4000, resident=0, cache=4000)
    planned = replace(planned, plan=replace(planned.plan, policy=small))
    writer = planned.dataframe().writeStream.format("memory").queryName("restaged")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        assert table(spark.table("restaged")).num_rows == 2
        # when a file is added, with one more row of a key and the first of another,
        stage = tmp_path / "watersmeet-tables"
        (current,) = stage.glob("*.current")
        versions = Versions(str(stage), current.stem, current.stem)
        before = versions.current()
        assert before is not None
        added = pa.table({"product": [1, 5000], "price": [100.0, 200.0]})
        add(tmp_path / "products", "b.parquet", added)
        until = time.time() + 60
        while versions.current() == before:
            assert time.time() < until, versions.failure()
            time.sleep(0.2)
        for number in range(1, 4):
            views.append(rows_of([(1, at(10 * number), 10 * number)], **schema))
            write(tmp_path / "views", views[-1:], first=number)
            query.processAllAvailable()
        newer = versions.current()
        assert newer is not None
        # and when the folder is gone for a moment, as while it is overwritten,
        shutil.move(tmp_path / "products", tmp_path / "away")
        until = time.time() + 60
        while "no file of the table" not in str(versions.failure()):
            assert time.time() < until, versions.failure()
            time.sleep(0.2)
        for number in range(4, 6):
            views.append(rows_of([(2, at(10 * number), 10 * number)], **schema))
            write(tmp_path / "views", views[-1:], first=number)
            query.processAllAvailable()
        notes = {note for step in wm.metrics(query) for note in step.notes}
        assert any("no file of the table" in note for note in notes)
        assert versions.current() == newer
        shutil.move(tmp_path / "away", tmp_path / "products")
        while versions.failure() is not None:
            assert time.time() < until, versions.failure()
            time.sleep(0.2)
        found = table(spark.table("restaged"))
    finally:
        query.stop()
    # then the version before is a layer of the new one,
    assert versions.current() == newer
    assert newer.layers[0] == before
    assert len(newer.layers) == 2
    assert not (Path(before.folder) / "superseded").exists()
    # and rows are answered from both, the one that waited for its key too. (The first row after it
    # may still be answered from the old version.)
    master = pa.concat_tables([prices(range(4000)), added])
    rows = pa.concat_tables([views[0].slice(2), *views[2:]])
    streams = {"views": Stream(rows, ["product"]), "products": Stream(master, ["product"])}
    late = found.filter(pa.array([view not in (0, 1, 10) for view in found["view"].to_pylist()]))
    assert_same_rows(late, sql_join(streams))
