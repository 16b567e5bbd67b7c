"""The Spark session: what Watersmeet needs of it, and one that has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import overload

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from watersmeet.errors import SessionError
from watersmeet.spark.jvm.driver import default_file_system, has_class, log_errors_only
from watersmeet.spark.session.master import on_this_machine
from watersmeet.spark.session.python import (
    PYTHON_SETTING,
    check_beside_driver,
    python_here,
    use_this_python,
)
from watersmeet.spark.session.warm_up import warm_up

#: The package of Spark Connect, whose sessions have no JVM of their own.
_CONNECT = "pyspark.sql.connect."

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_WATERMARKS = "spark.sql.streaming.multipleWatermarkPolicy"
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

#: Loggers that warn of what we do on purpose.
QUIET = (
    # Every shard's first step finds nothing in its state.
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer",
    # A checkpoint is read by an option that Spark means for itself.
    "org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions",
)

#: Settings that a join cannot do without, or that make it fast.
SETTINGS = {
    _PROVIDER: _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # To keep a limit in bytes, Spark measures a batch after every row that it adds, which
    # takes twice as long as adding it. So there is none, and capsules are small instead.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2048",
    # Spark keeps workers with short tracebacks apart from those of its stateful operators, which
    # do not know the setting: two sets of Python processes, each with a second to start.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
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


def refuse_connect(given: object, argument: str) -> None:
    """Refuse what belongs to Spark Connect."""
    if type(given).__module__.startswith(_CONNECT):
        raise SessionError(
            f"{argument}: Watersmeet needs Spark classic, not Connect, and this is a "
            f"{type(given).__name__} of Connect's. Make the session without .remote(...) and "
            "SPARK_REMOTE: SparkSession.builder.master(...), or wm.local_session()."
        )


@overload
def configure(given: SparkSession) -> SparkSession: ...
@overload
def configure(given: SparkSession.Builder) -> SparkSession.Builder: ...
def configure(
    given: SparkSession | SparkSession.Builder,
) -> SparkSession | SparkSession.Builder:
    """Add what Watersmeet needs to a session of your own, running or still to be built.

    Of a builder, call ``getOrCreate`` on what it returns; settings that the builder is given
    afterwards win. A running session is given the same settings: all of them can be set at any
    time. (What also makes joins faster, but only before a JVM starts, is in
    ``docs/operating.md``, under Settings for a session.)

    On a local master, the workers of a running session also run the Python that runs now, unless
    you chose another one: for your own Python functions too, from then on. (A session that is still
    to be built has that once a join is planned.)

    Other queries that the session starts later have the same settings: RocksDB is their state
    store too, and where a Python function of yours fails, the traceback is longer, with PySpark's
    own lines in it.
    """
    refuse_connect(given, "configure")
    if isinstance(given, SparkSession):
        for name, value in SETTINGS.items():
            given.conf.set(name, value)
        use_this_python(given)
        return given
    if not isinstance(given, SparkSession.Builder):
        raise SessionError(
            f"configure: {type(given).__name__} is neither a SparkSession nor a builder of one. "
            "Give spark, or SparkSession.builder."
        )
    for name, value in SETTINGS.items():
        given = given.config(name, value)
    return given


def local_session(
    *,
    cores: int | None = None,
    memory: str = "2g",
    name: str = "watersmeet",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session on this machine, set up for Watersmeet.

    ``cores`` defaults to all of them; ``memory`` is for the JVM alone. ``config`` are further
    settings of Spark's, as ``{"spark.jars.packages": "..."}``; they win over ours, and over the
    variable ``PYSPARK_PYTHON``.
    """
    config = config or {}
    if config.get("spark.master", "local").startswith("local"):
        python_here(config.get(PYTHON_SETTING))  # before a JVM starts, which says much
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
    )
    builder = configure(builder)
    for setting, value in config.items():
        builder = builder.config(setting, value)
    spark = _started(builder)
    use_this_python(spark)
    _spare_forks(spark)
    warm_up(spark)
    return spark


def _started(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SessionError(
            f"local_session: Spark's JVM did not start: {_java_fault()}. Spark needs Java 17 or "
            "newer: install one (on Debian or Ubuntu default-jre-headless, on macOS openjdk@17), "
            "and put `java` on the PATH, or set JAVA_HOME to its folder."
        ) from error


def _java_fault() -> str:
    """Why the JVM has not started, by what can be seen of the Java that Spark takes."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace")
    except OSError as error:
        if home:
            return f"{java} cannot be run ({error.strerror}), and JAVA_HOME is {home!r}"
        return "there is no `java` on the PATH, and JAVA_HOME is not set"
    said = run.stderr.strip() or run.stdout.strip()
    found = re.search(r'version "([^"]+)"', said)
    version = f"it is Java {found[1]}" if found else f"it says {said.partition(chr(10))[0]!r}"
    return f"of {java}, {version}; what the JVM said went to this process's standard error"


def _spare_forks(spark: SparkSession) -> None:
    """Write checkpoints by plain renames, where paths are on the disk of this machine by default.

    There Spark's default forks about sixty ``readlink`` processes a micro-batch. A rename is
    atomic, so its simpler alternative is as safe. Whoever has chosen one knows better."""
    if not on_this_machine(spark) or not default_file_system(spark).startswith("file:"):
        return
    if spark.conf.get(_FILE_MANAGER, None) is not None:
        return
    manager = (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    )
    if has_class(spark, manager):
        spark.conf.set(_FILE_MANAGER, manager)


def check_holding(spark: SparkSession, argument: str) -> None:
    """Refuse a session in which Spark's watermark cannot be held back for a join: with the greatest
    of all streams' watermarks it is not behind the join's own, but that of another stream."""
    policy = str(spark.conf.get(_WATERMARKS, "min")).lower()
    if policy != "min":
        raise SessionError(
            f"{argument} holds Spark's watermark back, which works only with the "
            f"least of all streams' watermarks: {_WATERMARKS} is {policy!r}. Set it to 'min', "
            f'Spark\'s default, by spark.conf.set("{_WATERMARKS}", "min"), or leave it out.'
        )


def check(spark: SparkSession, *, stream_with_state: bool) -> None:
    """Refuse a session in which the join could not run."""
    use_this_python(spark)
    if stream_with_state:
        check_beside_driver(spark)
    warm_up(spark)
    _spare_forks(spark)
    log_errors_only(spark, QUIET)
    provider = spark.conf.get(_PROVIDER, None)
    if provider is None or not provider.endswith("RocksDBStateStoreProvider"):
        raise SessionError(
            "the session's state store cannot hold a join's state: "
            f"{_PROVIDER} is {provider or 'not set'}. "
            f"Set it with wm.configure(SparkSession.builder), or by "
            f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")'
        )
