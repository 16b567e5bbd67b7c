"""Which shard a key belongs to.

Invariant: every key belongs to exactly one shard, which depends on its code and on the number of
shards only. This is part of the state's format: with another function, rows would be sent to shards
that do not have the rows they match.

Rule: a code is hashed, and the hash taken modulo the number of shards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import Bools, Ints

#: 2**64 divided by the golden ratio: Fibonacci hashing spreads runs of integers.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Added to a code, it makes the upper half of the hash, by which the shard is found, one greater.
_NEXT = np.uint64((pow(0x9E3779B97F4A7C15, -1, 1 << 64) << 32) % (1 << 64))


@dataclass(frozen=True)
class Shard:
    """The keys of one shard: shard ``number`` out of ``count``.

    Invariant: ``0 <= number < count``.

    >>> codes = np.arange(1000)
    >>> sum(int(Shard(number, 3).has(codes).sum()) for number in range(3))
    1000
    """

    number: int = 0
    count: int = 1

    def has(self, codes: Ints) -> Bools:
        """For each code: does it belong to this shard?"""
        mine: Bools = numbers_of(codes, self.count) == self.number
        return mine


def shard_numbers(codes: pa.Array, count: int) -> Ints:
    """The shard of each key code, from 0 to count - 1; that of zero for a null."""
    return numbers_of(codes.fill_null(0).to_numpy(zero_copy_only=False), count)


def further(codes: Ints, by: Ints) -> Ints:
    """Codes whose shards are so many further on, whatever the number of shards.

    >>> codes = further(np.full(5, 77), np.arange(5))
    >>> [shard_numbers(pa.array(codes), count).tolist() for count in (2, 3, 4)]
    [[1, 0, 1, 0, 1], [0, 1, 2, 0, 1], [3, 0, 1, 2, 3]]
    """
    with np.errstate(over="ignore"):
        moved: Ints = (codes.view(np.uint64) + by.astype(np.uint64) * _NEXT).view(np.int64)
    return moved


def numbers_of(codes: Ints, count: int) -> Ints:
    """The shard of each code, by a hash of it."""
    with np.errstate(over="ignore"):
        numbers = ((codes.view(np.uint64) * _GOLDEN) >> np.uint64(32)) % np.uint64(count)
    dealt: Ints = numbers.astype(np.int64)
    return dealt
