"""Staged tables are kept while their queries run, and no longer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from watersmeet.spark.tables.folders import remove_idle
from watersmeet.spark.tables.refresh import RefreshSchedule
from watersmeet.spark.tables.temporary import TemporaryTables
from watersmeet.spark.tables.tenants import Tenant, Tenants
from watersmeet.table.staged_table import StagedTable


def query(run: str, *observed: str) -> Any:
    """A query of Spark's that runs, with these observations in its plan."""
    plan = "".join(f"CollectMetrics {name}, [step]\n" for name in observed)
    execution = SimpleNamespace(analyzedPlan=lambda: SimpleNamespace(toString=lambda: plan))
    return SimpleNamespace(
        runId=lambda: SimpleNamespace(toString=lambda: run), streamingQuery=lambda: execution
    )


def session(active: list[Any], jobs: Sequence[int] = ()) -> Any:
    """A session in which these queries and jobs are active."""
    streams = SimpleNamespace(active=lambda: active)
    return SimpleNamespace(
        _jsparkSession=SimpleNamespace(streams=lambda: streams),
        sparkContext=SimpleNamespace(
            _jsc="there",
            statusTracker=lambda: SimpleNamespace(getActiveJobsIds=lambda: [*jobs]),
        ),
    )


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_what_is_in_use_is_looked_after() -> None:
    # Given two enrichments,
    active: list[Any] = []
    looked: list[str] = []
    spark, tenants = session(active), Tenants()

    def tenant(name: str) -> Tenant:
        return Tenant(spark, lambda: looked.append(name) or [])  # type: ignore[func-returns-value]

    both = {name: tenant(name) for name in ("prices", "prices (2)")}
    # when no query runs, one of the first, and another one of both,
    tenants.renew(both)
    assert looked == []
    active[:] = [query("a", "prices"), query("b", "something else")]
    tenants.renew(both)
    assert looked == ["prices"]
    active[:] = [query("c", "prices", "prices (2)")]
    tenants.renew(both)
    # then those are looked after that are in a query that runs.
    assert sorted(looked[1:]) == ["prices", "prices (2)"]


def test_the_table_of_a_query_that_runs_is_not_removed(tmp_path: Path) -> None:
    # Given two tables that no step has used for days, one of them superseded,
    held, superseded, other = (tmp_path / (name * 32) for name in "012")
    for folder in (held, superseded, other):
        folder.mkdir()
        (folder / "table.json").touch()
        os.utime(folder / "table.json", (0, 0))
    (superseded / "superseded").touch()
    # when a query uses both that runs, and a third one belongs to none,
    tables = [StagedTable(str(folder)) for folder in (held, superseded)]
    spark = session([query("a", "prices")])
    Tenants().renew({"prices": Tenant(spark, lambda: tables)})
    remove_idle(str(tmp_path))
    # then that is removed alone;
    assert sorted(tmp_path.iterdir()) == [held, superseded]
    # and so are the others, when the query has ended long ago.
    for folder in (held, superseded):
        os.utime(folder / "held", (0, 0))
    remove_idle(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == []


def test_a_table_that_no_other_process_can_find_is_removed_with_its_session(
    tmp_path: Path,
) -> None:
    # Given tables of a session in which a query is active, of one in which a job is, of one in
    # which nothing is, of one that was stopped, and one that has been removed already,
    temporary = TemporaryTables()
    stopped = session([query("b", "prices")])
    sessions = [session([query("a", "prices")]), session([], [7]), session([]), stopped, stopped]
    tables = [StagedTable(str(tmp_path / (name * 32))) for name in "01234"]
    for table, spark in zip(tables, sessions, strict=True):
        Path(table.folder).mkdir()
        temporary.add(table, spark)
    Path(tables[-1].folder).rmdir()
    stopped.sparkContext._jsc = None

    def left() -> list[str]:
        return sorted(path.name[0] for path in tmp_path.iterdir())

    # when another table is staged, then that of the session is removed which was stopped;
    temporary.remove()
    assert left() == ["0", "1", "2"]
    # and when the process ends, that of the session in which nothing runs.
    temporary.remove(ending=True)
    assert left() == ["0", "1"]


def test_the_thread_goes_on_after_an_error_and_ends_with_the_session() -> None:
    looked: list[str] = []
    spark, tenants = session([query("a", "prices")]), Tenants(every=0.01)

    def tables() -> list[StagedTable]:
        looked.append("again")
        raise RuntimeError

    tenants.add("prices", Tenant(spark, tables))
    eventually(lambda: len(looked) > 2)
    spark.sparkContext._jsc = None
    eventually(lambda: tenants._thread is None)
    # Another session begins another thread.
    active, before = session([query("b", "more")]), len(looked)
    tenants.add("more", Tenant(active, tables))
    eventually(lambda: len(looked) > before)
    active.sparkContext._jsc = None


def test_a_table_is_refreshed_when_it_is_time_and_once_at_a_time() -> None:
    # Given a refresh that takes its time,
    begun: list[float] = []
    go_on = threading.Event()

    def refresh() -> None:
        begun.append(time.monotonic())
        go_on.wait(20)

    one = RefreshSchedule(refresh, seconds=0.2)
    made = time.monotonic()
    # when it is looked at again and again,
    until = made + 0.6
    while time.monotonic() < until:
        one.start_if_due()
        time.sleep(0.005)
    # then it has begun once, after the time.
    assert len(begun) == 1
    assert begun[0] - made >= 0.19
    # When it has ended, the next one begins after the same time.
    go_on.set()
    while len(begun) < 2:
        assert time.monotonic() < until + 20
        one.start_if_due()
        time.sleep(0.005)
    assert begun[1] - until >= 0.19
