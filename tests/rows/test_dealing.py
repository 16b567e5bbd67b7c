"""Rows of equal content are dealt by count, the same way in any order."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.strategies import examples
from watersmeet.rows.columns import CODE
from watersmeet.rows.dealing import ContentCounts, Dealer
from watersmeet.rows.shard import shard_numbers

#: Values with nulls and both zeros, and nested ones; a code says nothing of what differs in these.
VALUES = [
    (1, None, [1]),
    (None, 1, [1]),
    (1, None, [None]),
    (1, None, None),
    (1, 0.0, [0.0]),
    (1, 0.0, [-0.0]),
    (1, -0.0, [0.0]),
]
Rows = list[tuple[int, int]]


def dealt(given: Rows, cuts: list[int]) -> Counter[tuple[int, int]]:
    """How many rows of each content got which code, if a task brings them in such batches."""
    dealing, found = Dealer(), Counter[tuple[int, int]]()
    for part in (given[low:high] for low, high in zip([0, *cuts], [*cuts, None], strict=True)):
        columns = list(zip(*(VALUES[value] for _, value in part), strict=True)) or [(), (), ()]
        arrays = [pa.array([code for code, _ in part], pa.int64())]
        kinds = pa.int64(), pa.float64(), pa.list_(pa.float64())
        arrays += [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        rows = pa.RecordBatch.from_arrays(arrays, names=[CODE, "a", "b", "c"])
        codes = dealing.dealt(rows).column(CODE).to_pylist()
        found.update(zip(codes, (value for _, value in part), strict=True))
    return found


@examples(60)
@given(
    given_rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, len(VALUES) - 1)), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    others=st.lists(st.integers(0, 40), max_size=3),
    seed=st.integers(0, 1000),
)
def test_a_task_that_is_run_again_deals_alike_in_any_order(
    given_rows: Rows, cuts: list[int], others: list[int], seed: int
) -> None:
    shuffled = random.Random(seed).sample(given_rows, len(given_rows))
    first = dealt(given_rows, sorted(cuts))
    assert dealt(shuffled, sorted(others)) == first
    # Rows of equal content all have codes of their own.
    assert max(first.values(), default=1) == 1
    # One that has no like keeps the code of its content.
    contents = Counter(given_rows)
    assert all((row in first) for row, count in contents.items() if count == 1)


@pytest.mark.parametrize("shards", [2, 3, 7, 8, 200])
def test_equal_rows_are_dealt_one_shard_after_the_other(shards: int) -> None:
    codes = pa.array([code for code, _ in dealt([(5, 0)] * 1000, [100, 700])])
    counts = Counter(shard_numbers(codes, shards).tolist())
    assert max(counts.values()) - min(counts[shard] for shard in range(shards)) <= 1


def test_a_content_is_merged_a_few_times_however_many_batches_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a task of many batches, with old contents and new ones in each,
    contents = random.Random(3).choices(range(30_000), k=200 * 256)
    given_rows, merged = [(content, 0) for content in contents], 0
    merge = ContentCounts.merged

    def counting(self: ContentCounts, other: ContentCounts) -> ContentCounts:
        nonlocal merged
        merged += len(self) + len(other)
        return merge(self, other)

    monkeypatch.setattr(ContentCounts, "merged", counting)
    # when it is dealt batch by batch, then the batches before are not merged for each of them,
    found = dealt(given_rows, list(range(256, len(contents), 256)))
    assert merged < 8 * len(contents)
    # and each row gets what it gets if all come together.
    assert found == dealt(given_rows, [])
