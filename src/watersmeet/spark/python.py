"""The Python that runs our functions in Spark's workers: it needs Watersmeet, as the driver does.

Invariant: a Python that lacks it is named in one sentence, together with what it lacks. If it is
on this machine, that is found out when the join is planned; elsewhere, in the first task. So what
travels to a worker is wrapped (:class:`Travelling`): what opens it there needs nothing but the
standard library, and says what is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from watersmeet.errors import InternalError, SessionError, WatersmeetError
from watersmeet.spark.launcher import launcher

Function = TypeVar("Function", bound=Callable[..., Any])
Made = TypeVar("Made")

#: What our functions import in a worker.
NEEDED = ("watersmeet", "pyspark", "pyarrow", "polars", "numpy", "pandas", "google.protobuf")
_VARIABLE = "PYSPARK_PYTHON"
PYTHON_SETTING = "spark.pyspark.python"
_PROBE = """
import importlib.util, json, sys
def found(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
names = sys.argv[1].split(",")
print(json.dumps([list(sys.version_info[:2]), [name for name in names if not found(name)]]))
"""
_SECONDS = 60
#: With this variable set, a worker that fails sends the error's message only.
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


def on_this_machine(spark: SparkSession) -> bool:
    """Is the master a local one?"""
    return str(spark.sparkContext.master).startswith("local")


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
            check_python(chosen, by=by, paths=os.environ.get("PYTHONPATH", ""))
            return chosen
    return sys.executable


@cache
def check_python(executable: str, *, by: str, paths: str) -> None:
    """Refuse a Python, on this machine, that cannot run our functions; ``by`` is the variable or
    setting that names it. (``paths`` are where it looks for packages besides its own: with others,
    it is asked again.)"""
    command = [executable, "-c", _PROBE, ",".join(NEEDED)]
    remedy = (
        f"Unset {by}, so that {sys.executable} is used, which runs now; or install "
        "Watersmeet there too"
    )
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
        version, missing = json.loads(run.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SessionError(
            f"{by} is {executable!r}, which does not run as a Python: {error}. {remedy}."
        ) from error
    if missing:
        raise SessionError(
            f"{by} is {executable!r}, a Python that lacks {', '.join(missing)}. {remedy}."
        )
    if tuple(version) != sys.version_info[:2]:
        ours = ".".join(map(str, sys.version_info[:2]))
        raise SessionError(
            f"{by} is {executable!r}, Python {'.'.join(map(str, version))}, and this one is "
            f"Python {ours}: Spark needs the same version in both. {remedy}."
        )


def by_value(function: Function) -> Function:
    """A function that is pickled by what it does, not by its name: a worker that lacks Watersmeet
    would not find it. It imports what it needs itself."""
    function.__module__ = "__main__"
    return function


class Travelling:
    """What is sent to Spark's workers. There it is opened by a function that travels with it.

    ``declare`` is all that the worker beside the driver is to do. Spark starts that one when a
    query starts, to ask a stateful operator for its state, and waits for it. It does without what
    is sent, and without our packages, which take most of a second to import."""

    declare: Callable[[Any], Any] | None = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        pickled = cloudpickle.dumps((type(self), vars(self)))  # type: ignore[no-untyped-call]
        return _opened, (pickled, type(self).declare)


@by_value
def _opened(pickled: bytes, declare: Callable[[Any], Any] | None) -> Any:
    import os
    import pickle
    import platform
    import sys

    main = getattr(sys.modules["__main__"], "__spec__", None)
    beside_driver = main is not None and main.name.endswith("transform_with_state_driver_worker")
    if beside_driver and declare is not None:
        ask = declare
        # PySpark prints there what it is about to do, for its own developers, at any log level.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115

        class Declaring:
            def init(self, handle: Any) -> None:
                ask(handle)

            def close(self) -> None:
                pass

        return Declaring()
    # Spark counts on one core for a task, and says so to OpenMP. Polars is to know it too, before
    # it is imported: workers that each use all cores are in each other's way.
    os.environ.setdefault("POLARS_MAX_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    try:
        kind, fields = pickle.loads(pickled)
    except ModuleNotFoundError as error:
        version = ".".join(str(number) for number in sys.version_info[:2])
        message = (
            f"the Python of a Spark worker, {sys.executable} (Python {version}) on "
            f"{platform.node()}, lacks the package {error.name!r}: install Watersmeet in it, or "
            "have PYSPARK_PYTHON name one that has it, on every host"
        )
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise ModuleNotFoundError(message, name=error.name) from None
    from watersmeet.spark.worker import acknowledge

    acknowledge()
    opened = object.__new__(kind)
    opened.__dict__.update(fields)
    return opened


def briefly(made: Iterator[Made]) -> Iterator[Made]:
    """The same things, made in a worker. An error of ours says all there is to say: the lines of
    code that led to it would only stand before it. Those of its cause, a user's function for one,
    are shown behind it. (A worker that has failed takes no further task.)"""
    try:
        yield from made
    except WatersmeetError as error:
        if isinstance(error, InternalError):
            raise
        os.environ[HIDE_TRACEBACK] = "1"
        cause = error.__cause__
        if cause is not None:
            # The first of the lines is the one of ours that has caught it.
            lines = cause.__traceback__ and cause.__traceback__.tb_next
            shown = traceback.format_exception(type(cause), cause, lines)
            error.args = (f"{error}\n\n{''.join(shown)}",)
        raise
