"""The session that a join needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.cost import calibration
from watersmeet.spark.session import warm_up as warm
from watersmeet.spark.session.launcher import launcher
from watersmeet.spark.session.session import QUIET, SETTINGS, check
from watersmeet.spark.session.warm_up import SETTING, warm_up

pytestmark = pytest.mark.spark


def test_a_local_session_has_what_a_join_needs(spark: SparkSession) -> None:
    check(spark, stream_with_state=True)
    assert {name: spark.conf.get(name) for name in SETTINGS} == SETTINGS
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.parametrize(
    ("banner", "fault"),
    [
        (None, "{java} cannot be run (No such file or directory), and JAVA_HOME is"),
        ('openjdk version "11.0.2" 2019', "of {java}, it is Java 11.0.2; what the JVM said went"),
    ],
)
def test_a_local_session_without_java_says_what_is_needed(
    tmp_path: Path, banner: str | None, fault: str
) -> None:
    java = tmp_path / "bin" / "java"
    if banner is not None:
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho '{banner}' >&2\nexit 1\n")
        java.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", "import watersmeet as wm; wm.local_session()"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    fault = fault.format(java=java)
    assert f"SessionError: local_session: Spark's JVM did not start: {fault}" in said
    assert "needs Java 17 or newer" in said


def test_configure_adds_the_settings_to_a_builder_of_your_own(spark: SparkSession) -> None:
    builder = wm.configure(SparkSession.Builder())
    assert {name: builder._options[name] for name in SETTINGS} == SETTINGS
    assert not SETTINGS.keys() & {"spark.master", "spark.sql.shuffle.partitions"}


def test_configure_sets_up_a_running_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = spark.newSession()
    for name in SETTINGS:
        session.conf.unset(name)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    assert wm.configure(session) is session
    check(session, stream_with_state=True)
    assert {name: session.conf.get(name) for name in SETTINGS} == SETTINGS
    assert session.sparkContext.pythonExec == launcher(session.sparkContext)
    with pytest.raises(wm.errors.SessionError, match="str is neither a SparkSession nor a builder"):
        wm.configure("local")  # type: ignore[call-overload]


def test_checkpoints_on_this_disk_are_written_by_renames_unless_the_session_says_otherwise(
    spark: SparkSession,
) -> None:
    name = "spark.sql.streaming.checkpointFileManagerClass"
    session = spark.newSession()
    session.conf.unset(name)
    check(session, stream_with_state=True)
    assert str(session.conf.get(name)).endswith(".FileSystemBasedCheckpointFileManager")
    session.conf.set(name, "one.of.your.own")
    check(session, stream_with_state=True)
    assert session.conf.get(name) == "one.of.your.own"


def test_loggers_that_warn_of_what_we_do_on_purpose_are_silent(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setRootLevel(log4j.Level.WARN)
    try:
        check(spark, stream_with_state=True)
        warns = {name: log4j.LogManager.getLogger(name).isWarnEnabled() for name in (*QUIET, "x")}
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    assert warns == {QUIET[0]: False, QUIET[1]: False, "x": True}
    for name in QUIET:
        assert jvm.java.lang.Class.forName(name).getName() == name, "Spark has it still"


def test_settings_given_after_configure_win(spark: SparkSession) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    builder = wm.configure(SparkSession.Builder()).config(name, "1000")
    assert builder._options[name] == "1000"


def test_workers_run_the_python_that_started_the_session(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    version = subprocess.run([found[0], "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.split()[1] == sys.version.split()[0]
    assert found == [sys.executable]


def test_workers_that_are_warm_are_those_that_pack_and_join(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One set of workers for all our functions, forked from one process: for another set of
    environment variables, Spark would start a second one."""
    assert warm_up(spark) is None, "this session's workers were started when it was made"

    def parents(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in rows:
            yield pa.record_batch({"parent": [os.getppid()]})

    found = spark.range(0, 64, 1, 2).mapInArrow(parents, "parent long").collect()
    packed = {row.parent for row in found}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    frame = spark.createDataFrame([(1, at)], "k long, at timestamp")
    here = wm.predicate(_noted(tmp_path), "a", "b")
    joined = wm.join(
        [wm.stream(frame, name, time="at") for name in "ab"], on="k", within="1 hour", where=here
    )
    assert joined.count() == 1
    stepped = {int(path.name) for path in tmp_path.iterdir()}
    assert len(packed) == 1
    assert stepped == packed


def _noted(folder: Path) -> Callable[[pa.Table, pa.Table], pa.Array]:
    def noted(a: pa.Table, b: pa.Table) -> pa.Array:
        (folder / str(os.getppid())).touch()
        return pa.array([True] * len(a))

    return noted


def test_a_session_may_do_without_warm_workers(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set(SETTING, "false")
    warm._warm.discard(spark.sparkContext)
    assert warm_up(session) is None
    thread = warm_up(spark)
    assert thread is not None
    thread.join()
    assert warm_up(spark) is None


def test_planning_leaves_the_cache_to_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that made the folder would lock out executors of another user."""
    session = spark.newSession()
    session.conf.set("spark.watersmeet.cache.folder", str(tmp_path / "cache"))
    calibration.forget()
    rows = session.createDataFrame([(1,)], "k bigint")
    wm.plan([wm.stream(rows, "a"), wm.stream(rows, "b")], on="k", unbounded=True)
    assert not (tmp_path / "cache").exists()
