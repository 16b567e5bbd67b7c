"""The JVM beside the driver: what it knows of its machine, of its session and of the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from watersmeet.spark.jvm.objects import JavaError, JavaObject, packages

#: What jobs and stages are called in Spark's UI, as a local property of a thread.
_CALL_SITE = "callSite.short"


def is_stopped(spark: SparkSession) -> bool:
    """Has a session been stopped, with all that ran in it?"""
    return spark.sparkContext._jsc is None


def processors(spark: SparkSession) -> int:
    """The processors of the driver's machine."""
    return int(packages(spark).java.lang.Runtime.getRuntime().availableProcessors())


def executors(spark: SparkSession) -> int:
    """How many executors have registered."""
    return int(_context(spark).sc().getExecutorMemoryStatus().size()) - 1  # without the driver


def default_file_system(spark: SparkSession) -> str:
    """The URI of the file system of paths that name none."""
    return str(_context(spark).hadoopConfiguration().get("fs.defaultFS", "file:///"))


def has_class(spark: SparkSession, name: str) -> bool:
    """Is there a class of that full name?"""
    try:
        packages(spark).java.lang.Class.forName(name)
    except JavaError:
        return False
    return True


def log_errors_only(spark: SparkSession, loggers: Iterable[str]) -> None:
    """Let loggers write errors, and no warnings."""
    log4j = packages(spark).org.apache.logging.log4j
    for logger in loggers:
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.ERROR)


def name_jobs(spark: SparkSession, name: str) -> None:
    """Call the jobs and stages so that this thread of the JVM starts from now on."""
    _context(spark).sc().setLocalProperty(_CALL_SITE, name)


def worker_paths(context: SparkContext) -> str:
    """What Spark puts before the ``PYTHONPATH`` of its workers."""
    return str(packages(context).org.apache.spark.api.python.PythonUtils.sparkPythonPath())


def variable(context: SparkContext, name: str) -> str | None:
    """A variable of the environment that the JVM runs in, and whatever it starts."""
    return cast("str | None", packages(context).java.lang.System.getenv(name))


def working_folder(context: SparkContext) -> str:
    """The folder that the JVM runs in, and whatever it starts."""
    return str(packages(context).java.lang.System.getProperty("user.dir"))


def _context(spark: SparkSession) -> JavaObject:
    return spark.sparkContext._jsc
