"""Joins in stages: early results first, and in the end all of them, each once."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conformance.join import Batch, Join, at, table
from tests.conformance.strategies import INSTANT, Run, examples, limited, runs, until_shown
from tests.conformance.ways import LocalWay, restarted
from tests.joins.equi.promises import histories as promises
from tests.joins.equi.promises import news
from tests.limits import with_limits
from tests.oracle import Stream, sql_join
from tests.oracle.compare import assert_same_rows
from watersmeet.segments.segment import Segment
from watersmeet.spec.budget import Budget
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.state.manifest import Entry, Manifest
from watersmeet.state.window import Window
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64())])
STREAM = LocalStream(SCHEMA, time="t", delay=timedelta(0))
UNTIMED = LocalStream(SCHEMA)
EARLY: dict[str, Any] = {"goal": "early"}


def staged(join: Join, memory: int | str) -> Join:
    further = {**join.further, **EARLY}
    return replace(join, budget=Budget(memory=memory), further=further)


def debts(run: LocalJoin) -> int:
    return sum(
        len(Manifest.from_bytes(store.values["manifest"]).section["debts"])
        for store in run.stores
        if "manifest" in store.values
    )


# --- one by one


#: Segments of ``a`` that are stored at first, and the rows in each.
SEGMENTS, ROWS = 12, 8


def small(how: str = "inner", *, within: float | None = 100, stream: LocalStream = STREAM) -> Join:
    """A join of which some of those segments fit into memory, and no merged ones."""
    window = None if within is None else timedelta(seconds=within)
    streams = {"a": stream, "b": stream}
    return staged(Join(streams, on="k", within=window, how=how, index="always"), 6000)


def local(join: Join, folder: Path) -> LocalJoin:
    return LocalJoin(join.streams, folder=str(folder), **join.options)


def first(join: Join) -> list[Batch]:
    """Rows of ``a``: a key, a second and a segment after the other."""
    return [
        join.batch(a=[(second, at(second), n) for n in range(ROWS)]) for second in range(SEGMENTS)
    ]


def filled(join: Join, folder: Path) -> LocalJoin:
    """The join, more in its state than its memory holds."""
    run = local(join, folder)
    for batch in first(join):
        run.batch(**batch)
    return run


def one_of_each(join: Join) -> Batch:
    """A row of ``b`` for each key that is stored."""
    return join.batch(b=[(key, at(SEGMENTS), key) for key in range(SEGMENTS)])


class TestStages:
    def test_what_is_in_memory_answers_at_once_and_the_rest_in_the_pause(
        self, tmp_path: Path
    ) -> None:
        join = small()
        run = filled(join, tmp_path)
        # When rows come that match all that is stored,
        found = set(run.batch(**one_of_each(join)).column("k").to_pylist())
        # then the newest, in memory, are answered,
        assert found == {7, 8, 9, 10, 11}
        assert run.counters.deferred == run.counters.owed == debts(run) == 7
        # and the others in the pause.
        rest = run.batch().column("k").to_pylist()
        assert sorted(rest) == sorted([0, 1, 2, 3, 4, 5, 6] * ROWS)
        assert run.counters.deferred == run.counters.owed == debts(run) == 0

    def test_no_segment_on_disk_is_opened_while_rows_come(self, tmp_path: Path) -> None:
        join = small()
        opened = {}
        for goal in ("early", "throughput"):
            run = filled(replace(join, further={"goal": goal}), tmp_path / goal)
            with opened_segments() as ids:
                results = run.batch(**one_of_each(join)).num_rows
            opened[goal] = len(ids), results
        assert opened == {"early": (5, 5 * ROWS), "throughput": (12, 12 * ROWS)}

    def test_without_times_nobody_comes_back_so_debts_end_with_the_step(
        self, tmp_path: Path
    ) -> None:
        join = small(within=None, stream=UNTIMED)
        run = filled(join, tmp_path)
        found = run.batch(**one_of_each(join)).column("k").to_pylist()
        assert (run.counters.deferred, run.counters.owed) == (7, 0)
        assert len(found) == SEGMENTS * ROWS
        assert set(found[: 5 * ROWS]) == {7, 8, 9, 10, 11}, "the newest come first"

    def test_the_watermark_calls_a_debt_in_before_its_results_are_late(
        self, tmp_path: Path
    ) -> None:
        join = small()
        run = filled(join, tmp_path)
        assert len(run.batch(**join.batch(b=[(0, at(12), 0)]))) == 0
        # The watermark is at 11 seconds: the event time of what is owed is above it.
        assert len(run.batch(**join.batch(a=[(50, at(14), 0)], b=[(51, at(14), 0)]))) == 0
        assert debts(run) > 0
        # At 14 seconds it is not.
        found = run.batch(**join.batch(a=[(52, at(15), 0)]))
        assert found.column("event_time").to_pylist() == [at(12)] * ROWS

    @pytest.mark.parametrize("how", ["left", "right", "full", "anti"])
    def test_a_row_is_not_called_unmatched_while_it_has_debts(
        self, tmp_path: Path, how: str
    ) -> None:
        join = small(how, within=15)
        run = filled(join, tmp_path)
        batches = [join.batch(b=[(0, at(12), 0), (99, at(12), 0)])]
        batches += [
            join.batch(a=[(60, at(s), 0)], b=[(61, at(s), 0)]) for s in (13, 14, 16, 20, 40, 80)
        ]
        results = [run.batch(**batch) for batch in batches]
        found = pa.concat_tables([*results, run.finish()])
        assert_same_rows(found, join.expected([*first(join), *batches]))

    def test_a_segment_that_owes_is_not_merged_nor_are_there_too_many(self, tmp_path: Path) -> None:
        join = staged(small(within=1000), 600)
        with with_limits(fan=2, debts=5):
            run = local(join, tmp_path)
        results = []
        for second in range(40):
            rows = [(second % 3, at(second), second)]
            results.append(run.batch(**join.batch(a=rows, b=rows)))
            assert debts(run) <= 5
        found = pa.concat_tables([*results, run.finish()])
        rows = [(second % 3, at(second), second) for second in range(40)]
        assert_same_rows(found, join.expected([join.batch(a=rows, b=rows)]))

    def test_another_goal_after_a_restart_works_off_what_is_owed(self, tmp_path: Path) -> None:
        join = small()
        run = filled(join, tmp_path)
        assert len(run.batch(**join.batch(b=[(0, at(12), 0)]))) == 0
        run = restarted(run, replace(join, further={}))
        found = run.batch(**join.batch(b=[(70, at(13), 0)]))
        assert found.column("k").to_pylist() == [0] * ROWS
        assert debts(run) == 0


class TestPromises:
    def test_a_row_whose_key_is_over_stays_for_what_it_owes(self, tmp_path: Path) -> None:
        join = punctuated(tmp_path)
        for key in range(8):
            join.batch(b=news.access(key))
        join.batch(b=news.access(("end", 0)))
        # It comes late, its match is on disk, and nothing of its key will come any more.
        found = join.batch(a=news.access(0))
        assert join.counters.deferred > 0
        assert found.column("sno").to_pylist() == [0]
        assert join.state_rows() == [0, 8]

    def test_it_leaves_with_the_last_debt_of_its_segment(self, tmp_path: Path) -> None:
        stream = LocalStream(PROMISING, "t", timedelta(seconds=60), punctuation=news.END)
        join = LocalJoin(
            {"a": stream, "b": stream},
            on="k",
            within=timedelta(seconds=100),
            budget=Budget(memory=60),
            folder=str(tmp_path),
            **EARLY,
        )

        def rows(*given: tuple[Any, ...], end: bool = False) -> pa.Table:
            return table(PROMISING, [(key, at(second), 0, end) for key, second in given])

        # Given a row whose key is over in the other stream, and whose match is on disk,
        join.batch(b=rows((0, 1)))
        join.batch(b=rows((0, 1), end=True))
        join.batch(a=rows((0, 5)))
        # and a later row that has yet to probe its segment,
        join.batch(b=rows((7, 10)))
        assert (join.counters.owed, join.state_rows()) == (2, [1, 2])
        # when the watermark, at 6 seconds, calls in the first of these debts,
        passing = rows((None, 66))
        join.batch(a=passing, b=passing)
        assert join.batch(a=passing).column("k").to_pylist() == [0]
        # then the row stays for the other one,
        assert (join.counters.owed, join.state_rows()) == (1, [1, 2])
        # and leaves with it.
        join.batch()
        assert (join.counters.owed, join.state_rows()) == (0, [0, 2])

    def test_a_punctuation_leaves_after_all_results_it_covers(self, tmp_path: Path) -> None:
        join = punctuated(tmp_path, emit_punctuations=True)
        for key in range(8):
            join.batch(b=news.access(key))
        join.batch(b=news.access(("end", 0)))
        found = join.batch(a=news.access(0, ("end", 0)))
        assert found.column("is_punctuation").to_pylist() == [False, True, True]


def punctuated(folder: Path, **options: Any) -> LocalJoin:
    return LocalJoin(
        {"a": promises.PUNCTUATED, "b": promises.PUNCTUATED},
        on="sno",
        budget=Budget(memory=600),
        folder=str(folder),
        **EARLY,
        **options,
    )


@contextmanager
def opened_segments() -> Iterator[set[str]]:
    """The ids of stored segments that are opened, other than those a step has just made."""
    ids: set[str] = set()
    original = Window.open

    def noting(window: Window, entry: Entry) -> Segment:
        if window.opened.get(entry.id) is None:
            ids.add(entry.id)
        return original(window, entry)

    with mock.patch.object(Window, "open", noting):
        yield ids


# --- at random, against the oracle

MEMORY = st.sampled_from([300, 1_500, 5_000])


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_nothing_is_lost_and_nothing_comes_twice(how: str) -> None:
    deferred = owed = 0

    @examples(40)
    @given(run=runs([how]), memory=MEMORY, most=st.sampled_from([3, 256]))
    def check(run: Run, memory: int, most: int) -> None:
        nonlocal deferred, owed
        join = staged(run.join, memory)
        with limited(**run.limits, debts=most):
            outcome = LocalWay().run(
                join, run.batches, shards=run.shards, before=run.before, cut=run.cut
            )
        assert_same_rows(outcome.result, join.expected(run.batches))
        deferred += sum(counters.deferred for counters in outcome.counters)
        owed += sum(counters.owed for counters in outcome.counters)
        check_event_times(join, run, outcome.results)

    until_shown(check, lambda: deferred > 50 and owed > 10, "probes deferred from step to step")


def check_event_times(join: Join, run: Run, results: list[pa.Table]) -> None:
    """No result is older than the watermark of the step before it."""
    watermarks = join.arrivals(run.batches).watermarks
    for number, result in enumerate(results):
        before = watermarks[number - 1] if number else None
        if before is not None and "event_time" in result.column_names:
            times = result.column("event_time").cast(pa.int64()).to_pylist()
            assert all(time is None or time > before for time in times)


def test_promises_and_stages_together() -> None:
    deferred = 0

    @examples(100)
    @given(history=promises.histories(), memory=MEMORY, most=st.sampled_from([3, 256]))
    def check(history: promises.History, memory: int, most: int) -> None:
        nonlocal deferred
        batches = [
            {"a": news.access(*a), "b": news.access(*b)} for a, b in [*history.batches, ([], [])]
        ]
        options = {**history.options, **EARLY}
        shards = options.pop("shards")
        join = Join(history.streams, on="sno", how=history.how, further=options)
        join = staged(join, memory)
        with with_limits(debts=most):
            outcome = LocalWay().run(
                join, batches, shards=shards, before=history.before, cut=history.cut
            )
        deferred += sum(counters.deferred for counters in outcome.counters)
        promises.compare(history, batches, outcome.result)

    until_shown(check, lambda: deferred > 100, "probes deferred")


def timed_promises() -> st.SearchStrategy[tuple[Any, ...]]:
    row = st.tuples(st.integers(0, 5), st.integers(-3, 3), st.integers(0, 3))
    batch = st.tuples(
        st.lists(row, max_size=4),
        st.lists(row, max_size=4),
        *[st.lists(st.integers(0, 5), max_size=1)] * 2,
    )
    return st.tuples(
        st.sampled_from(JOIN_NAMES),
        st.booleans(),
        st.booleans(),
        st.lists(batch, min_size=1, max_size=8),
        MEMORY,
        st.sets(st.integers(1, 8), max_size=2),
    )


PROMISING = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64()), ("end", pa.bool_())])


#: A row that comes out when its time is over, and whose key is then closed.
TIME_WAS_OVER: tuple[Any, ...] = (
    "left",
    False,
    False,
    [
        ([(0, 0, 0), (1, -3, 0)], [], [], []),
        ([], [], [], []),
        ([], [], [], []),
        ([], [(0, 1, 0)], [], []),
        ([], [], [0], []),
        ([], [], [], []),
        ([], [], [], [1]),
    ],
    1500,
    set(),
)
#: A row of a key that is over, and then over in its own stream too, while it owes something.
LEFT_TOO_EARLY: tuple[Any, ...] = (
    "right",
    False,
    True,
    [([(0, 0, 0)] * 3, [], [1], []), ([], [(1, 0, 0)], [], [1])],
    300,
    set(),
)


def test_debts_that_outlast_a_step_and_promises() -> None:
    """Streams with times and promises: debts stay from step to step while keys close."""
    owed = 0

    @examples(120)
    @given(case=timed_promises())
    @example(case=TIME_WAS_OVER)
    @example(case=LEFT_TOO_EARLY)
    def check(case: tuple[Any, ...]) -> None:
        nonlocal owed
        how, unique, emit, steps, memory, restarts = case
        history = Promising(unique, steps)
        streams = {
            "a": LocalStream(
                PROMISING, "t", timedelta(seconds=4), unique=unique, punctuation=news.END
            ),
            "b": LocalStream(PROMISING, "t", timedelta(seconds=4), punctuation=news.END),
        }
        options: dict[str, Any] = {
            "on": "k",
            "within": timedelta(seconds=6),
            "how": how,
            "budget": Budget(memory=memory),
            "emit_punctuations": emit and how not in ("semi", "anti"),
            **EARLY,
        }
        with tempfile.TemporaryDirectory() as folder:
            run = LocalJoin(streams, folder=folder, **options)
            results = []
            for number, batch in enumerate(history.batches):
                if number in restarts:
                    run = LocalJoin(streams, folder=folder, restart=run, **options)
                results.append(run.batch(**batch))
                owed += run.counters.owed
            results.append(run.finish())
        if options["emit_punctuations"]:
            results = without_punctuations(results)
        sides = {
            name: Stream(rows, ["k"], "t", 6_000_000) for name, rows in history.accepted().items()
        }
        assert_same_rows(pa.concat_tables(results), sql_join(sides, how=how))

    until_shown(check, lambda: owed > 100, "probes deferred from step to step")


def without_punctuations(results: list[pa.Table]) -> list[pa.Table]:
    """The results; after a punctuation of both streams none with its key may come."""
    over: Counter[int] = Counter()
    found = []
    for result in results:
        for row in result.select(["k", "is_punctuation"]).to_pylist():
            if row["is_punctuation"]:
                over[row["k"]] += 1
            else:
                assert over[row["k"]] == 0, "a punctuation leaves after what it covers"
        kept = result.filter(pa.compute.invert(result.column("is_punctuation")))
        found.append(kept.drop_columns("is_punctuation"))
    return found


class Promising:
    """Batches that keep their promises, made of numbers: rows of keys that are over, or
    unique and there already, are left out. Two seconds a batch."""

    def __init__(self, unique: bool, steps: Any) -> None:
        over: list[set[int]] = [set(), set()]
        come: set[int] = set()
        self.batches = []
        for number, (*rows, ends_a, ends_b) in enumerate(steps):
            batch = {}
            for stream, ends in enumerate((ends_a, ends_b)):
                values = []
                for key, offset, n in rows[stream]:
                    if key in over[stream] or (unique and stream == 0 and key in come):
                        continue
                    if stream == 0:
                        come.add(key)
                    values.append((key, at(2 * number + offset), n, False))
                values += [(key, at(2 * number), None, True) for key in ends]
                over[stream] |= set(ends)
                batch["ab"[stream]] = table(PROMISING, values)
            self.batches.append(batch)

    def accepted(self) -> dict[str, pa.Table]:
        """The data that is not late."""
        join = Join({name: LocalStream(PROMISING, "t", timedelta(seconds=4)) for name in "ab"}, "k")
        rows = join.arrivals(self.batches).accepted
        return {name: news.data(table) for name, table in rows.items()}
