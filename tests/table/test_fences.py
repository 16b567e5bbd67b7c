"""Fences against a binary search of all codes."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.table.partitions import FENCE_STEP, fence_count, fences_of, first_at_least


@pytest.mark.parametrize(
    "rows", [1, 2, *(FENCE_STEP + n for n in (-1, 0, 1)), 3 * FENCE_STEP, 1000]
)
@pytest.mark.parametrize("different", [1, 5, 300, 1 << 62])
def test_codes_are_found_where_a_binary_search_finds_them(rows: int, different: int) -> None:
    generator = np.random.default_rng(rows)
    stored = np.sort(generator.integers(-different, different, rows))
    fences = fences_of(stored)
    limits = np.iinfo(np.int64)
    others = generator.integers(-different - 2, different + 2, 200)
    codes = np.concatenate([stored, others, [limits.min, limits.max]])

    found = first_at_least(stored, fences, codes)

    assert len(fences) == fence_count(np.array([rows]))[0]
    np.testing.assert_array_equal(found, np.searchsorted(stored, codes))
