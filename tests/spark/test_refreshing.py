"""A refresh that fails is said, and tried again: whatever has gone wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from watersmeet.operators.enrich.staged import StagedTable, Versions
from watersmeet.spark.refreshing import Refresher


class Reads:
    """Reads of a table that fail now and then."""

    def __init__(self, *results: Exception | str) -> None:
        self._results: Iterator[Exception | str] = iter(results)

    def __call__(self) -> Any:
        result = next(self._results, "the last one")
        if isinstance(result, Exception):
            raise result
        return result


def refresher(folder: Path, reads: Reads, *, stopped: bool = False) -> Refresher:
    versions = Versions(str(folder), "series")
    versions.set("first")
    return Refresher(reads, lambda read: StagedTable(str(folder / read)), versions, lambda: stopped)  # type: ignore[arg-type, operator]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("An error occurred while calling o1.parquet.\n: not a footer"), ": not a"),
        (OSError("no such folder"), "no such folder"),
        (KeyError(), "KeyError"),
    ],
)
def test_any_error_is_said_and_the_old_version_stays(
    tmp_path: Path, error: Exception, said: str
) -> None:
    one = refresher(tmp_path, Reads(error, "newer"))
    one.refresh()
    assert said in str(one.versions.failure())
    assert one.versions.current() == StagedTable(str(tmp_path / "first"))
    # The next one is as if nothing had happened.
    one.refresh()
    assert one.versions.failure() is None
    assert one.versions.current() == StagedTable(str(tmp_path / "newer"))


def test_the_thread_goes_on_after_an_error(tmp_path: Path) -> None:
    one = refresher(tmp_path, Reads(RuntimeError("no"), OSError("no"), "newer"))
    stop = one.start(0.01)
    until = time.monotonic() + 20
    while one.versions.current() != StagedTable(str(tmp_path / "the last one")):
        assert time.monotonic() < until
        time.sleep(0.01)
    stop.set()


def test_the_thread_ends_with_the_session(tmp_path: Path) -> None:
    one = refresher(tmp_path, Reads(), stopped=True)
    one.start(0.01)
    time.sleep(0.2)
    assert one.versions.current() == StagedTable(str(tmp_path / "first"))
