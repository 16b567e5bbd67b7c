"""Tenants of staged tables: what a query reads is not removed while it runs.

A thread of the driver looks every second which streaming queries are active. An enrichment is in
use if one of them has its observation. As long as it is, it is the tenant of its staged table, and
renews the lease: nobody removes the table, however long no rows come. And a table that changes is
staged anew, every so often (:mod:`.refresh`). That ends with its last query, and goes on with the
next one that is started from the same DataFrame.

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
from watersmeet.table.staged_table import StagedTable

#: The thread looks every so many seconds.
_EVERY = 1.0


@dataclass(frozen=True)
class Tenant:
    """An enrichment, with the staged tables that it may read now, and when its table is staged
    anew, if it is."""

    spark: SparkSession
    tables: Callable[[], Iterable[StagedTable]]
    schedule: RefreshSchedule | None = None

    def renew(self) -> None:
        """Renew the leases of the tables, and begin to stage the next one, if it is time."""
        for staged in self.tables():
            staged.hold()
        if self.schedule is not None:
            self.schedule.start_if_due()


class Tenants:
    """The tenants of this process, by the names of their observations, and the thread that renews
    their leases."""

    def __init__(self, every: float = _EVERY) -> None:
        self._every = every
        self._tenants: dict[str, Tenant] = {}
        self._observed: dict[str, set[str]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, observation: str, tenant: Tenant) -> None:
        """From now on renew the leases of an enrichment, whenever it is in use."""
        with self._lock:
            self._tenants[observation] = tenant
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="watersmeet-tenants", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(self._every)
            with self._lock:
                self._tenants = {
                    name: tenant
                    for name, tenant in self._tenants.items()
                    if not is_stopped(tenant.spark)
                }
                if not self._tenants:
                    self._thread = None
                    return
                tenants = dict(self._tenants)
            # Whatever goes wrong, a session that is just being stopped for example, the thread
            # looks again.
            with contextlib.suppress(Exception):
                self.renew(tenants)

    def renew(self, tenants: Mapping[str, Tenant]) -> None:
        """Renew the leases of the enrichments that are in use."""
        sessions = {id(tenant.spark): tenant.spark for tenant in tenants.values()}
        running = {
            query.run_id: query for spark in sessions.values() for query in active_queries(spark)
        }
        known = self._observed
        self._observed = {
            run: known[run] if run in known else observed_in(query.plan.text, tenants)
            for run, query in running.items()
        }
        for name in set[str]().union(*self._observed.values()) & tenants.keys():
            tenants[name].renew()


#: Those of this process.
TENANTS = Tenants()
