"""The result is the oracle's, whatever the batches, the shards and the mishaps."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest
from hypothesis import given

from tests.conformance.strategies import examples, until_shown
from tests.operators.enrich.enrichment import Run, run, runs
from tests.oracle import assert_same_rows
from watersmeet.rows import output
from watersmeet.spec.enrich import ENRICH_TYPES


@pytest.mark.parametrize("how", ENRICH_TYPES)
def test_any_run_gives_what_the_oracle_gives(how: str) -> None:
    shown: Counter[str] = Counter()

    @examples(30)
    @given(case=runs(how))
    def check(case: Run) -> None:
        with mock.patch.object(output, "PIECE", case.piece):
            outcome = run(case.enrichment, case.batches, shards=case.shards, before=case.before)
        assert_same_rows(outcome.result, case.enrichment.expected(case.batches))
        shown.update(outcome.phases)
        for name in ("hits", "waited", "sought", "scanned", "skipped", "cycles"):
            shown[name] += outcome.total(name)

    wanted = ("hits", "waited", "sought", "scanned", "skipped", "switching", "phase-out")
    until_shown(check, lambda: all(shown[name] for name in wanted), f"all of {wanted}")
