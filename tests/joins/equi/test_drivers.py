"""The order in which the streams of a micro-batch are processed."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from tests.joins.equi.many_streams import rows
from watersmeet.joins.equi.drivers import RUNS, driven


class TestDrivers:
    """Each policy orders the streams."""

    def order(
        self, policy: str, *, new: list[int], stored: list[int], usual: list[float] | None = None
    ) -> list[int]:
        names = "abcdef"[: len(new)]
        batches = [
            _batch(rows(name, np.arange(count), np.arange(count))) if count else None
            for name, count in zip(names, new, strict=True)
        ]
        held = list(stored)
        taken = []
        for stream, run in driven(
            policy, batches, lambda: list(held), usual or [float(n) for n in new]
        ):
            taken.append(stream)
            held[stream] += len(run)
        return taken

    def test_consumption_rate_takes_the_stream_with_most_rows_first(self) -> None:
        order = self.order("consumption-rate", new=[5, 5, 5], stored=[1, 1, 1], usual=[2, 9, 4])
        assert order == [1, 2, 0]

    def test_initial_output_size_takes_what_makes_most_results_now(self) -> None:
        # a: 10 * 5 * 1, b: 2 * 100 * 1, c: 1 * 100 * 5
        assert self.order("initial-output-size", new=[10, 2, 1], stored=[100, 5, 1])[0] == 2

    def test_and_decides_again_after_each(self) -> None:
        # While nothing of b is stored, only b's rows make results; then c's make most.
        order = self.order("initial-output-size", new=[5, 1, 50], stored=[10, 0, 10])
        assert order == [1, 2, 0]

    def test_output_rate_takes_the_rows_that_make_most_each(self) -> None:
        assert self.order("output-rate", new=[1, 1, 1], stored=[3, 2, 1]) == [2, 1, 0]

    def test_round_robin_takes_runs_in_turn(self) -> None:
        order = self.order("round-robin", new=[96, 96, 48], stored=[0, 0, 0])
        assert order[:6] == [0, 1, 2, 0, 1, 2]
        assert len(order) == 20 + 20 + 10  # 240 rows in runs of 5

    def test_timestamp_takes_all_streams_in_order_of_time(self) -> None:
        first = rows("a", np.arange(60), np.arange(60)[::-1])  # out of order
        second = rows("b", np.arange(30), np.arange(30) * 2 + 0.5)
        batches = [_batch(first), _batch(second)]
        spans = []
        for stream, run in driven("timestamp", batches, lambda: [0, 0], [1.0, 1.0]):
            times = run.column("#time").cast(pa.int64()).to_numpy()
            assert (np.diff(times) > 0).all()
            spans.append((stream, times.min(), times.max()))
        for stream in (0, 1):
            mine = [span for span in spans if span[0] == stream]
            assert len(mine) <= RUNS
            assert all(one[2] < two[1] for one, two in itertools.pairwise(mine))
        assert [span[1] for span in spans[::2]] == sorted(span[1] for span in spans[::2])


def _batch(table: pa.Table) -> pa.RecordBatch:
    renamed = table.rename_columns(["#code", "#time", "#0"])
    return renamed.combine_chunks().to_batches()[0]
