"""The state in the checkpoint of a stopped query, written anew by Spark's state rewriter.

It is there since Spark 4.2. It takes state as rows of bytes, in Spark's unsafe format."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from watersmeet.spark.jvm.objects import (
    JavaObject,
    accept_calls,
    hadoop_settings,
    java_session,
    packages,
)

#: From the rows of a state store to those that are to be there; None: it stays as it is.
StoreChange = Callable[[DataFrame], DataFrame | None]


def rewrite_state(
    spark: SparkSession, *, source: str, target: str, batch: int, change: StoreChange
) -> bool:
    """Write into ``target``, the copy of a checkpoint without its state, the state that ``source``
    has after its last micro-batch, changed store by store in Spark's order. False: somebody else
    has written the micro-batch there meanwhile."""
    session, jvm = java_session(spark), packages(spark)
    streaming = jvm.org.apache.spark.sql.execution.streaming
    read_only = False
    logs = streaming.runtime.StreamingQueryCheckpointMetadata(session, target, read_only)
    accept_calls(spark)
    rewriter = streaming.state.StateRewriter(
        session,
        batch,
        batch,
        target,
        hadoop_settings(spark),
        jvm.scala.Some(source),
        jvm.scala.Some(_Function(spark, change)),
        jvm.scala.Some(logs),
    )
    ids = rewriter.run()
    commits = logs.commitLog()
    commit = commits.get(batch).get().withStateUniqueIds(ids)
    commits.purgeAfter(batch - 1)
    return bool(commits.add(batch, commit))


class _Function:
    """A function of Scala's, from DataFrame to DataFrame."""

    def __init__(self, spark: SparkSession, change: StoreChange) -> None:
        self._spark = spark
        self._change = change

    def apply(self, stored: JavaObject) -> JavaObject:
        changed = self._change(DataFrame(stored, self._spark))
        return stored if changed is None else changed._jdf

    class Java:
        implements = ("scala.Function1",)
