"""A set of codes as ranges is a set of codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.rows.shard import Shard
from watersmeet.segments import keyset
from watersmeet.segments.keyset import KeySet

LEAST, GREATEST = -(2**63), 2**63 - 1
ranges = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), max_size=12)


@settings(max_examples=200, deadline=None)
@given(batches=st.lists(ranges, max_size=4))
def test_it_holds_what_was_put_in_and_nothing_else(batches: list[list[tuple[int, int]]]) -> None:
    keys, expected = KeySet(), set()
    for batch in batches:
        low, high = (np.array([pair[i] for pair in batch], dtype=np.int64) for i in (0, 1))
        keys = keys.with_ranges(low, high)
        for start, stop in batch:
            expected |= set(range(start, stop + 1))
    probes = np.arange(-25, 26)
    assert keys.contains(probes).tolist() == [code in expected for code in range(-25, 26)]
    # Ascending, disjoint, with gaps.
    assert all(low <= high for low, high in zip(keys.low, keys.high, strict=True))
    assert all(end + 1 < start for end, start in zip(keys.high, keys.low[1:], strict=False))
    copy = KeySet.from_rows(keys.to_rows())
    assert copy.low.tolist() == keys.low.tolist()
    assert copy.high.tolist() == keys.high.tolist()


def test_neighbours_become_one_range_however_many_there_are() -> None:
    keys = KeySet()
    for start in range(0, 10_000, 10):
        keys = keys.with_codes(np.random.default_rng(start).permutation(np.arange(10)) + start)
    assert (keys.low.tolist(), keys.high.tolist()) == ([0], [9999])


def test_the_ends_of_the_numbers() -> None:
    ends = np.array([LEAST, GREATEST])
    keys = KeySet().with_codes(ends)
    assert keys.contains(np.array([LEAST, 0, GREATEST])).tolist() == [True, False, True]
    everything = keys.with_ranges(np.array([LEAST]), np.array([GREATEST]))
    assert len(everything.low) == 1
    assert everything.covers(LEAST, GREATEST)
    assert not keys.covers(LEAST, GREATEST)
    assert not KeySet().covers(1, 1)
    assert KeySet().covers(2, 1)
    assert not KeySet()


@settings(max_examples=200, deadline=None)
@given(
    batches=st.lists(ranges, max_size=5),
    share=st.integers(1, 4).flatmap(
        lambda count: st.builds(Shard, st.integers(0, count - 1), st.just(count))
    ),
)
def test_bridging_changes_nothing_for_the_keys_of_the_shard(
    batches: list[list[tuple[int, int]]], share: Shard
) -> None:
    probes = np.arange(-25, 26)
    mine = share.has(probes)
    plain = bridged = KeySet()
    for batch in batches:
        low, high = (np.array([pair[i] for pair in batch], dtype=np.int64) for i in (0, 1))
        plain = plain.with_ranges(low, high)
        bridged = bridged.with_ranges(low, high).bridged(bridged, share)
        assert bridged.contains(probes)[mine].tolist() == plain.contains(probes)[mine].tolist()
        # Every gap that is left has a key of the shard.
        for end, start in zip(bridged.high, bridged.low[1:], strict=False):
            assert share.has(np.arange(end + 1, start)).any()


@pytest.mark.parametrize("count", [2, 7, 200])
@pytest.mark.parametrize("together", [1, 100])
def test_keys_closed_in_their_order_take_few_ranges_in_every_shard(
    count: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "_CODES", 1000)  # so that there are several pieces
    share, keys = Shard(count - 1, count), KeySet()
    for first in range(0, 20_000, together):
        codes = np.arange(first, first + together)
        codes = codes[share.has(codes)]
        keys = keys.with_ranges(codes, codes).bridged(keys, share)
    assert len(keys.low) == 1


def test_bridging_leaves_long_gaps_and_the_ends_of_the_numbers() -> None:
    keys = KeySet().with_codes(np.array([LEAST, 0, 10**6, GREATEST]))
    assert keys.bridged(KeySet(), Shard(0, 2)) is keys
