"""Temporary staged tables: only this process can find them, and they are removed with it.

A table that cannot be known to be the same is staged for one plan. When the session of that plan
has been stopped, nobody can read it any more; nor when the process ends, and nothing runs. So it is
removed at the end of the process; or when another table is staged, after its session was stopped.
It stays for a day like any other one if the process was killed, or leaves queries that run.

A table with ``refresh`` is not temporary in that sense: the state of a query has noted its version,
and a micro-batch that was interrupted runs again with that, in another process.
"""

from __future__ import annotations

import atexit
import contextlib
import os

from pyspark.sql import SparkSession

from watersmeet.spark.jvm.driver import is_stopped
from watersmeet.spark.jvm.objects import JvmError
from watersmeet.spark.jvm.queries import active_queries
from watersmeet.spark.tables.folders import remove
from watersmeet.table.staged_table import StagedTable


class TemporaryTables:
    """The staged tables that this process alone can find, with their sessions."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._tables: dict[StagedTable, SparkSession] = {}

    def add(self, staged: StagedTable, spark: SparkSession) -> None:
        """Remove a table when its session has ended."""
        self._tables[staged] = spark

    def remove(self, *, ending: bool = False) -> None:
        """Remove the tables whose session was stopped; if the process is ``ending``, also those of
        sessions in which nothing runs."""
        if os.getpid() != self._process:
            return  # a copy of the process ends
        for staged, spark in [*self._tables.items()]:
            if is_stopped(spark) or (ending and _rests(spark)):
                self._tables.pop(staged, None)
                with contextlib.suppress(OSError):
                    remove(staged.folder)


def _rests(spark: SparkSession) -> bool:
    """Does surely nothing run in a session?"""
    try:
        jobs = spark.sparkContext.statusTracker().getActiveJobsIds()
        return not active_queries(spark) and not jobs
    except (JvmError, OSError):
        return False


#: Those of this process.
TEMPORARY_TABLES = TemporaryTables()
atexit.register(TEMPORARY_TABLES.remove, ending=True)
