"""The Spark session: what Watersmeet needs of it, and one that has it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from watersmeet.errors import SessionError
from watersmeet.spark.python import use_this_python

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: Settings that a join cannot do without, or that make it fast.
SETTINGS = {
    _PROVIDER: _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # To keep a limit in bytes, Spark measures a batch after every row that it adds, which
    # takes twice as long as adding it. So there is none, and capsules are small instead.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2048",
}

_JAVA_OPTIONS = (
    # Capsules are large objects, which the default collector handles poorly.
    "-XX:+UseParallelGC",
    # Java 17 discards compiled code that it has not met lately. Most of what a micro-batch runs
    # is idle between two of them, so it would be compiled again and again.
    "-XX:-UseCodeCacheFlushing",
    "-XX:ReservedCodeCacheSize=512m",
    # Read results without a check of bounds for every value.
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add what Watersmeet needs to a session builder of your own.

    Call ``getOrCreate`` on what it returns. Settings that the builder is given
    afterwards win.
    """
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder


def local_session(
    *, cores: int | None = None, memory: str = "2g", name: str = "watersmeet"
) -> SparkSession:
    """A Spark session on this machine, set up for Watersmeet.

    ``cores`` defaults to all of them; ``memory`` is for the JVM alone.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    threads = cores or os.cpu_count() or 1
    builder = (
        SparkSession.builder.appName(name)
        .master(f"local[{threads}]")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", " ".join(_JAVA_OPTIONS))
        # What is shuffled stays on this machine.
        .config("spark.shuffle.compress", "false")
        .config("spark.sql.shuffle.partitions", str(threads))
        .config("spark.ui.showConsoleProgress", "false")
        # Over a TCP socket, a task that sends little waits 40 ms for an acknowledgement.
        .config("spark.python.unix.domain.socket.enabled", str(os.name == "posix").lower())
    )
    spark = configure(builder).getOrCreate()
    _spare_forks(spark)
    return spark


def _spare_forks(spark: SparkSession) -> None:
    """Write checkpoints by plain renames.

    On a local disk Spark's default forks about sixty ``readlink`` processes a
    micro-batch. A rename is atomic there, so its simpler alternative is as safe."""
    manager = (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    )
    jvm: Any = spark._jvm
    with contextlib.suppress(Py4JJavaError):
        jvm.java.lang.Class.forName(manager)
        spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", manager)


def check(spark: SparkSession) -> None:
    """Refuse a session in which the join could not run."""
    use_this_python(spark)
    provider = spark.conf.get(_PROVIDER, None)
    if provider is None or not provider.endswith("RocksDBStateStoreProvider"):
        raise SessionError(
            "the session's state store cannot hold a join's state: "
            f"{_PROVIDER} is {provider or 'not set'}. "
            f"Set it with wm.configure(SparkSession.builder), or by "
            f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")'
        )
