"""A Python that lacks what our functions need is named in one sentence."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import py4j
import pyarrow as pa
import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.joins.toy import CountByKey
from tests.spark.streams import read, write
from watersmeet.errors import PredicateFunctionError, SessionError
from watersmeet.rows.route import ByKey
from watersmeet.spark.query.capsule import Pack
from watersmeet.spark.query.exits import ResultExit
from watersmeet.spark.query.processor import Processor
from watersmeet.spark.session.launcher import launcher
from watersmeet.spark.session.python import check_python, fault_of, use_this_python
from watersmeet.spark.session.worker_object import HIDE_TRACEBACK, briefly
from watersmeet.state.cache import SegmentCache


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python that has Spark's packages and no others, as a worker without Watersmeet has."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in (pyspark, py4j):
        (packages / package.__name__).symlink_to(Path(str(package.__file__)).parent)
    executable = tmp_path / "python"
    executable.write_text(
        f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} -S "$@"\n', encoding="utf8"
    )
    executable.chmod(0o755)
    return executable


def test_a_python_of_this_machine_is_asked_what_it_lacks(bare: Path, tmp_path: Path) -> None:
    by = "PYSPARK_PYTHON"
    check_python(sys.executable, by=by)
    with pytest.raises(SessionError) as caught:
        check_python(str(bare), by=by)
    message = str(caught.value)
    assert f"PYSPARK_PYTHON is '{bare}', a Python that lacks watersmeet, pyarrow, " in message
    assert f"Unset PYSPARK_PYTHON, so that {sys.executable} is used" in message
    with pytest.raises(SessionError, match="none', which does not start: No such file or"):
        check_python(str(tmp_path / "none"), by=by)


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        (
            "echo 'a: line' >&2; echo 'python: no such command' >&2; exit 3",
            "python: no such command",
        ),
        ("exit 3", "its status is 3"),
        ("echo 12", "its status is 0"),
    ],
)
def test_a_program_that_is_no_python_is_told_by_its_own_last_line(
    tmp_path: Path, script: str, fault: str
) -> None:
    executable = tmp_path / "python"
    executable.write_text(f"#!/bin/sh\n{script}\n", encoding="utf8")
    executable.chmod(0o755)
    found = fault_of(str(executable), ("pyspark",), paths="")
    assert found == f"which does not run as a Python: {fault}"


def test_a_python_of_another_version_is_named_with_both(tmp_path: Path) -> None:
    executable = tmp_path / "python"
    executable.write_text("#!/bin/sh\necho a banner; echo '[[3, 8], []]'\n", encoding="utf8")
    executable.chmod(0o755)
    found = fault_of(str(executable), ("pyspark",), paths="")
    ours = ".".join(map(str, sys.version_info[:2]))
    assert found is not None
    assert found.startswith(f"Python 3.8, and this one is Python {ours}: Spark needs the same")


def test_a_folder_without_a_package_in_it_is_not_the_package(tmp_path: Path) -> None:
    """One of Spark's jars has such a folder for protobuf, and is in the paths of every worker."""
    (tmp_path / "google" / "protobuf").mkdir(parents=True)
    alone = tmp_path / "python"
    alone.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf8")
    alone.chmod(0o755)
    found = fault_of(str(alone), ("google.protobuf",), paths=str(tmp_path))
    assert found == "a Python that lacks google.protobuf"


def test_a_python_that_a_setting_names_is_the_one_that_is_asked(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a local master, and a Python that a setting names, of which PySpark knows nothing,
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    named = {"spark.pyspark.python": str(bare)}
    context = SimpleNamespace(master="local[2]", getConf=lambda: named, pythonExec="python3")
    session: Any = SimpleNamespace(sparkContext=context)
    # when a join is planned, then that one is asked, and the setting is named.
    with pytest.raises(SessionError, match=r"spark\.pyspark\.python is .* lacks watersmeet"):
        use_this_python(session)


def test_a_local_session_asks_the_python_before_a_jvm_starts(bare: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import watersmeet as wm; wm.local_session()"],
        env={**os.environ, "PYSPARK_PYTHON": str(bare)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    said = f"SessionError: PYSPARK_PYTHON is '{bare}', a Python that lacks watersmeet"
    assert said in done.stderr.splitlines()[-1]
    assert "ERROR" not in done.stderr
    assert "WARN" not in done.stderr


@pytest.mark.spark
def test_the_settings_of_a_local_session_win_over_ours_and_over_the_variable(
    bare: Path, tmp_path: Path
) -> None:
    # Given a Python that a setting names, beside one that the variable names,
    named = tmp_path / "named"
    named.write_text(f'#!/bin/sh\nNAMED=yes exec {sys.executable} "$@"\n', encoding="utf8")
    named.chmod(0o755)
    # when a session is made with that setting, and with one that is also ours,
    code = f"""
import os
import watersmeet as wm
ours = {{"spark.sql.shuffle.partitions": "3", "spark.watersmeet.warm": "false"}}
spark = wm.local_session(cores=1, config={{"spark.pyspark.python": "{named}", **ours}})
print(spark.conf.get("spark.sql.shuffle.partitions"))
print(spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ.get("NAMED")).collect())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYSPARK_PYTHON": str(bare)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    # then both hold.
    assert done.stdout.split() == ["3", "['yes']"], done.stderr


def test_a_worker_that_lacks_watersmeet_says_so(bare: Path) -> None:
    sent = cloudpickle.dumps(Pack(1, ByKey(), (0,)))  # type: ignore[no-untyped-call]
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    run = subprocess.run([bare, "-c", code], input=sent, capture_output=True)
    last = run.stderr.decode().splitlines()[-1]
    assert "lacks the package 'watersmeet': install Watersmeet in it" in last
    assert f"{Path(sys.executable).name}" in last
    assert cloudpickle.loads(sent) == Pack(1, ByKey(), (0,))


def test_the_worker_beside_the_driver_declares_the_state_and_imports_nothing(bare: Path) -> None:
    leave, cache = ResultExit(pa.schema([])), SegmentCache(None, 1 << 20)
    operator = CountByKey()
    processor = Processor(operator, leave, cache, (0,), streaming=True, timers=False)
    code = """
import pickle, sys, types
name = "pyspark.sql.streaming.transform_with_state_driver_worker"
sys.modules["__main__"].__spec__ = types.SimpleNamespace(name=name)
processor = pickle.loads(sys.stdin.buffer.read())
asked = []
processor.init(types.SimpleNamespace(getMapState=lambda *given: asked.append(given[0])))
processor.close()
print("not to be seen")
print(asked, file=sys.stderr)
"""
    sent = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
    run = subprocess.run([bare, "-c", code], input=sent, capture_output=True, text=False)
    assert (run.stdout.decode(), run.stderr.decode()) == ("", "['state']\n")


@pytest.mark.spark
def test_on_a_local_master_workers_run_this_python_unless_another_is_chosen(
    spark: SparkSession, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame([(1,)], "k bigint")
    streams = [wm.stream(rows, "a"), wm.stream(rows, "b")]
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    monkeypatch.delitem(os.environ, "PYSPARK_PYTHON")
    wm.join(streams, on="k")
    assert spark.sparkContext.pythonExec == launcher(spark.sparkContext)
    monkeypatch.setitem(os.environ, "PYSPARK_PYTHON", str(bare))
    with pytest.raises(SessionError, match="lacks watersmeet"):
        wm.join(streams, on="k")


@pytest.mark.spark
def test_where_the_python_cannot_be_asked_the_first_task_says_what_it_lacks(
    spark: SparkSession, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given workers of another machine, as far as planning knows, that lack Watersmeet,
    monkeypatch.setattr("watersmeet.spark.session.python.on_this_machine", lambda spark: False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    rows = spark.createDataFrame([(1,)], "k bigint")
    # when a join runs, then the task's error says so, without the lines of code that led to it.
    with pytest.raises(PythonException) as caught:
        wm.join([wm.stream(rows, "a"), wm.stream(rows, "b")], on="k").collect()
    assert "lacks the package 'watersmeet': install Watersmeet in it" in str(caught.value)
    assert "pickle.loads" not in str(caught.value)


@pytest.mark.spark
def test_on_any_master_a_stream_is_planned_with_a_python_that_starts_beside_the_driver(
    spark: SparkSession, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a master that is not local, and a stream,
    monkeypatch.setattr("watersmeet.spark.session.python.on_this_machine", lambda spark: False)
    once = spark.createDataFrame([(1, datetime(2026, 1, 1))], "k bigint, at timestamp")
    stream = read(spark, write(tmp_path / "rows", [once.toArrow()]))

    def told(executable: str, frame: DataFrame) -> str:
        spark.sparkContext.pythonExec = executable
        inputs = [wm.stream(frame, name, time="at", delay="1 minute") for name in "ab"]
        try:
            wm.plan(inputs, on="k", within="1 minute")
        except SessionError as error:
            return str(error)
        return ""

    monkeypatch.setattr(spark.sparkContext, "pythonExec", "")
    # when workers have a Python that lacks something, then it is named before the query starts;
    host = platform.node()
    assert told(str(bare), stream) == (
        f"the Python of Spark's workers, '{bare}', is also started beside the driver for a stream; "
        f"here, on {host}, it is '{bare}', a Python that lacks google.protobuf. Have "
        "PYSPARK_PYTHON name, before the session starts, a Python with Watersmeet that every host "
        "has, this one too."
    )
    # also if its path is only right where an executor has unpacked an archive.
    missing = os.path.join(os.getcwd(), "environment/bin/python")
    assert told("./environment/bin/python", stream) == (
        "the Python of Spark's workers, './environment/bin/python', is also started beside the "
        f"driver for a stream; here, on {host}, it is '{missing}', which does not start: No such "
        "file or directory. The path is relative: if it leads into an archive of spark.archives, "
        f"unpack that here too, in {os.getcwd()}, into a folder of the same name."
    )
    # A batch needs no worker there; and a Python that has all is fine.
    assert told(str(bare), once) == ""
    assert told(sys.executable, stream) == ""


def test_an_error_comes_first_and_the_lines_of_its_cause_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function_of_a_user() -> int:
        return 1 // 0

    def step() -> Iterator[int]:
        yield 1
        try:
            function_of_a_user()
        except ZeroDivisionError as error:
            raise PredicateFunctionError("near(a, b): it raised") from error

    monkeypatch.setenv(HIDE_TRACEBACK, "")
    with pytest.raises(PredicateFunctionError) as caught:
        list(briefly(step()))
    first, *rest = str(caught.value).splitlines()
    assert first == "near(a, b): it raised"
    assert rest[-1].startswith("ZeroDivisionError")
    assert "in function_of_a_user" in str(rest)
    assert "in step" not in str(rest)
    assert os.environ[HIDE_TRACEBACK] == "1"
