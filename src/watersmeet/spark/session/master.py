"""The master of a session: is it this machine, and how many tasks does it run side by side?

The latter is not always known: ``defaultParallelism`` says it only if nobody has set
``spark.default.parallelism``, and on a cluster only of the executors that are there already.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from watersmeet.spark.jvm.driver import executors, processors

_LOCAL = re.compile(r"local\[(\d+|\*)(?:,.*)?\]")
_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


def on_this_machine(spark: SparkSession) -> bool:
    """Is the master a local one?"""
    return str(spark.sparkContext.master).startswith("local")


def cores(spark: SparkSession) -> int | None:
    """The cores of the master, if it is local, or of all executors; None: they are not known."""
    return _local(spark) if on_this_machine(spark) else _of_executors(spark)


def _local(spark: SparkSession) -> int | None:
    """Those of this machine that its master uses."""
    master = str(spark.sparkContext.master)
    if master == "local":
        return 1
    cluster = _CLUSTER.fullmatch(master)
    if cluster is not None:
        return int(cluster[1]) * int(cluster[2])
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return processors(spark) if found[1] == "*" else int(found[1])


def _of_executors(spark: SparkSession) -> int | None:
    context = spark.sparkContext
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return None
    each, count = conf.get("spark.executor.cores"), conf.get("spark.executor.instances")
    if each and count:
        return int(each) * int(count)
    if executors(spark) < 1 or conf.get("spark.default.parallelism"):
        return None
    return int(context.defaultParallelism)
