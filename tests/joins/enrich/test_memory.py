"""Memory is a promise: what a process takes stays within it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.joins.enrich import memory_cases
from tests.joins.enrich.memory_use import TABLE, in_place, table
from watersmeet.sizes import parse
from watersmeet.table import layer as layer_module
from watersmeet.table.files import map_rows
from watersmeet.table.staged_table import StagedTable
from watersmeet.testing import LocalEnrich, LocalStream

ROOT = Path(__file__).parents[3]


def staged(folder: Path, memory: str, *where: str) -> StagedTable:
    """A table of 144 MB."""
    stream = LocalStream(TABLE.empty_table().select(["key"]).schema)
    rows = table(1_500_000)
    policy = in_place(memory) if where else None
    options: dict[str, Any] = {
        "on": "key",
        "folder": str(folder),
        "memory": memory,
        "policy": policy,
    }
    return LocalEnrich("orders", stream, rows, **options).staged


def measured(module: str, *arguments: str) -> tuple[int, int]:
    """The two numbers that a module says when it is run."""
    command = [sys.executable, "-m", module, *arguments]
    # Arrow's own allocator keeps some 12 MB for reuse in any process, whatever the memory.
    plain = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    first, second = map(int, done.stdout.split())
    return first, second


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("memory", "where"), [("32 MB", []), ("64 MB", []), ("64 MB", ["in-place"])]
)
def test_a_process_stays_within_the_memory(tmp_path: Path, memory: str, where: list[str]) -> None:
    folder = staged(tmp_path, memory, *where).folder
    grown, hits = measured("tests.joins.enrich.memory_use", folder, memory, *where)
    assert hits > 0, "the cache was of use"
    assert grown <= parse(memory, argument="memory"), f"{grown / 1e6:.0f} MB"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    "case",
    ["wide", "retried", "renewed", "backlog", "many"],
)
def test_a_hard_case_stays_within_the_memory(tmp_path: Path, case: str) -> None:
    grown, cached = measured("tests.joins.enrich.memory_cases", case, str(tmp_path))
    memory = parse(memory_cases.MEMORY, argument="memory")
    assert cached <= memory // 4, f"{cached / 1e6:.1f} MB are cached"
    assert grown <= memory, f"{grown / 1e6:.1f} MB"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("how", "piece"), [("inner", 1 << 20), ("inner", 1 << 14), ("semi", 1 << 20), ("anti", 1 << 20)]
)
def test_one_partition_is_mapped_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, piece: int
) -> None:
    # Given a table of several partitions, of which rows are fetched, or are too many for that,
    rows = pa.table({"key": range(100_000), "value": range(100_000)})
    local = LocalEnrich(
        "orders",
        LocalStream(rows.schema),
        rows.rename_columns(["key", "master"]),
        on="key",
        how=how,
        folder=str(tmp_path),
        policy={"partition": 1 << 17, "piece": piece, "resident": 0},
    )
    most, mapping = [0], map_rows

    def mapped(path: str, *arguments: Any) -> pa.RecordBatch:
        found = mapping(path, *arguments)
        maps = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
        partitions = [path for path in maps if re.search(r"/[0-9]+\.arrow$", path)]
        most[0] = max(most[0], len(partitions))
        return found

    monkeypatch.setattr(layer_module, "map_rows", mapped)
    # when rows ask for keys of all of them,
    results = local.batch(rows.take([*range(0, 100_000, 3)]))
    assert len(results) == (0 if how == "anti" else len(range(0, 100_000, 3)))
    assert local.counters.sought + local.counters.scanned > 4
    # then no two are mapped at the same time.
    assert most == [1]
