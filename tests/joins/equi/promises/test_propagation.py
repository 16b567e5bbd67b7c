"""Punctuations that are handed on: never before what they cover, and in the end all.

At random, streams are punctuated, by single keys and by ranges, or unique, or both. Rows of a
micro-batch have no order that a consumer could rely on, so what counts are the results of later
ones.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.metadata.schedules import ScheduledJoin
from tests.conformance.join import Join, at, table
from tests.conformance.strategies import INSTANT, examples, until_shown
from tests.joins.equi.promises.news import END as ACCESS_END
from tests.joins.equi.promises.news import access, data, joined, news
from tests.limits import with_limits
from tests.oracle import Stream, sql_join
from tests.oracle.compare import assert_same_rows
from watersmeet.spec.budget import Budget
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import IndexChoice, Tuning
from watersmeet.state.manifest import Manifest
from watersmeet.testing import LocalJoin, LocalStream

COLUMNS = [("k", pa.int64()), ("n", pa.int64()), ("t", INSTANT), ("end", pa.bool_())]
SCHEMA = pa.schema([*COLUMNS, ("low", pa.int64()), ("high", pa.int64())])
END = Punctuation(when='"end"', low="low", high="high")
KEYS = 12
WITHIN, DELAY = timedelta(seconds=2), timedelta(seconds=3)


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
        stream = LocalStream(schema, punctuation=ACCESS_END)
        join = ScheduledJoin(
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
        timed: dict[str, Any] = {"time": "t", "delay": "1 hour"}
        join = ScheduledJoin(
            {
                "a": LocalStream(schema, unique=True, **timed),
                "b": LocalStream(schema, punctuation=ACCESS_END, **timed),
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
        second = ScheduledJoin(
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


# --- at random

#: A row of a key, with a second after the batch's or none; or the keys from low to high being over.
Row = tuple[int, int | None]
End = tuple[int, int]


@dataclass(frozen=True)
class Promise:
    """What a stream promises about its keys."""

    unique: bool
    punctuated: bool


@dataclass(frozen=True)
class Side:
    """What one stream brings in a batch."""

    rows: list[Row]
    ends: list[End]


@dataclass(frozen=True)
class History:
    """Batches of two streams that keep their promises. At the end every key is over, or has come
    if it is unique and the stream has no punctuations."""

    promises: tuple[Promise, Promise]
    timed: bool
    how: str
    batches: list[tuple[Side, Side]]
    options: dict[str, Any]
    restarts: set[int]
    recent: int

    @property
    def streams(self) -> dict[str, LocalStream]:
        timed: dict[str, Any] = {"time": "t", "delay": DELAY} if self.timed else {}
        return {
            name: LocalStream(
                SCHEMA,
                unique=promise.unique,
                punctuation=END if promise.punctuated else None,
                **timed,
            )
            for name, promise in zip("ab", self.promises, strict=True)
        }

    @property
    def tables(self) -> list[dict[str, pa.Table]]:
        return [
            {name: rows(number, side) for name, side in zip("ab", batch, strict=True)}
            for number, batch in enumerate(self.batches)
        ]

    def handed_on(self, stream: int) -> Counter[End]:
        """The punctuations of a stream that must leave: those that close something new. Those of
        more than one key only if the other stream has punctuations, which tell every shard."""
        closed: set[int] = set()
        told: set[int] = set()
        leaving: Counter[End] = Counter()
        for batch in self.batches:
            ends = set(batch[stream].ends)
            for low, high in ends:
                keys = set(range(low, high + 1))
                known = closed if low == high or self.options["shards"] == 1 else told
                if not keys <= known and (low == high or self.promises[1 - stream].punctuated):
                    leaving[low, high] += 1
            closed |= {key for low, high in ends for key in range(low, high + 1)}
            told |= {key for low, high in ends if low < high for key in range(low, high + 1)}
        return leaving


@st.composite
def histories(draw: st.DrawFn) -> History:
    both = st.sampled_from([Promise(False, True), Promise(True, True), Promise(True, False)])
    promises = draw(st.tuples(both, both).filter(lambda p: p[0].punctuated or p[1].punctuated))
    timed = draw(st.booleans())
    second = st.sampled_from([-9, -2, 0, 1, 3, None]) if timed else st.none()
    closed: tuple[set[int], set[int]] = (set(), set())
    come: tuple[set[int], set[int]] = (set(), set())
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        sides = []
        for stream, promise in enumerate(promises):
            barred = closed[stream] | (come[stream] if promise.unique else set())
            keys = [key for key in range(KEYS) if key not in barred]
            chosen = st.lists(st.sampled_from(keys), max_size=5, unique=promise.unique)
            brought = draw(chosen) if keys else []
            come[stream].update(brought)
            ends = draw(st.lists(_ends(), max_size=3)) if promise.punctuated else []
            closed[stream].update(key for low, high in ends for key in range(low, high + 1))
            sides.append(Side([(key, draw(second)) for key in brought], ends))
        batches.append((sides[0], sides[1]))
    last = [
        Side([], [(-1, KEYS)])
        if promise.punctuated
        else Side([(key, draw(second)) for key in range(KEYS) if key not in come[stream]], [])
        for stream, promise in enumerate(promises)
    ]
    return History(
        promises,
        timed,
        draw(st.sampled_from(_provable(promises, timed))),
        [*batches, (last[0], last[1]), (Side([], []), Side([], []))],
        draw(_options(timed)),
        draw(st.sets(st.integers(1, 6), max_size=2)),
        draw(st.sampled_from([0, 2, 128])),
    )


@st.composite
def _ends(draw: st.DrawFn) -> End:
    low = draw(st.integers(0, KEYS - 1))
    return low, draw(st.sampled_from([low, low, min(low + 3, KEYS - 1), KEYS - 1]))


@st.composite
def _options(draw: st.DrawFn, timed: bool) -> dict[str, Any]:
    goal = draw(st.sampled_from(["memory", "throughput", "early"]))
    purge_after = draw(st.sampled_from([2, 5])) if goal == "throughput" else None
    index: IndexChoice = draw(st.sampled_from(["always", "never"]))
    options = {
        "goal": goal,
        "shards": draw(st.integers(1, 3)),
        "tuning": Tuning(purge_after=purge_after, index=index),
        "within": WITHIN if timed else None,
    }
    if timed and goal == "early" and draw(st.booleans()):
        options["budget"] = Budget(memory=draw(st.sampled_from([300, 1500])))
    return options


def _provable(promises: tuple[Promise, Promise], timed: bool) -> list[str]:
    """The join types that can tell which rows match nothing."""
    left, right = timed or promises[1].punctuated, timed or promises[0].punctuated
    proven = {"inner": True, "left": left, "right": right, "full": left and right}
    return [how for how, possible in proven.items() if possible]


def rows(number: int, side: Side) -> pa.Table:
    values: list[tuple[Any, ...]] = []
    for place, (key, second) in enumerate(side.rows):
        time = None if second is None else at(2 * number + second)
        values.append((key, place, time, False, None, None))
    for place, (low, high) in enumerate(side.ends):
        bounds = (low, None, None) if low == high else (None, low, high)
        values.append((bounds[0], place, None, True, *bounds[1:]))
    return table(SCHEMA, values)


def covered(row: dict[str, Any]) -> tuple[int, End]:
    """Which stream a punctuation among the results is of, and what it is about."""
    for stream, side in enumerate("ab"):
        if row[f"{side}_end"]:
            bounds = row[f"{side}_low"], row[f"{side}_high"]
            return stream, ((row["k"], row["k"]) if row["k"] is not None else bounds)
    raise AssertionError(f"a punctuation of no stream: {row}")


def test_all_punctuations_leave_each_after_all_that_it_covers() -> None:
    shown: Counter[str] = Counter()

    @examples(120)
    @given(history=histories())
    def check(history: History) -> None:
        results = run(history)
        over: Counter[tuple[int, End]] = Counter()
        for number, result in enumerate(results):
            found = result.to_pylist()
            for row in found:
                if not row["is_punctuation"]:
                    late = [end for _, end in over if end[0] <= row["k"] <= end[1]]
                    assert not late, f"batch {number}: key {row['k']} after {late}"
            over.update(covered(row) for row in found if row["is_punctuation"])
        for stream in (0, 1):
            left = Counter({end: n for (of, end), n in over.items() if of == stream})
            assert left == history.handed_on(stream)
        shown.update([f"unique: {[promise.unique for promise in history.promises]}"])
        shown["timed"] += history.timed
        whole = pa.concat_tables(results)
        whole = whole.filter(pc.invert(whole.column("is_punctuation")))
        assert_same_rows(whole.drop_columns("is_punctuation"), expected(history))

    until_shown(check, lambda: len(shown) == 5, "unique keys on either side, on both, on none")


def run(history: History) -> list[pa.Table]:
    """The results of the batches and of the end of time. In between nothing is left waiting."""
    given: dict[str, Any] = {"on": "k", "how": history.how, "emit_punctuations": True}
    results = []
    with (
        tempfile.TemporaryDirectory() as folder,
        with_limits(recent_ranges=history.recent),
    ):
        given |= {"folder": folder, **history.options}
        join = ScheduledJoin(history.streams, **given)
        for number, tables in enumerate(history.tables):
            if number in history.restarts:
                join = ScheduledJoin(history.streams, restart=join, **given)
            results.append(join.batch(**tables))
        assert waiting(join) == []
        return [*results, join.finish()]


def waiting(join: LocalJoin) -> list[str]:
    """Where punctuations wait to be handed on."""
    manifests = [Manifest.from_bytes(store.values["manifest"]) for store in join.stores]
    return [name for manifest in manifests for name in manifest.named if "/waiting" in name]


def expected(history: History) -> pa.Table:
    """The oracle's result over the rows that are not late."""
    given = history.tables
    accepted = {name: pa.concat_tables([batch[name] for batch in given]) for name in "ab"}
    if history.timed:
        accepted = Join(history.streams, on="k").arrivals(given).accepted
    window = WITHIN // timedelta(microseconds=1) if history.timed else None
    sides = {
        name: Stream(data(given), ["k"], "t" if history.timed else None, window)
        for name, given in accepted.items()
    }
    return sql_join(sides, how=history.how)


# --- what used to wait for ever


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("shards", [1, 3])
def test_both_streams_unique_and_their_rows_long_gone(
    tmp_path: Path, how: str, shards: int
) -> None:
    # Given unique rows that leave in pairs,
    unique = LocalStream(SCHEMA, unique=True, punctuation=END)
    options: dict[str, Any] = {"goal": "memory", "emit_punctuations": True, "shards": shards}
    join = ScheduledJoin(
        {"a": unique, "b": unique}, on="k", how=how, folder=str(tmp_path), **options
    )
    for first in range(0, 300, 100):
        keys: list[Row] = [(key, None) for key in range(first, first + 100)]
        assert len(join.batch(a=rows(0, Side(keys, [])), b=rows(0, Side(keys, [])))) == 100
    assert join.state_rows() == [0, 0]
    # when one stream's keys are closed, then its punctuations leave at once.
    for first in range(0, 300, 100):
        ends = [(key, key) for key in range(first, first + 100)]
        result = join.batch(a=rows(0, Side([], ends)))
        assert result.column("is_punctuation").to_pylist() == [True] * 100
        assert waiting(join) == []


@pytest.mark.parametrize("gone", ["late", "expired", "without time"])
def test_a_unique_row_has_come_whatever_became_of_it(tmp_path: Path, gone: str) -> None:
    timed: dict[str, Any] = {"time": "t", "delay": "0 seconds"}
    streams = {
        "a": LocalStream(SCHEMA, punctuation=END, **timed),
        "b": LocalStream(SCHEMA, unique=True, **timed),
    }
    join = ScheduledJoin(
        streams,
        on="k",
        within="1 second",
        emit_punctuations=True,
        goal="memory",
        folder=str(tmp_path),
    )
    # Given a watermark of 10 seconds, and a unique row of key 1 that has left before or after,
    early = [(1, 0)] if gone == "expired" else []
    join.batch(a=rows(0, Side([(8, 0)], [])), b=rows(0, Side([(8, 0), *early], [])))
    join.batch(a=rows(0, Side([(9, 10)], [])), b=rows(0, Side([(9, 10)], [])))
    now: dict[str, list[Row]] = {"late": [(1, 5)], "without time": [(1, None)]}
    join.batch(b=rows(0, Side(now.get(gone, []), [])))
    assert join.counters.streams[1].late == (gone == "late")
    # when its key is closed in the other stream, then the punctuation leaves.
    assert join.batch(a=rows(0, Side([], [(1, 1)]))).column("k").to_pylist() == [1]
    assert waiting(join) == []


@pytest.mark.parametrize("arrival", ["clustered", "ordered"])
@pytest.mark.parametrize("shards", [1, 2])
def test_the_order_of_arrival_answers_what_waits(tmp_path: Path, arrival: Any, shards: int) -> None:
    # Given punctuations that wait for a stream whose keys come together, or in order,
    streams = {
        "a": LocalStream(SCHEMA, punctuation=END),
        "b": LocalStream(SCHEMA, arrival=arrival),
    }
    options: dict[str, Any] = {"goal": "memory", "emit_punctuations": True, "shards": shards}
    join = ScheduledJoin(streams, on="k", folder=str(tmp_path), **options)
    ends = [(key, key) for key in range(20)]
    assert len(join.batch(a=rows(0, Side([], ends)), b=rows(0, Side([(0, None)], [])))) == 0
    # when its keys go on, step by step, and the last ones are later keys of every shard,
    left: Counter[int] = Counter()
    for first in range(0, 60, 10):
        brought: list[Row] = [(key, None) for key in range(first, first + 10)]
        result = join.batch(b=rows(0, Side(brought, [])))
        left.update(result.filter(result.column("is_punctuation")).column("k").to_pylist())
        assert all(key < first + 10 for key in left)
    # then each punctuation leaves, once.
    assert left == Counter(range(20))
    assert waiting(join) == []


@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_punctuation_waits_for_no_purge(tmp_path: Path, how: str) -> None:
    # Given two streams that are purged after three punctuations, one after the other,
    stream = LocalStream(SCHEMA, punctuation=END)
    join = ScheduledJoin(
        {"a": stream, "b": stream},
        on="k",
        how=how,
        emit_punctuations=True,
        tuning=Tuning(purge_after=3),
        folder=str(tmp_path),
    )
    for step in range(20):
        # when one key is over in a, and that of the step before in b, while rows of others come,
        ends = ([(step, step)], [(step - 1, step - 1)] if step else [])
        sides = [Side([(step + 1, None)], end) for end in ends]
        result = join.batch(a=rows(0, sides[0]), b=rows(0, sides[1]))
        # then both punctuations of a key leave when the second one comes.
        over = result.filter(result.column("is_punctuation")).column("k").to_pylist()
        assert over == ([step - 1] * 2 if step else [])


def test_a_pattern_answers_punctuations_of_its_keys_and_of_narrower_patterns(
    tmp_path: Path,
) -> None:
    schema = pa.schema([*((name, pa.string()) for name in "xyz"), ("end", pa.bool_())])
    stream = LocalStream(schema, punctuation=Punctuation(when='"end"'))
    join = ScheduledJoin(
        {"a": stream, "b": stream},
        on=["x", "y", "z"],
        goal="memory",
        emit_punctuations=True,
        shards=2,
        folder=str(tmp_path),
    )
    # Given punctuations of a key, of a pattern, and of one that is too wide,
    ends = [("1", "2", "3"), ("1", None, "4"), (None, "2", None), ("9", "9", "9")]
    assert len(join.batch(a=table(schema, [(*end, True) for end in ends]))) == 0
    # when the other stream closes a pattern that has all keys of the first two,
    result = join.batch(b=table(schema, [("1", None, None, True)]))
    # then these leave, and the others wait.
    found = [tuple(row[name] for name in "xyz") for row in result.to_pylist()]
    assert sorted(found, key=str) == sorted(ends[:2], key=str)
    # When it closes everything, they all leave; and what is no news does not come again.
    result = join.batch(b=table(schema, [(None, None, None, True)]))
    assert result.num_rows == 2
    assert (
        join.batch(b=table(schema, [("1", "1", None, True), ("1", "1", "1", True)])).num_rows == 0
    )
    result = join.batch(a=table(schema, [(None, None, None, True)]))
    assert result.num_rows == 3, "now all of b's have left too"
    assert waiting(join) == []


def test_a_range_that_nobody_can_answer_does_not_wait(tmp_path: Path) -> None:
    streams = {
        "a": LocalStream(SCHEMA, punctuation=END),
        "b": LocalStream(SCHEMA, unique=True),
    }
    join = ScheduledJoin(streams, on="k", emit_punctuations=True, shards=2, folder=str(tmp_path))
    for first in range(0, 100, 10):
        join.batch(a=rows(0, Side([], [(first, first + 9)])))
    assert waiting(join) == []


def test_a_pattern_leaves_once_though_every_shard_takes_it(tmp_path: Path) -> None:
    # Given two streams of visits to sites, in three shards,
    schema = pa.schema([("site", pa.string()), ("n", pa.int64()), ("end", pa.bool_())])
    stream = LocalStream(schema, punctuation=Punctuation(when='"end"'))
    join = ScheduledJoin(
        {"a": stream, "b": stream},
        on=["site", "n"],
        how="full",
        goal="throughput",
        emit_punctuations=True,
        shards=3,
        folder=str(tmp_path),
    )
    visits = [("x", n, False) for n in range(30)]
    assert len(join.batch(a=table(schema, [*visits, ("x", None, True)]))) == 0
    # when a site is over in the other stream too,
    result = join.batch(b=table(schema, [*visits[:20], ("x", None, True)]))
    # then its punctuations leave once each, with all results.
    assert result.column("is_punctuation").to_pylist().count(True) == 2
    assert result.filter(pc.invert(result.column("is_punctuation"))).num_rows == 30
    assert join.state_rows() == [0, 0]
    assert len(join.batch()) == 0
