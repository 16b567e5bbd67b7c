"""Two streams are matched in pairs, more of them in combinations."""

from __future__ import annotations

import pytest

from tests.joins.equi.many_streams import join_of, local
from watersmeet.joins.equi.context import StepContext, other_stream
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.match.combinations import CombinationMatcher
from watersmeet.joins.equi.match.pairs import PairMatcher
from watersmeet.joins.equi.step import EquiStep


@pytest.mark.parametrize(
    ("streams", "matcher"),
    [("ab", PairMatcher), ("abc", CombinationMatcher), ("abcdef", CombinationMatcher)],
)
def test_the_number_of_streams_chooses(streams: str, matcher: type) -> None:
    join = local(join_of(streams))
    counters = EquiCounters.zero(len(streams))
    operator = join.join
    step = EquiStep(operator.layout, operator.ordered, join.run.state(0), counters)
    assert isinstance(step.matcher, matcher)
    context = StepContext(join.join.layout, join.run.state(0), counters)
    assert context.names == list(streams)


def test_of_two_streams_each_is_the_other_s_other() -> None:
    assert [other_stream(0), other_stream(1)] == [1, 0]
