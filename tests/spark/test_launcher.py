"""Workers start without PySpark's archive in their paths, and without a line for its developers."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import py4j
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.spark.session.driver_worker import MODULE
from watersmeet.spark.session.launcher import is_installed, launcher, write_script

ADDED = "/spark's own/python/lib/pyspark.zip:/spark's own/python/lib/py4j.zip:/jars/core.jar"
LINE = "Starting Streaming TransformWithStateInPandas Python worker."


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in a folder, for an interpreter in another one, with names that a shell would take
    apart."""
    here = tmp_path / "it's here; $HOME"
    here.mkdir()
    interpreter = here / "a python"
    interpreter.symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "executable", str(interpreter))
    return write_script(here, ADDED)


def paths_of_a_worker(script: Path, paths: str) -> str:
    code = "import os; print(os.environ['PYTHONPATH'])"
    environment = {**os.environ, "PYTHONPATH": paths}
    run = subprocess.run([script, "-c", code], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.removesuffix("\n")


@pytest.mark.parametrize(
    "rest", ["", "src:.", "/a folder:/with *:/it's", ":/after an empty entry:", "/other.zip"]
)
def test_a_worker_keeps_of_its_paths_what_spark_has_not_added(script: Path, rest: str) -> None:
    paths = f"{ADDED}:{rest}" if rest else ADDED
    assert paths_of_a_worker(script, paths) == rest


@pytest.mark.parametrize("paths", ["", "src:.", f"src:{ADDED}", f"{ADDED}.old:src"])
def test_paths_that_do_not_begin_with_what_spark_adds_are_left_alone(
    script: Path, paths: str
) -> None:
    assert paths_of_a_worker(script, paths) == paths


def test_nobody_else_may_change_or_run_the_script(script: Path) -> None:
    assert script.stat().st_mode & 0o777 == 0o700


def test_the_module_beside_the_driver_runs_as_by_itself_but_without_its_first_line(
    script: Path, tmp_path: Path
) -> None:
    # Given a module of that name that prints, and shows how it is run,
    path = tmp_path / "packages" / f"{MODULE.replace('.', '/')}.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"""
import sys
if __name__ == "__main__":
    print({LINE + chr(10)!r})
    print({LINE!r}, "is not all", sep="|", end="!")
    main = sys.modules["__main__"]
    print(main.__spec__.name, sys.argv == [__file__], main.__dict__ is globals())
    print(sys.path[0])
    sys.exit(3)
""",
        encoding="utf8",
    )
    paths = f"{ADDED}:{tmp_path / 'packages'}"
    # when a worker runs it,
    run = subprocess.run(
        [script, "-m", MODULE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    # then only that line is missing.
    assert run.stdout.splitlines() == [f"{LINE}|is not all!{MODULE} True True", str(tmp_path)]
    assert (run.returncode, run.stderr) == (3, "")


def test_pyspark_prints_that_line_and_no_other_before_it_reads_our_function(tmp_path: Path) -> None:
    """A line with other words, in another version of PySpark, would be seen again."""
    script = write_script(tmp_path, ADDED)
    assert printed_before_the_function([sys.executable], tmp_path / "a").startswith(LINE)
    assert printed_before_the_function([str(script)], tmp_path / "b") == ""


def printed_before_the_function(python: list[str], address: Path) -> str:
    """What the worker prints if it is sent the driver's version, and no function."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        worker = subprocess.Popen(
            [*python, "-m", MODULE],
            env={**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": str(address)},
            stdout=subprocess.PIPE,
            text=True,
        )
        listening.settimeout(60)
        connection, _ = listening.accept()
        with connection:
            version = ".".join(map(str, sys.version_info[:2])).encode()
            connection.sendall(struct.pack("!i", len(version)) + version)
            connection.shutdown(socket.SHUT_WR)
            printed, _ = worker.communicate(timeout=60)
    return printed


def test_only_pyspark_that_is_installed_with_its_archive_is_found_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(pyspark.__file__).parent
    added = f"{package}/python/lib/pyspark.zip:{package}/python/lib/py4j-0.10.9.9-src.zip"
    assert is_installed(added)
    assert not is_installed("/opt/spark/python/lib/pyspark.zip:/opt/spark/python/lib/py4j.zip")
    assert not is_installed(f"{package}/jars/spark-core.jar")
    with monkeypatch.context() as patched:
        patched.setattr(py4j, "__file__", f"{package}/python/lib/py4j.zip/py4j/__init__.py")
        assert not is_installed(added)
    # A package that the program itself has put into its path, and workers would not find.
    (tmp_path / "pyspark").symlink_to(package)
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))
    assert not is_installed(added)


@pytest.mark.spark
def test_workers_of_a_query_import_pyspark_from_its_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    def noted(a: pa.Table, b: pa.Table) -> pa.Array:
        (tmp_path / "paths").write_text("\n".join([sys.executable, *sys.path]), encoding="utf8")
        return pa.array([True] * len(a))

    rows = spark.createDataFrame([(1,)], "k long")
    streams = [wm.stream(rows, name) for name in "ab"]
    assert wm.join(streams, on="k", where=wm.predicate(noted, "a", "b")).count() == 1
    executable, *paths = (tmp_path / "paths").read_text(encoding="utf8").splitlines()
    assert executable == sys.executable
    assert [path for path in paths if path.endswith(("pyspark.zip", "-src.zip", ".jar"))] == []
    assert str(Path(pyspark.__file__).parents[1]) in paths


@pytest.mark.spark
def test_a_script_that_is_gone_is_written_again(spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    first = Path(launcher(context))
    assert first.parent.stat().st_mode & 0o777 == 0o700
    assert launcher(context) == str(first)
    text = first.read_text(encoding="utf8")
    first.unlink()
    assert Path(launcher(context)).read_text(encoding="utf8") == text
