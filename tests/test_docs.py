"""The code of every document runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

DOCUMENTS = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))


@pytest.mark.spark
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.stem)
def test_the_code_of_the_document_runs(document: Path, run_document: Callable[[Path], int]) -> None:
    assert run_document(document) == document.read_text().count("```python\n")


def test_there_are_documents() -> None:
    assert DOCUMENTS
