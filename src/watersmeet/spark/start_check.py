"""At its start, a query that does not fit its checkpoint is refused.

Spark runs nothing of a join before there are new rows, and only then a shard finds state of
another query. So a listener looks when a query starts. It is called before ``start`` returns, and
before Spark reads a source.

Invariant: a query that fits its checkpoint is never refused, and whatever goes wrong here, the
query goes on: its first micro-batch looks again. So the note below is a hint only. It lies in
the checkpoint, and says which joins have used it; while nothing is committed it is written anew. If
it says what the query says, that is all: a few calls of the JVM. Otherwise the state itself is
read, and has the last word. (Without a note nothing is read: a large state takes long.)
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from watersmeet.errors import StateError
from watersmeet.spark.checkpoint import Checkpoint, check
from watersmeet.state.manifest import FORMAT

#: The note's name in the folder of the checkpoint.
NOTE = "watersmeet.json"
#: What starts the description of an observation in a plan of Spark's.
_OBSERVES = "CollectMetrics "

_fingerprints: dict[str, str] = {}
_watched: set[str] = set()
_lock = threading.Lock()


def watch(spark: SparkSession, fingerprints: Mapping[str, str]) -> None:
    """From now on look at the checkpoint of each query of this session that has one of these
    observations. ``fingerprints`` has, by the observation's name, that of its operator."""
    session: Any = spark._jsparkSession
    with _lock, contextlib.suppress(Exception):
        _fingerprints.update(fingerprints)
        identity = session.sessionUUID()
        if identity not in _watched:
            gateway: Any = spark.sparkContext._gateway
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
            streaming = gateway.jvm.org.apache.spark.sql.streaming
            listener = streaming.PythonStreamingQueryListenerWrapper(_Starts(spark))
            session.streams().addListener(listener)
            _watched.add(identity)


class _Starts:
    """Spark's events of queries. Only their starts matter; of what else it is told, nothing is
    read."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def onQueryStarted(self, event: Any) -> None:
        with contextlib.suppress(Exception):
            streams: Any = self._spark._jsparkSession.streams()
            refuse_another(self._spark, streams.get(event.id()).streamingQuery())

    def onQueryProgress(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def refuse_another(spark: SparkSession, execution: Any) -> None:
    """End a query, which is being started, if its checkpoint is another one's."""
    joins = joins_in(execution.analyzedPlan().toString())
    if not joins:
        return
    checkpoint = Checkpoint(spark, execution.resolvedCheckpointRoot())
    note = f"{checkpoint.folder}/{NOTE}"
    text = json.dumps({"format": FORMAT, "joins": joins})
    found = _noted(checkpoint, note)
    if found == text:
        return
    if checkpoint.committed is not None:
        if found is None:
            return
        try:
            check(spark, checkpoint.folder, joins)
        except StateError as error:
            _end(spark, execution, f"StateError: {error}")
            return
    checkpoint.files.write(note, text)


def _noted(checkpoint: Checkpoint, note: str) -> str | None:
    """The note; None, if there is none. One that a crash has left half written is another one."""
    try:
        return checkpoint.files.read(note)
    except Py4JError:
        return ""


def joins_in(plan: str) -> list[str]:
    """The fingerprints of the joins in a plan of Spark's. (An observation's name is followed by a
    list; a name may begin with another one.)"""
    found = set()
    for observed in plan.split(_OBSERVES)[1:]:
        names = [name for name in _fingerprints if observed.startswith(f"{name}, [")]
        if names:
            found.add(_fingerprints[max(names, key=len)])
    return sorted(found)


def _end(spark: SparkSession, execution: Any, reason: str) -> None:
    """Let a query that is being started end with an exception. It does not go on from here to its
    first micro-batch, and says why to everyone who asks it."""
    jvm: Any = spark._jvm
    parameters = jvm.java.util.HashMap()
    for name, value in (
        ("id", execution.id().toString()),
        ("runId", execution.runId().toString()),
        ("message", reason),
    ):
        parameters.put(name, value)
    failed = jvm.org.apache.spark.sql.streaming.StreamingQueryException(
        "",
        jvm.java.lang.IllegalStateException(reason),
        "",
        "",
        "STREAM_FAILED",
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(parameters),
    )
    runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
    terminated = getattr(getattr(runtime, "TERMINATED$"), "MODULE$")
    getattr(execution, "streamDeathCause_$eq")(failed)
    execution.state().set(terminated)
