"""Memory is a promise: what a process takes stays within it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operators.enrich.memory_use import TABLE, table
from watersmeet.operators.enrich.staged import StagedTable
from watersmeet.sizes import parse
from watersmeet.testing import LocalEnrich, LocalStream

ROOT = Path(__file__).parents[3]


def staged(folder: Path, memory: str) -> StagedTable:
    """A table of 144 MB."""
    stream = LocalStream(TABLE.empty_table().select(["key"]).schema)
    rows = table(1_500_000)
    planned = LocalEnrich("orders", stream, rows, on="key", folder=str(folder), memory=memory)
    return planned.staged


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("memory", ["32 MB", "64 MB"])
def test_a_process_stays_within_the_memory(tmp_path: Path, memory: str) -> None:
    folder = staged(tmp_path, memory).folder
    command = [sys.executable, "-m", "tests.operators.enrich.memory_use", folder, memory]
    # Arrow's own allocator keeps some 12 MB for reuse in any process, whatever the memory.
    plain = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    grown, hits = map(int, done.stdout.split())
    assert hits > 0, "the cache was of use"
    assert grown <= parse(memory, argument="memory"), f"{grown / 1e6:.0f} MB"
