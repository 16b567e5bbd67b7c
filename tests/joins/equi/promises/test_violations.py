"""Streams that break their promises: what the operator can see of it, it sees.

At random,
:class:`Model` says, in plain Python over keys, which rows are violations that an operator
sees: rows of a key that is over in the shard, and rows of a unique key while an earlier
one is stored. What comes out is compared with the oracle's result over the rows let in.
Keys for which a promise was broken unseen (their first row had left) or, if violations are
kept, seen, may lack results, as their rows leave early; all other keys are complete.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.conformance.join import at, table
from tests.conformance.strategies import INSTANT, examples
from tests.joins.equi.promises.news import END as ACCESS_END
from tests.joins.equi.promises.news import access, joined, news, pairs
from tests.oracle import Stream, sql_join
from tests.oracle.compare import multiset
from watersmeet.errors import ViolationError
from watersmeet.rows.shard import Shard
from watersmeet.rows.stored_keys import same_keys
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import Tuning
from watersmeet.spec.windowed import GOALS
from watersmeet.testing import LocalJoin, LocalStream

_COLUMNS = {"k": pa.int64(), "n": pa.int64(), "end": pa.bool_()}
SCHEMA = pa.schema(_COLUMNS | {"low": pa.int64(), "high": pa.int64()})
END = Punctuation(when='"end"', low="low", high="high")
FAR = 10**9


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
        both = {"unique": True, "punctuation": ACCESS_END}
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
        all_three = {"unique": True, "arrival": "clustered", "punctuation": ACCESS_END}
        join = joined(tmp_path, news={}, access=all_three, unbounded=True)
        join.batch(access=access(1, ("end", 2)))
        with pytest.raises(ViolationError) as raised:
            join.batch(access=access(*numbers))
        assert "brought 2 row(s)" in str(raised.value)
        assert f"the key {key}: {promise}." in str(raised.value)

    def test_what_is_a_violation_does_not_depend_on_when_rows_leave(self, tmp_path: Path) -> None:
        # Given unique rows, of which one has expired and one has a key that is closed,
        timed = pa.schema([("k", pa.int64()), ("at", INSTANT), ("end", pa.bool_())])
        given: dict[str, Any] = {"time": "at", "delay": "0 seconds"}
        streams = {
            "a": LocalStream(timed, unique=True, **given),
            "b": LocalStream(timed, punctuation=ACCESS_END, **given),
        }
        indexes: list[Any] = ["always", "never"]
        for goal, index in itertools.product(GOALS, indexes):
            tuning = Tuning(index=index, invalidation="lazy" if goal == "throughput" else "active")
            join = LocalJoin(
                streams,
                on="k",
                within="5 seconds",
                goal=goal,
                tuning=tuning,
                folder=str(tmp_path / f"{goal} {index}"),
            )
            rows = [(0, at(10), False), (1, at(14), False), (2, at(14), False)]
            join.batch(a=table(timed, rows))
            others = [(9, at(16), False), (1, at(11), True)]
            join.batch(a=table(timed, [(9, at(16), False)]), b=table(timed, others))
            later = [(3, at(16), False)]
            join.batch(a=table(timed, later), b=table(timed, later))
            # when they come again, then no goal and no way to work calls that a violation;
            join.batch(a=table(timed, [(0, at(17), False), (1, at(17), False)]))
            # but a row that may still match is repeated.
            with pytest.raises(ViolationError, match="key 2: unique=True"):
                join.batch(a=table(timed, [(2, at(17), False)]))

    def test_keys_that_come_again_and_again_are_looked_for_once(self, tmp_path: Path) -> None:
        both = {"unique": True, "punctuation": ACCESS_END}
        options: dict[str, Any] = {"unbounded": True, "tuning": Tuning(index="always")}
        join = joined(tmp_path, news={}, access=both, violations="keep", **options)
        compared = 0

        def counting(layout: Any, ours: Any, others: Any, mine: Any, theirs: Any) -> Any:
            nonlocal compared
            compared += len(mine)
            return same_keys(layout, ours, others, mine, theirs)

        with patch("watersmeet.joins.equi.promises.violations.same_keys", counting):
            for _ in range(8):
                join.batch(access=access(*[7] * 500))
        assert join.counters.streams[1].violations == 500
        assert compared <= 8 * 501


# --- at random, against a model and the oracle


@dataclass(frozen=True)
class End:
    """A punctuation: the keys from low to high are over."""

    low: int
    high: int


Item = int | None | End
Batch = tuple[list[Item], list[Item]]


@dataclass(frozen=True)
class History:
    """Two streams, their batches, and before which of them the join is started again."""

    streams: tuple[LocalStream, LocalStream]
    how: str
    batches: list[Batch]
    goal: str
    shards: int
    restarts: set[int]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        lines = [f"{self.how}, goal {self.goal}, {self.shards} shards, starts {self.restarts}"]
        lines += [
            f"unique {s.unique}, arrival {s.arrival}, punctuated {bool(s.punctuation)}"
            for s in self.streams
        ]
        printer.text("\n".join([*lines, *map(str, self.batches)]))


@dataclass
class Side:
    """What is known of one stream in one shard: the ranges that are over, the newest keys,
    the greatest, and of each key the rows that are stored, and whether any was let in."""

    stream: LocalStream
    over: list[tuple[int, int]] = field(default_factory=list)
    newest: set[int] = field(default_factory=set)
    stored: Counter[int] = field(default_factory=Counter)
    known: set[int] = field(default_factory=set)

    def closed(self, key: int | None) -> bool:
        return key is not None and any(low <= key <= high for low, high in self.over)

    def broken(self, keys: list[int | None], other: Side) -> list[str | None]:
        """For each new row, the promise that it breaks, if that can be seen: not by a row that has
        become useless, whether it is stored or not."""
        return [
            "closed"
            if self.closed(key)
            else "unique"
            if self.stream.unique
            and key is not None
            and not other.closed(key)
            and (self.stored[key] or key in keys[:position])
            else None
            for position, key in enumerate(keys)
        ]

    def arrive(self, keys: set[int]) -> None:
        if keys and self.stream.arrival == "ordered":
            self.over.append((-FAR, max(keys) - 1))
        elif keys and self.stream.arrival == "clustered":
            self.over += [(key, key) for key in self.newest - keys]
            self.newest = keys


@dataclass(frozen=True)
class FirstViolationError(Exception):
    """The first violation, where the join has to stop."""

    stream: int
    key: int | None
    promise: str
    count: int


class Model:
    """What the operator does with keys. ``let_in[s]`` are the accepted rows of stream s,
    ``violations[s]`` how many it counts in the batch, ``seen`` and ``unseen`` the keys of
    which a promise was broken."""

    def __init__(self, history: History, policy: str) -> None:
        self.history, self.policy = history, policy
        self.shards = [[Side(s) for s in history.streams] for _ in range(history.shards)]
        self.let_in: list[list[tuple[int | None, int]]] = [[], []]
        self.violations = [0, 0]
        self.seen: set[int] = set()
        self.unseen: set[int] = set()

    def batch(self, number: int, batch: Batch) -> None:
        self.violations = [0, 0]
        for shard, sides in enumerate(self.shards):
            kept = [self._checked(sides, s, number, batch[s], shard) for s in (0, 1)]
            for s in sorted((0, 1), key=lambda s: not sides[s].stream.unique):
                self._store(sides, s, Counter(kept[s]))
            for side, keys, items in zip(sides, kept, batch, strict=True):
                side.arrive({key for key in keys if key is not None})
                if side.stream.punctuation:
                    ends = [i for i in items if isinstance(i, End) and self._here(i, shard)]
                    side.over += [(end.low, end.high) for end in ends]
            if self.history.goal != "throughput" or not any(kept):
                for side, other in (sides, sides[::-1]):
                    for key in list(side.stored):
                        if other.closed(key):
                            del side.stored[key]

    def _here(self, item: Item, shard: int) -> bool:
        if isinstance(item, End):
            return item.low != item.high or self._here(item.low, shard)
        return bool(Shard(shard, len(self.shards)).has(np.array([item or 0]))[0])

    def _checked(
        self, sides: list[Side], s: int, number: int, items: list[Item], shard: int
    ) -> list[int | None]:
        """The keys of the rows that are let in."""
        side = sides[s]
        rows = [
            (item, row_number(number, position))
            for position, item in enumerate(items)
            if not isinstance(item, End) and self._here(item, shard)
        ]
        broken = side.broken([key for key, _ in rows], sides[1 - s])
        if any(broken) and self.policy == "fail":
            first = next(i for i, promise in enumerate(broken) if promise)
            count = sum(promise is not None for promise in broken)
            raise FirstViolationError(s, rows[first][0], str(broken[first]), count)
        kept = []
        for (key, row), promise in zip(rows, broken, strict=True):
            if promise and key is not None:
                self.violations[s] += 1
                self.seen.add(key)
                if self.policy == "drop":
                    continue
            elif side.stream.unique and key in side.known:
                self.unseen.add(key)
            if key is not None:
                side.known.add(key)
            kept.append(key)
            self.let_in[s].append((key, row))
        return kept

    def _store(self, sides: list[Side], s: int, counts: Counter[int | None]) -> None:
        side, other = sides[s], sides[1 - s]
        for key, count in counts.items():
            if key is None:
                continue
            met = other.stored[key] > 0
            if met and side.stream.unique:
                del other.stored[key]
            if not (other.closed(key) or (met and other.stream.unique)):
                side.stored[key] += count


def row_number(batch: int, position: int) -> int:
    return batch * 100 + position


def rows(batch: int, items: list[Item]) -> pa.Table:
    values: list[tuple[Any, ...]] = []
    for position, item in enumerate(items):
        row = row_number(batch, position)
        if not isinstance(item, End):
            values.append((item, row, False, None, None))
        elif item.low == item.high:
            values.append((item.low, row, True, None, None))
        else:
            low, high = (None if abs(bound) == FAR else bound for bound in (item.low, item.high))
            values.append((None, row, True, low, high))
    return table(SCHEMA, values)


@st.composite
def histories(draw: st.DrawFn) -> History:
    streams = (draw(promising()), draw(promising()))
    drift, shards = draw(st.sampled_from([0, 1, 3])), draw(st.integers(1, 2))
    batches = []
    for number in range(draw(st.integers(1, 6))):
        keys = st.integers(number * drift, number * drift + draw(st.sampled_from([1, 4, 9])))
        # A null key goes to a shard by what else is in its row: the model knows of one only.
        any_key = st.one_of(keys, keys, st.none()) if shards == 1 else keys
        both = []
        for stream in streams:
            items: list[Item] = list(draw(st.lists(any_key, max_size=4)))
            if stream.punctuation:
                items += draw(st.lists(ends(number * drift), max_size=2))
            both.append(items)
        batches.append((both[0], both[1]))
    return History(
        streams,
        draw(st.sampled_from(allowed(*streams))),
        batches,
        goal=draw(st.sampled_from(["memory", "throughput", "early"])),
        shards=shards,
        restarts=draw(st.sets(st.integers(1, 5), max_size=2)),
    )


@st.composite
def promising(draw: st.DrawFn) -> LocalStream:
    """A stream with any combination of promises."""
    return LocalStream(
        SCHEMA,
        unique=draw(st.booleans()),
        arrival=draw(st.sampled_from([None, None, "ordered", "clustered"])),
        punctuation=draw(st.sampled_from([END, END, None])),
    )


def ends(below: int) -> st.SearchStrategy[End]:
    """Punctuations of one key, and of ranges: mostly of keys that come no more."""
    key = st.integers(below - 3, below + 3)
    ranges = st.tuples(
        st.sampled_from([-FAR, below - 2]), st.sampled_from([below - 1, below + 4, FAR])
    )
    return st.one_of(key.map(lambda k: End(k, k)), ranges.map(lambda r: End(*r)))


def allowed(a: LocalStream, b: LocalStream) -> list[str]:
    """The join types that can do without a window."""
    closes = [s.unique or s.arrival is not None or s.punctuation is not None for s in (a, b)]
    proves = [s.punctuation is not None or s.arrival == "ordered" for s in (a, b)]
    hows = ["inner", "semi"]
    if all(closes):
        hows += ["left", "anti"] if proves[1] else []
        hows += ["right"] if proves[0] else []
        hows += ["full"] if all(proves) else []
    return hows


@pytest.mark.parametrize("policy", ["fail", "drop", "keep"])
def test_broken_promises_are_seen_and_harm_no_other_key(policy: str) -> None:
    @examples(150)
    @given(history=histories())
    def check(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model, found = run(history, policy, folder)
        if found is None:
            event("stopped")
            return
        event("violations" if model.seen else "unseen violations" if model.unseen else "true")
        doubtful = model.unseen | (model.seen if policy == "keep" else set())
        compare(history, model, found, doubtful)

    check()


def run(history: History, policy: str, folder: str) -> tuple[Model, pa.Table | None]:
    """The model and the whole result, or None if the join has stopped as it should."""
    options: dict[str, Any] = {
        "on": "k",
        "how": history.how,
        "goal": history.goal,
        "violations": policy,
        "unbounded": True,
        "shards": history.shards,
        "folder": folder,
    }
    streams = dict(zip("ab", history.streams, strict=True))
    join, model, results = LocalJoin(streams, **options), Model(history, policy), []
    for number, batch in enumerate(history.batches):
        if number in history.restarts:
            join = LocalJoin(streams, restart=join, **options)
        tables = {name: rows(number, items) for name, items in zip("ab", batch, strict=True)}
        try:
            model.batch(number, batch)
        except FirstViolationError as seen:
            with pytest.raises(ViolationError) as raised:
                join.batch(**tables)
            check_message(str(raised.value), history.streams[seen.stream], seen)
            return model, None
        results.append(join.batch(**tables))
        counted = [stream.violations for stream in join.counters.streams]
        assert counted == model.violations, f"in batch {number}"
    return model, pa.concat_tables([*results, join.finish()])


def check_message(message: str, stream: LocalStream, seen: FirstViolationError) -> None:
    assert message.startswith(f"stream {'ab'[seen.stream]!r} brought {seen.count} row(s)")
    ways = ["a punctuation"] if stream.punctuation else []
    ways += [f"arrival={stream.arrival!r}"] if stream.arrival else []
    promise = {
        "closed": f"{' or '.join(ways)} has closed it",
        "unique": "unique=True says that a key comes once",
    }[seen.promise]
    assert f"the key {seen.key}: {promise}." in message


def compare(history: History, model: Model, found: pa.Table, doubtful: set[int]) -> None:
    """Keys that are not in doubt have the oracle's result; the others no pair that is none,
    and no row that is called unmatched twice, or called so and matched."""
    empty = SCHEMA.empty_table()
    sides = {
        name: Stream(
            pa.concat_tables([empty, table(SCHEMA, [(*r, False, None, None) for r in let_in])]),
            ["k"],
        )
        for name, let_in in zip("ab", model.let_in, strict=True)
    }
    expected, actual = multiset(sql_join(sides, how=history.how)), multiset(found)
    assert sure(actual, doubtful) == sure(expected, doubtful)
    doubted = actual - sure(actual, doubtful)
    assert all(count == 1 for count in doubted.values())
    if history.how in ("semi", "anti"):
        matched = multiset(sql_join(sides, how="semi"))
        every = multiset(sides["a"].rows)
        assert not doubted - (matched if history.how == "semi" else every)
        return
    true = multiset(sql_join(sides, how="inner"))
    numbers = [found.column_names.index(name) for name in ("a_n", "b_n")]
    in_pairs: list[set[int]] = [set(), set()]
    alone: list[set[int]] = [set(), set()]
    for row in doubted:
        a, b = (row[position] for position in numbers)
        if None in (a, b):
            alone[0 if b is None else 1].add(a if b is None else b)
        else:
            assert row in true
            in_pairs[0].add(a)
            in_pairs[1].add(b)
    assert not any(one & other for one, other in zip(in_pairs, alone, strict=True))


def sure(rows: Counter[tuple[Any, ...]], doubtful: set[int]) -> Counter[tuple[Any, ...]]:
    return Counter({row: count for row, count in rows.items() if row[0] not in doubtful})
