"""Joins without a key give what the oracle gives, whatever the predicates, the order of the hops,
the slices, the batches and the mishaps; and nothing is stored twice."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.conformance.rings import RingRun, ring_runs, run_ring
from tests.conformance.strategies import examples, limited, until_shown
from tests.oracle import assert_same_rows
from watersmeet.spec.ring import RING_JOIN_TYPES

JOINS = [*((how, "ab") for how in RING_JOIN_TYPES), ("inner", "abc"), ("inner", "abcde")]


@pytest.mark.parametrize(("how", "streams"), JOINS)
def test_any_run_gives_what_the_oracle_gives(how: str, streams: str) -> None:
    results = 0

    @examples(60)
    @given(run=ring_runs(how, streams))
    def check(run: RingRun) -> None:
        nonlocal results
        with limited(**run.limits):
            outcome = run_ring(run)
        assert_same_rows(outcome.result, run.join.expected(run.batches))
        assert outcome.late == run.join.arrivals(run.batches).late_in_batch
        results += outcome.result.num_rows

    until_shown(check, lambda: results > 20, "results")
