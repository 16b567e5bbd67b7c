"""Rows of one stream probe the windows of all others."""

from __future__ import annotations

from tests.joins.equi.many_streams import join_of, local, rows
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.match.combination_probe import CombinationProbe
from watersmeet.segments.index import Index
from watersmeet.segments.segment import Segment


def probing(how: str = "inner") -> tuple[CombinationProbe, StepContext, Index]:
    """New rows of ``a``, of keys 1 to 3; ``b`` has rows of two of them, ``c`` of none."""
    join = local(join_of("abc", how=how))
    join.batch(b=rows("b", [1, 1, 2, 9], 0), c=rows("c", [8], 0))
    layout = join.join.layout
    context = StepContext(layout, join.run.state(0), EquiCounters.zero(3))
    new = join.encoded(0, rows("a", [3, 2, 1], 0))
    assert new is not None
    return CombinationProbe(context), context, Segment.of(new).index


def test_a_row_without_a_match_in_one_window_probes_no_further_one() -> None:
    probe, context, index = probing()
    context.state.flows[0].sampled = 0  # nothing is sampled
    context.state.flows[0].probe_order = [2, 1]
    windows, complete = probe.search(0, index)
    assert [window.stream for window in windows] == [2]
    assert complete.tolist() == []
    # In the other order, the two rows that match in b go on to c.
    context.counters.probes = 0
    context.state.flows[0].probe_order = [1, 2]
    windows, _ = probe.search(0, index)
    assert [window.counts.tolist() for window in windows] == [[2, 1, 0], [0, 0, 0]]
    assert context.counters.probes == 3 + 2


def test_all_windows_are_searched_for_unmatched_rows() -> None:
    probe, _, index = probing("left")
    windows = probe.search_all(0, index)
    assert [window.stream for window in windows] == [1, 2]
    assert [window.counts.tolist() for window in windows] == [[2, 1, 0], [0, 0, 0]]


def test_the_probe_order_is_measured_and_noted() -> None:
    probe, context, index = probing()
    probe.search(0, index)
    flow = context.state.flows[0]
    assert flow.match_rates == [1.0, 2 / 3, 0.0]
    assert flow.probe_order == [2, 1]
    assert len(context.counters.notes) == 1
