"""What is done for enrichments whose queries run.

A thread of the driver looks every second which streaming queries are active. An enrichment is in
use if one of them has its observation. As long as it is, its staged table is held: nobody removes
it, however long no rows come. And a table that changes is staged anew, every so often
(:mod:`.refreshing`). That ends with its last query, and goes on with the next one that is started
from the same DataFrame.

The thread ends when the sessions of all enrichments have been stopped.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from watersmeet.spark.checkpoint.start_check import observed_in
from watersmeet.table.staged_table import StagedTable

#: The thread looks every so many seconds.
_EVERY = 1.0


@dataclass
class Refreshing:
    """A table that is staged anew by ``refresh``, so many ``seconds`` after it was the last time;
    in a thread of its own, as that may take long."""

    refresh: Callable[[], None]
    seconds: float
    _thread: threading.Thread | None = None
    _last: float = field(default_factory=time.monotonic)

    def look(self) -> None:
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


@dataclass(frozen=True)
class Kept:
    """An enrichment of a session: the staged tables that it may read now, and how its table is
    staged anew, if it is."""

    spark: SparkSession
    tables: Callable[[], Iterable[StagedTable]]
    refreshing: Refreshing | None = None

    def look(self) -> None:
        """Do what is to be done while it is in use, again and again."""
        for staged in self.tables():
            staged.hold()
        if self.refreshing is not None:
            self.refreshing.look()


class Keeper:
    """The enrichments of this process, by the names of their observations, and the thread that
    looks after them."""

    def __init__(self, every: float = _EVERY) -> None:
        self._every = every
        self._kept: dict[str, Kept] = {}
        self._observed: dict[str, set[str]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def keep(self, observation: str, kept: Kept) -> None:
        """From now on look after an enrichment, whenever it is in use."""
        with self._lock:
            self._kept[observation] = kept
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="watersmeet-keeping", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(self._every)
            with self._lock:
                self._kept = {
                    name: kept for name, kept in self._kept.items() if not stopped(kept.spark)
                }
                if not self._kept:
                    self._thread = None
                    return
                kept = dict(self._kept)
            # Whatever goes wrong, a session that is just being stopped for example, the thread
            # looks again.
            with contextlib.suppress(Exception):
                self.look(kept)

    def look(self, kept: Mapping[str, Kept]) -> None:
        """Do for the enrichments that are in use what is to be done."""
        sessions = {id(each.spark): each.spark for each in kept.values()}
        running = {
            query.runId().toString(): query
            for spark in sessions.values()
            for query in active(spark)
        }
        known = self._observed
        self._observed = {
            run: known[run] if run in known else observed_in(_plan_of(query), kept)
            for run, query in running.items()
        }
        for name in set[str]().union(*self._observed.values()) & kept.keys():
            kept[name].look()


def active(spark: SparkSession) -> list[Any]:
    """The streaming queries of a session that run."""
    streams: Any = spark._jsparkSession.streams()
    return list(streams.active())


def _plan_of(query: Any) -> str:
    return str(query.streamingQuery().analyzedPlan().toString())


def stopped(spark: SparkSession) -> bool:
    """Has a session been stopped, with all that ran in it?"""
    return spark.sparkContext._jsc is None


#: That of this process.
KEEPER = Keeper()
