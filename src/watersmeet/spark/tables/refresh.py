"""Staging a table anew, again and again, while a query runs.

A thread of the driver does it, as long as queries run that read the table (:mod:`.tenants`). It
reads the table as it is by then, stages it if it has changed, and makes that the current version;
the operator's shards notice it at the end of a step. If that fails, the old version stays current,
and why it failed is in the metrics.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from watersmeet.errors import StagedTableError
from watersmeet.table.staged_table import StagedTable
from watersmeet.table.versions import Versions


@dataclass(frozen=True)
class Refresher:
    """Makes newer versions of a table: ``read`` gives the table as it is now, ``stage`` stages
    what it has read, if that has changed."""

    read: Callable[[], DataFrame]
    stage: Callable[[DataFrame], StagedTable]
    versions: Versions

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


@dataclass
class RefreshSchedule:
    """When a table is staged anew by ``refresh``: so many ``seconds`` after it was the last time;
    in a thread of its own, as that may take long."""

    refresh: Callable[[], None]
    seconds: float
    _thread: threading.Thread | None = None
    _last: float = field(default_factory=time.monotonic)

    def start_if_due(self) -> None:
        """Begin to stage the table, if it is time."""
        if self._thread is not None and self._thread.is_alive():
            return
        if time.monotonic() - self._last >= self.seconds:
            self._thread = threading.Thread(
                target=self._run, name="watersmeet-refresh", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        try:
            self.refresh()
        finally:
            self._last = time.monotonic()


def check_columns(planned: DataFrame, now: DataFrame, needed: set[str]) -> None:
    """Refuse a table that lacks a column that the query needs, or has it in another type."""
    types = {column.name: column.dataType for column in now.schema}
    for column in planned.schema:
        if column.name not in needed or types.get(column.name) == column.dataType:
            continue
        wanted, found = column.dataType.simpleString(), types.get(column.name)
        has = "is gone" if found is None else f"is of type {found.simpleString()} now"
        raise StagedTableError(
            f"the column {column.name!r} {has}; the query was planned with type {wanted}. Call "
            "wm.enrich again with the table as it is, and start the query from what it gives."
        )


def check_files(before: frozenset[str], now: frozenset[str]) -> None:
    """Refuse a table that has ``now`` no file in a path, unless it had none there ``before``. It is
    gone, or just being overwritten; it is not empty, as Spark writes a file then too."""
    gone = sorted(now - before)
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise StagedTableError(
            f"there is no file of the table in {gone[0]}{more}. It is gone, or just being "
            "overwritten. (A table without rows has a file too, if Spark has written it.)"
        )


def _said(error: Exception) -> str:
    """What an error says, in a line. Of Spark's, the first line may only name a class of Java."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[1] if len(lines) > 1 and lines[0].endswith(".") else next(iter(lines), "")
    return said or type(error).__name__
