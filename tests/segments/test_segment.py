"""Segments: the index is sorted, and a merge keeps it so."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.rows.columns import CODE, TIME, concat, times_of
from watersmeet.rows.ipc import decode, encode
from watersmeet.segments.index import sort_order
from watersmeet.segments.segment import Segment

INSTANT = pa.timestamp("us", "UTC")
ENDS = [-(2**63), -1, 0, 1, 2**63 - 1]

pairs = st.lists(
    st.tuples(st.sampled_from([*ENDS, 2, 3]), st.integers(-3, 3) | st.sampled_from(ENDS)),
    max_size=40,
)


def rows_of(values: list[tuple[int, int]], *, first: int = 0) -> pa.RecordBatch:
    codes, times = ([value[i] for value in values] for i in (0, 1))
    return pa.RecordBatch.from_pydict(
        {
            CODE: pa.array(codes, pa.int64()),
            TIME: pa.array(times, pa.int64()).view(INSTANT),
            "n": pa.array(range(first, first + len(values)), pa.int64()),
        }
    )


def check_invariant(segment: Segment) -> None:
    """As the module's docstring states it."""
    codes = segment.rows.column(CODE).to_numpy()
    times = times_of(segment.rows)
    assert sorted(segment.index.order.tolist()) == list(range(len(segment.rows)))
    assert segment.index.codes.tolist() == codes[segment.index.order].tolist()
    assert segment.index.times.tolist() == times[segment.index.order].tolist()
    indexed = list(zip(segment.index.codes.tolist(), segment.index.times.tolist(), strict=True))
    assert indexed == sorted(indexed)
    if len(times):
        assert (segment.min_time, segment.max_time) == (times.min(), times.max())


@settings(max_examples=150, deadline=None, print_blob=True)
@given(values=pairs)
def test_sort_order_sorts_as_lexsort_does(values: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in values], dtype=np.int64)
    times = np.array([time for _, time in values], dtype=np.int64)
    order, expected = sort_order(codes, times), np.lexsort((times, codes))
    assert sorted(order.tolist()) == list(range(len(values)))
    assert codes[order].tolist() == codes[expected].tolist()
    assert times[order].tolist() == times[expected].tolist()


def test_sort_order_of_many_rows_in_almost_the_right_order() -> None:
    random = np.random.default_rng(7)
    codes = random.integers(0, 50, 20_000)
    times = np.arange(20_000) + random.integers(0, 2, 20_000) * random.integers(-30, 30, 20_000)
    order, expected = sort_order(codes, times), np.lexsort((times, codes))
    assert np.array_equal(codes[order], codes[expected])
    assert np.array_equal(times[order], times[expected])


@settings(max_examples=80, deadline=None, print_blob=True)
@given(values=pairs)
def test_a_new_segment_is_sorted(values: list[tuple[int, int]]) -> None:
    check_invariant(Segment.of(rows_of(values)))


@settings(max_examples=80, deadline=None, print_blob=True)
@given(groups=st.lists(pairs.filter(len), min_size=1, max_size=5))
def test_a_merge_keeps_rows_in_place_and_the_index_sorted(
    groups: list[list[tuple[int, int]]],
) -> None:
    starts = np.cumsum([0, *map(len, groups)])
    batches = [rows_of(g, first=int(s)) for g, s in zip(groups, starts, strict=False)]
    merged = Segment.merge([Segment.of(batch) for batch in batches])
    check_invariant(merged)
    assert merged.rows.column("n").to_pylist() == list(range(starts[-1]))


def test_a_merge_of_merges_is_a_merge() -> None:
    one, two, three = (Segment.of(rows_of([(2, t), (1, t)])) for t in (3, 1, 2))
    check_invariant(Segment.merge([Segment.merge([one, two]), three]))
    check_invariant(Segment.merge([one]))


def test_a_stream_without_time_has_all_times_zero() -> None:
    segment = Segment.of(pa.RecordBatch.from_pydict({CODE: pa.array([5, 1], pa.int64())}))
    assert segment.index.times.tolist() == [0, 0]
    assert segment.index.order.tolist() == [1, 0]
    assert (segment.min_time, segment.max_time) == (0, 0)


def test_an_empty_segment_has_no_rows() -> None:
    segment = Segment.of(rows_of([]))
    assert len(segment) == 0
    assert (segment.min_time, segment.max_time) == (0, 0)


def test_filtered_and_sliced_rows_are_indexed_as_they_are() -> None:
    rows = rows_of([(3, 1), (2, 2), (1, 3), (0, 4)])
    check_invariant(Segment.of(rows.filter(pa.array([True, False, True, True]))))
    check_invariant(Segment.of(rows.slice(1, 2)))


def test_a_segment_survives_the_form_it_is_cached_in() -> None:
    segment = Segment.of(rows_of([(2, 9), (1, 8), (2, 7)]))
    copy = Segment.from_batch(segment.indexed().to_batch())
    check_invariant(copy)
    assert copy.rows.equals(segment.rows)
    assert copy.rows.schema.names == [CODE, TIME, "n"]


def test_a_plain_segment_stays_plain_in_the_cache() -> None:
    rows = rows_of([(2, 9), (1, 8)])
    copy = Segment.from_batch(Segment.of(rows).to_batch())
    assert not copy.has_index
    assert copy.rows.equals(rows)
    assert (copy.min_time, copy.max_time) == (8, 9)
    check_invariant(copy)


def test_a_merge_makes_an_index_only_where_one_is_wanted() -> None:
    one, two = Segment.of(rows_of([(2, 9), (1, 8)])), Segment.of(rows_of([(1, 3)]))
    plain = Segment.merge([one, two], indexed=False)
    assert not plain.has_index
    assert not one.has_index
    assert plain.rows.equals(Segment.merge([one, two]).rows)
    check_invariant(Segment.merge([one, two]))


def test_asking_for_an_index_makes_it_with_assertions_off_too() -> None:
    # `python -O` leaves assertions out, and what they would have done.
    program = """
import pyarrow as pa
from watersmeet.rows.columns import CODE
from watersmeet.segments.segment import Segment
plain = Segment.of(pa.RecordBatch.from_pydict({CODE: pa.array([5, 1], pa.int64())}))
print(__debug__, plain.has_index, plain.indexed().has_index, plain.index.order.tolist())
"""
    done = subprocess.run([sys.executable, "-O", "-c", program], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "False False True [1, 0]\n")


def test_a_column_may_have_the_name_of_an_index_column() -> None:
    rows = rows_of([(2, 9), (1, 8)]).rename_columns([CODE, TIME, "#order"])
    copy = Segment.from_batch(Segment.of(rows).indexed().to_batch())
    assert copy.rows.equals(rows)
    assert copy.index.order.tolist() == [1, 0]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, "a", ""]),
        pa.array([None, [1, None], []]),
        pa.array([None, {"x": 1}, {"x": None}]),
        pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        pa.array([True, None, False]),
        pa.nulls(3),
    ],
    ids=lambda column: str(column.type),
)
def test_rows_of_every_type_survive_the_store(column: pa.Array) -> None:
    rows = rows_of([(1, 1), (2, 2), (3, 3)]).append_column("payload", column)
    assert decode(encode(rows)).equals(rows)
    # A slice is stored without the rest of its buffers.
    assert decode(encode(rows.slice(1, 1))).equals(rows.slice(1, 1))
    assert concat([decode(encode(rows.slice(0, 1))), decode(encode(rows.slice(1)))]).equals(rows)


def test_what_the_widest_row_takes_is_known_without_measuring_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given segments of which one has a wide row,
    segments = [
        Segment.of(rows_of([(1, 1), (2, 2)]).append_column("text", pa.array(["x", "y" * width])))
        for width in (1, 500)
    ]
    assert [segment.widest for segment in segments] == [8 + 8 + 8 + 4 + 1, 8 + 8 + 8 + 4 + 500]
    # when they are merged, and written to the cache and read again,
    copies = [Segment.from_batch(segment.to_batch()) for segment in segments]
    monkeypatch.setattr("watersmeet.segments.segment.row_bytes", None)
    # then nothing is measured.
    assert [copy.widest for copy in copies] == [29, 528]
    assert Segment.merge(copies).widest == 528
