"""A killed query goes on from its checkpoint: every result once, none missing."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.oracle import Stream, assert_same_rows, sql_join
from tests.spark.driver import PATIENCE, Driver, driver
from tests.spark.streams import (
    SECOND,
    events,
    read,
    table,
    without_end,
    write,
)
from watersmeet.spark.checkpoint.note import NOTE

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def views_and_clicks(folder: Path, batches: int, **sizes: Any) -> pa.Table:
    """Writes the streams' files; gives the left join's result."""
    views = events(6, key="ad", time="viewed", value="view", batches=batches, **sizes)
    clicks = events(7, key="ad", time="clicked", value="click", batches=batches, **sizes)
    write(folder / "views", views)
    write(folder / "clicks", clicks)
    streams = {
        "views": Stream(without_end(views, "ad"), ["ad"], "viewed", 45 * SECOND),
        "clicks": Stream(without_end(clicks, "ad"), ["ad"], "clicked", 45 * SECOND),
    }
    return sql_join(streams, how="left")


def test_a_query_that_is_killed_again_and_again_gives_every_result_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = 6
    wanted = views_and_clicks(tmp_path, batches - 1)
    seed = 20240301
    dice = random.Random(seed)
    for kill in range(3):
        with driver(tmp_path, f"--batches={batches}") as query:
            moment = dice.uniform(0, 2)
            print(f"seed {seed}: kill {kill} comes {moment:.3f} s after the start")
            query.wait_for("started" if kill == 0 else "batch .*")
            time.sleep(moment)
    with driver(tmp_path, f"--batches={batches}") as query:
        query.wait_for("done")
        assert query.process.wait(PATIENCE) == 0
    assert_same_rows(table(spark.read.parquet(str(tmp_path / "out"))), wanted)
    said = (tmp_path / "stderr").read_text()
    assert "Starting Streaming" not in said, "what PySpark prints for its developers is not seen"


def executors(query: Driver) -> list[int]:
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--sid", str(query.process.pid)],
        capture_output=True,
        text=True,
    )
    lines = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, command in lines if "CoarseGrainedExecutorBackend" in command]


def test_a_query_goes_on_when_an_executor_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    batches = 6
    wanted = views_and_clicks(tmp_path, batches - 1)
    with driver(tmp_path, f"--batches={batches}", "--master=local-cluster[2,1,1024]") as query:
        query.wait_for("batch 1")
        victim, *others = executors(query)
        assert others, "there are two executors"
        os.kill(victim, signal.SIGKILL)
        query.wait_for("done")
        assert query.process.wait(PATIENCE) == 0
    assert_same_rows(table(spark.read.parquet(str(tmp_path / "out"))), wanted)


def test_the_state_of_two_executions_of_a_micro_batch_may_be_mixed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both leave state of the same version. One executor has the first one's in memory, and the
    files are the other's. What the next micro-batch changes must fit both."""
    # Parts too large to be kept in the manifest.
    wanted = views_and_clicks(tmp_path, 4, rows=1000, keys=400)
    with driver(tmp_path, query="twice_query") as query:
        # Given a task that fails after its state's commit, runs again on another executor, which
        # is then killed, so that the next micro-batch runs where the first execution did,
        first, second, third = (
            query.wait_for(f"batch {batch}, attempt {attempt}: (.*)")[1]
            for batch, attempt in ((1, 0), (1, 1), (2, 0))
        )
        assert first == third != second
        # when the query is started again, and no cache hides what is missing in the store,
        query.wait_for("done")
        assert query.process.wait(PATIENCE) == 0
    # then there is every result once.
    result = spark.read.parquet(str(tmp_path / "out")).drop("batch")
    assert_same_rows(table(result), wanted)


def left_join(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    return left_plan(spark, folder, **options).dataframe()


def left_plan(
    spark: SparkSession, folder: Path, *, view: str = "bigint", **options: Any
) -> wm.Plan:
    """``view`` is the type of the column of that name."""
    views = read(spark, folder / "views").withColumn("view", F.col("view").cast(view))
    streams = [
        wm.stream(views, "views", time="viewed", delay="2 minutes"),
        wm.stream(read(spark, folder / "clicks"), "clicks", time="clicked", delay="2 minutes"),
    ]
    return wm.plan(streams, **{"on": "ad", "within": "45 seconds", "how": "left", **options})


def append(df: DataFrame, out: Path, checkpoint: Path) -> None:
    """Run a query over what is there, and append its results to a Parquet folder."""
    query = (
        df.writeStream.foreachBatch(lambda rows, _: rows.write.mode("append").parquet(str(out)))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@dataclass(frozen=True)
class Halfway:
    """A query that has read half of its files: its session, its folder, what it will give.

    The checkpoint and the results so far are there three times: as ``checkpoint`` and
    ``out``, and copied, under ``copied`` and ``refused``."""

    session: SparkSession
    folder: Path
    wanted: pa.Table


@pytest.fixture(scope="module")
def halfway(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Halfway:
    folder = tmp_path_factory.mktemp("halfway")
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.watersmeet.cache.folder", str(folder / "cache"))
    # (The state of few rows is in the manifest, and nowhere in the cache.)
    wanted = views_and_clicks(folder, 3, rows=2000, keys=400)
    rest = [file for name in ("views", "clicks") for file in sorted((folder / name).iterdir())[2:]]
    for file in rest:
        file.rename(file.with_name(f".{file.name}"))
    append(left_join(session, folder), folder / "out", folder / "checkpoint")
    for file in rest:
        file.with_name(f".{file.name}").rename(file)
    for copy in ("copied", "refused"):
        # Spark notes the schema of a state by its absolute path, so the original stays.
        shutil.copytree(folder / "checkpoint", folder / copy / "checkpoint")
        shutil.copytree(folder / "out", folder / copy / "out")
    return Halfway(session, folder, wanted)


def test_the_cache_folder_may_be_deleted(halfway: Halfway) -> None:
    session, folder = halfway.session, halfway.folder
    # Given what the workers have put into a folder of their own,
    (own,) = (folder / "cache").iterdir()
    assert own.name.startswith(f"watersmeet-{os.geteuid()}-")
    assert own.stat().st_mode & 0o777 == 0o700
    assert list(own.glob("*.segment"))
    # when all of it is deleted, then the query goes on as if nothing had happened.
    shutil.rmtree(folder / "cache")
    append(left_join(session, folder), folder / "out", folder / "checkpoint")
    assert_same_rows(table(session.read.parquet(str(folder / "out"))), halfway.wanted)


def test_a_checkpoint_is_complete_by_itself(halfway: Halfway) -> None:
    # Given a copy of the checkpoint, as on another machine: under the same path, with
    # nothing left of the original and an empty cache, and another number of partitions,
    copied, session = halfway.folder / "copied", halfway.session.newSession()
    assert session.conf.get("spark.sql.shuffle.partitions") == "2"
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.watersmeet.cache.folder", str(copied / "cache"))
    checkpoint = halfway.folder / "checkpoint"
    shutil.rmtree(checkpoint)
    shutil.copytree(copied / "checkpoint", checkpoint)
    # when the query is started from it, then it goes on as if nothing had happened, and says so.
    with pytest.warns(UserWarning, match="with the 2 shuffle partitions .* session's 3"):
        append(left_join(session, halfway.folder), copied / "out", checkpoint)
    assert_same_rows(table(session.read.parquet(str(copied / "out"))), halfway.wanted)


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"within": "46 seconds"}, "window of views: was 45 s, now 46 s;"),
        ({"on": {"views": "view", "clicks": "click"}}, "key of views: view is new, ad is missing;"),
        ({"view": "int"}, "stored columns of views: view int is new, view bigint is missing."),
    ],
)
def test_a_checkpoint_of_another_join_is_refused(
    halfway: Halfway, options: dict[str, Any], change: str
) -> None:
    refused, session = halfway.folder / "refused", halfway.session.newSession()
    checkpoint = refused / "checkpoint"
    plan = left_plan(session, halfway.folder, **options)
    # Given a checkpoint of another join, when the query is started, then it ends before it has
    # looked for new rows;
    query = plan.dataframe().writeStream.format("noop")
    started = query.option("checkpointLocation", str(checkpoint)).start()
    assert not started.isActive
    with pytest.raises(StreamingQueryException) as caught:
        started.processAllAvailable()
    message = str(caught.value)
    assert f"StateError: the checkpoint was written by another query: {change}" in message
    assert "new checkpointLocation" in message
    assert str(started.exception()).startswith("StateError: the checkpoint was written by")
    # when it is checked before, then it says the same;
    with pytest.raises(wm.errors.StateError) as found:
        plan.check(str(checkpoint))
    assert str(found.value) in message
    # when there is no note of who has used the checkpoint, then the first new rows show it.
    (checkpoint / NOTE).rename(refused / NOTE)
    with pytest.raises(StreamingQueryException) as caught:
        append(plan.dataframe(), refused / "out", checkpoint)
    (refused / NOTE).rename(checkpoint / NOTE)
    assert str(found.value) in str(caught.value)
    assert "watersmeet/" not in str(caught.value), "no lines of code stand before it"


@pytest.mark.parametrize("readable", [True, False])
def test_a_wrong_note_in_a_checkpoint_does_no_harm(halfway: Halfway, readable: bool) -> None:
    # Given a checkpoint with a note of another join, or a damaged one, though its state is this
    # join's,
    copied, session = halfway.folder / f"noted-{readable}", halfway.session.newSession()
    checkpoint = copied / "checkpoint"
    shutil.copytree(halfway.folder / "refused", copied)
    right = (checkpoint / NOTE).read_text()
    if readable:
        (checkpoint / f".{NOTE}.crc").unlink()
    (checkpoint / NOTE).write_text("{}")
    # when the query is started, then it goes on, and the note is right again.
    join = left_join(session, halfway.folder).writeStream.format("noop")
    query = join.option("checkpointLocation", str(checkpoint)).start()
    assert query.isActive
    query.stop()
    assert query.exception() is None
    assert (checkpoint / NOTE).read_text() == right


def test_a_checkpoint_of_the_same_join_passes_the_check(halfway: Halfway, tmp_path: Path) -> None:
    # Given a plan with another goal, which may change, and a session with other partitions,
    session = halfway.session.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    plan = left_plan(session, halfway.folder, goal="memory")
    # when it is checked against its checkpoint, then nothing is wrong;
    plan.check(str(halfway.folder / "copied" / "checkpoint"))
    # but where no checkpoint is, that is said.
    with pytest.raises(wm.errors.StateError, match="no such folder"):
        plan.check(str(tmp_path / "none"))
    with pytest.raises(wm.errors.StateError, match="no query has begun"):
        plan.check(str(tmp_path))
