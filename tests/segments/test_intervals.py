"""A search by intervals finds what comparing all pairs finds, each pair once."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.strategies import examples, until_shown
from watersmeet.conditions.bounds import Bounds
from watersmeet.segments import intervals as overlaps
from watersmeet.segments import lines
from watersmeet.segments.intervals import NewIntervals, StoredIntervals

LEAST, GREATEST = -(2**63), 2**63 - 1
EXTREMES = np.array([LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST])

#: What one side may be, and what the other one is then.
KINDS = {
    "points": "any",
    "points and intervals": "any",
    "intervals": "any",
    "lows": "highs",
    "highs": "lows",
}


def pairs_of(found: Iterator[tuple[np.ndarray, np.ndarray]], block: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for new, stored in found:
        assert 0 < len(new) == len(stored) <= block
        pairs += zip(new.tolist(), stored.tolist(), strict=True)
    return sorted(pairs)


def all_pairs(
    new: list[Bounds], stored: list[Bounds], counts: tuple[int, int]
) -> list[tuple[int, int]]:
    """Every pair is compared, as the definition says."""
    rows, others = np.divmod(np.arange(counts[0] * counts[1]), max(counts[1], 1))
    holds = np.ones(len(rows), dtype=np.bool_)
    for one, other in zip(new, stored, strict=True):
        for side, at in ((one, rows), (other, others)):
            if side.known is not None:
                holds &= side.known[at]
        if one.low is not None:
            assert other.high is not None
            holds &= one.low[rows] <= other.high[others]
        if one.high is not None:
            assert other.low is not None
            holds &= other.low[others] <= one.high[rows]
    return sorted(zip(rows[holds].tolist(), others[holds].tolist(), strict=True))


def numbers(random: np.random.Generator, count: int) -> np.ndarray:
    """Few different ones, many, or extremes among them."""
    values = random.integers(-(10 ** random.integers(1, 6)), 10 ** random.integers(1, 6), count)
    if random.random() < 0.3:
        values = np.where(random.random(count) < 0.5, random.choice(EXTREMES, count), values)
    return values


def bounds(random: np.random.Generator, count: int, kind: str) -> Bounds:
    known = random.random(count) < 0.8 if random.random() < 0.3 else None
    values = numbers(random, count)
    if kind == "points":
        return Bounds.points(values, known)
    if kind == "lows":
        return Bounds(values, None, known)
    if kind == "highs":
        return Bounds(None, values, known)
    with np.errstate(over="ignore"):
        # Some lows are above their highs, as `a.x < b.y and b.z < a.w` may have it.
        lengths = random.integers(-2, 5, count) * 10 ** random.integers(0, 9, count)
        if kind == "points and intervals":
            lengths = np.where(random.random(count) < 0.7, 0, np.abs(lengths))
        return Bounds(values, values + lengths, known)


def sides(random: np.random.Generator, counts: tuple[int, int]) -> tuple[list[Bounds], ...]:
    kinds = [str(random.choice(list(KINDS))) for _ in range(random.integers(0, 4))]
    others = [KINDS[kind] for kind in kinds]
    of_any = [kind for kind, other in KINDS.items() if other == "any"]
    return (
        [bounds(random, counts[0], kind) for kind in kinds],
        [
            bounds(random, counts[1], str(random.choice(of_any)) if kind == "any" else kind)
            for kind in others
        ],
    )


@pytest.mark.parametrize("grid", ["always", "never"])
def test_a_search_finds_what_comparing_all_pairs_finds(grid: str) -> None:
    shown = {"grid": False, "classes": False, "inexact": False, "runs": False}

    @examples(150)
    @given(
        seed=st.integers(0, 2**32),
        counts=st.tuples(st.integers(0, 70), st.integers(0, 200)),
        block=st.sampled_from([1, 7, 100, 10**6]),
        cells=st.sampled_from([1, 4, 1000]),
    )
    def check(seed: int, counts: tuple[int, int], block: int, cells: int) -> None:
        random = np.random.default_rng(seed)
        new, stored = sides(random, counts)
        cost = -(10**9) if grid == "always" else 10**9
        with (
            mock.patch.object(overlaps, "_GRID_COST", cost),
            mock.patch.object(lines, "_CELL_ROWS", cells),
            mock.patch.object(lines, "_CLASS_ROWS", 5),
        ):
            prepared = StoredIntervals(counts[1], stored)
            searching = NewIntervals(counts[0], new)
            runs = prepared.runs(searching, longer=1)
            if runs is not None:
                parts = [(part, np.arange(len(part))) for part in runs.cut(block)]
                found = pairs_of((part.at(places) for part, places in parts), block)
                assert found == all_pairs(new, stored, counts)
                tiles = (
                    (
                        np.repeat(tile.rows, high - low),
                        np.tile(runs.order[low:high], len(tile.rows)),
                    )
                    for tile in runs.tiles(block)
                    for low, high in [(tile.low, tile.high)]
                )
                assert pairs_of(tiles, block) == all_pairs(new, stored, counts)
                shown["runs"] = True
            for _ in range(2):  # what is kept for the next search gives the same
                found = pairs_of(prepared.search(searching, block), block)
                assert found == all_pairs(new, stored, counts)
        shown["grid"] |= bool(prepared._grids)
        made = [line for of_one in prepared._lines.values() for line in of_one]
        shown["classes"] |= any(len(of_one) > 2 for of_one in prepared._lines.values())
        shown["inexact"] |= any(not line.exact for line in made)

    def all_shown() -> bool:
        return shown == {**dict.fromkeys(shown, True), "grid": grid == "always"}

    wanted = "a grid, classes of lengths, a range that must be compared, runs"
    until_shown(check, all_shown, wanted)


def counted(stored: StoredIntervals, count: int, new: list[Bounds]) -> tuple[int, int]:
    """How many pairs overlap, and how many were compared to know that."""
    compared = 0
    overlap = Bounds.overlap

    def counting(self: Bounds, rows: np.ndarray, other: Bounds, others: np.ndarray) -> np.ndarray:
        nonlocal compared
        compared += len(rows)
        return overlap(self, rows, other, others)

    with mock.patch.object(Bounds, "overlap", counting):
        found = sum(len(rows) for rows, _ in stored.search(NewIntervals(count, new), 1 << 16))
    return found, compared


def test_points_in_ranges_are_found_without_a_comparison() -> None:
    random = np.random.default_rng(0)
    low = random.integers(0, 10**6, 2_000)
    found, compared = counted(
        StoredIntervals(20_000, [Bounds.points(random.integers(0, 10**6, 20_000))]),
        2_000,
        [Bounds(low, low + 1_000)],
    )
    assert found > 10_000
    assert compared == 0


def test_a_few_long_intervals_do_not_make_the_others_slow() -> None:
    random = np.random.default_rng(0)
    low = random.integers(0, 10**9, 20_000)
    lengths = random.integers(1, 10_000, 20_000)
    lengths[::1_000] = 10**9  # all new rows overlap these
    found, compared = counted(
        StoredIntervals(20_000, [Bounds(low, low + lengths)]),
        2_000,
        [Bounds.points(random.integers(10**9, 2 * 10**9, 2_000))],
    )
    assert found > 10_000
    assert compared < 4 * found + 2_000 * lines._CLASS_ROWS


def test_boxes_are_found_by_a_grid_where_each_dimension_alone_finds_much() -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 10**6, 20_000), random.integers(0, 10**6, 20_000)
    left, top = random.integers(0, 10**6, 2_000), random.integers(0, 10**6, 2_000)
    boxes = [Bounds(left, left + 50_000), Bounds(top, top + 50_000)]
    stored = StoredIntervals(20_000, [Bounds.points(x), Bounds.points(y)])
    found, compared = counted(stored, 2_000, boxes)
    assert stored._grids
    # Two comparisons for each pair. One dimension alone would find 20 times the pairs.
    assert found * 2 <= compared < found * 2 * 3


def test_a_grid_is_not_made_for_what_one_dimension_selects_well() -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 10**6, 20_000), random.integers(0, 10**6, 20_000)
    left, top = random.integers(0, 10**6, 2_000), random.integers(0, 10**6, 2_000)
    boxes = [Bounds(left, left + 500_000), Bounds(top, top + 50)]
    stored = StoredIntervals(20_000, [Bounds.points(x), Bounds.points(y)])
    found, compared = counted(stored, 2_000, boxes)
    assert found > 0
    assert not stored._grids
    assert compared < 20_000  # searched by y, of which a row finds one


def test_intervals_may_be_longer_than_any_signed_number() -> None:
    low = np.array([LEAST, LEAST, -5])
    stored = StoredIntervals(3, [Bounds(low, np.array([0, 0, GREATEST]))])
    assert pairs_of(stored.search(NewIntervals(1, [Bounds.points(np.array([5]))]), 10), 10) == [
        (0, 2)
    ]
    alike = StoredIntervals(2, [Bounds(low[:2], np.array([0, 0]))])
    assert pairs_of(alike.search(NewIntervals(1, [Bounds.points(np.array([5]))]), 10), 10) == []


def test_nulls_overlap_nothing() -> None:
    nothing = np.array([False, False])
    stored = StoredIntervals(2, [Bounds.points(np.array([1, 1]), nothing)])
    assert list(stored.search(NewIntervals(1, [Bounds.points(np.array([1]))]), 10)) == []
