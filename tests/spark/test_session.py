"""The session that a join needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.cost import calibration
from watersmeet.spark.session import SETTINGS, check

pytestmark = pytest.mark.spark


def test_a_local_session_has_what_a_join_needs(spark: SparkSession) -> None:
    check(spark)
    assert {name: spark.conf.get(name) for name in SETTINGS} == SETTINGS
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"


def test_configure_adds_the_settings_to_a_builder_of_your_own(spark: SparkSession) -> None:
    builder = wm.configure(SparkSession.Builder())
    assert {name: builder._options[name] for name in SETTINGS} == SETTINGS
    assert not SETTINGS.keys() & {"spark.master", "spark.sql.shuffle.partitions"}


def test_configure_sets_up_a_running_session(spark: SparkSession) -> None:
    session = spark.newSession()
    for name in SETTINGS:
        session.conf.unset(name)
    assert wm.configure(session) is session
    check(session)
    assert {name: session.conf.get(name) for name in SETTINGS} == SETTINGS
    with pytest.raises(wm.errors.SessionError, match="str is neither a SparkSession nor a builder"):
        wm.configure("local")  # type: ignore[call-overload]


def test_settings_given_after_configure_win(spark: SparkSession) -> None:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    builder = wm.configure(SparkSession.Builder()).config(name, "1000")
    assert builder._options[name] == "1000"


def test_workers_run_the_python_that_started_the_session(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    version = subprocess.run([found[0], "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.split()[1] == sys.version.split()[0]
    assert found == [sys.executable]


def test_planning_leaves_the_cache_to_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that made the folder would lock out executors of another user."""
    session = spark.newSession()
    session.conf.set("spark.watersmeet.cache.folder", str(tmp_path / "cache"))
    calibration.forget()
    rows = session.createDataFrame([(1,)], "k bigint")
    wm.plan([wm.stream(rows, "a"), wm.stream(rows, "b")], on="k", unbounded=True)
    assert not (tmp_path / "cache").exists()
