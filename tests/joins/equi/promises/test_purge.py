"""What streams promise about their keys purges the state, and never changes the result."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import watersmeet as wm
from experiments.metadata.schedules import ScheduledJoin
from tests.conformance.join import Join, at, table
from tests.conformance.strategies import INSTANT, examples
from tests.conformance.ways import LocalWay
from tests.joins.equi.promises.histories import History, compare, histories
from tests.joins.equi.promises.news import END, access, joined, news, pairs
from tests.oracle.compare import multiset
from watersmeet.spec.tuning import Tuning
from watersmeet.testing import LocalStream


class TestTheOneSide:
    def test_a_row_of_the_many_side_is_not_stored_once_its_one_is_there(
        self, tmp_path: Path
    ) -> None:
        join = joined(tmp_path)
        join.batch(news=news(1, 2))
        assert len(join.batch(access=access(1, 1, 2, 3))) == 3
        assert join.state_rows() == [2, 1]
        assert join.counters.streams[1].dropped == 3

    def test_a_row_that_waited_for_its_one_leaves_when_it_comes(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        join.batch(access=access(1, 1, 2))
        assert join.state_rows() == [0, 3]
        assert len(join.batch(news=news(1))) == 2
        assert join.state_rows() == [1, 1]
        assert join.counters.streams[1].purged == 2

    def test_a_punctuation_purges_the_one(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        join.batch(news=news(1, 2, 3))
        result = join.batch(access=access(1, ("end", 1), 2, ("end", 3)))
        assert pairs(result) == [(1, "ip 0"), (2, "ip 2")]
        assert join.state_rows() == [1, 0]
        # One that comes after its punctuation is not stored.
        join.batch(news=news(4), access=access(("end", 5)))
        join.batch(news=news(5))
        assert join.state_rows() == [2, 0]

    def test_rows_of_one_batch_come_before_its_punctuations(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        result = join.batch(news=news(1), access=access(("end", 1), 1, 1))
        assert len(result) == 2
        assert join.state_rows() == [0, 0]

    def test_a_semi_join_remembers_its_one_for_those_that_come_later(self, tmp_path: Path) -> None:
        join = joined(tmp_path, how="semi")
        join.batch(access=access(1))
        assert len(join.batch(news=news(1), access=access(1))) == 1
        assert join.state_rows() == [1, 0]
        assert len(join.batch(access=access(1, ("end", 1)))) == 0, "it comes out once"
        assert join.state_rows() == [0, 0]


class TestPurging:
    def test_immediate_purging_keeps_only_what_is_needed(self, tmp_path: Path) -> None:
        """The least state possible: the news whose number is not over and, of the access
        records, those whose news has not come."""
        join = joined(tmp_path)
        random = np.random.default_rng(5)
        order = random.permutation(60)
        published: set[int] = set()
        over: set[int] = set()
        waiting: Counter[int] = Counter()
        for step, number in enumerate(order.tolist()):
            open_now = [n for n in range(60) if n not in over]
            records = random.choice(open_now, 20).tolist()
            ends = [("end", min(open_now))] if step % 2 else []
            join.batch(news=news(number), access=access(*records, *ends))
            published.add(number)
            for record in records:
                waiting[record] += 1
            over |= {n for _, n in ends}
            needed = [
                len(published - over),
                sum(count for n, count in waiting.items() if n not in published),
            ]
            assert join.state_rows() == needed

    @pytest.mark.parametrize("shards", [1, 4])
    def test_what_is_known_of_closed_keys_does_not_grow(self, tmp_path: Path, shards: int) -> None:
        """Keys that are closed in about their order, though a shard has only some of them."""
        join, sizes = joined(tmp_path, shards=shards), []
        for step in range(120):
            numbers = range(10 * step, 10 * step + 10)
            ends = [("end", number) for number in reversed(numbers)]
            join.batch(news=news(*numbers), access=access(*numbers, *ends))
            sizes.append(max(sum(map(len, store.values.values())) for store in join.stores))
        assert join.state_rows() == [0, 0]
        assert max(sizes[60:]) <= max(sizes[:60]) + 20 * len(join.stores)

    def test_batch_purging_waits_and_gives_the_same_result(self, tmp_path: Path) -> None:
        results, most = {}, {}
        for goal in ("memory", "throughput"):
            join = joined(tmp_path / goal, goal=goal)
            found, peak = [], 0
            for step in range(150):
                batch = access(step, step, ("end", step))
                found.append(join.batch(news=news(step), access=batch))
                peak = max(peak, join.state_rows()[0])
            results[goal], most[goal] = multiset(pa.concat_tables(found)), peak
        assert results["memory"] == results["throughput"]
        assert most == {"memory": 0, "throughput": 99}

    def test_it_purges_after_as_many_punctuations_as_asked_for(self, tmp_path: Path) -> None:
        join = joined(tmp_path, goal="throughput", tuning=Tuning(purge_after=2))
        join.batch(news=news(1, 2, 3))
        join.batch(access=access(9, ("end", 1)))
        assert join.state_rows() == [3, 1]
        join.batch(access=access(9, ("end", 2)))
        assert join.state_rows() == [1, 2]

    def test_it_purges_when_nothing_comes(self, tmp_path: Path) -> None:
        join = joined(tmp_path, goal="throughput")
        join.batch(news=news(1, 2), access=access(("end", 1)))
        assert join.state_rows() == [2, 0]
        join.batch()
        assert join.state_rows() == [1, 0]

    def test_what_came_out_when_its_time_was_over_does_not_come_out_again(
        self, tmp_path: Path
    ) -> None:
        # Given two rows in one segment, of which the first is over, and has come out,
        timed = pa.schema([("k", pa.int64()), ("t", INSTANT), ("end", pa.bool_())])
        streams = {
            "a": LocalStream(timed, "t", "0 seconds"),
            "b": LocalStream(timed, "t", "0 seconds", punctuation=END),
        }
        join = ScheduledJoin(streams, on="k", within="6 seconds", how="left", folder=str(tmp_path))
        join.batch(a=table(timed, [(0, at(0), False), (1, at(3), False)]))
        join.batch(a=table(timed, [(9, at(7), False)]), b=table(timed, [(8, at(7), False)]))
        assert join.batch().column("k").to_pylist() == [0]
        # when a punctuation closes both of their keys, then only the other one comes out.
        end = table(timed, [(0, at(8), True), (1, at(8), True)])
        results = [join.batch(b=end), join.batch()]
        assert [key for result in results for key in result.column("k").to_pylist()] == [1]


def test_promises_never_change_the_result() -> None:
    @examples(200)
    @given(history=histories())
    def check(history: History) -> None:
        batches = [{"a": access(*a), "b": access(*b)} for a, b in [*history.batches, ([], [])]]
        options = dict(history.options)
        shards = options.pop("shards")
        join = Join(history.streams, on="sno", how=history.how, further=options)
        outcome = LocalWay().run(
            join, batches, shards=shards, before=history.before, cut=history.cut
        )
        compare(history, batches, outcome.result)

    check()


def test_when_all_keys_are_over_nothing_is_stored() -> None:
    @examples(60)
    @given(history=histories())
    def check(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            given = {"on": "sno", "how": history.how, "folder": folder, **history.options}
            join = ScheduledJoin(history.streams, **given)
            for a, b in [*history.batches, ([], [])]:
                join.batch(a=access(*a), b=access(*b))
            if history.streams["b"].arrival != "clustered":
                assert join.state_rows()[0] == 0
            if not history.streams["b"].arrival:
                assert join.state_rows()[1] == 0

    check()


class TestUniqueKeysWithACondition:
    """The only row that may match has come: whether the condition holds for it or not."""

    @staticmethod
    def never(news: pa.Table, access: pa.Table) -> pa.Array:
        return pa.array([False] * len(news))

    def test_a_new_row_whose_only_candidate_fails_is_not_stored(self, tmp_path: Path) -> None:
        join = joined(tmp_path, where=wm.predicate(self.never, "news", "access"))
        join.batch(news=news(1))
        assert join.batch(access=access(1, 1)).num_rows == 0
        assert join.state_rows() == [1, 0]

    def test_a_stored_row_leaves_when_its_only_candidate_fails(self, tmp_path: Path) -> None:
        join = joined(tmp_path, where=wm.predicate(self.never, "news", "access"))
        join.batch(access=access(1, 1, 2))
        assert join.batch(news=news(1)).num_rows == 0
        assert join.state_rows()[1] == 1
        assert join.counters.streams[1].purged == 2


def test_rows_that_have_left_before_their_time_do_not_expire_again(tmp_path: Path) -> None:
    timed = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    streams = {
        "a": LocalStream(timed, time="t", delay="0 seconds", unique=True),
        "b": LocalStream(timed, time="t", delay="0 seconds"),
    }
    join = ScheduledJoin(streams, on="k", within="10 seconds", goal="memory", folder=str(tmp_path))
    join.batch(b=table(timed, [(1, at(0)), (1, at(0)), (2, at(0)), (3, at(0)), (4, at(0))]))
    join.batch(a=table(timed, [(1, at(1))]))
    assert join.counters.streams[1].purged == 2
    join.batch(a=table(timed, [(9, at(60))]), b=table(timed, [(9, at(60))]))
    join.batch()
    assert join.counters.streams[1].expired == 3
    assert join.counters.streams[0].expired == 1


def test_punctuations_that_leave_are_not_counted_as_results(tmp_path: Path) -> None:
    join = joined(tmp_path, emit_punctuations=True)
    result = join.batch(news=news(1), access=access(1, ("end", 1)))
    assert result.column("is_punctuation").to_pylist() == [False, True]
    assert join.counters.results == 1
    assert join.counters.streams[1].propagated == 1
