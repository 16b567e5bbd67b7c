"""Staging a table anew, again and again, while a query runs.

A thread of the driver does it. It reads the table as it is by then, stages it if it has changed,
and makes that the current version; the operator's shards notice it at the end of a step. If that
fails, the old version stays current, and why it failed is in the metrics. Nothing is staged while
no query uses the table.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet.errors import StagedTableError
from watersmeet.operators.enrich.staged import StagedTable, Versions

#: A table that no step has used for this many seconds is not staged anew.
UNUSED_SECONDS = 600


@dataclass(frozen=True)
class Refresher:
    """Makes newer versions of a table: ``read`` gives the table as it is now, ``stage`` stages
    what it has read, if that has changed. ``stopped``: has the session been?"""

    read: Callable[[], DataFrame]
    stage: Callable[[DataFrame], StagedTable]
    versions: Versions
    stopped: Callable[[], bool]

    def refresh(self) -> None:
        """Make the table as it is now the current version. Whatever goes wrong, a file that is
        just being written for example, may be right the next time."""
        try:
            before = self.versions.current()
            staged = self.stage(self.read())
            self.versions.set(staged.version)
            if before is not None and before != staged:
                before.supersede(staged)
        except Exception as error:
            with contextlib.suppress(OSError):  # the folder may be gone
                self.versions.fail(_said(error))

    def start(self, seconds: float) -> threading.Event:
        """Refresh every so many seconds, until the event is set that this gives."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(seconds) and not self.stopped():
                current = self.versions.current()
                if current is not None and _in_use(current, seconds):
                    self.refresh()

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


def _said(error: Exception) -> str:
    """What an error says, in a line. Of Spark's, the first line may only name a class of Java."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[1] if len(lines) > 1 and lines[0].endswith(".") else next(iter(lines), "")
    return told or type(error).__name__


def _in_use(staged: StagedTable, seconds: float) -> bool:
    try:
        return time.time() - staged.used_at() < max(UNUSED_SECONDS, 3 * seconds)
    except OSError:
        return True  # it is gone: time for another one
