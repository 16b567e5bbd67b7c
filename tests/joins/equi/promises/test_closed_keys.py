"""What closes a key: punctuations of a key, a range or a pattern; order and clusters. What
that costs, and how long it is remembered."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.join import Join, at, table
from tests.conformance.strategies import INSTANT, examples, until_shown
from tests.joins.equi.promises.news import ACCESS, END, NEWS, access, data, joined, news
from tests.limits import with_limits
from tests.oracle import Stream, sql_join
from tests.oracle.compare import assert_same_rows
from tests.state.recording import CountingStore
from watersmeet.errors import ViolationError
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.spec.limits import Limits
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import Tuning
from watersmeet.state.key_segments import KeySegments
from watersmeet.testing import LocalJoin, LocalStream


class TestOrderAndClusters:
    def test_an_ordered_stream_closes_what_is_below_its_newest_key(self, tmp_path: Path) -> None:
        join = joined(tmp_path, access={"arrival": "ordered"})
        join.batch(news=news(1, 2, 3, 4), access=access(1, 1))
        assert join.state_rows() == [4, 0]
        assert len(join.batch(access=access(2, 3, 3))) == 3
        assert join.state_rows() == [2, 0]
        with pytest.raises(ViolationError, match="key 2: arrival='ordered' has closed it"):
            join.batch(access=access(2))

    @pytest.mark.parametrize("greatest", [-(2**63) + 1, -1, 0, 1, 2**63 - 1])
    def test_an_ordered_stream_remembers_its_greatest_key(
        self, tmp_path: Path, greatest: int
    ) -> None:
        join = joined(tmp_path, access={"arrival": "ordered"}, violations="drop")
        join.batch(access=access(greatest))
        join.batch(access=access(greatest, greatest - 1))
        assert join.counters.streams[1].violations == 1

    def test_a_clustered_stream_closes_the_keys_it_has_left(self, tmp_path: Path) -> None:
        join = joined(tmp_path, access={"arrival": "clustered"}, unbounded=True)
        join.batch(news=news(1, 2, 7), access=access(7, 7, 2))
        assert join.state_rows() == [3, 0]
        join.batch(access=access(2, 1))
        assert join.state_rows() == [2, 0]
        with pytest.raises(ViolationError, match="arrival='clustered' has closed it"):
            join.batch(access=access(7))

    def test_a_key_whose_rows_were_late_has_arrived_all_the_same(self, tmp_path: Path) -> None:
        timed = pa.schema([("k", pa.int64()), ("t", INSTANT)])
        streams = {
            "a": LocalStream(timed, time="t", delay="0 seconds", arrival="clustered"),
            "b": LocalStream(timed, time="t", delay="0 seconds"),
        }
        join = LocalJoin(streams, on="k", within="1 hour", folder=str(tmp_path))
        join.batch(a=table(timed, [(1, at(10))]), b=table(timed, [(1, at(10))]))
        # Key 1 comes in every batch; in the second one it is late.
        late = join.batch(a=table(timed, [(1, at(5)), (2, at(11))]), b=table(timed, [(2, at(11))]))
        assert join.counters.streams[0].late == 1
        assert late.num_rows == 1
        assert join.batch(a=table(timed, [(1, at(12))])).num_rows == 1


class TestPunctuations:
    @pytest.mark.parametrize("violations", ["fail", "drop"])
    @pytest.mark.parametrize("pattern", [("x", None), (None, None)])
    def test_a_pattern_never_closes_a_null_key(
        self, tmp_path: Path, violations: str, pattern: tuple[str | None, str | None]
    ) -> None:
        schema = pa.schema([("k", pa.string()), ("l", pa.string()), ("end", pa.bool_())])
        ending = LocalStream(schema, punctuation=Punctuation(when='"end"'))
        join = LocalJoin(
            {"a": ending, "b": ending},
            on=["k", "l"],
            how="left",
            violations=violations,
            folder=str(tmp_path),
        )
        join.batch(a=table(schema, [(*pattern, True)]))
        # A null key matches nothing, and comes out at once.
        result = join.batch(a=table(schema, [("x", None, False)]))
        assert result.column("k").to_pylist() == ["x"]
        assert join.counters.streams[0].violations == 0

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


# --- what it costs to close keys, and for how long they are remembered

KEYED = pa.schema([("k", pa.string()), ("l", pa.int64()), ("end", pa.bool_())])
NUMBERED = pa.schema([("k", pa.int64()), ("l", pa.int64()), ("end", pa.bool_())])


@dataclass(frozen=True)
class Kind:
    """A join whose first stream closes keys at random, and what it does with them."""

    schema: pa.Schema = KEYED
    pattern: bool = False
    options: Mapping[str, Any] = field(default_factory=lambda: {"goal": "memory"})

    def rows(self, numbers: range, *, end: bool) -> pa.Table:
        """Rows or punctuations of such keys."""
        scattered = pa.array([number * 7919 % 1_000_003 for number in numbers], pa.int64())
        wild = end and self.pattern
        columns = [
            scattered.cast(self.schema.field("k").type),
            pa.nulls(len(numbers), pa.int64()) if wild else scattered,
            pa.array([end] * len(numbers)),
        ]
        return pa.table(columns, schema=self.schema)


KINDS = {
    "hashed": Kind(),
    "exact": Kind(NUMBERED),
    "patterns": Kind(pattern=True),
    "unpurged": Kind(options={"tuning": Tuning(purge_after=10**6)}),
    "waiting": Kind(options={"goal": "memory", "emit_punctuations": True}),
}


@pytest.mark.parametrize(
    ("kind", "shards"), [*((kind, 1) for kind in KINDS), ("hashed", 3), ("exact", 3)]
)
def test_a_punctuation_writes_what_is_new_however_many_there_were(
    tmp_path: Path, kind: str, shards: int
) -> None:
    # Given a stream that has closed 1,000 or 200,000 keys,
    given = KINDS[kind]
    stream = LocalStream(given.schema, punctuation=END)
    on = ["k", "l"] if given.pattern else "k"
    options: dict[str, Any] = {"on": on, "violations": "drop", "shards": shards, **given.options}
    streams = {"a": stream, "b": stream}
    join = LocalJoin(streams, folder=str(tmp_path), **options)
    stores = [CountingStore() for _ in range(shards)]
    join.run.stores = [*stores]
    idle = table(given.schema, [(None, None, False)])  # so that nothing is purged for a pause
    closed, costs = 0, []
    for size in (1_000, 200_000):
        while closed < size:
            more = range(closed, min(size, closed + 10_000))
            join.batch(a=given.rows(more, end=True), b=idle)
            closed = more.stop
        # when more are closed, ten at a time, and the query is started again in the middle,
        before = sum(store.written for store in stores)
        for step in range(40):
            if step == 20:
                join = LocalJoin(streams, restart=join, **options)
            join.batch(a=given.rows(range(closed, closed + 10), end=True), b=idle)
            closed += 10
        costs.append((sum(store.written for store in stores) - before) / 40 / shards)
    # then a shard writes about as much for them: the names of a few more segments.
    assert costs[1] < 3 * costs[0]
    assert costs[1] < 50_000, "all of it would be millions"
    # And every one is known.
    join.batch(a=given.rows(range(0, closed, 501), end=False))
    assert join.counters.streams[0].violations == len(range(0, closed, 501))


TIMED = pa.schema([*KEYED, ("t", INSTANT)])


def windowed(folder: Path, **options: Any) -> LocalJoin:
    """Streams with times, a delay of 2 seconds, and windows of 3 and 6: a closed key is
    remembered for 8."""
    times: dict[str, Any] = {"time": "t", "delay": "2 seconds"}
    streams = {
        "a": LocalStream(TIMED, punctuation=END, **times),
        "b": LocalStream(TIMED, **times),
    }
    within = {"a": "3 seconds", "b": "6 seconds"}
    options = {"on": ["k", "l"], "within": within, "goal": "memory", **options}
    return LocalJoin(streams, folder=str(folder), **options)


def second(number: float, *keys: tuple[str, int | None], end: bool = False) -> pa.Table:
    return table(TIMED, [(*key, end, at(number)) for key in keys])


def remembered(join: LocalJoin) -> int:
    """How many closed keys and patterns the shards know."""
    states = [join.run.state(number) for number in range(len(join.stores))]
    sets = [KeySegments(state, name) for state in states for name in set(state.names(""))]
    return sum(len(keys.whole().low) for keys in sets)


@pytest.mark.parametrize(("shards", "recent"), [(1, 0), (1, 128), (3, 128)])
def test_with_a_window_what_is_known_of_closed_keys_is_bounded(
    tmp_path: Path, shards: int, recent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalJoin, "limits", Limits(recent_ranges=recent))
    join, known, sizes = windowed(tmp_path, shards=shards), [], []
    # Given a key, and a pattern, that are closed every second, while others come,
    for number in range(120):
        if number in (30, 77):
            join = windowed(tmp_path, shards=shards, restart=join)
        closed = second(number, (f"{number}", 1), (f"{number}", None), end=True)
        rows = second(number, (f"{number + 1}", 1))
        join.batch(a=pa.concat_tables([rows, closed]), b=rows)
        known.append(remembered(join))
        sizes.append(sum(sum(map(len, store.values.values())) for store in join.stores))
    # then each is remembered for 8 seconds, a quarter longer at most, and until the watermark, 3
    # seconds behind, has moved. (A pattern is told to every shard.)
    assert 8 * (1 + shards) <= min(known[20:]) <= max(known) <= 15 * (1 + shards)
    assert max(sizes[60:]) <= 1.1 * max(sizes[20:60])


@pytest.mark.parametrize("key", [("x", 1), ("x", None)])
@pytest.mark.parametrize(
    ("moved", "recent", "seen"),
    [(0, 0, 1), (7.999, 0, 1), (8, 0, 0), (9, 0, 0), (7.999, 128, 1), (17, 128, 0)],
)
def test_a_broken_promise_is_seen_while_the_closed_key_is_remembered(
    tmp_path: Path,
    key: tuple[str, int | None],
    moved: float,
    recent: int,
    seen: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LocalJoin, "limits", Limits(recent_ranges=recent))
    join = windowed(tmp_path, violations="drop")
    join.batch(a=second(10, ("other", 1)), b=second(10, ("other", 1)))
    # Given a key that is closed, and the next watermark, which is 8,
    join.batch(a=second(10, key, end=True))
    join.batch()
    # when the watermark has moved by that many seconds, and a micro-batch has run under it,
    for way in (moved / 2, moved):
        later = second(10 + way, ("other", 1))
        join.batch(a=later, b=later)
        join.batch()
    # then a row of the key is seen to break its promise, or is not.
    join.batch(a=second(30, ("x", 1)))
    assert join.counters.streams[0].violations == seen


def test_without_a_window_or_if_punctuations_are_handed_on_nothing_is_forgotten(
    tmp_path: Path,
) -> None:
    streams = {
        name: LocalStream(TIMED, time="t", delay="2 seconds", punctuation=END) for name in "ab"
    }
    handed_on: dict[str, Any] = {"within": "1 second", "emit_punctuations": True}
    for options in ({}, handed_on):
        folder = str(tmp_path / str(len(options)))
        join = LocalJoin(streams, on=["k", "l"], goal="memory", folder=folder, **options)
        join.batch(a=second(0, ("x", 1), ("y", None), end=True))
        for number in (0, 1000, 2000, 3000):
            join.batch(a=second(number, ("z", 1)), b=second(number, ("z", 2)))
        with pytest.raises(ViolationError, match=r"brought 2 row\(s\).*the key \('x', 1\)"):
            join.batch(a=second(3000, ("x", 1), ("y", 7)))


# --- at random, with a window


#: New rows of both streams, for each batch.
Sides = list[tuple[list[Any], list[Any]]]


@st.composite
def closings(draw: st.DrawFn) -> tuple[str, int, set[int], Sides]:
    """Rows of both streams, two seconds a batch, and the keys that they close and bring no more."""
    keys = st.tuples(st.sampled_from("xyz"), st.integers(0, 1))
    patterns = st.tuples(st.sampled_from([*"xyz", None]), st.sampled_from([0, 1, None]))
    row = st.tuples(keys, st.integers(-1, 1))
    side = st.tuples(st.lists(row, max_size=4), st.lists(patterns, max_size=1))
    batches = draw(st.lists(st.tuples(side, side), min_size=1, max_size=12))
    kept = []
    closed: tuple[list[Any], list[Any]] = ([], [])
    for number, sides in enumerate(batches):
        both = []
        for known, (rows, ends) in zip(closed, sides, strict=True):
            values = [
                (*key, False, at(2 * number + offset))
                for key, offset in rows
                if not any(fits(key, pattern) for pattern in known)
            ]
            known += ends
            both.append([*values, *((*end, True, None) for end in ends)])
        kept.append((both[0], both[1]))
    restarts = draw(st.sets(st.integers(1, 12), max_size=2))
    return draw(st.sampled_from(JOIN_NAMES)), draw(st.integers(1, 3)), restarts, kept


def fits(key: tuple[Any, ...], pattern: tuple[Any, ...]) -> bool:
    return all(fixed in (None, value) for value, fixed in zip(key, pattern, strict=True))


def test_forgetting_never_changes_the_result() -> None:
    forgotten = 0

    @examples(120)
    @given(case=closings(), recent=st.sampled_from([0, 2, 128]))
    def check(case: tuple[str, int, set[int], Sides], recent: int) -> None:
        nonlocal forgotten
        how, shards, restarts, batches = case
        stream = LocalStream(TIMED, time="t", delay=timedelta(seconds=2), punctuation=END)
        streams = {"a": stream, "b": stream}
        window = timedelta(seconds=1)
        tables = [
            {name: table(TIMED, side) for name, side in zip("ab", batch, strict=True)}
            for batch in batches
        ]
        options: dict[str, Any] = {"on": ["k", "l"], "within": window, "how": how, "shards": shards}
        results, known = [], 0
        with (
            tempfile.TemporaryDirectory() as folder,
            with_limits(recent_ranges=recent),
        ):
            join = LocalJoin(streams, folder=folder, **options)
            for number, batch in enumerate(tables):
                if number in restarts:
                    join = LocalJoin(streams, restart=join, **options)
                results.append(join.batch(**batch))
                forgotten += remembered(join) < known
                known = remembered(join)
            results.append(join.finish())
        accepted = Join(streams, on=["k", "l"]).arrivals(tables).accepted
        micros = window // timedelta(microseconds=1)
        sides = {
            name: Stream(data(rows), ["k", "l"], "t", micros) for name, rows in accepted.items()
        }
        assert_same_rows(pa.concat_tables(results), sql_join(sides, how=how))

    until_shown(check, lambda: forgotten > 20, "closed keys forgotten")
