"""Enrichments are looked after while their queries run, and no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from watersmeet.spark.keeping import Keeper, Kept, Refreshing


def query(run: str, *observed: str) -> Any:
    """A query of Spark's that runs, with these observations in its plan."""
    plan = "".join(f"CollectMetrics {name}, [step]\n" for name in observed)
    execution = SimpleNamespace(analyzedPlan=lambda: SimpleNamespace(toString=lambda: plan))
    return SimpleNamespace(
        runId=lambda: SimpleNamespace(toString=lambda: run), streamingQuery=lambda: execution
    )


def session(active: list[Any]) -> Any:
    """A session in which these queries are active."""
    streams = SimpleNamespace(active=lambda: active)
    return SimpleNamespace(
        _jsparkSession=SimpleNamespace(streams=lambda: streams),
        sparkContext=SimpleNamespace(_jsc="there"),
    )


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_what_is_in_use_is_looked_after() -> None:
    # Given two enrichments,
    active: list[Any] = []
    spark, looked, keeper = session(active), [], Keeper()
    kept = {
        name: Kept(spark, lambda name=name: looked.append(name))
        for name in ("prices", "prices (2)")
    }
    # when no query runs, one of the first, and another one of both,
    keeper.look(kept)
    assert looked == []
    active[:] = [query("a", "prices"), query("b", "something else")]
    keeper.look(kept)
    assert looked == ["prices"]
    active[:] = [query("c", "prices", "prices (2)")]
    keeper.look(kept)
    # then those are looked after that are in a query that runs.
    assert sorted(looked[1:]) == ["prices", "prices (2)"]


def test_the_thread_goes_on_after_an_error_and_ends_with_the_session() -> None:
    spark, looked, keeper = session([query("a", "prices")]), [], Keeper(every=0.01)

    def look() -> None:
        looked.append("again")
        raise RuntimeError

    keeper.keep("prices", Kept(spark, look))
    eventually(lambda: len(looked) > 2)
    spark.sparkContext._jsc = None
    eventually(lambda: keeper._thread is None)
    # Another session begins another thread.
    keeper.keep("more", Kept(session([query("b", "more")]), lambda: looked.append("more")))
    eventually(lambda: "more" in looked)


def test_a_table_is_refreshed_when_it_is_time_and_once_at_a_time() -> None:
    # Given a refresh that takes its time,
    begun, go_on = [], threading.Event()

    def refresh() -> None:
        begun.append(time.monotonic())
        go_on.wait(20)

    one = Refreshing(refresh, seconds=0.2)
    made = time.monotonic()
    # when it is looked at again and again,
    until = made + 0.6
    while time.monotonic() < until:
        one.look()
        time.sleep(0.005)
    # then it has begun once, after the time.
    assert len(begun) == 1
    assert begun[0] - made >= 0.19
    # When it has ended, the next one begins after the same time.
    go_on.set()
    eventually(lambda: one.look() or len(begun) > 1)
    assert begun[1] - until >= 0.19
