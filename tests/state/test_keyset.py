"""A set of codes as ranges is a set of codes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.state.keyset import KeySet

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
    copy = KeySet.from_bytes(keys.to_bytes())
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
