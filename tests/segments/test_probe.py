"""Probing finds what a nested loop finds, and gives it out in bounded pieces."""

from __future__ import annotations

import itertools
import tracemalloc
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.segments.test_segment import rows_of
from watersmeet.rows.columns import CODE, TIME, codes_of, times_of
from watersmeet.segments import code_search
from watersmeet.segments import probe as probing
from watersmeet.segments.index import Index
from watersmeet.segments.probe import Ranges, probe
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import LIMITS

rows = st.lists(
    st.tuples(st.sampled_from([-(2**63), 0, 1, 2, 2**63 - 1]), st.integers(-8, 8)), max_size=25
)
widths = st.sampled_from([None, 0, 1, 3, 100])


def brute_force(
    new: list[tuple[int, int]],
    stored: list[tuple[int, int]],
    before: int | None,
    after: int | None,
) -> list[tuple[int, int]]:
    """The positions of the pairs that match."""
    return [
        (i, j)
        for (i, (code, time)), (j, (other, earlier)) in itertools.product(
            enumerate(new), enumerate(stored)
        )
        if code == other
        and (before is None or earlier >= time - before)
        and (after is None or earlier <= time + after)
    ]


@settings(max_examples=100, deadline=None, print_blob=True)
@given(
    wanted=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40), min_size=1),
    others=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40)),
    bits=st.sampled_from([1, 3, 21]),
)
def test_a_table_finds_what_a_search_finds_however_many_share_a_place(
    wanted: list[int], others: list[int], bits: int
) -> None:
    sorted_codes = np.sort(np.array(wanted, dtype=np.int64))
    codes = np.array(wanted + others, dtype=np.int64)
    with mock.patch.object(code_search, "_TABLE_BITS", bits):
        found, starts = code_search._by_hash_table(codes, sorted_codes)
    assert found.tolist() == np.flatnonzero(np.isin(codes, sorted_codes)).tolist()
    assert starts.tolist() == np.searchsorted(sorted_codes, codes[found]).tolist()


@settings(max_examples=100, deadline=None, print_blob=True)
@given(
    least=st.sampled_from([-(2**63), -7, 0, 2**63 - 41]),
    wanted=st.lists(st.integers(0, 40), min_size=1),
    others=st.lists(st.integers(-(2**63), 2**63 - 1)),
)
def test_a_place_for_every_code_finds_what_a_search_finds(
    least: int, wanted: list[int], others: list[int]
) -> None:
    sorted_codes = np.sort(np.array([least + code for code in wanted], dtype=np.int64))
    codes = np.array([least + code for code in range(41)] + others, dtype=np.int64)
    with mock.patch.object(code_search, "_by_address", wraps=code_search._by_address) as by_address:
        found, starts = code_search.starts_of(codes, sorted_codes)
    assert by_address.called
    assert found.tolist() == np.flatnonzero(np.isin(codes, sorted_codes)).tolist()
    assert starts.tolist() == np.searchsorted(sorted_codes, codes[found]).tolist()


@settings(max_examples=150, deadline=None, print_blob=True)
@given(
    new=rows,
    stored=rows,
    before=widths,
    after=widths,
    size=st.integers(1, 9),
    indexed=st.tuples(st.booleans(), st.booleans()),
    near=st.sampled_from([0, 1 << 15]),
)
def test_probe_finds_what_a_nested_loop_finds(
    new: list[tuple[int, int]],
    stored: list[tuple[int, int]],
    before: int | None,
    after: int | None,
    size: int,
    indexed: tuple[bool, bool],
    near: int,
) -> None:
    ours, theirs = Segment.of(rows_of(new)), Segment.of(rows_of(stored))
    for segment, wanted in zip((ours, theirs), indexed, strict=True):
        if wanted:
            segment.indexed()
    with mock.patch.object(probing, "NEAR", near):
        pieces = list(probe(ours, theirs, before, after).pieces(size))
    expected = brute_force(new, stored, before, after)
    found = [(int(i), int(j)) for mine, others in pieces for i, j in zip(mine, others, strict=True)]
    assert sorted(found) == sorted(expected)
    # Every piece but the last is full.
    assert [len(mine) for mine, _ in pieces[:-1]] == [size] * (len(pieces) - 1)
    assert all(1 <= len(mine) <= size for mine, _ in pieces)


def test_nothing_to_probe_and_nothing_stored() -> None:
    some, none = Segment.of(rows_of([(1, 1)])), Segment.of(rows_of([]))
    for new, stored in ((some, none), (none, some), (none, none)):
        assert list(probe(new, stored, 5, 5).pieces(LIMITS.piece_rows)) == []


def test_many_rows_against_many(subtests: pytest.Subtests) -> None:
    random = np.random.default_rng(3)

    def segment(count: int) -> Segment:
        codes = pa.array(random.integers(0, 300, count))
        times = pa.array(random.integers(0, 10_000, count)).view(pa.timestamp("us", "UTC"))
        return Segment.of(pa.RecordBatch.from_pydict({CODE: codes, TIME: times}))

    sizes = ((10, 20_000), (20_000, 10), (3000, 3000))
    for (new, stored), plain in itertools.product(sizes, (True, False)):
        with subtests.test(new=new, stored=stored, plain=plain):
            ours, theirs = segment(new), segment(stored)
            if not plain:
                theirs.indexed()
            codes = codes_of(ours.rows)[:, None] == codes_of(theirs.rows)[None, :]
            distance = times_of(theirs.rows)[None, :] - times_of(ours.rows)[:, None]
            expected = np.argwhere(codes & (distance >= -500) & (distance <= 200))
            pieces = list(probe(ours, theirs, 500, 200).pieces(1000))
            found = np.concatenate([np.stack(piece, axis=1) for piece in pieces])
            assert np.array_equal(found[np.lexsort(found.T[::-1])], expected)


def test_a_row_with_millions_of_matches_comes_in_bounded_pieces() -> None:
    # Given five million stored rows of one key,
    count = 5_000_000
    zeros = np.zeros(count, dtype=np.int64)
    rows = pa.RecordBatch.from_pydict({CODE: pa.array(zeros)})
    stored = Segment(rows, 0, 0).with_index(Index(zeros, zeros, np.arange(count, dtype=np.int32)))
    new = Segment.of(pa.RecordBatch.from_pydict({CODE: pa.array([0], pa.int64())}))
    # when one row matches them all,
    tracemalloc.start()
    total = following = 0
    for mine, theirs in probe(new, stored, None, None).pieces(LIMITS.piece_rows):
        assert len(mine) == len(theirs) <= LIMITS.piece_rows
        assert (theirs[0], theirs[-1]) == (following, following + len(theirs) - 1)
        following += len(theirs)
        total += len(mine)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # then no more than a few pieces are in memory at any time.
    assert total == count
    assert peak < 20 * LIMITS.piece_rows * 8


def test_pieces_end_between_and_within_rows() -> None:
    searchers, order = np.array([4, 7, 9]), np.arange(30)
    low, high = np.array([0, 10, 20]), np.array([2, 15, 21])
    ranges = Ranges(searchers, low, high, order, swapped=False)
    assert [(mine.tolist(), theirs.tolist()) for mine, theirs in ranges.pieces(3)] == [
        ([4, 4, 7], [0, 1, 10]),
        ([7, 7, 7], [11, 12, 13]),
        ([7, 9], [14, 20]),
    ]
    assert len(list(ranges.pieces(8))) == 1
    assert len(list(ranges.pieces(2))) == 4


@pytest.mark.parametrize("end", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize("indexed", [True, False])
def test_times_at_the_ends_of_64_bits_match(end: int, indexed: bool) -> None:
    towards = -1 if end > 0 else 1
    new = Segment.of(rows_of([(1, end), (1, end + towards * 10)]))
    stored = Segment.of(rows_of([(1, end), (1, end + towards * 20)] * 50))
    if indexed:
        stored.indexed()
    pairs = [
        pair
        for piece in probe(new, stored, 10, 10).pieces(1000)
        for pair in zip(*piece, strict=True)
    ]
    found = {(int(mine), int(theirs) % 2) for mine, theirs in pairs}
    assert found == {(0, 0), (1, 0), (1, 1)}
