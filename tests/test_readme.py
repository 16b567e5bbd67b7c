"""The README's code runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.spark
def test_the_code_of_the_readme_runs(run_document: Callable[[Path], int]) -> None:
    assert run_document(README) > 0
