"""Staging a table anew, again and again, while a query runs.

A thread of the driver does it. It reads the table as it is by then, stages it if it has changed,
and makes that the current version; the operator's shards notice it at the end of a step. If that
fails, the old version stays current, and why it failed is in the metrics. Nothing is staged while
no query uses the table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from watersmeet.errors import StagedTableError, WatersmeetError
from watersmeet.operators.enrich.staged import StagedTable, Versions

#: A table that no step has used for this many seconds is not staged anew.
UNUSED_SECONDS = 600


@dataclass(frozen=True)
class Refresher:
    """Makes newer versions of a table: ``read`` gives the table as it is now, ``stage`` stages
    what it has read, if that has changed."""

    read: Callable[[], DataFrame]
    stage: Callable[[DataFrame], StagedTable]
    versions: Versions

    def refresh(self) -> None:
        """Make the table as it is now the current version."""
        before = self.versions.current()
        try:
            staged = self.stage(self.read())
        except (WatersmeetError, PySparkException, OSError) as error:
            self.versions.fail(str(error).splitlines()[0])
            return
        self.versions.set(staged.version)
        if before is not None and before != staged:
            before.supersede()

    def start(self, seconds: float) -> threading.Event:
        """Refresh every so many seconds, until the event is set that this gives."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(seconds):
                current = self.versions.current()
                if current is not None and _in_use(current, seconds):
                    try:
                        self.refresh()
                    except Exception:
                        return  # the session has been stopped

        threading.Thread(target=run, name="watersmeet-refresh", daemon=True).start()
        return stop


def check_columns(planned: DataFrame, now: DataFrame, needed: set[str]) -> None:
    """Refuse a table that lacks a column that the query needs, or has it in another type."""
    types = {field.name: field.dataType for field in now.schema}
    for field in planned.schema:
        if field.name not in needed or types.get(field.name) == field.dataType:
            continue
        wanted, found = field.dataType.simpleString(), types.get(field.name)
        has = "is gone" if found is None else f"is of type {found.simpleString()} now"
        raise StagedTableError(
            f"the column {field.name!r} {has}; the query was planned with type {wanted}. Start "
            "it again with the table as it is."
        )


def _in_use(staged: StagedTable, seconds: float) -> bool:
    try:
        return time.time() - staged.used_at() < max(UNUSED_SECONDS, 3 * seconds)
    except OSError:
        return True  # it is gone: time for another one
