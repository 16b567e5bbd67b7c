"""Python workers that are ready when the first micro-batch needs them.

A worker imports Arrow, pandas, Polars and this package, most of a second of work, and Spark starts
workers only when their first task is there. On a local master the machine is ours alone: workers
start beside the JVM's own first steps, which leave it idle at times.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from watersmeet.spark.session.master import cores, on_this_machine
from watersmeet.spark.session.worker_object import WorkerObject

if TYPE_CHECKING:
    import pyarrow as pa

#: "false": leave the workers to Spark.
SETTING = "spark.watersmeet.warm"
#: A process that ends waits for its workers for this long, at most.
_SECONDS = 10
_warm: weakref.WeakSet[SparkContext] = weakref.WeakSet()
_lock = threading.Lock()


def warm_up(spark: SparkSession) -> threading.Thread | None:
    """Have Spark start a Python worker for each core, in the background: the thread that waits
    for it. None on a cluster, if the workers of this context have been started before, or if the
    user does not want it."""
    context = spark.sparkContext
    wanted = spark.conf.get(SETTING, "true") == "true" and on_this_machine(spark)
    with _lock:
        if context in _warm or not wanted:
            return None
        _warm.add(context)
    thread = threading.Thread(target=_start, args=(spark,), name="watersmeet warm-up", daemon=True)
    thread.start()
    # A script that ends at once would leave Spark with tasks whose workers are gone: many errors.
    atexit.register(thread.join, _SECONDS)
    return thread


def _start(spark: SparkSession) -> None:
    # Whatever is wrong, a query will say it better; and the session may be stopped at any time.
    with contextlib.suppress(Exception):
        context = spark.sparkContext
        context.setJobDescription("watersmeet: start Python workers")
        count = cores(spark) or 1
        rows = spark.range(0, count, 1, count).mapInArrow(_Imports(), "id long")
        rows.write.format("noop").mode("overwrite").save()


class _Imports(WorkerObject):
    """Rows as they are, once this package has been imported."""

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from rows
