"""The result is the oracle's, whatever the batches, the buckets and the mishaps."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.conformance.strategies import Run, examples, limited, runs
from tests.conformance.ways import Way
from tests.oracle import assert_same_rows
from watersmeet.spec import JOIN_TYPES, MULTIWAY_JOIN_TYPES


@pytest.mark.parametrize("how", JOIN_TYPES)
def test_any_run_gives_what_the_oracle_gives(way: Way, how: str) -> None:
    @examples(40)
    @given(run=runs([how]))
    def check(run: Run) -> None:
        with limited(**run.limits):
            outcome = way.run(run.join, run.batches, buckets=run.buckets, before=run.before)
        assert_same_rows(outcome.result, run.join.expected(run.batches))
        assert outcome.late == run.join.arrivals(run.batches).late_in_batch

    check()


@pytest.mark.parametrize("how", MULTIWAY_JOIN_TYPES)
@pytest.mark.parametrize("streams", ["abc", "abcd", "abcdef"])
def test_any_run_of_many_streams_gives_what_the_oracle_gives(
    way: Way, how: str, streams: str
) -> None:
    @examples(40)
    @given(run=runs([how], streams))
    def check(run: Run) -> None:
        with limited(**run.limits):
            outcome = way.run(run.join, run.batches, buckets=run.buckets, before=run.before)
        assert_same_rows(outcome.result, run.join.expected(run.batches))
        assert outcome.late == run.join.arrivals(run.batches).late_in_batch

    check()
