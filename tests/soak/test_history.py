"""What a query has read, by the logs in its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from soak.history import Entry, begun, complete, entries, written


def log(folder: Path, name: object, *lines: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    told = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / str(name)).write_text("\n".join(["v1", *told]))


def offset(folder: Path, batch: int, watermark: int, *last: int | None) -> None:
    offsets = ["-" if number is None else {"logOffset": number} for number in last]
    log(folder / "offsets", batch, {"batchWatermarkMs": watermark}, *offsets)


def source(folder: Path, source: int, number: int, *files: tuple[int, str]) -> None:
    told = [{"path": f"file:///in/{file}", "batchId": batch} for batch, file in files]
    log(folder / "sources" / str(source), number, *told)


def test_a_micro_batch_has_the_files_up_to_its_offsets(tmp_path: Path) -> None:
    # Given a kill after Spark had noted a file of the first source, and before the offset,
    for number in range(4):
        source(tmp_path, 0, number, (number, f"a{number}"))
    source(tmp_path, 1, 0, (0, "b0"))
    offset(tmp_path, 0, 0, 0, None)
    offset(tmp_path, 1, 5000, 2, 0)
    offset(tmp_path, 2, 7000, 2, 0)
    log(tmp_path / "commits", 0, {})
    (tmp_path / "commits" / ".1.crc").write_text("")
    # when the logs are read, then the next micro-batch has two files, and one has none.
    assert entries(tmp_path, 2) == [
        Entry([["a0"], []], None),
        Entry([["a1", "a2"], ["b0"]], 5_000_000),
        Entry([[], []], 7_000_000),
    ]
    assert (begun(tmp_path), complete(tmp_path)) == (3, 1)


def test_what_spark_has_compacted_is_not_counted_twice(tmp_path: Path) -> None:
    source(tmp_path, 0, 0, (0, "a0"))
    (tmp_path / "sources/0/1.compact").write_text((tmp_path / "sources/0/0").read_text())
    with (tmp_path / "sources/0/1.compact").open("a") as compacted:
        compacted.write("\n" + json.dumps({"path": "file:///in/a1", "batchId": 1}))
    source(tmp_path, 0, 2, (2, "a2"))
    offset(tmp_path, 0, 0, 2)
    assert entries(tmp_path, 1) == [Entry([["a0", "a1", "a2"]], None)]


def test_a_checkpoint_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert (begun(tmp_path), complete(tmp_path), entries(tmp_path, 1)) == (0, 0, [])


def test_only_files_in_the_log_of_a_sink_count(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.parquet", "two.parquet")]
    for number, file in enumerate(files):
        entry = {"path": f"file://{file}", "action": "add"}
        log(tmp_path / "_spark_metadata", number, entry)
    (tmp_path / "not-committed.parquet").write_text("")
    assert written(tmp_path) == files
