"""Memory is a promise: what hands rows to an enrichment, and takes its results, stays within it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.joins.enrich.test_memory import measured
from tests.spark.memory_cases import CASES, MEMORY
from watersmeet.sizes import parse


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("case", CASES)
def test_a_task_with_wide_rows_stays_within_the_memory(tmp_path: Path, case: str) -> None:
    grown, left = measured("tests.spark.memory_cases", case, str(tmp_path))
    assert left > 0, "rows have left"
    assert grown <= parse(MEMORY, argument="memory"), f"{grown / 1e6:.1f} MB"
