"""A driver and all that it has started end when they are killed; nothing else does."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from soak.process import Driver

#: Starts what looks like a driver's JVM, an executor and a worker, and repeats what it is told.
PROGRAM = """
import json, subprocess, sys
for name in ("SparkSubmit", "CoarseGrainedExecutorBackend", "pyspark.daemon"):
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)", name]
    subprocess.Popen(sleeps, stdout=subprocess.DEVNULL)
print("what is no event", flush=True)
print(json.dumps({"event": "ready"}), flush=True)
for line in sys.stdin:
    print(json.dumps({"event": "told", "order": json.loads(line)}), flush=True)
"""
KINDS = ["driver", "driver JVM", "executor", "worker"]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    (tmp_path / "program.py").write_text(PROGRAM)
    driver = Driver([sys.executable, str(tmp_path / "program.py")], tmp_path)
    try:
        assert driver.event(30) == {"event": "ready"}
        eventually(lambda: kinds(driver) == KINDS)
        yield driver
    finally:
        driver.clear()


def kinds(driver: Driver) -> list[str]:
    return sorted(process.kind for process in driver.processes())


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_driver_takes_orders_and_is_killed_with_all_that_it_started(driver: Driver) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert [process.memory > 0 for process in driver.processes()] == [True] * 4
        assert [process.kind for process in driver.executors()] == ["executor"]
        driver.tell({"n": 1})
        assert driver.event(30) == {"event": "told", "order": {"n": 1}}
        assert driver.event(0.01) is None
        driver.kill(all_at_once=True)
        eventually(lambda: driver.processes() == [])
        assert driver.event(30) == {"event": "gone"}
        assert other.poll() is None
        other.communicate(b"\n")


def test_executors_may_outlive_their_driver_for_a_moment(driver: Driver) -> None:
    driver.kill(all_at_once=False)
    eventually(lambda: kinds(driver) == ["executor", "worker"])
    driver.clear(patience=0.2)
    assert driver.processes() == []


def test_a_driver_ends_by_itself_when_there_are_no_more_orders(driver: Driver) -> None:
    driver.finish()
    assert "driver" not in kinds(driver)
