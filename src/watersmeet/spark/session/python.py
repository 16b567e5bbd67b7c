"""The Python that runs our functions in Spark's workers: it needs Watersmeet, as the driver does.

Invariant: a Python that lacks it is named in one sentence, together with what it lacks. If it is
on this machine, that is found out when the join is planned; elsewhere, in the first task. (For a
stream, Spark starts a worker beside the driver too, on any master: that one is asked as well.) In a
task, the code that opens the sent objects (:mod:`.worker_object`) says what is missing.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from functools import cache

from pyspark.sql import SparkSession

from watersmeet.errors import SessionError
from watersmeet.spark.jvm.driver import variable, worker_paths, working_folder
from watersmeet.spark.session.launcher import launcher
from watersmeet.spark.session.master import on_this_machine

#: What our functions import in a worker.
NEEDED = ("watersmeet", "pyspark", "pyarrow", "polars", "numpy", "pandas", "google.protobuf")
#: What the worker beside the driver imports.
NEEDED_BESIDE_DRIVER = ("pyspark", "google.protobuf")
_VARIABLE = "PYSPARK_PYTHON"
PYTHON_SETTING = "spark.pyspark.python"
_PROBE = """
import importlib.util, json, sys
def found(name):
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return False
    # A folder of that name, without a package in it, has no origin: one of Spark's jars has such.
    return spec is not None and spec.origin is not None
names = sys.argv[1].split(",")
print(json.dumps([list(sys.version_info[:2]), [name for name in names if not found(name)]]))
"""
_SECONDS = 60


def use_this_python(spark: SparkSession) -> None:
    """On a local master, workers run the Python that runs now, unless the user chose another
    one: that must have what it needs."""
    if on_this_machine(spark):
        context = spark.sparkContext
        chosen = python_here(context.getConf().get(PYTHON_SETTING))
        # PySpark itself looks at the variable only.
        context.pythonExec = launcher(context) if chosen == sys.executable else chosen


def python_here(setting: str | None) -> str:
    """The Python of workers on this machine: the one of the setting, of the variable, or the one
    that runs now. As in Spark's own scripts, the setting wins. One that lacks what it needs is
    refused."""
    for by, chosen in ((PYTHON_SETTING, setting), (_VARIABLE, os.environ.get(_VARIABLE))):
        if chosen == sys.executable:
            return chosen
        if chosen:
            check_python(chosen, by=by)
            return chosen
    return sys.executable


def check_python(executable: str, *, by: str) -> None:
    """Refuse a Python, on this machine, that cannot run our functions; ``by`` is the variable or
    setting that names it."""
    fault = fault_of(executable, NEEDED, paths=os.environ.get("PYTHONPATH", ""))
    if fault is not None:
        raise SessionError(
            f"{by} is {executable!r}, {fault}. Unset {by}, so that {sys.executable} is used, which "
            "runs now; or install Watersmeet there too."
        )


def check_beside_driver(spark: SparkSession) -> None:
    """Refuse a session that cannot start the worker beside the driver, which Spark starts for a
    stream with state, on any master, by the name that workers have on their hosts."""
    if on_this_machine(spark):
        return  # that Python has been asked for more
    context = spark.sparkContext
    added, own = worker_paths(context), variable(context, "PYTHONPATH")
    paths = (added, context.environment.get("PYTHONPATH"), own)
    executable, folder = str(context.pythonExec), working_folder(context)
    search = variable(context, "PATH") or os.defpath
    fault = fault_of(
        executable,
        NEEDED_BESIDE_DRIVER,
        paths=os.pathsep.join(path for path in paths if path),
        search=search,
        folder=folder,
    )
    if fault is None:
        return
    if os.sep in executable:
        found = os.path.normpath(os.path.join(folder, executable))
    else:
        found = shutil.which(executable, path=search) or executable
    remedy = (
        f"Have {_VARIABLE} name, before the session starts, a Python with Watersmeet that every "
        "host has, this one too"
    )
    if os.sep in executable and not os.path.isabs(executable):
        remedy = (
            "The path is relative: if it leads into an archive of spark.archives, unpack that here "
            f"too, in {folder}, into a folder of the same name"
        )
    raise SessionError(
        f"the Python of Spark's workers, {executable!r}, is also started beside the driver for a "
        f"stream; here, on {platform.node()}, it is {found!r}, {fault}. {remedy}."
    )


@cache
def fault_of(
    executable: str,
    needed: tuple[str, ...],
    *,
    paths: str,
    search: str | None = None,
    folder: str | None = None,
) -> str | None:
    """What is wrong with a Python of this machine, if anything is: asked once, as it takes a
    moment. ``paths`` are where it looks for packages besides its own; ``search`` is the PATH to
    find it by, and ``folder`` the one it starts in."""
    command = [executable, "-c", _PROBE, ",".join(needed)]
    environment = {**os.environ, "PYTHONPATH": paths}
    if search is not None:
        environment["PATH"] = search
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            cwd=folder,
            env=environment,
        )
    except OSError as error:
        return f"which does not start: {error.strerror or error}"
    except subprocess.TimeoutExpired:
        return f"which has not answered within {_SECONDS} seconds"
    try:
        version, missing = json.loads(_last_line(run.stdout))
    except (ValueError, TypeError):
        said = _last_line(run.stderr) or f"its status is {run.returncode}"
        return f"which does not run as a Python: {said}"
    if missing:
        return f"a Python that lacks {', '.join(missing)}"
    if tuple(version) != sys.version_info[:2]:
        ours, theirs = (".".join(map(str, each)) for each in (sys.version_info[:2], version))
        return (
            f"Python {theirs}, and this one is Python {ours}: Spark needs the same version in both"
        )
    return None


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
