"""Joins without a key on Spark."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark import relocation_process
from tests.spark.driver import driver
from tests.spark.streams import SECOND, at, events, read, run, table, without_end, write
from watersmeet.joins.chain import EVERY
from watersmeet.rows.layout import keyless_layout
from watersmeet.spark.checkpoint.checkpoint import Checkpoint
from watersmeet.spark.checkpoint.note import NOTE, Note
from watersmeet.spark.query.encode import encoded
from watersmeet.spec.join_type import How
from watersmeet.spec.stream import Column, StreamSpec

pytestmark = pytest.mark.spark

NAMES = ("a", "b", "c")
BATCHES = {
    name: events(number, key="k", time=f"{name}_at", value=f"{name}_n", rows=30)
    for number, name in enumerate(NAMES, start=1)
}
WINDOWS = {"a": 45, "b": 30, "c": 20}


def _close(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less_equal(pc.abs(pc.subtract(a["k"], b["k"])), 1)


close = wm.predicate(_close, "a", "b", columns={"a": ["k"], "b": ["k"]})
CLOSE = "abs(a.k - b.k) <= 1"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    root = tmp_path_factory.mktemp("streams")
    return {name: write(root / name, batches) for name, batches in BATCHES.items()}


def streams(spark: SparkSession, folders: Mapping[str, Path], names: str) -> list[wm.Stream]:
    return [
        wm.stream(read(spark, folders[name]), name, time=f"{name}_at", delay="2 minutes")
        for name in names
    ]


def within(names: str) -> dict[str, str]:
    return {name: f"{WINDOWS[name]} seconds" for name in names}


def expected(names: str, how: How, where: str) -> pa.Table:
    rows = {name: without_end(BATCHES[name], "k") for name in names}
    given = {n: Stream(rows[n], [], f"{n}_at", WINDOWS[n] * SECOND) for n in names}
    return sql_join(given, how=how, where=where)


def without_closing(rows: pa.Table) -> pa.Table:
    """The rows that let the watermark pass are unmatched; what SQL sees lacks them."""
    [key] = [name for name in ("a_k", "k") if name in rows.column_names]
    kept = [value is None or value < 1_000_000 for value in rows.column(key).to_pylist()]
    return rows.filter(pa.array(kept))


@pytest.mark.parametrize(
    ("how", "where", "sql"),
    [
        ("inner", close, CLOSE),
        ("left", [CLOSE, "a.a_n % 2 = 0"], f"{CLOSE} AND a.a_n % 2 = 0"),
        ("semi", close, CLOSE),
        ("anti", f"{CLOSE} AND b.b_n % 5 = 0", f"{CLOSE} AND b.b_n % 5 = 0"),
    ],
)
def test_two_streams_give_what_sql_gives(
    spark: SparkSession, folders: Mapping[str, Path], how: How, where: Any, sql: str
) -> None:
    joined = wm.join(streams(spark, folders, "ab"), where=where, within=within("ab"), how=how)
    rows = without_closing(run(joined))
    assert rows.num_rows > 10
    assert_same_rows(rows, expected("ab", how, sql))


def test_rows_are_known_by_all_that_is_in_them(spark: SparkSession) -> None:
    # Given rows that differ in a null, an order, the sign of a zero, or deep inside, twice each,
    kind = (
        "a int, b int, c array<int>, d map<string, int>, e struct<x: timestamp, y: array<int>>, "
        "f double, g float, h array<double>, i array<timestamp_ntz>"
    )
    moment = at(1)
    nested: list[tuple[Any, ...]] = [
        (1, None, [1, None], {"k": None}, (moment, [None])),
        (None, 1, [1, None], {"k": None}, (moment, [None])),
        (1, None, [None, 1], {"k": None}, (moment, [None])),
        (1, None, [1, None], {}, (moment, [None])),
        (1, None, [1, None], None, (moment, [None])),
        (1, None, [1, None], {"k": None}, (moment, [])),
        (1, None, [1, None], {"k": None}, (at(1.000001), [None])),
        (1, None, [1, None], {"k": None}, None),
    ]
    zeros = [(0.0, 0.0, [0.0]), (-0.0, 0.0, [0.0]), (0.0, -0.0, [0.0]), (0.0, 0.0, [-0.0])]
    local = [([datetime(2024, 1, 1, microsecond=micros)],) for micros in (1, 2)]
    rows = [(*row, *zeros[0], *local[0]) for row in nested]
    rows += [(*nested[0], *row, *local[0]) for row in zeros[1:]]
    rows += [(*nested[0], *zeros[0], *local[1])]
    df = spark.createDataFrame(rows * 2, kind)
    columns = tuple(Column(f.name, f.dataType.simpleString()) for f in df.schema)
    stream = StreamSpec("s", columns, streaming=False)
    layout = keyless_layout(stream, needed=df.columns, identified=True)
    # when they are hashed, then those that differ have another hash, and their likes the same.
    hashed = encoded(df, layout).select("`#code`", "`#check`").collect()
    assert len({row["#check"] for row in hashed}) == len(rows)
    assert hashed[: len(rows)] == hashed[len(rows) :]


def _signed(a: pa.Table, b: pa.Table) -> npt.NDArray[np.bool_]:
    return np.signbit(a["x"].to_numpy())


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("left", {("-0.0", 1.0), ("0.0", None)}),
        ("semi", {("-0.0",)}),
        ("anti", {("0.0",)}),
    ],
)
def test_what_the_one_zero_matches_is_not_given_to_the_other(
    spark: SparkSession, how: How, expected: set[tuple[Any, ...]]
) -> None:
    # Given rows that differ in the sign of a zero alone, of which one matches,
    a = wm.stream(
        spark.createDataFrame([(0.0, at(1)), (-0.0, at(1))], "x double, t timestamp"), "a"
    )
    b = wm.stream(spark.createDataFrame([(1.0, at(1))], "y double, u timestamp"), "b")
    # when they are joined, then that one is matched, and the other is not.
    signed = wm.predicate(_signed, "a", "b")
    joined = wm.join([a, b], where=signed, how=how, unbounded=True)
    shown = [name for name in ("x", "y") if name in joined.columns]
    found = {(str(x), *rest) for x, *rest in joined.select(*shown).collect()}
    assert found == expected


CHAIN = [CLOSE, "b.k = c.k OR b.k > c.k + 3"]


def append(df: DataFrame, out: Path, checkpoint: Path) -> list[wm.StepMetrics]:
    """Run a query over what is there, from its checkpoint, and append its results."""
    query = (
        df.writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return wm.metrics(query)


def test_a_function_that_fails_stops_the_query_which_goes_on_when_it_is_corrected(
    spark: SparkSession, folders: Mapping[str, Path], tmp_path: Path
) -> None:
    # Given a function that fails on rows of the second micro-batch,
    first_of_second = BATCHES["a"][1]["a_n"][0].as_py()

    def broken(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
        if pc.max(a["a_n"]).as_py() >= first_of_second:
            raise ValueError("no such number")
        return _close(a, b)

    fails = wm.predicate(broken, "a", "b", columns={"a": ["k", "a_n"], "b": ["k"]})
    corrected = wm.predicate(_close, "a", "b", columns={"a": ["k", "a_n"], "b": ["k"]})

    def query(where: Any) -> None:
        joined = wm.join(streams(spark, folders, "ab"), where=where, within=within("ab"))
        append(joined, tmp_path / "out", tmp_path / "checkpoint")

    # when the query runs, it stops, and names the function, what it said, and a pair;
    with pytest.raises(StreamingQueryException) as caught:
        query(fails)
    message = str(caught.value)
    assert "PredicateFunctionError" in message[:400]
    assert "broken" in message
    assert "no such number" in message
    assert "a_n" in message
    # and with a function that does not fail it goes on, and loses nothing.
    query(corrected)
    found = without_closing(table(spark.read.parquet(str(tmp_path / "out"))))
    assert_same_rows(found, expected("ab", "inner", CLOSE))


def test_three_streams_go_on_with_fewer_slices_and_say_what_they_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a query over the first files that is stopped, and started again with all of them,
    folders = {name: write(tmp_path / name, BATCHES[name][:2]) for name in NAMES}

    def query(session: SparkSession, **tuning: Any) -> list[wm.StepMetrics]:
        inputs, tuned = streams(session, folders, "abc"), wm.Tuning(**tuning)
        joined = wm.join(inputs, where=CHAIN, within=within("abc"), name="abc", tuning=tuned)
        return append(joined, tmp_path / "out", tmp_path / "checkpoint")

    first = query(spark)
    for name in NAMES:
        write(folders[name], BATCHES[name][2:], first=2)
    # when new rows are stored in one slice, those of the other are still met. A query finds that
    # out by a note; without the note it refuses.
    note = tmp_path / "checkpoint" / NOTE
    text = note.read_text()
    note.unlink()
    with pytest.raises(StreamingQueryException, match=r"slices=1, draining=\.\.\."):
        query(spark, slices=1)
    note.write_text(text)
    # In a session with another number of partitions than the checkpoint has,
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    second = query(session, slices=1)
    # (The refused one had begun a micro-batch, which is run again with a slice in every shard.)
    said = Note.read(note.read_text())
    assert {join.slices for join in said.joins} == {EVERY}
    assert [slices for _, slices in said.history] == [(EVERY,) * 3, (1,) * 3]
    # then together they have given everything once.
    assert min(sum(record.results for record in part) for part in (first, second)) > 0
    assert_same_rows(
        table(spark.read.parquet(str(tmp_path / "out"))),
        expected("abc", "inner", " AND ".join(f"({text})" for text in CHAIN)),
    )
    # There is a record for each hop; b, which is connected with both others, is in the first.
    hops = [f"abc, hop {number} of 3" for number in (1, 2, 3)]
    records = [next(r for r in second if r.join == hop) for hop in hops]
    assert all(isinstance(record, wm.RingMetrics) for record in records)
    stored = [{name for name, of in record.streams.items() if of.state_rows} for record in records]
    assert stored[0] == {"b"}
    assert stored[1] | stored[2] == {"a", "c"}
    assert sum(record.rows for record in second if record.join == hops[0]) > 60


def test_an_interrupted_micro_batch_is_run_again_with_the_slices_that_it_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a left join with one slice, whose second micro-batch is interrupted when its state is
    # written,
    names, checkpoint, out = "ab", tmp_path / "checkpoint", tmp_path / "out"
    folders = {name: write(tmp_path / name, BATCHES[name][:2]) for name in names}

    def joined(slices: int | None) -> DataFrame:
        inputs, tuned = streams(spark, folders, names), wm.Tuning(slices=slices)
        return wm.join(inputs, where=CLOSE, within=within(names), how="left", tuning=tuned)

    def interrupting(rows: DataFrame, batch: int) -> None:
        if batch:
            rows.count()
            raise RuntimeError("interrupted")
        rows.write.mode("append").parquet(str(out))

    query = joined(1).writeStream.foreachBatch(interrupting)
    started = query.option("checkpointLocation", str(checkpoint)).start()
    with pytest.raises(StreamingQueryException, match="interrupted"):
        started.awaitTermination()
    # when it is started again with a slice in every shard,
    continued(joined(None), out, checkpoint)
    # then that micro-batch is dealt as it was, to the first shard alone,
    assert slices_with_rows(spark, checkpoint) == [1, 1]
    # and those behind it to all.
    for name in names:
        write(folders[name], BATCHES[name][2:-1], first=2)
    continued(joined(None), out, checkpoint)
    assert slices_with_rows(spark, checkpoint) == [2, 2]
    for name in names:
        write(folders[name], BATCHES[name][-1:], first=len(BATCHES[name]) - 1)
    continued(joined(None), out, checkpoint)
    rows = without_closing(table(spark.read.parquet(str(out))))
    assert_same_rows(rows, expected(names, "left", CLOSE))


def slices_with_rows(spark: SparkSession, checkpoint: Path) -> list[int]:
    """How many of the first shards have rows, of each hop."""
    found = Checkpoint(spark, str(checkpoint))
    return [found.slices(manifests[0].fingerprint) for manifests in found.states]


@pytest.mark.parametrize(
    ("how", "where", "sql"),
    [
        ("right", close, CLOSE),
        ("left", "true", "true"),
        ("left", f"{CLOSE} AND 1 = 2", "false"),
    ],
)
def test_batch_dataframes(
    spark: SparkSession, folders: Mapping[str, Path], how: How, where: Any, sql: str
) -> None:
    inputs = [
        wm.stream(
            spark.read.parquet(str(folders[name])).where("k IS NULL OR k < 1000000"),
            name,
            time=f"{name}_at",
        )
        for name in "ab"
    ]
    joined = wm.join(inputs, where=where, within=within("ab"), how=how)
    assert_same_rows(table(joined), expected("ab", how, sql))


def continued(df: DataFrame, out: Path, checkpoint: Path) -> int:
    """Go on from a checkpoint, over what is there, into a folder of its own: the number of
    results."""
    query = (
        df.writeStream.foreachBatch(lambda rows, _: rows.write.mode("append").parquet(str(out)))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(record.results for record in wm.metrics(query))


def test_a_checkpoint_is_relocated_and_a_kill_leaves_it_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a stopped left join, whose rows are in one slice, so that the other shard has no timer,
    names = "ab"
    folders = {name: write(tmp_path / name, BATCHES[name][:2]) for name in names}

    def plan(how: How = "left", **tuning: Any) -> wm.Plan:
        inputs, tuned = streams(spark, folders, names), wm.Tuning(**tuning)
        return wm.plan(inputs, where=CLOSE, within=within(names), how=how, tuning=tuned)

    checkpoint, target = tmp_path / "checkpoint", tmp_path / "relocated"
    first = append(plan(slices=1).dataframe(), tmp_path / "out", checkpoint)
    before = {record.join: record.state_rows for record in first}
    files = hashes(checkpoint)
    # when the process that relocates it is killed, with its JVM, in the middle of the rewriting,
    # and when everything is written,
    for moment in relocation_process.MOMENTS:
        with driver(tmp_path, f"--moment={moment}", query="relocation_process") as relocating:
            relocating.wait_for(moment)
        written = {path.name for path in (tmp_path / "relocated.incomplete" / "state").iterdir()}
        assert written == {"0", "1"}
        # then there is no new checkpoint, the old one is what it was, and it can be done again.
        assert not target.exists()
        assert hashes(checkpoint) == files
    wm.relocate(str(checkpoint), str(target), slices=2)
    assert hashes(checkpoint) == files
    assert slices_with_rows(spark, target) == [2, 2]
    # It fits the query, and no other one.
    plan(slices=2).check(str(target))
    with pytest.raises(wm.errors.StateError, match="join type: was left, without a key, now right"):
        plan("right").check(str(target))
    # When the query goes on, from the new checkpoint with two slices, or from the old one,
    for name in names:
        write(folders[name], BATCHES[name][2:], first=2)
    assert min(before.values()) > 0
    for place, slices in ((target, 2), (checkpoint, 1)):
        rest = tmp_path / f"out-{place.name}"
        assert continued(plan(slices=slices).dataframe(), rest, place) > 0
        # then it does as if nothing had happened.
        rows = without_closing(table(spark.read.parquet(str(tmp_path / "out"), str(rest))))
        assert_same_rows(rows, expected(names, "left", CLOSE))


def test_a_checkpoint_is_relocated_to_another_order_of_the_hops(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a stopped join of three streams, whose rows are in hops of one order,
    folders = {name: write(tmp_path / name, BATCHES[name][:2]) for name in NAMES}

    def plan(order: str, **tuning: Any) -> wm.Plan:
        inputs, tuned = streams(spark, folders, "abc"), wm.Tuning(order=list(order), **tuning)
        return wm.plan(inputs, where=CHAIN, within=within("abc"), tuning=tuned)

    checkpoint, target = tmp_path / "checkpoint", tmp_path / "relocated"
    first = append(plan("bac").dataframe(), tmp_path / "out", checkpoint)
    assert all(record.state_rows for record in first)
    # when it is relocated to another one,
    wm.relocate(str(checkpoint), str(target), slices=1, order=["c", "b", "a"])
    # then it fits that one alone,
    with pytest.raises(wm.errors.StateError, match="order of the hops: was c, b, a"):
        plan("bac").check(str(target))
    for name in NAMES:
        write(folders[name], BATCHES[name][2:], first=2)
    # and goes on as if nothing had happened.
    assert continued(plan("cba", slices=1).dataframe(), tmp_path / "rest", target) > 0
    rows = table(spark.read.parquet(str(tmp_path / "out"), str(tmp_path / "rest")))
    where = " AND ".join(f"({term})" for term in CHAIN)
    assert_same_rows(rows, expected("abc", "inner", where))


def test_a_checkpoint_is_relocated_beside_an_operator_with_several_stores(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given a stopped query with a join without a key, and with a stateful join of Spark's own,
    names = "ab"
    folders = {name: write(tmp_path / name, BATCHES[name][:2]) for name in names}

    def query(slices: int) -> DataFrame:
        inputs, tuned = streams(spark, folders, names), wm.Tuning(slices=slices)
        ours = wm.join(inputs, where=CLOSE, within=within(names), tuning=tuned)
        one, other = (read(spark, folders[name]).select("k") for name in names)
        return ours.select(F.col("a_k").alias("k")).union(one.join(other, "k"))

    checkpoint, target = tmp_path / "checkpoint", tmp_path / "relocated"
    append(query(1), tmp_path / "out", checkpoint)
    # (what cannot be done is refused, and nothing is written)
    for slices in (0, 3, True):
        with pytest.raises(wm.errors.PlanError, match="whole number from 1 to 2"):
            wm.relocate(str(checkpoint), str(target), slices=slices)
    with pytest.raises(wm.errors.PlanError, match="is there already"):
        wm.relocate(str(checkpoint), str(tmp_path / "out"), slices=2)
    with pytest.raises(wm.errors.PlanError, match="target='.*': Spark cannot write"):
        wm.relocate(str(checkpoint), str(tmp_path / "a place"), slices=2)
    with pytest.raises(wm.errors.StateError, match="there is no such folder"):
        wm.relocate(str(tmp_path / "nowhere"), str(target), slices=2)
    spaced = shutil.copytree(checkpoint, tmp_path / "a checkpoint")
    with pytest.raises(wm.errors.StateError, match="Spark cannot read the state"):
        wm.relocate(str(spaced), str(target), slices=2)
    unfinished = shutil.copytree(checkpoint, tmp_path / "unfinished")
    for file in unfinished.glob(f"commits/*{last_batch(checkpoint)}*"):
        file.unlink()
    with pytest.raises(wm.errors.StateError, match="the last micro-batch was not finished"):
        wm.relocate(str(unfinished), str(target), slices=2)
    assert not list(tmp_path.glob("relocated*"))
    # when it is relocated, then it goes on as if nothing had happened.
    wm.relocate(str(checkpoint), str(target), slices=2)
    for name in names:
        write(folders[name], BATCHES[name][2:], first=2)
    rest = {}
    for place, slices in ((target, 2), (checkpoint, 1)):
        continued(query(slices), tmp_path / f"out-{place.name}", place)
        found = table(spark.read.parquet(str(tmp_path / f"out-{place.name}")))
        rest[place] = sorted(found["k"].to_pylist())
    assert rest[target] == rest[checkpoint] != []


def test_only_one_join_without_a_key_can_be_relocated(spark: SparkSession, tmp_path: Path) -> None:
    folders = {name: write(tmp_path / name, BATCHES[name][:1]) for name in "ab"}

    def joined(name: str, **matching: Any) -> DataFrame:
        inputs = streams(spark, folders, "ab")
        return wm.join(inputs, within=within("ab"), name=name, **matching).select("a_n")

    two = joined("one", where=CLOSE).union(joined("two", where=CLOSE))
    for query, count in ((two, "several joins"), (joined("keyed", on="k"), "no join")):
        checkpoint = tmp_path / count.replace(" ", "-")
        append(query, tmp_path / "out" / checkpoint.name, checkpoint)
        with pytest.raises(wm.errors.StateError, match=f"the query has {count} without a key"):
            wm.relocate(str(checkpoint), str(tmp_path / "relocated"), slices=1)
    assert not list(tmp_path.glob("relocated*"))


def last_batch(checkpoint: Path) -> int:
    return max(int(file.name) for file in checkpoint.glob("commits/[0-9]*"))


def hashes(folder: Path) -> dict[str, str]:
    """All files of a folder, by their content."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
