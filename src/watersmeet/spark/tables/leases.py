"""Leases on staged tables: what a query reads is not removed while it runs.

A thread of the driver looks every second which streaming queries are active. An enrichment is in
use if one of them has its observation. As long as it is, the lease on its staged table is renewed:
nobody removes it, however long no rows come. And a table that changes is staged anew, every so
often (:mod:`.refresh`). That ends with its last query, and goes on with the next one that is
started from the same DataFrame.

The thread ends when the sessions of all enrichments have been stopped.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from watersmeet.spark.jvm.driver import is_stopped
from watersmeet.spark.jvm.queries import active_queries
from watersmeet.spark.query.observations import observed_in
from watersmeet.spark.tables.refresh import RefreshSchedule
from watersmeet.table.version import StagedTable

#: The thread looks every so many seconds.
_EVERY = 1.0


@dataclass(frozen=True)
class Lease:
    """The lease of an enrichment on the staged tables that it may read now; and when its table is
    staged anew, if it is."""

    spark: SparkSession
    tables: Callable[[], Iterable[StagedTable]]
    schedule: RefreshSchedule | None = None

    def renew(self) -> None:
        """Keep the tables for some more time, and begin to stage the next one, if it is time."""
        for staged in self.tables():
            staged.hold()
        if self.schedule is not None:
            self.schedule.start_if_due()


class Leases:
    """The leases of this process, by the names of the enrichments' observations, and the thread
    that renews them."""

    def __init__(self, every: float = _EVERY) -> None:
        self._every = every
        self._leases: dict[str, Lease] = {}
        self._observed: dict[str, set[str]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, observation: str, lease: Lease) -> None:
        """From now on renew the lease of an enrichment, whenever it is in use."""
        with self._lock:
            self._leases[observation] = lease
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="watersmeet-leases", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(self._every)
            with self._lock:
                self._leases = {
                    name: lease
                    for name, lease in self._leases.items()
                    if not is_stopped(lease.spark)
                }
                if not self._leases:
                    self._thread = None
                    return
                leases = dict(self._leases)
            # Whatever goes wrong, a session that is just being stopped for example, the thread
            # looks again.
            with contextlib.suppress(Exception):
                self.renew(leases)

    def renew(self, leases: Mapping[str, Lease]) -> None:
        """Renew the leases of the enrichments that are in use."""
        sessions = {id(lease.spark): lease.spark for lease in leases.values()}
        running = {
            query.run_id: query for spark in sessions.values() for query in active_queries(spark)
        }
        known = self._observed
        self._observed = {
            run: known[run] if run in known else observed_in(query.plan.text, leases)
            for run, query in running.items()
        }
        for name in set[str]().union(*self._observed.values()) & leases.keys():
            leases[name].renew()


#: Those of this process.
LEASES = Leases()
