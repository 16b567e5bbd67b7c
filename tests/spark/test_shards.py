"""The pure half of the shards: ids, hashes and numbers, without a JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.rows.shard import shard_numbers
from watersmeet.spark.query.shards import murmur3, shard_ids


def test_murmur3_is_sparks_hash() -> None:
    # SELECT hash(0), hash(1), hash(2), hash(42), hash(1000003), hash(2147483647) in Spark 4.3
    values = np.array([0, 1, 2, 42, 1_000_003, 2**31 - 1], dtype=np.uint32)
    assert murmur3(values).tolist() == [
        933211791,
        -559580957,
        1765031574,
        29417773,
        45861451,
        133916647,
    ]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8, 200, 1000])
def test_each_shard_has_a_partition_of_its_own(partitions: int) -> None:
    ids = shard_ids(partitions)
    hashes = murmur3(np.array(ids, dtype=np.uint32)).astype(np.int64)
    assert (hashes % partitions).tolist() == list(range(partitions))
    assert 0 in ids
    assert len(set(ids)) == partitions


def test_shard_ids_are_the_smallest() -> None:
    for partition, chosen in enumerate(shard_ids(16)):
        smaller = murmur3(np.arange(chosen, dtype=np.uint32)).astype(np.int64) % 16
        assert partition not in smaller


@pytest.mark.parametrize("count", [1, 3, 8, 200])
def test_equal_codes_share_a_shard_and_runs_are_spread(count: int) -> None:
    codes = pa.array([*range(-10_000, 10_000), *range(-10_000, 10_000)], pa.int64())
    numbers = shard_numbers(codes, count)
    assert numbers.dtype == np.int64
    assert numbers[:20_000].tolist() == numbers[20_000:].tolist()
    sizes = np.bincount(numbers, minlength=count)
    assert len(sizes) == count
    assert sizes.max() <= 1.5 * sizes.mean() + 1


def test_the_ends_of_the_codes_have_a_shard() -> None:
    numbers = shard_numbers(pa.array([-(2**63), -1, 0, 2**63 - 1], pa.int64()), 7)
    assert all(0 <= number < 7 for number in numbers.tolist())


def test_the_hash_is_part_of_the_states_format() -> None:
    codes = pa.array([0, 1, 2, 3, -1, 10**12, 2**63 - 1, -(2**63)], pa.int64())
    assert shard_numbers(codes, 7).tolist() == [0, 6, 1, 1, 4, 6, 6, 2]


def test_no_codes_have_no_shards() -> None:
    assert shard_numbers(pa.array([], pa.int64()), 3).tolist() == []
    assert shard_numbers(pa.array([1, 2], pa.int64()).slice(1, 1), 3).tolist() == (
        shard_numbers(pa.array([2], pa.int64()), 3).tolist()
    )
