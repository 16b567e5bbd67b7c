"""What a ring join stores, where, and for how long; and what it counts."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.conformance.join import at
from tests.conformance.rings import less_by_rank
from tests.conformance.strategies import INSTANT
from tests.conformance.ways import in_chunks
from tests.joins.ring.test_relocation import relocated
from tests.oracle import Stream, assert_same_rows, sql_join
from watersmeet.errors import OverBudgetError, PredicateFunctionError, StateError
from watersmeet.joins.ring.search import probe, progress_log
from watersmeet.segments.intervals import StoredIntervals
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import Limits
from watersmeet.state.manifest import Entry, Manifest
from watersmeet.state.store import MemoryStore
from watersmeet.state.window import Window
from watersmeet.testing import LocalBackend, LocalJoin, LocalStream

SCHEMA = pa.schema([("n", pa.int64()), ("t", INSTANT)])


def near(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less_equal(pc.abs(pc.subtract(a["n"], b["n"])), 1)


def joined(
    folder: Path,
    names: str = "ab",
    *,
    within: float = 100,
    where: Any = None,
    schema: pa.Schema = SCHEMA,
    watermarked: bool = False,
    **options: Any,
) -> LocalJoin:
    given = LocalStream(schema, time="t", delay=timedelta(0), watermarked=watermarked)
    pairs = [wm.predicate(near, *two) for two in itertools.pairwise(names)]
    return LocalJoin(
        dict.fromkeys(names, given),
        where=where or pairs,
        within=timedelta(seconds=within),
        folder=str(folder),
        **options,
    )


def rows(*given: tuple[int, float]) -> pa.Table:
    return pa.table({"n": [n for n, _ in given], "t": [at(second) for _, second in given]}, SCHEMA)


def slices(join: LocalJoin) -> list[list[int]]:
    """The rows in each shard, for each hop."""
    return [
        [
            sum(window.rows for window in run.state(number).windows)
            for number in range(len(run.stores))
        ]
        for run in join.runs
    ]


@pytest.mark.parametrize(
    ("names", "how"), [("ab", "inner"), ("ab", "left"), ("abc", "inner"), ("abcde", "inner")]
)
def test_every_row_in_the_windows_is_stored_once(tmp_path: Path, names: str, how: str) -> None:
    join = joined(tmp_path, names, how=how, shards=4)
    for second in range(5):
        # Given rows that match nothing,
        far = {name: 1000 * place for place, name in enumerate(names)}
        join.batch(**{n: rows(*((far[n], second + i / 50) for i in range(50))) for n in names})
        # then the stored rows over all slices and hops are those that came.
        assert join.state_rows() == [50 * (second + 1)] * len(names)
        assert sum(map(sum, slices(join))) == 50 * (second + 1) * len(names)


@pytest.mark.parametrize(("names", "how"), [("ab", "inner"), ("ab", "left"), ("abc", "inner")])
@pytest.mark.parametrize("contents", [10**9, 3])
def test_slices_are_even_under_a_burst(tmp_path: Path, names: str, how: str, contents: int) -> None:
    # Given quiet seconds, and one in which most rows come at the same instant; each with another
    # content, or nearly all alike,
    dice = np.random.default_rng(5)
    nothing = [
        wm.predicate(lambda *tables: np.zeros(len(tables[0]), bool), *two)
        for two in itertools.pairwise(names)
    ]
    join = joined(tmp_path, names, where=nothing, how=how, shards=8)
    for second in range(10):
        for name in names:
            count = 4000 if second == 5 else 50
            numbers = dice.integers(0, contents, count).tolist()
            join.batch(**{name: rows(*((number, second) for number in numbers))})
    # then the fullest slice has at most 1.2 times the mean, in every hop,
    for of_hop in slices(join):
        assert sum(of_hop) > 4000
        assert max(of_hop) <= 1.2 * sum(of_hop) / 8
    # and so it is when they are relocated to fewer.
    for stores in relocated([run.stores for run in join.runs], slices=4):
        stored = [Manifest.from_bytes(store.values["manifest"]) for store in stores]
        counts = [sum(e.rows for window in m.windows for e in window.entries) for m in stored]
        assert counts[4:] == [0] * 4
        assert max(counts) <= 1.2 * sum(counts) / 4


def test_nine_streams_give_what_the_oracle_gives(tmp_path: Path) -> None:
    # Given as many streams as can be joined, with a few rows each,
    names, dice = "abcdefghi", random.Random(9)
    batches = [
        {
            name: rows(*((dice.randrange(4), 10 * number + dice.randint(1, 9)) for _ in range(2)))
            for name in names
        }
        for number in range(3)
    ]
    join = joined(tmp_path, names, within=12, shards=2)
    # when they come in several micro-batches, then the result is the oracle's.
    result = pa.concat_tables([join.batch(**batch) for batch in batches])
    sides = {
        name: Stream(pa.concat_tables([batch[name] for batch in batches]), [], "t", 12_000_000)
        for name in names
    }
    near = [f"abs({one}.n - {other}.n) <= 1" for one, other in itertools.pairwise(names)]
    assert result.num_rows > 0
    assert_same_rows(result, sql_join(sides, where=" AND ".join(near)))


def test_rows_of_other_times_stay_apart_when_they_are_relocated(tmp_path: Path) -> None:
    # Given rows of many seconds, in segments of a slot of time each,
    join = joined(tmp_path, shards=2)
    for second in range(0, 80, 10):
        join.batch(a=rows(*((n, second) for n in range(3_000))))

    def spans(of_hop: list[MemoryStore]) -> list[int]:
        manifests = [Manifest.from_bytes(store.values["manifest"]) for store in of_hop]
        entries = [e for m in manifests for window in m.windows for e in window.entries]
        return [entry.max_time - entry.min_time for entry in entries]

    [stores] = [run.stores for run in join.runs]
    before = max(spans(stores))
    assert before < 20_000_000
    # when they get new homes, then a segment still expires when it did.
    [moved] = relocated([stores], slices=1)
    assert max(spans(moved)) <= before


def test_rows_leave_when_the_watermark_proves_them_useless(tmp_path: Path) -> None:
    # Given rows at 0 that wait for 10 seconds,
    join = joined(tmp_path, "abc", within=10, shards=2)
    join.batch(**{name: rows((1000 * place, 0)) for place, name in enumerate("abc")})
    # when the watermark is a millisecond short of 10, they stay; when it is 10, they go.
    for second, expired in ((9.999, 0), (10, 0), (10, 3)):
        join.batch(**{name: rows((1000 * place, second)) for place, name in enumerate("abc")})
        assert sum(stream.expired for stream in join.counters.streams) == expired


@pytest.mark.parametrize(("names", "how"), [("ab", "inner"), ("ab", "left"), ("abc", "inner")])
def test_all_shards_judge_by_the_same_watermark(tmp_path: Path, names: str, how: str) -> None:
    # Given streams with their own watermarks, whose rows are all in the first of two shards,
    given: dict[str, Any] = {"how": how, "watermarked": True, "shards": 2}
    join = joined(tmp_path, names, tuning=wm.Tuning(slices=1), **given)
    for second in (0, 100):
        join.batch(**{name: rows((1, second)) for name in names})
    # when the watermark moves to 100 while no rows come,
    join.pause()
    # then rows at 50 are late, whichever shard is their home.
    again = joined(tmp_path, names, restart=join, **given)
    again.batch(**{name: rows(*((n, 50) for n in range(20))) for name in names})
    assert [stream.late for stream in again.counters.streams] == [20] * len(names)


def test_a_failing_predicate_stops_the_step_and_a_mended_one_goes_on(tmp_path: Path) -> None:
    def broken(a: pa.Table, b: pa.Table) -> pa.Array:
        raise ZeroDivisionError("by zero")

    join = joined(tmp_path, "abc", where=[wm.predicate(broken, "a", "b")], shards=2)
    join.batch(a=rows((1, 0)))
    with pytest.raises(PredicateFunctionError) as error:
        join.batch(b=rows((3, 1)), c=rows((0, 0)))
    assert "broken(a, b): it raised ZeroDivisionError" in str(error.value)
    assert "'n': 1" in str(error.value)
    assert "'n': 3" in str(error.value)
    # Nothing is lost: what came before is there, and the micro-batch is run again.
    mended = joined(tmp_path, "abc", where=[wm.predicate(near, "a", "b")], restart=join, shards=2)
    assert mended.batch(b=rows((2, 1), (5, 1)), c=rows((0, 0))).num_rows == 1


def test_a_predicate_gets_blocks_that_fit_the_budget(tmp_path: Path) -> None:
    # Given rows of 1 kB, and a budget that leaves a shard 640 kB, so 40 kB for a piece,
    seen: list[int] = []

    def looking(a: pa.Table, b: pa.Table) -> pa.Array:
        seen.append(a.nbytes + b.nbytes)
        return pa.array([True] * len(a))

    schema = pa.schema([("text", pa.string()), ("t", INSTANT)])
    budget = wm.Budget(memory=1_280_000)
    where = wm.predicate(looking, "a", "b")
    join = joined(tmp_path, where=where, schema=schema, budget=budget, shards=2)
    table = pa.table({"text": [f"{n:01000}" for n in range(200)], "t": [at(0)] * 200}, schema)
    # when 200 rows meet 200,
    result = join.batch(a=table, b=table)
    # then all are compared, a few at a time.
    assert result.num_rows == 200 * 200
    assert join.counters.pairs == 200 * 200
    assert join.counters.blocks == len(seen)
    assert max(seen) <= 45_000


def test_what_is_made_for_searches_counts_as_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a budget of which a shard keeps 200 kB open, and narrow rows that take more,
    limit, made, taken = 200_000, WeakSet[StoredIntervals](), list[int]()
    prepare, open_segment = StoredIntervals.__init__, Window.open

    def preparing(self: StoredIntervals, *args: Any) -> None:
        prepare(self, *args)
        made.add(self)

    def opening(window: Window, entry: Entry) -> Segment:
        segment = open_segment(window, entry)
        taken.append(sum(each.nbytes for each in made))
        return segment

    monkeypatch.setattr(StoredIntervals, "__init__", preparing)
    monkeypatch.setattr(Window, "open", opening)
    join = joined(tmp_path, budget=wm.Budget(memory=3 * limit), shards=1)
    join.batch(a=rows(*((n, n / 1000) for n in range(20_000))))
    assert sum(window.memory for window in join.run.state(0).windows) > 2 * limit
    # when others are compared with all of them, again and again,
    for second in range(3):
        result = join.batch(b=rows(*((n, second) for n in range(20))))
        assert result.num_rows == 3 * 20 - 1
    # then what is made to search them never takes more, with the rows themselves.
    assert limit / 3 < max(taken) < limit


def test_rows_that_wait_for_new_ones_may_wait_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalJoin, "limits", Limits(waiting_bytes=0))
    join = in_chunks(joined(tmp_path, "abc", shards=2), random.Random(1))
    some = rows(*((n, n / 10) for n in range(6)))
    result = join.batch(a=some, b=some, c=some)
    expected = sum(
        abs(a - b) <= 1 and abs(b - c) <= 1 for a in range(6) for b in range(6) for c in range(6)
    )
    assert result.num_rows == expected


class TestFanOut:
    def test_the_largest_is_reported(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        join.batch(a=rows(*((1, n / 100) for n in range(30))))
        join.batch(b=rows((1, 1), (9, 1)))
        assert join.counters.largest == wm.Largest(30, "b", "2024-01-01T00:00:01+00:00")

    def test_it_is_capped_in_each_slice(self, tmp_path: Path) -> None:
        budget = wm.Budget(fanout=7, overflow="shed")
        join = joined(tmp_path, budget=budget, shards=2)
        join.batch(a=rows(*((1, n / 100) for n in range(60))))
        result = join.batch(b=rows((1, 1)))
        assert result.num_rows == 2 * 7
        assert join.counters.capped == 2

    def test_it_is_capped_in_each_hop(self, tmp_path: Path) -> None:
        budget = wm.Budget(fanout=5, overflow="shed")
        join = joined(tmp_path, "abc", budget=budget, shards=2)
        many = rows(*((1, n / 100) for n in range(60)))
        join.batch(a=many, b=many)
        assert join.batch(c=rows((1, 1))).num_rows == (2 * 5) ** 2
        assert join.counters.largest.fanout == 5
        # The row in two slices of a hop, and ten partial results in two of the next.
        assert join.counters.capped == 2 + 10 * 2

    def test_too_much_stops_the_query(self, tmp_path: Path) -> None:
        join = joined(tmp_path, budget=wm.Budget(fanout=7, overflow="fail"))
        join.batch(a=rows(*((1, n / 100) for n in range(8))))
        with pytest.raises(OverBudgetError, match="a row of b, at 2024-01-01T00:00:01"):
            join.batch(b=rows((1, 1)))

    @pytest.mark.parametrize(
        ("how", "overflow"),
        [
            *((how, "fail") for how in ("inner", "left", "right", "semi", "anti")),
            ("inner", "shed"),
            ("semi", "shed"),
        ],
    )
    @pytest.mark.parametrize(("first", "last"), ["ab", "ba"])
    def test_it_is_limited_as_in_a_join_with_a_key(
        self, first: str, last: str, how: str, overflow: Any, tmp_path: Path
    ) -> None:
        def outcome(name: str, **matching: Any) -> object:
            """Twenty stored rows of one stream, then one row of the other that matches all."""
            join = LocalJoin(
                {name: LocalStream(SCHEMA, time="t", delay=timedelta(0)) for name in "ab"},
                within="100 seconds",
                how=how,
                budget=wm.Budget(fanout=5, overflow=overflow),
                folder=str(tmp_path / name),
                **matching,
            )
            join.batch(**{first: rows(*((1, n / 100) for n in range(20)))})
            try:
                results = join.batch(**{last: rows((1, 1))}).num_rows
            except OverBudgetError:
                return "over the budget"
            counters = join.counters
            return results, counters.capped, counters.largest.fanout, join.finish().num_rows

        def same(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
            return pc.equal(a["n"], b["n"])

        ring = outcome("ring", where=wm.predicate(same, "a", "b"))
        assert ring == outcome("key", on="n")

    def test_it_is_capped_in_the_same_way_after_a_restart(self, tmp_path: Path) -> None:
        options: dict[str, Any] = {"budget": wm.Budget(fanout=7, overflow="shed"), "shards": 2}
        join = joined(tmp_path, **options)
        join.batch(a=rows(*((1, n / 100) for n in range(60))))
        again = joined(tmp_path, restart=join, **options)
        assert again.batch(b=rows((1, 1))).num_rows == 2 * 7
        assert (again.counters.capped, again.counters.largest.fanout) == (2, 7)


def test_windows_may_change_at_a_restart(tmp_path: Path) -> None:
    # Given a row that is kept for 100 seconds, in a join that is started again with 10,
    join = joined(tmp_path, within=100)
    join.batch(a=rows((1, 0)))
    shorter = joined(tmp_path, within=10, restart=join)
    # when rows come that are 5 and 20 seconds later, then it matches what is within the new window,
    assert shorter.batch(b=rows((1, 5), (1, 20))).num_rows == 1
    # and with the old one again, all that has not expired meanwhile: the watermark is still at 0.
    longer = joined(tmp_path, within=100, restart=shorter)
    assert longer.batch(a=rows((1, 21))).num_rows == 2


def test_a_state_that_may_not_spill_stops_the_query(tmp_path: Path) -> None:
    join = joined(tmp_path, budget=wm.Budget(memory=2_000, overflow="fail"))
    with pytest.raises(OverBudgetError, match="85 rows of a, 0 rows of b"):
        join.batch(a=rows(*((n, 0) for n in range(100))))


class TestSlices:
    def test_a_slice_that_new_rows_do_not_reach_stops_the_query(self, tmp_path: Path) -> None:
        # Given rows in four slices,
        join = joined(tmp_path, within=10, shards=4)
        join.batch(a=rows(*((n, 0) for n in range(50))), b=rows((1000, 0)))
        # when the query is started again with two, which leaves out two that hold rows,
        with pytest.raises(StateError, match=r"slices=2, draining=\.\.\..*at least [34]"):
            joined(tmp_path, within=10, restart=join, shards=4, tuning=wm.Tuning(slices=2)).batch(
                b=rows((5, 1))
            )
        # then nothing is lost: as long as the others drain, they are reached too.
        tuning = wm.Tuning(slices=2, draining=4)
        again = joined(tmp_path, within=10, restart=join, shards=4, tuning=tuning)
        assert again.batch(b=rows((5, 1)), a=rows((1000, 1))).num_rows == 3 + 1
        again.batch(a=rows((0, 20)), b=rows((0, 20)))
        again.batch()
        assert slices(again)[0][2:] == [0, 0]
        # When they are empty, they need not be reached any more.
        last = joined(tmp_path, within=10, restart=again, shards=4, tuning=wm.Tuning(slices=2))
        assert last.batch(a=rows((1, 21))).num_rows == 1

    def test_rows_that_are_late_by_the_step_before_still_meet_it(self, tmp_path: Path) -> None:
        # Given streams with their own watermarks, and rows in four slices that have just expired,
        options: dict[str, Any] = {"within": 10, "shards": 4, "watermarked": True}
        draining = wm.Tuning(slices=2, draining=4)

        def found(tuning: wm.Tuning) -> int:
            join = joined(tmp_path, **options)
            join.batch(a=rows(*((n, 0) for n in range(50))), b=rows((1000, 0)))
            join = joined(tmp_path, restart=join, tuning=draining, **options)
            join.batch(a=rows((5000, 12)), b=rows((6000, 12)))
            # when rows come that are not late, as that goes by the watermark before,
            again = joined(tmp_path, restart=join, tuning=tuning, **options)
            return again.batch(b=rows(*((n, 9) for n in range(50)))).num_rows

        # then they match what is in all four, or the query stops.
        assert found(draining) == 50 + 2 * 49
        with pytest.raises(StateError, match=r"slices=2, draining=\.\.\."):
            found(wm.Tuning(slices=2))


def test_another_order_is_advised_once_it_is_measured(tmp_path: Path) -> None:
    # Given a chain a - b - c, met in an order in which c meets a without a condition,
    def same(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
        return pc.equal(a["n"], b["n"])

    where = [wm.predicate(same, *two) for two in ("ab", "bc")]
    join = joined(tmp_path, "abc", where=where, shards=2, tuning=wm.Tuning(order=["a", "c", "b"]))
    notes = []
    # when many rows that match little have come,
    for second in range(4):
        some = rows(*((n, second) for n in range(40)))
        join.batch(a=some, b=some, c=some)
        notes += join.counters.notes
    # then it is said once.
    [note] = notes
    assert "the order 'b', " in note
    assert "times fewer partial results" in note


@pytest.mark.parametrize(
    ("names", "how"), [("ab", "inner"), ("abc", "inner"), ("ab", "left"), ("ab", "anti")]
)
def test_another_number_of_slices_is_advised_once_it_is_measured(
    tmp_path: Path, names: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given predicates that take a hundred times as long as it takes to send a row,
    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(probe, "time", clock)

    def slow(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
        clock.now += len(a) * 1e-3
        return pc.equal(a["n"], b["n"])

    where = [wm.predicate(slow, *two) for two in itertools.pairwise(names)]
    notes: dict[int, list[str]] = {}
    # when they run in one slice of four, or in all of them,
    for number in (1, 4):
        tuning = wm.Tuning(slices=number)
        asked: dict[str, Any] = {"where": where, "how": how, "shards": 4, "tuning": tuning}
        join = joined(tmp_path / str(number), names, **asked)
        notes[number] = []
        for second in range(3):
            some = rows(*((n, second) for n in range(40)))
            join.batch(**dict.fromkeys(names, some))
            notes[number] += join.counters.notes
    # then it is said, once, that one are too few.
    [note] = notes[1]
    assert "as measured, 4 slices would give more results than 1, by a factor of" in note
    assert "us to compare two rows" in note
    assert note.endswith("tuning=wm.Tuning(slices=4).")
    assert notes[4] == []


def test_predicates_that_reject_most_for_their_time_come_first(tmp_path: Path) -> None:
    compared: dict[str, int] = {"all": 0, "few": 0}

    def counting(name: str, share: int) -> Callable[[pa.Table, pa.Table], pa.Array]:
        def predicate(a: pa.Table, b: pa.Table) -> pa.Array:
            compared[name] += len(a)
            return pc.equal(pc.bit_wise_and(a["n"], share), 0)

        return predicate

    where = [
        wm.predicate(counting("all", 0), "a", "b"),
        wm.predicate(counting("few", 15), "a", "b"),
    ]
    join = joined(tmp_path, where=where)
    some = rows(*((n, 0) for n in range(100)))
    assert join.batch(a=some, b=some).num_rows == 7 * 100
    # Both were tried on a few pairs; then the one that rejects went first.
    assert compared["few"] == 10_000
    assert compared["all"] <= 256 + 800


def test_long_comparisons_are_told_in_the_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "LONG", 0.0)
    join = joined(tmp_path, shards=2)
    some = rows(*((n, 0) for n in range(10)))
    join.batch(a=some, b=some)
    assert join.counters.pairs == 100
    assert all("near(a, b) took 100% of the time" in note for note in join.counters.notes)
    assert len(join.counters.notes) == 2


def test_long_steps_say_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    join, some = joined(tmp_path), rows(*((n, 0) for n in range(10)))
    join.batch(a=some, b=some)
    assert not caplog.messages, "a short step says nothing"
    monkeypatch.setattr(progress_log, "EVERY", 0.0)
    join.batch(a=rows(*((n, 1) for n in range(5))))
    # Of the 5 x 10 pairs, all are close in time.
    [line] = caplog.messages
    assert line.startswith("join of a, b, shard 0: 50 pairs compared in 0 s, of at most 50 ")


def test_what_is_kept_is_plain_data(tmp_path: Path) -> None:
    join = joined(tmp_path, "abc", shards=2)
    join.batch(a=rows((1, 0)), b=rows((1, 0)), c=rows((1, 0)))
    manifest = json.loads(join.stores[0].values["manifest"])
    assert {"watermark", "measured", "rows", "advised"} <= manifest["section"].keys()
    assert {"useless_until", "entries"} == manifest["windows"][0].keys()


def test_how_much_a_search_selects_is_measured(tmp_path: Path) -> None:
    # Given conditions that are searched by, and rows of which 45 pairs of 100 overlap,
    numbers = rows(*((number, 0.0) for number in range(10)))
    less = {"a.n < b.n": less_by_rank(0, 1)}
    with mock.patch.object(LocalBackend, "translate", lambda _, sql: less[sql]):
        join = joined(tmp_path, where="a.n < b.n")
    assert join.batch(a=numbers, b=numbers).num_rows == 45
    # then their share is what is known of the condition.
    [run] = join.runs
    [measured] = run.state(0).measured
    assert measured.selectivity == pytest.approx(0.45)
