"""A key with many rows in every stream: its results are counted, and a budget caps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.join import Join
from tests.joins.equi.many_streams import join_of, local, rows
from tests.oracle import multiset
from watersmeet.errors import OverBudgetError
from watersmeet.spec.budget import Budget
from watersmeet.spec.limits import Limits
from watersmeet.testing import LocalJoin, LocalStream


class TestFanOut:
    """A key with many rows in every stream."""

    HOT = 100

    def hot(self, join: Join, **options: Any) -> tuple[LocalJoin, pa.Table]:
        """A hundred rows of key 7 in a and in b, then two rows of it in c."""
        running = local(join, **options)
        for name in "ab":
            running.batch(**{name: rows(name, np.full(self.HOT, 7), 1.0)})
        return running, running.batch(c=rows("c", [7, 7, 8], 2.0))

    def test_the_product_comes_in_pieces_and_is_reported(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(LocalJoin, "limits", Limits(piece_rows=1_000))
        join, result = self.hot(join_of("abc"))
        assert result.num_rows == 2 * self.HOT**2
        assert max(len(batch) for batch in result.to_batches()) <= 1_000
        largest = join.counters.largest
        assert (largest.fanout, largest.stream, largest.key) == (self.HOT**2, "c", "7")

    def test_a_budget_caps_it(self) -> None:
        budget = Budget(fanout=150, overflow="shed")
        join, result = self.hot(join_of("abc"), budget=budget)
        assert result.num_rows == 300
        assert join.counters.capped == 2
        _, everything = self.hot(join_of("abc"))
        assert not multiset(result) - multiset(everything)

    def test_a_cap_that_is_not_reached_changes_nothing(self) -> None:
        budget = Budget(fanout=self.HOT**2, overflow="shed")
        join, result = self.hot(join_of("abc"), budget=budget)
        assert result.num_rows == 2 * self.HOT**2
        assert join.counters.capped == 0

    def test_a_budget_makes_it_fail(self) -> None:
        budget = Budget(fanout=150, overflow="fail")
        with pytest.raises(OverBudgetError, match="row of c with the key 7 makes more than 150"):
            self.hot(join_of("abc"), budget=budget)

    def test_two_streams_are_watched_too(self) -> None:
        join = local(join_of("ab"))
        join.batch(a=rows("a", np.full(50, 7), 1.0))
        assert join.batch(b=rows("b", [7, 7, 8], 2.0)).num_rows == 100
        assert (join.counters.largest.fanout, join.counters.largest.key) == (50, "7")
        capped = local(join_of("ab"), budget=Budget(fanout=20, overflow="shed"))
        capped.batch(a=rows("a", np.full(50, 7), 1.0))
        assert capped.batch(b=rows("b", [7, 7, 8], 2.0)).num_rows == 40
        assert capped.counters.capped == 2

    @pytest.mark.parametrize("names", ["ab", "abc"])
    def test_a_cap_counts_over_pieces(self, names: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(LocalJoin, "limits", Limits(piece_rows=10))
        join = local(join_of(names), budget=Budget(fanout=25, overflow="shed"))
        join.batch(**{name: rows(name, np.full(30, 7), 1.0) for name in names[:-1]})
        last = names[-1]
        assert join.batch(**{last: rows(last, [7, 7], 2.0)}).num_rows == 50
        assert join.counters.capped == 2

    @pytest.mark.parametrize("names", ["ab", "abc"])
    def test_a_cap_counts_each_row_once_over_chunks(self, names: str) -> None:
        # Given ten stored rows of every stream but the last,
        join, last = local(join_of(names), budget=Budget(fanout=7, overflow="shed")), names[-1]
        join.batch(**{name: rows(name, np.full(10, 7), 1.0) for name in names[:-1]})
        # when three chunks of a micro-batch bring two rows each of the last,
        new = join.encoded(len(names) - 1, rows(last, [7, 7], 2.0))
        chunks = [[*([None] * (len(names) - 1)), new] for _ in range(3)]
        counters = join.join.counters()
        results = list(join.join.step(chunks, None, join.run.state(0), counters))
        # then each makes seven results, and each is counted.
        assert sum(map(len, results)) == 6 * 7
        assert (counters.capped, counters.largest.fanout) == (6, 7)

    def test_a_cap_counts_over_segments(self) -> None:
        join = local(join_of("abc"), budget=Budget(fanout=7, overflow="shed"))
        for _ in range(3):  # three segments of each
            join.batch(a=rows("a", [7, 7], 1.0), b=rows("b", [7, 7], 1.0))
        assert join.batch(c=rows("c", [7], 2.0)).num_rows == 7


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (pa.array([3_000_000], pa.int32()).view(pa.date32()), "10183-09-21"),
        (pa.array([-800_000], pa.int32()).view(pa.date32()), "-"),
        (pa.array([b"\xff\xfe"]).view(pa.string()), "b'\\xff\\xfe'"),
        (pa.array(["x" * 10_000]), "x" * 100 + "..."),
        (pa.array([b"x" * 10_000]), "x" * 100 + "..."),
    ],
    ids=[
        "a date after the year 9999",
        "a date before the year 1",
        "a string that is not UTF-8",
        "a long string",
        "long bytes",
    ],
)
def test_a_key_that_python_cannot_show_does_not_stop_the_step(keys: pa.Array, shown: str) -> None:
    schema = pa.schema([("k", keys.type)])
    join = LocalJoin({"a": LocalStream(schema), "b": LocalStream(schema)}, on="k", unbounded=True)
    table = pa.Table.from_arrays([keys], schema=schema)
    assert join.batch(a=table, b=table).num_rows == 1
    assert shown in join.counters.largest.key
    assert len(join.counters.largest.key) < 200
