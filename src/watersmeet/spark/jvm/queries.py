"""The streaming queries of a session: those that run, and the one that is being started."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import SparkSession

from watersmeet.spark.jvm.objects import (
    JavaObject,
    accept_calls,
    java_session,
    packages,
    scala_object,
)
from watersmeet.spark.jvm.plans import LogicalPlan


@dataclass(frozen=True)
class ActiveQuery:
    """A streaming query of a session, which runs or is being started."""

    spark: SparkSession
    java: JavaObject

    @property
    def run_id(self) -> str:
        """What names the query since it was started; after its next start it is another one."""
        return str(self.java.runId().toString())

    @property
    def plan(self) -> LogicalPlan:
        return LogicalPlan(self._execution.analyzedPlan())

    @property
    def trigger(self) -> str:
        """When it runs micro-batches, in Spark's words."""
        return str(self._execution.trigger().toString())

    @property
    def checkpoint(self) -> str:
        """The folder of its checkpoint."""
        return str(self._execution.resolvedCheckpointRoot())

    @property
    def is_active(self) -> bool:
        return bool(self._execution.isActive())

    def setting(self, name: str) -> str:
        """A setting of its own session, which its tasks see too."""
        return str(self._settings.get(name))

    def set(self, name: str, value: str) -> None:
        """Change a setting of its own session."""
        self._settings.set(name, value)

    def fail(self, reason: str) -> None:
        """Let a query that is being started end with an exception. It does not go on from here to
        its first micro-batch, and says why to everyone who asks it."""
        execution, jvm = self._execution, packages(self.spark)
        parameters = jvm.java.util.HashMap()
        for name, value in (
            ("id", execution.id().toString()),
            ("runId", execution.runId().toString()),
            ("message", reason),
        ):
            parameters.put(name, value)
        failure = jvm.org.apache.spark.sql.streaming.StreamingQueryException(
            "",
            jvm.java.lang.IllegalStateException(reason),
            "",
            "",
            "STREAM_FAILED",
            jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(parameters),
        )
        runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
        getattr(execution, "streamDeathCause_$eq")(failure)
        execution.state().set(scala_object(runtime, "TERMINATED"))

    @property
    def _execution(self) -> JavaObject:
        return self.java.streamingQuery()

    @property
    def _settings(self) -> JavaObject:
        return self._execution.sparkSessionForStream().conf()


def active_queries(spark: SparkSession) -> list[ActiveQuery]:
    """The streaming queries of a session that run."""
    return [ActiveQuery(spark, query) for query in java_session(spark).streams().active()]


def session_name(spark: SparkSession) -> str:
    """What no other session is called."""
    return str(java_session(spark).sessionUUID())


def on_start(spark: SparkSession, function: Callable[[ActiveQuery], None]) -> None:
    """From now on call a function with each query of the session that starts, in the query's own
    thread, before ``start`` returns. What it raises is ignored."""
    accept_calls(spark)
    streaming = packages(spark).org.apache.spark.sql.streaming
    listener = streaming.PythonStreamingQueryListenerWrapper(_Starts(spark, function))
    java_session(spark).streams().addListener(listener)


class _Starts:
    """Spark's events of queries. Only their starts matter; all other events are ignored."""

    def __init__(self, spark: SparkSession, function: Callable[[ActiveQuery], None]) -> None:
        self._spark = spark
        self._function = function

    def onQueryStarted(self, event: JavaObject) -> None:
        with contextlib.suppress(Exception):
            query = java_session(self._spark).streams().get(event.id())
            self._function(ActiveQuery(self._spark, query))

    def onQueryProgress(self, event: JavaObject) -> None:
        pass

    def onQueryIdle(self, event: JavaObject) -> None:
        pass

    def onQueryTerminated(self, event: JavaObject) -> None:
        pass

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
