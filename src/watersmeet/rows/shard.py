"""How keys are spread over shards, and which of them are one shard's.

Part of the state's format: a change would move rows away from the state they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import Bools, Ints

#: 2**64 divided by the golden ratio: Fibonacci hashing spreads runs of integers.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Shard:
    """The keys of one shard: shard ``number`` out of ``count``.

    >>> codes = np.arange(1000)
    >>> sum(int(Shard(number, 3).has(codes).sum()) for number in range(3))
    1000
    """

    number: int = 0
    count: int = 1

    def has(self, codes: Ints) -> Bools:
        """Which of the codes are this shard's?"""
        mine: Bools = _spread(codes, self.count) == np.uint64(self.number)
        return mine


def shard_numbers(codes: pa.Array, count: int) -> Ints:
    """The shard of each key code, from 0 to count - 1.

    A null code matches nothing, so it may go anywhere: such rows are dealt out
    in turn, lest all of an outer join's null keys meet in one shard."""
    numbers = _spread(codes.fill_null(0).to_numpy(zero_copy_only=False), count)
    if codes.null_count:
        nulls = codes.is_null().to_numpy(zero_copy_only=False)
        numbers[nulls] = np.arange(int(nulls.sum()), dtype=np.uint64) % np.uint64(count)
    dealt: Ints = numbers.astype(np.int64)
    return dealt


def _spread(codes: Ints, count: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return ((codes.view(np.uint64) * _GOLDEN) >> np.uint64(32)) % np.uint64(count)
