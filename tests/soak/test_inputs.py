"""Files are shown in their order, and Spark reads them in it."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq

from soak.families import FAMILIES
from soak.inputs import Input


def shown(folder: Path) -> list[str]:
    files = [file for file in folder.iterdir() if not file.name.startswith(".")]
    return [file.name for file in sorted(files, key=lambda file: file.stat().st_mtime)]


def test_files_are_shown_in_order_and_the_closing_ones_come_last(tmp_path: Path) -> None:
    case = FAMILIES["windows"](random.Random(1), 4)
    given = Input(tmp_path, case)
    assert shown(tmp_path / "a") == []
    given.show("a", 2)
    given.show("a", 1)
    assert shown(tmp_path / "a") == ["0000.parquet", "0001.parquet", "0002.parquet"]
    assert (given.waiting["a"], given.waiting["b"]) == (1, 4)
    given.show("a", 5)
    given.close()
    given.show_all()
    for name in case.schemas:
        files = shown(tmp_path / name)
        assert len(files) == 5
        assert [pq.read_table(tmp_path / name / file) for file in files] == list(
            given.tables[name].values()
        )
        assert given.tables[name][files[-1]] == case.closing()[name]
