"""The order in which new rows probe the other windows."""

from __future__ import annotations

import numpy as np

from tests.joins.equi.many_streams import join_of, local, rows
from watersmeet.joins.equi.flow import Flow
from watersmeet.joins.equi.match.combination_probe import revise
from watersmeet.testing import LocalJoin, LocalStream


class TestProbeOrder:
    """The most selective window is probed first."""

    def test_it_is_measured_and_changes_are_noted(self) -> None:
        join = local(join_of("abc"))
        keys = np.arange(1_000)

        def feed(second: int, b: np.ndarray, c: np.ndarray) -> list[str]:
            second *= 10  # as long as the window
            join.batch(a=rows("a", keys, second), b=rows("b", b, second), c=rows("c", c, second))
            return [note for note in join.counters.notes if "rows of a probe" in note]

        # Given b, which has every key, and c, which has hardly any,
        notes = [note for s in range(3) for note in feed(s, keys, keys[:10])]
        assert len(notes) == 1
        assert "probe c (matched by 1" in notes[0]
        assert "then b (matched by 1" in notes[0]
        # when it is the other way round from some time on, that is found out before long.
        notes = [note for s in range(3, 30) for note in feed(s, keys[:10], keys)]
        assert len(notes) == 1
        assert "probe b (matched by" in notes[0]

    def test_declared_rates_and_keys_say_where_to_begin(self) -> None:
        def plan(**facts: tuple[float, float]) -> LocalJoin:
            streams = {
                name: LocalStream(
                    stream.schema,
                    stream.time,
                    stream.delay,
                    rows_per_second=facts[name][0],
                    distinct_keys=facts[name][1],
                )
                for name, stream in join_of("abc").streams.items()
            }
            return LocalJoin(streams, on="k", within="10 seconds")

        first = plan(a=(10, 10), b=(10, 10), c=(10, 1e6)).plan.policy.probe_orders
        assert first == ((2, 1), (2, 0), (0, 1))

    def test_only_a_clearly_cheaper_one_is_taken(self) -> None:
        flow = Flow(match_rates=[1.0, 0.5, 0.49], probe_order=[1, 2])
        assert revise(0, flow, "abc") == []
        flow.match_rates = [1.0, 0.5, 0.2]
        [note] = revise(0, flow, "abc")
        assert (
            note
            == "new rows of a probe c (matched by 20.0%), then b (matched by 50.0%) from now on"
        )
        assert flow.probe_order == [2, 1]
