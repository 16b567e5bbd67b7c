"""A match comes out in the batch that completes it; an unmatched row in the first batch
whose watermark proves it, not earlier and not later; nothing comes out twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from tests.conformance.join import Batch, Join, at
from tests.conformance.strategies import INSTANT, Run, examples, limited, runs, until_shown
from tests.conformance.ways import LocalWay, Way
from tests.oracle import assert_same_rows
from watersmeet.testing import LocalStream

VIEWS = pa.schema([("ad", pa.int64()), ("seen", INSTANT)])
CLICKS = pa.schema([("ad", pa.int64()), ("clicked", INSTANT)])
SECOND = timedelta(seconds=1)


def ads(how: str, *, within: Any = 10 * SECOND, delay: timedelta = 0 * SECOND) -> Join:
    streams = {
        "views": LocalStream(VIEWS, time="seen", delay=delay),
        "clicks": LocalStream(CLICKS, time="clicked", delay=delay),
    }
    return Join(streams, on="ad", within=within, how=how)


def tick(join: Join, seconds: float) -> Batch:
    """A batch that brings both streams to that time, by rows that match nothing."""
    return join.batch(views=[(None, at(seconds))], clicks=[(None, at(seconds))])


def ads_out(way: Way, join: Join, batches: list[Batch]) -> list[list[int]]:
    """The non-null ads of each batch's result."""
    outcome = way.run(join, batches)
    return [
        sorted(ad for ad in result.column("ad").to_pylist() if ad is not None)
        for result in outcome.results
    ]


class TestWhenTheWatermarkProvesIt:
    @pytest.mark.parametrize(
        ("how", "row"),
        [
            ("left", {"views": [(1, at(0))]}),
            ("full", {"views": [(1, at(0))]}),
            ("anti", {"views": [(1, at(0))]}),
            ("right", {"clicks": [(1, at(0))]}),
            ("full", {"clicks": [(1, at(0))]}),
        ],
    )
    def test_an_unmatched_row_comes_when_its_window_is_over(
        self, way: Way, how: str, row: dict[str, list[tuple[Any, ...]]]
    ) -> None:
        # Given a row at 0 that waits for 10 seconds,
        join = ads(how)
        # when the watermark goes to 9.999999, to 10 and on (it takes effect a batch later,
        # in whole milliseconds),
        batches = [join.batch(**row), tick(join, 9.999999), tick(join, 10), join.batch()]
        # then the row comes in the first batch in which the watermark is 10.
        assert ads_out(way, join, [*batches, join.batch()]) == [[], [], [], [1], []]

    def test_each_stream_waits_for_its_own_window(self, way: Way) -> None:
        join = ads("full", within={"views": 2 * SECOND, "clicks": 4 * SECOND})
        rows = join.batch(views=[(1, at(0))], clicks=[(2, at(0))])
        batches = [rows, tick(join, 2), tick(join, 4), join.batch()]
        assert ads_out(way, join, batches) == [[], [], [1], [2]]

    def test_a_window_of_zero_is_over_at_the_row_itself(self, way: Way) -> None:
        join = ads("left", within=0 * SECOND)
        batches = [join.batch(views=[(1, at(0))]), tick(join, 0), join.batch()]
        assert ads_out(way, join, batches) == [[], [], [1]]

    def test_the_delay_is_waited_for(self, way: Way) -> None:
        join = ads("anti", delay=5 * SECOND)
        batches = [join.batch(views=[(1, at(0))]), tick(join, 14), tick(join, 15), join.batch()]
        assert ads_out(way, join, batches) == [[], [], [], [1]]

    def test_the_slower_stream_decides(self, way: Way) -> None:
        join = ads("left")
        silent = join.batch(views=[(None, at(100))])
        slow = join.batch(clicks=[(None, at(9))])
        batches = [join.batch(views=[(1, at(0))]), silent, slow, tick(join, 10), join.batch()]
        assert ads_out(way, join, batches) == [[], [], [], [], [1]]

    @pytest.mark.parametrize("how", ["left", "full", "anti"])
    def test_a_null_key_or_time_is_unmatched_at_once(self, way: Way, how: str) -> None:
        join = ads(how)
        outcome = way.run(join, [join.batch(views=[(None, at(0)), (1, None)]), join.batch()])
        assert [result.num_rows for result in outcome.results] == [2, 0]
        assert outcome.results[0].column("ad").to_pylist() == [None, 1]

    def test_a_null_key_of_the_second_stream_is_unmatched_at_once(self, way: Way) -> None:
        join = ads("right")
        outcome = way.run(join, [join.batch(clicks=[(None, at(0)), (1, None)]), join.batch()])
        assert outcome.results[0].column("ad").to_pylist() == [None, 1]
        assert outcome.results[0].column("seen").to_pylist() == [None, None]
        assert outcome.results[1].num_rows == 0


class TestAtTheEdges:
    @pytest.mark.parametrize(("clicked", "pairs"), [(10, 1), (10.000001, 0), (-4, 1), (-4.5, 0)])
    def test_the_bounds_of_the_window_belong_to_it(
        self, way: Way, clicked: float, pairs: int
    ) -> None:
        join = ads("inner", within={"views": 10 * SECOND, "clicks": 4 * SECOND})
        batch = join.batch(views=[(1, at(0))], clicks=[(1, at(clicked))])
        assert way.run(join, [batch]).result.num_rows == pairs
        parts = [join.batch(views=[(1, at(0))]), join.batch(clicks=[(1, at(clicked))])]
        assert way.run(join, parts).result.num_rows == pairs
        assert way.run(join, parts[::-1]).result.num_rows == pairs

    def test_a_row_at_the_watermark_is_late_and_one_just_after_it_is_not(self, way: Way) -> None:
        join = ads("left", within=0 * SECOND)
        late = join.batch(
            views=[(1, at(5)), (2, at(5.000001)), (3, at(4)), (None, at(5)), (4, None)]
        )
        outcome = way.run(join, [tick(join, 5), late, tick(join, 6), join.batch()])
        assert outcome.late == [
            {"views": 0, "clicks": 0},
            {"views": 3, "clicks": 0},
            {"views": 0, "clicks": 0},
            {"views": 0, "clicks": 0},
        ]
        ads_left = outcome.result.column("ad").to_pylist()
        assert sorted(ad for ad in ads_left if ad is not None) == [2, 4]

    def test_a_late_row_matches_nothing_and_marks_nothing(self, way: Way) -> None:
        join = ads("left")
        late = join.batch(clicks=[(1, at(8))])
        batches = [join.batch(views=[(1, at(7))]), tick(join, 8), late, tick(join, 60)]
        outcome = way.run(join, [*batches, join.batch()])
        matched = [row for row in outcome.result.to_pylist() if row["ad"] == 1]
        assert matched == [{"ad": 1, "seen": at(7), "clicked": None}]

    def test_there_is_no_watermark_before_every_stream_has_had_a_row(self, way: Way) -> None:
        join = ads("anti", within=0 * SECOND)
        batches = [
            join.batch(views=[(1, at(1000))]),
            join.batch(views=[(2, at(0))]),
            join.batch(clicks=[(None, None)]),
            join.batch(views=[(3, at(-1000))]),
        ]
        outcome = way.run(join, batches)
        assert outcome.result.num_rows == 0
        assert all(late == {"views": 0, "clicks": 0} for late in outcome.late)


class TestOwnWatermarks:
    """Rows of a stream that brings its own watermark are late by that of the batch before."""

    def own(self) -> Join:
        join = ads("inner")
        streams = {name: replace(s, watermarked=True) for name, s in join.streams.items()}
        return replace(join, streams=streams)

    def test_a_row_at_the_watermark_before_is_late_and_one_just_after_it_is_not(
        self, way: Way
    ) -> None:
        join = self.own()
        views = join.batch(views=[(1, at(5)), (2, at(5.000001)), (3, at(6)), (4, None)])
        outcome = way.run(join, [tick(join, 5), tick(join, 6), views])
        assert outcome.late[-1] == {"views": 1, "clicks": 0}

    def test_a_row_between_both_watermarks_matches_what_waits_for_it(self, way: Way) -> None:
        join = self.own()
        views = join.batch(views=[(1, at(0))])
        batches = [views, tick(join, 9), tick(join, 10), join.batch(clicks=[(1, at(9.5))])]
        assert ads_out(way, join, batches) == [[], [], [], [1]]

    def test_all_shards_judge_by_the_same_watermark(self, way: Way) -> None:
        # Given rows in one shard, and none in the others,
        join = self.own()
        first = join.batch(views=[(1, at(5))], clicks=[(1, at(5))])
        # when a batch without data runs under the watermark that they make,
        late = join.batch(views=[(ad, at(5)) for ad in range(20)])
        outcome = way.run(join, [first, join.batch(), late], shards=4)
        # then it is the watermark before of every shard.
        assert outcome.late[-1] == {"views": 20, "clicks": 0}


class TestOnce:
    def test_a_semi_join_gives_a_row_at_its_first_match_and_never_again(self, way: Way) -> None:
        join = ads("semi")
        click = join.batch(clicks=[(1, at(1)), (1, at(1))])
        batches = [join.batch(views=[(1, at(0)), (1, at(0))]), click, click, tick(join, 60)]
        assert ads_out(way, join, [*batches, join.batch()]) == [[], [1, 1], [], [], []]

    def test_a_semi_join_finds_what_came_before(self, way: Way) -> None:
        join = ads("semi")
        click = join.batch(clicks=[(1, at(1)), (1, at(2))])
        assert ads_out(way, join, [click, join.batch(views=[(1, at(3))]), click]) == [[], [1], []]

    def test_duplicates_are_rows_of_their_own(self, way: Way) -> None:
        join = ads("full")
        batch = join.batch(views=[(1, at(0))] * 3, clicks=[(1, at(0))] * 2)
        assert ads_out(way, join, [batch, tick(join, 60), join.batch()]) == [[1] * 6, [], []]

    @pytest.mark.parametrize("how", ["inner", "semi", "anti"])
    def test_every_batch_gives_exactly_what_it_proves(self, way: Way, how: str) -> None:
        @examples(15)
        @given(run=runs([how]))
        def check(run: Run) -> None:
            with limited(**run.limits):
                outcome = way.run(
                    run.join, run.batches, shards=run.shards, before=run.before, cut=run.cut
                )
            for number in range(len(run.batches)):
                so_far = run.batches[: number + 1]
                if how == "anti":
                    expected = run.join.proven_unmatched_in(so_far, "a")
                else:
                    expected = run.join.matched_after(so_far)
                actual = pa.concat_tables(outcome.results[: number + 1])
                assert_same_rows(actual, expected, note=f"after batch {number}")

        check()

    @pytest.mark.parametrize("how", ["left", "right", "full"])
    def test_every_batch_gives_as_many_rows_as_it_proves(self, way: Way, how: str) -> None:
        @examples(10)
        @given(run=runs([how]))
        def check(run: Run) -> None:
            with limited(**run.limits):
                outcome = way.run(
                    run.join, run.batches, shards=run.shards, before=run.before, cut=run.cut
                )
            preserved = {"left": "a", "right": "b", "full": "ab"}[how]
            total = 0
            for number, result in enumerate(outcome.results):
                so_far = run.batches[: number + 1]
                total += result.num_rows
                expected = run.join.matched_after(so_far).num_rows
                for stream in preserved:
                    expected += run.join.proven_unmatched_in(so_far, stream).num_rows
                assert total == expected, f"after batch {number}"

        check()


@pytest.mark.parametrize(("how", "preserved"), [("left", "a"), ("full", "ab"), ("anti", "a")])
def test_rows_that_are_not_proven_unmatched_are_counted(how: str, preserved: str) -> None:
    shown: Counter[str] = Counter()

    @examples(15)
    @given(run=runs([how]))
    def check(run: Run) -> None:
        with limited(**run.limits):
            outcome = LocalWay().run(
                run.join, run.batches, shards=run.shards, before=run.before, cut=run.cut
            )
        for number, counters in enumerate(outcome.counters):
            so_far = run.batches[: number + 1]
            if not any(rows.num_rows for rows in so_far[-1].values()):
                continue  # Not every shard takes a step then.
            for stream, count in zip(run.join.streams, counters.streams, strict=True):
                expected = run.join.unproven_after(so_far, stream) if stream in preserved else 0
                assert count.unproven == expected, f"of {stream} after batch {number}"
                shown["unproven"] += count.unproven > 0
                shown["stored, and proven or matched"] += count.state_rows > count.unproven > 0

    until_shown(check, lambda: len(+shown) == 2, "rows that wait, beside others that do not")
