"""What streams promise about their keys purges the state, and never changes the result."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.join import Join, at, table
from tests.conformance.strategies import INSTANT, examples
from tests.conformance.ways import Disturbance, LocalWay
from tests.oracle import Stream, sql_join
from tests.oracle.compare import multiset
from watersmeet.errors import ViolationError
from watersmeet.spec.policy import Schedule
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import Tuning
from watersmeet.testing import LocalJoin, LocalStream

NEWS = pa.schema([("sno", pa.int64()), ("title", pa.string())])
ACCESS = pa.schema(
    [("sno", pa.int64()), ("ip", pa.string()), ("end", pa.bool_()), ("to", pa.int64())]
)
END = Punctuation(when='"end"')


def news(*numbers: int | None) -> pa.Table:
    return table(NEWS, [(number, f"news {number}") for number in numbers])


def access(*numbers: int | tuple[str, Any] | None) -> pa.Table:
    """Access records by number; ("end", number) is a punctuation."""
    rows = []
    for position, number in enumerate(numbers):
        if isinstance(number, tuple):
            rows.append((number[1], None, True, None))
        else:
            rows.append((number, f"ip {position}", False, None))
    return table(ACCESS, rows)


def joined(tmp_path: Path, **options: Any) -> LocalJoin:
    general = options.pop("news", {"unique": True})
    records = options.pop("access", {"punctuation": END})
    options = {"goal": "memory", **options}
    return LocalJoin(
        {"news": LocalStream(NEWS, **general), "access": LocalStream(ACCESS, **records)},
        on="sno",
        folder=str(tmp_path),
        **options,
    )


def pairs(result: pa.Table) -> list[tuple[int, str]]:
    return sorted(
        zip(result.column("sno").to_pylist(), result.column("ip").to_pylist(), strict=True)
    )


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


class TestOrderAndClusters:
    def test_an_ordered_stream_closes_what_is_below_its_newest_key(self, tmp_path: Path) -> None:
        join = joined(tmp_path, access={"arrival": "ordered"})
        join.batch(news=news(1, 2, 3, 4), access=access(1, 1))
        assert join.state_rows() == [4, 0]
        assert len(join.batch(access=access(2, 3, 3))) == 3
        assert join.state_rows() == [2, 0]
        with pytest.raises(ViolationError, match="key 2: arrival='ordered' has closed it"):
            join.batch(access=access(2))

    def test_a_clustered_stream_closes_the_keys_it_has_left(self, tmp_path: Path) -> None:
        join = joined(tmp_path, access={"arrival": "clustered"})
        join.batch(news=news(1, 2, 7), access=access(7, 7, 2))
        assert join.state_rows() == [3, 0]
        join.batch(access=access(2, 1))
        assert join.state_rows() == [2, 0]
        with pytest.raises(ViolationError, match="arrival='clustered' has closed it"):
            join.batch(access=access(7))


class TestPunctuations:
    def test_a_range_closes_its_keys_and_goes_to_every_shard(self, tmp_path: Path) -> None:
        ranged = Punctuation(when='"end"', low="sno_from", high="to")
        schema = pa.schema(
            [("sno", pa.int64()), ("sno_from", pa.int64()), ("to", pa.int64()), ("end", pa.bool_())]
        )
        join = LocalJoin(
            {
                "news": LocalStream(NEWS, unique=True),
                "access": LocalStream(schema, punctuation=ranged),
            },
            on="sno",
            goal="memory",
            shards=3,
            folder=str(tmp_path),
        )
        join.batch(news=news(*range(10)))
        join.batch(access=table(schema, [(None, 2, 5, True)]))
        assert join.state_rows() == [6, 0]
        join.batch(access=table(schema, [(None, 9, 8, True)]))  # covers nothing
        assert join.state_rows() == [6, 0]
        join.batch(access=table(schema, [(None, None, 0, True)]))  # without a lower bound
        assert join.state_rows() == [5, 0]
        join.batch(access=table(schema, [(None, None, None, True)]))  # everything
        assert join.state_rows() == [0, 0]

    @pytest.mark.parametrize(("bounds", "left"), [({"high": "to"}, 4), ({"low": "to"}, 5), ({}, 0)])
    def test_a_bound_that_is_not_named_leaves_that_side_open(
        self, tmp_path: Path, bounds: dict[str, str], left: int
    ) -> None:
        ranged = Punctuation(when='"end"', **bounds)
        join = joined(tmp_path, access={"punctuation": ranged}, shards=2)
        join.batch(news=news(*range(10)))
        join.batch(access=table(ACCESS, [(None, None, True, 5)]))
        assert join.state_rows() == [left, 0]

    def test_a_pattern_closes_the_keys_that_fit(self, tmp_path: Path) -> None:
        one = pa.schema([("site", pa.string()), ("n", pa.int64()), ("end", pa.bool_())])
        join = LocalJoin(
            {"a": LocalStream(one, punctuation=END), "b": LocalStream(one, punctuation=END)},
            on=["site", "n"],
            goal="memory",
            shards=2,
            folder=str(tmp_path),
        )
        rows = [("x", 1, False), ("x", 2, False), ("y", 1, False)]
        join.batch(a=table(one, rows))
        join.batch(b=table(one, [("x", None, True)]))
        assert join.state_rows() == [1, 0]
        join.batch(a=table(one, [("x", 9, False), ("z", 9, False)]))
        assert join.state_rows() == [2, 0], "of a closed site nothing is stored"
        join.batch(b=table(one, [("y", 1, True)]))
        assert join.state_rows() == [1, 0]
        with pytest.raises(ViolationError, match="'x', 5"):
            join.batch(b=table(one, [("x", 5, False)]))

    def test_one_for_a_key_never_seen_and_the_same_twice(self, tmp_path: Path) -> None:
        join = joined(tmp_path, emit_punctuations=True)
        join.batch(news=news(1), access=access(("end", 77), ("end", 1)))
        join.batch(access=access(("end", 1), ("end", 77)))
        assert join.state_rows() == [0, 0]
        result = join.batch(news=news(77))
        assert result.column("sno").to_pylist() == [77]
        assert result.column("is_punctuation").to_pylist() == [True]

    def test_a_batch_of_nothing_but_punctuations_under_a_watermark(self, tmp_path: Path) -> None:
        instant = pa.timestamp("us", "UTC")
        schema = pa.schema([("k", pa.int64()), ("t", instant), ("end", pa.bool_())])
        stream = LocalStream(schema, time="t", delay="0 seconds", punctuation=END)
        join = LocalJoin({"a": stream, "b": stream}, on="k", goal="memory", folder=str(tmp_path))
        for second in (1, 2):
            join.batch(**dict.fromkeys("ab", table(schema, [(second, at(second), False)])))
        assert join.watermark is not None
        join.batch(a=table(schema, [(2, at(3), True)]))
        assert join.state_rows() == [2, 1]

    def test_null_keys_are_never_unique_nor_closed(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        for _ in range(2):
            assert len(join.batch(news=news(None, None), access=access(None))) == 0
        assert join.state_rows() == [0, 0]


class TestViolations:
    def test_fail_names_stream_key_and_promise(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        join.batch(access=access(("end", 4)))
        with pytest.raises(ViolationError) as raised:
            join.batch(access=access(3, 4))
        message = str(raised.value)
        assert message.startswith("stream 'access' brought 1 row(s)")
        assert "with the key 4: a punctuation has closed it" in message
        assert "violations='drop'" in message

    def test_a_second_row_of_a_unique_key(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        with pytest.raises(ViolationError, match="key 1: unique=True says that a key comes once"):
            join.batch(news=news(1, 2, 1))
        join.batch(news=news(5))
        with pytest.raises(ViolationError, match="key 5"):
            join.batch(news=news(5))

    def test_drop_counts_and_keep_keeps(self, tmp_path: Path) -> None:
        drop = joined(tmp_path / "drop", violations="drop")
        drop.batch(news=news(1, 1), access=access(("end", 2)))
        assert drop.counters.streams[0].violations == 1
        assert len(drop.batch(access=access(1, 2, 2))) == 1
        assert drop.counters.streams[1].violations == 2
        keep = joined(tmp_path / "keep", violations="keep")
        keep.batch(news=news(1, 1), access=access(("end", 2)))
        assert len(keep.batch(access=access(1, 2, 2))) == 2
        assert keep.counters.streams[1].violations == 2

    @pytest.mark.parametrize("violations", ["drop", "keep"])
    def test_a_key_that_is_over_does_not_hide_one_that_comes_twice(
        self, tmp_path: Path, violations: str
    ) -> None:
        both = {"unique": True, "punctuation": END}
        join = joined(tmp_path, news={}, access=both, violations=violations, unbounded=True)
        join.batch(access=access(1, ("end", 2)))
        join.batch(access=access(2, 1, 3, 3, 2, None, None))
        assert join.counters.streams[1].violations == 4
        result = join.batch(news=news(1, 2, 3))
        kept = {"drop": [(1, "ip 0"), (3, "ip 2")]}
        kept["keep"] = sorted([*kept["drop"], (1, "ip 1"), (2, "ip 0"), (2, "ip 4"), (3, "ip 3")])
        assert pairs(result) == kept[violations]

    @pytest.mark.parametrize(
        ("numbers", "key", "promise"),
        [
            ((3, 2, 3), 2, "a punctuation or arrival='clustered' has closed it"),
            ((3, 3, 2), 3, "unique=True says that a key comes once"),
        ],
    )
    def test_of_two_broken_promises_the_first_row_s_is_named(
        self, tmp_path: Path, numbers: tuple[int, ...], key: int, promise: str
    ) -> None:
        all_three = {"unique": True, "arrival": "clustered", "punctuation": END}
        join = joined(tmp_path, news={}, access=all_three, unbounded=True)
        join.batch(access=access(1, ("end", 2)))
        with pytest.raises(ViolationError) as raised:
            join.batch(access=access(*numbers))
        assert "brought 2 row(s)" in str(raised.value)
        assert f"the key {key}: {promise}." in str(raised.value)


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
        join = LocalJoin(streams, on="k", within="6 seconds", how="left", folder=str(tmp_path))
        join.batch(a=table(timed, [(0, at(0), False), (1, at(3), False)]))
        join.batch(a=table(timed, [(9, at(7), False)]), b=table(timed, [(8, at(7), False)]))
        assert join.batch().column("k").to_pylist() == [0]
        # when a punctuation closes both of their keys, then only the other one comes out.
        end = table(timed, [(0, at(8), True), (1, at(8), True)])
        results = [join.batch(b=end), join.batch()]
        assert [key for result in results for key in result.column("k").to_pylist()] == [1]


class TestScheduling:
    def test_what_a_punctuation_is_about_comes_out_first(self, tmp_path: Path) -> None:
        join = joined(tmp_path, goal="early", emit_punctuations=True)
        records = access(5, 6, 7, 5, ("end", 5))
        result = join.batch(news=news(5, 6, 7), access=records)
        assert result.column("sno").to_pylist() == [5, 5, 5, 6, 7]
        assert result.column("is_punctuation").to_pylist() == [False, False, True, False, False]

    def test_rows_of_the_many_side_wait_for_quotas_only(self, tmp_path: Path) -> None:
        """With the one side first nothing of the many side is stored; taken at random,
        some of it is."""
        dropped = {}
        for streams in ("priority", "random"):
            schedule = Schedule(streams, quota=1)
            join = joined(tmp_path / streams, schedule=schedule)
            join.batch(news=news(*range(30)), access=access(*reversed(range(30))))
            assert join.counters.results == 30
            dropped[streams] = join.counters.streams[1].dropped
        whole = joined(tmp_path / "whole")
        whole.batch(news=news(*range(30)), access=access(*reversed(range(30))))
        assert whole.counters.streams[1].dropped == 30
        assert dropped["random"] < 30


class TestPropagation:
    def test_a_punctuation_leaves_when_its_results_have(self, tmp_path: Path) -> None:
        join = joined(tmp_path, emit_punctuations=True)
        first = join.batch(access=access(1, ("end", 1)))
        assert len(first) == 0, "its news may still come"
        second = join.batch(news=news(1))
        assert second.column("is_punctuation").to_pylist() == [False, True]
        assert second.column("sno").to_pylist() == [1, 1]
        assert second.column("title").to_pylist() == ["news 1", None]

    def test_many_to_many_needs_both(self, tmp_path: Path) -> None:
        schema = pa.schema([("k", pa.string()), ("end", pa.bool_())])
        stream = LocalStream(schema, punctuation=END)
        join = LocalJoin(
            {"a": stream, "b": stream},
            on="k",
            goal="memory",
            emit_punctuations=True,
            how="full",
            folder=str(tmp_path),
        )

        def rows(*values: tuple[str, bool]) -> pa.Table:
            return table(schema, list(values))

        assert len(join.batch(a=rows(("x", False), ("x", True)))) == 0
        result = join.batch(b=rows(("x", False), ("x", False), ("x", True)))
        assert result.column("is_punctuation").to_pylist() == [False, False, True, True]
        # A row whose key is over in the other stream is proven unmatched at once.
        join.batch(b=rows(("y", True)))
        lone = join.batch(a=rows(("y", False)))
        assert lone.column("k").to_pylist() == ["y"]
        assert join.state_rows() == [0, 0]

    @pytest.mark.parametrize("how", ["right", "full"])
    def test_it_leaves_after_an_unmatched_row_whose_one_is_too_far_away(
        self, tmp_path: Path, how: str
    ) -> None:
        instant = pa.timestamp("us", "UTC")
        schema = pa.schema([("k", pa.int64()), ("t", instant), ("end", pa.bool_())])
        timed = {"time": "t", "delay": "1 hour"}
        join = LocalJoin(
            {
                "a": LocalStream(schema, unique=True, **timed),
                "b": LocalStream(schema, punctuation=END, **timed),
            },
            on="k",
            within="6 seconds",
            how=how,
            goal="memory",
            emit_punctuations=True,
            folder=str(tmp_path),
        )
        join.batch(b=table(schema, [(1, at(0), False), (1, at(0), True)]))
        result = join.batch(a=table(schema, [(1, at(9), False)]))
        lone = [False] * (2 if how == "full" else 1)
        assert result.column("is_punctuation").to_pylist() == [*lone, True]
        assert join.state_rows() == [0, 0]

    def test_two_joins_in_a_row(self, tmp_path: Path) -> None:
        """The second join's state is purged by what the first hands on."""
        first = joined(tmp_path / "1", emit_punctuations=True)
        schema = pa.schema(
            [("sno", pa.int64()), ("ip", pa.string()), ("is_punctuation", pa.bool_())]
        )
        pages = pa.schema([("sno", pa.int64()), ("page", pa.string())])
        second = LocalJoin(
            {
                "pages": LocalStream(pages, unique=True),
                "read": LocalStream(schema, punctuation=Punctuation(when="is_punctuation")),
            },
            on="sno",
            goal="memory",
            folder=str(tmp_path / "2"),
        )
        found = 0
        for step in range(20):
            result = first.batch(
                news=news(step), access=access(step, step, *([("end", step - 1)] if step else []))
            )
            out = second.batch(
                pages=table(pages, [(step, f"page {step}")]), read=result.select(schema.names)
            )
            found += len(out)
            assert second.state_rows()[0] <= 2
        assert found == 40


# --- at random, against the oracle

#: Of a key that never came, only punctuations and orders tell that it will not.
HOWS = {
    "punctuated": ["inner", "left", "right", "full", "semi", "anti"],
    "unique": ["inner", "left", "semi", "anti"],
    "ordered": ["inner", "left", "semi", "anti"],
    "clustered": ["inner", "semi"],
}
PUNCTUATED = LocalStream(ACCESS, punctuation=END)
LAST = 99
SCHEDULES = [
    None,
    Schedule("random", "sequential", quota=1),
    Schedule("random", "value", quota=2),
    Schedule("priority", "value", quota=3),
    Schedule("priority", "sequential", quota=1),
]


@dataclass(frozen=True)
class History:
    """Batches of two streams that keep their promises; at the end every key is over."""

    how: str
    streams: dict[str, LocalStream]
    batches: list[tuple[list[Any], list[Any]]]
    options: dict[str, Any]
    before: dict[int, Disturbance]


@st.composite
def histories(draw: st.DrawFn) -> History:
    kind = draw(st.sampled_from(["punctuated", "unique", "clustered", "ordered"]))
    make = {"punctuated": _both_punctuated, "unique": _one_to_many}.get(kind, _arriving)
    streams, batches = make(draw, kind)
    options = {
        "goal": draw(st.sampled_from(["memory", "throughput", "early"])),
        "schedule": draw(st.sampled_from(SCHEDULES)),
        "shards": draw(st.integers(1, 3)),
        "tuning": Tuning(index=draw(st.sampled_from(["always", "never"]))),
    }
    number = st.integers(1, len(batches))
    before = draw(st.dictionaries(number, st.sampled_from(Disturbance), max_size=3))
    return History(draw(st.sampled_from(HOWS[kind])), streams, batches, options, before)


def _both_punctuated(draw: st.DrawFn, kind: str) -> Any:
    over: tuple[set[int], set[int]] = (set(), set())
    batches = []
    for _ in range(draw(st.integers(1, 8))):
        both: list[list[Any]] = []
        for closed in over:
            keys = [key for key in range(6) if key not in closed]
            rows = draw(st.lists(st.sampled_from([*keys, None]), max_size=5))
            ends = draw(st.lists(st.integers(0, 5), max_size=2))
            closed |= set(ends)
            both.append([*rows, *(("end", key) for key in ends)])
        batches.append((both[0], both[1]))
    ends = [("end", key) for key in range(6)]
    return {"a": PUNCTUATED, "b": PUNCTUATED}, [*batches, (ends, ends)]


def _one_to_many(draw: st.DrawFn, kind: str) -> Any:
    batches = _cut(draw, draw(st.permutations([*range(6), None, None])), _many(draw))
    ends = [("end", key) for key in range(6)]
    streams = {"a": LocalStream(ACCESS, unique=True), "b": PUNCTUATED}
    return streams, [*batches, ([], ends)]


def _arriving(draw: st.DrawFn, kind: str) -> Any:
    """A unique stream and one whose keys come together, or in order; the last key is none
    of the unique stream's, so that all of them are over."""
    order = list(range(6)) if kind == "ordered" else draw(st.permutations(range(6)))
    many = sorted(_many(draw), key=order.index)
    batches = _cut(draw, draw(st.permutations(range(6))), many)
    streams = {"a": LocalStream(ACCESS, unique=True), "b": LocalStream(ACCESS, arrival=kind)}
    # Later keys, in every shard: a shard knows of no others than its own.
    return streams, [*batches, ([], [*range(80, 90)]), ([], [*range(90, 98)]), ([], [LAST])]


def _many(draw: st.DrawFn) -> list[int]:
    return draw(st.lists(st.integers(0, 5), max_size=20))


def _cut(draw: st.DrawFn, a: list[Any], b: list[Any]) -> list[tuple[list[Any], list[Any]]]:
    """Both cut into as many batches, anywhere."""
    count = draw(st.integers(1, 6))
    ends = [
        [0, *sorted(draw(st.lists(st.integers(0, len(x)), min_size=count, max_size=count))), len(x)]
        for x in (a, b)
    ]
    return [
        (a[ends[0][i] : ends[0][i + 1]], b[ends[1][i] : ends[1][i + 1]]) for i in range(count + 1)
    ]


def test_promises_never_change_the_result() -> None:
    @examples(200)
    @given(history=histories())
    def check(history: History) -> None:
        batches = [{"a": access(*a), "b": access(*b)} for a, b in [*history.batches, ([], [])]]
        options = dict(history.options)
        shards = options.pop("shards")
        join = Join(history.streams, on="sno", how=history.how, further=options)
        outcome = LocalWay().run(join, batches, shards=shards, before=history.before)
        compare(history, batches, outcome.result)

    check()


def compare(history: History, batches: list[dict[str, pa.Table]], result: pa.Table) -> None:
    """The result is the oracle's."""
    sides = {
        name: Stream(pa.concat_tables([data(batch[name]) for batch in batches]), ["sno"])
        for name in "ab"
    }
    expected, found = multiset(sql_join(sides, how=history.how)), multiset(result)
    if history.streams["b"].arrival:
        # Nothing says of an arrival's last key that it is over.
        position = result.schema.get_field_index("sno")
        unproven = [row for row in expected - found if row[position] == LAST]
        for row in unproven:
            del expected[row]
    assert found == expected


def test_when_all_keys_are_over_nothing_is_stored() -> None:
    @examples(60)
    @given(history=histories())
    def check(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            given = {"on": "sno", "how": history.how, "folder": folder, **history.options}
            join = LocalJoin(history.streams, **given)
            for a, b in [*history.batches, ([], [])]:
                join.batch(a=access(*a), b=access(*b))
            if history.streams["b"].arrival != "clustered":
                assert join.state_rows()[0] == 0
            if not history.streams["b"].arrival:
                assert join.state_rows()[1] == 0

    check()


def data(rows: pa.Table) -> pa.Table:
    """The rows that are no punctuations."""
    return rows.filter(pa.compute.invert(rows.column("end")))
