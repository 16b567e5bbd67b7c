"""Searching sorted codes: which of some codes are among them, and where does each begin?

The sorted ones are the *targets*. Where many codes are looked for among few targets, a table
replaces the binary search, which takes a hundred nanoseconds a code:

- Targets that are close together, like serial numbers, get a table with a bucket for every code
  from the least to the greatest: four nanoseconds a code.
- For others, a filter with one bit set for each target first drops almost all codes that are not
  among them, in about a nanosecond; the rest are looked up in a hash table, in ten.

**Example.** The codes 3, 5, 9 and 4 are looked for among the targets 3, 3, 4, 9. The table has a
bucket for each code from 3 to 9, and says where the code begins among the targets::

    code      3   4   5   6   7   8   9
    begins    0   2   -   -   -   -   3

The code 5 is not there. The others begin at 0, 3 and 2.
"""

from __future__ import annotations

import numpy as np

from watersmeet.rows.columns import Bools, Ints

#: A filter comes first unless the targets are more than this many times the codes.
_FILTER_BELOW = 4
#: The filter has 32 buckets for each target, and at most 2 ** _FILTER_BITS.
_FILTER_BITS = 20
#: A hash table has 8 buckets for each target. A table with a bucket for every code has at most 8
#: for each code that is looked for. Neither has more than 2 ** _TABLE_BITS.
_BUCKETS = 8
_TABLE_BITS = 21
#: 2**64 divided by the golden ratio: Fibonacci hashing spreads neighbouring integers.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def starts_of(codes: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """The positions of the codes that are among the targets, and where each begins there.

    >>> [each.tolist() for each in starts_of(np.array([3, 5, 9, 4]), np.array([3, 3, 4, 9]))]
    [[0, 2, 3], [0, 3, 2]]
    """
    chosen = None
    if len(targets) <= _FILTER_BELOW * len(codes):
        span = int(targets[-1]) - int(targets[0]) + 1
        if span <= min(_BUCKETS * len(codes), 1 << _TABLE_BITS):
            return _by_address(codes, targets, span)
        chosen = np.flatnonzero(may_be_among(codes, targets))
        codes = codes[chosen]
    locate = _by_hash_table if len(targets) <= len(codes) else _by_binary_search
    found, low = locate(codes, targets)
    return found if chosen is None else chosen[found], low


def _by_binary_search(codes: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """The same, by binary search."""
    low = np.searchsorted(targets, codes, side="left")
    found = np.flatnonzero(targets[np.minimum(low, len(targets) - 1)] == codes)
    return found, low[found]


def _by_address(codes: Ints, targets: Ints, span: int) -> tuple[Ints, Ints]:
    """The same, by a table of where each code begins, from the least target to the
    greatest. Its last bucket is for all other codes."""
    starts = np.flatnonzero(np.append(True, targets[1:] != targets[:-1]))
    table = np.full(span + 1, -1, dtype=np.int32)
    table[targets[starts] - targets[0]] = starts
    # As unsigned numbers, codes below the least are far above the greatest.
    distance = (codes - targets[0]).view(np.uint64)
    low = table.take(np.minimum(distance, np.uint64(span)).view(np.int64))
    found = np.flatnonzero(low >= 0)
    return found, low[found].astype(np.int64)


def _by_hash_table(codes: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """The same, by a hash table of where each target begins. If several targets share a bucket, it
    has the last of them; the others are found by binary search."""
    starts = np.flatnonzero(np.append(True, targets[1:] != targets[:-1]))
    bits = min((_BUCKETS * len(starts)).bit_length(), _TABLE_BITS)
    table = np.zeros(1 << bits, dtype=np.int32)
    buckets = _bucket(targets[starts], bits)
    table[buckets] = starts
    at = _bucket(codes, bits)
    low = table.take(at).astype(np.int64)
    equal = targets.take(low) == codes
    displaced = table[buckets] != starts
    if displaced.any():
        shared = np.zeros(1 << bits, dtype=np.bool_)
        shared[buckets[displaced]] = True
        rest = np.flatnonzero(shared.take(at) & ~equal)
        there = np.searchsorted(targets, codes[rest], side="left")
        low[rest] = np.minimum(there, len(targets) - 1)
        equal[rest] = targets[low[rest]] == codes[rest]
    found = np.flatnonzero(equal)
    return found, low[found]


def may_be_among(codes: Ints, targets: Ints) -> Bools:
    """Which codes may be among the targets. A few others are let through in error."""
    bits = min(len(targets).bit_length() + 5, _FILTER_BITS)
    buckets = np.zeros(1 << bits, dtype=np.bool_)
    buckets[_bucket(targets, bits)] = True
    passed: Bools = buckets.take(_bucket(codes, bits))
    return passed


def _bucket(codes: Ints, bits: int) -> Ints:
    with np.errstate(over="ignore"):
        spread = codes.view(np.uint64) * _GOLDEN
    spread >>= np.uint64(64 - bits)
    return spread.view(np.int64)
