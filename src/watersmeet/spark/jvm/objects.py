"""Objects of the JVM's: how to get at them, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import py4j
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

#: An object of the JVM's. Its methods are those that it has in Java or Scala.
JavaObject: TypeAlias = Any
#: What a call into the JVM may raise: the call failed, or the JVM is gone.
JvmError: TypeAlias = Py4JError
#: The same, if Java has thrown an exception that PySpark does not translate.
JavaError: TypeAlias = Py4JJavaError


def packages(spark: SparkSession | SparkContext) -> JavaObject:
    """The packages of the JVM, by their first names."""
    return spark._jvm


def java_session(spark: SparkSession) -> JavaObject:
    """The session itself, in the JVM."""
    return spark._jsparkSession


def hadoop_settings(spark: SparkSession) -> JavaObject:
    """What Hadoop's file systems are opened with in a session."""
    return java_session(spark).sessionState().newHadoopConf()


def elements(sequence: JavaObject) -> list[JavaObject]:
    """The elements of a sequence of Scala's."""
    iterator, found = sequence.iterator(), []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def sequence(spark: SparkSession, given: Sequence[JavaObject]) -> JavaObject:
    """A sequence of Scala's, with these elements."""
    return packages(spark).PythonUtils.toSeq(given)


def scala_object(package: JavaObject, name: str) -> JavaObject:
    """What Scala declares as ``object``, in a package or class."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def simple_class(given: JavaObject) -> str:
    """The name of an object's class, without its package."""
    return str(given.getClass().getSimpleName())


def message(error: JavaError) -> str | None:
    """What Java's exception says."""
    text: str | None = error.java_exception.getMessage()
    return text


def accept_calls(spark: SparkSession) -> None:
    """Let the JVM call objects of this Python."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]


def bridge_folder() -> Path:
    """Where the package is that talks to the JVM."""
    return Path(py4j.__file__).parent
