"""Sets of keys by code, range and pattern: the same as comparing row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.strategies import examples
from watersmeet.joins.equi.promises.coverage import GREATEST, LEAST, About, CoveredKeys, bounds
from watersmeet.rows.codes import canonical_key, hashed_code
from watersmeet.segments.segment import Segment

TYPES = {"#key0": pa.string(), "#key1": pa.float64(), "#key2": pa.int32()}
VALUES: tuple[list[Any], ...] = (
    ["", "a", "a ", None],
    [0.0, -0.0, math.nan, 1.5, None],
    [0, 1, None],
)
KEYS = st.tuples(*(st.sampled_from(values) for values in VALUES))


def keyed(keys: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows, or punctuations, with such keys: encoded as they come in."""
    columns = [
        canonical_key(pa.array([key[i] for key in keys], kind))
        for i, kind in enumerate(TYPES.values())
    ]
    return pa.RecordBatch.from_arrays([hashed_code(columns), *columns], ["#code", *TYPES])


def fits(key: tuple[Any, ...], pattern: tuple[Any, ...]) -> bool:
    """Does a pattern, or a key, have that key? A null key is nobody's."""
    return all(
        fixed is None or value == fixed or (value != value and fixed != fixed)
        for value, fixed in zip(key, pattern, strict=True)
    )


@examples(100)
@given(
    batches=st.lists(st.lists(KEYS, max_size=3), max_size=4),
    asked=st.lists(KEYS, min_size=1, max_size=8),
)
def test_patterns_are_what_a_comparison_row_by_row_says(
    batches: list[list[tuple[Any, ...]]], asked: list[tuple[Any, ...]]
) -> None:
    keys, given = CoveredKeys(list(TYPES)), []
    for batch in batches:
        keys.add(About.of(keyed(batch), list(TYPES)))
        given += batch
    whole = [None not in key for key in asked]
    expected = [any(fits(key, one) for one in given) for key in asked]
    rows = keyed(asked)
    # A key of which all columns are given, and a pattern as such: one with a wider one.
    assert keys.covers(rows).tolist() == expected
    assert bool(keys) == bool(given)
    # Stored rows have no null in their keys.
    stored = rows.filter(pa.array(whole))
    for segment in (Segment.of(stored), Segment.of(stored).indexed()):
        found = [row for row, all_there in zip(expected, whole, strict=True) if all_there]
        assert sorted(keys.rows_in(segment).tolist()) == np.flatnonzero(found).tolist()
    keys.clear()
    assert not keys
    assert not keys.covers(rows).any()


def ranged(*values: tuple[int | None, int | None, int | None]) -> pa.RecordBatch:
    arrays = [pa.array([value[i] for value in values], pa.int64()) for i in range(3)]
    return pa.RecordBatch.from_arrays(arrays, ["#code", "#low", "#high"])


def test_a_range_without_a_bound_has_no_end() -> None:
    low, high, is_range = bounds(
        ranged((5, None, None), (None, 1, None), (None, None, 9), (None, None, None))
    )
    assert low.tolist() == [5, 1, LEAST, LEAST]
    assert high.tolist() == [5, GREATEST, 9, GREATEST]
    assert is_range.all()
    _, _, is_range = bounds(keyed([("a", 0.0, 1), ("a", None, 1)]))
    assert is_range.tolist() == [True, False]


@pytest.mark.parametrize("indexed", [True, False])
def test_ranges_are_found_in_segments(indexed: bool) -> None:
    keys = CoveredKeys([])
    keys.add(About.of(ranged((7, None, None), (None, 1, 3), (None, 9, 8)), []))
    rows = pa.RecordBatch.from_pydict({"#code": [3, 9, 7, 0, 1, 8, 4, 3]})
    segment = Segment.of(rows).indexed() if indexed else Segment.of(rows)
    assert sorted(keys.rows_in(segment).tolist()) == [0, 2, 4, 7]
    assert keys.covers(rows).tolist() == [True, False, True, False, True, False, False, True]


@examples(100)
@given(given=st.lists(KEYS, max_size=12))
def test_of_equal_punctuations_the_first_counts(given: list[tuple[Any, ...]]) -> None:
    keys = [tuple("nan" if value != value else value for value in key) for key in given]
    firsts = [keys.index(key) for key in sorted(set(keys), key=keys.index)]
    assert About.of(keyed(given), list(TYPES)).first_of_each().tolist() == firsts


def test_a_range_of_one_key_is_not_the_key_as_all_shards_are_told_of_it() -> None:
    given = ranged((5, None, None), (None, 5, 5), (None, 5, 6), (None, 4, 6), (5, 4, 6))
    assert About.of(given, []).first_of_each().tolist() == [0, 1, 2, 3]
