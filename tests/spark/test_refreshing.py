"""A refresh that fails is said, and tried again: whatever has gone wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from watersmeet.errors import StagedTableError
from watersmeet.spark.tables.refresh import Refresher, check_files
from watersmeet.table.staged_table import StagedTable
from watersmeet.table.versions import Versions


class Reads:
    """Reads of a table that fail now and then."""

    def __init__(self, *results: Exception | str) -> None:
        self._results: Iterator[Exception | str] = iter(results)

    def __call__(self) -> Any:
        result = next(self._results, "the last one")
        if isinstance(result, Exception):
            raise result
        return result


def refresher(folder: Path, reads: Reads) -> Refresher:
    versions = Versions(str(folder), "series", "table")
    versions.set("first")
    return Refresher(reads, lambda read: StagedTable(str(folder / read)), versions)  # type: ignore[operator]


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


def test_a_path_that_has_lost_its_files_is_refused() -> None:
    old, new, more = "file:/old", "file:/new", "file:/more"
    check_files(frozenset(), frozenset())
    check_files(frozenset({old}), frozenset({old}))
    check_files(frozenset({old}), frozenset())
    with pytest.raises(StagedTableError, match=r"no file of the table in file:/new\. It is gone"):
        check_files(frozenset({old}), frozenset({new}))
    with pytest.raises(StagedTableError, match="in file:/more and 1 more"):
        check_files(frozenset(), frozenset({new, more}))
