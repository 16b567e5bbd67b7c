"""A search by intervals beside comparing all pairs, over windows of 100,000 rows on each side.

    python -m benchmarks.overlap_search

All pairs are compared by NumPy in blocks, with the same bounds, and give the same pairs. They take
minutes, so only every hundredth new row is compared with all stored ones, and the time is given for
all. Both ways take turns; what counts is the median. The search is timed with all that it prepares,
and, as in a step that finds stored rows prepared, without.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from watersmeet.conditions.bounds import Bounds
from watersmeet.rows.columns import Ints
from watersmeet.segments.intervals import NewIntervals, StoredIntervals

ROWS = 100_000
BLOCK = 1 << 18
PASSES = 3
#: All pairs are measured on one new row in this many.
PART = 100

Sides = tuple[Sequence[Bounds], Sequence[Bounds]]
console = Console(width=110)


def _range(random: np.random.Generator) -> Sides:
    """a.x BETWEEN b.lo AND b.hi; a row finds about ten."""
    low = random.integers(0, 10**9, ROWS)
    return [Bounds.points(random.integers(0, 10**9, ROWS))], [Bounds(low, low + 100_000)]


def _near(random: np.random.Generator) -> Sides:
    """abs(a.x - b.x) <= 50000; a row finds about ten."""
    x = random.integers(0, 10**9, ROWS)
    return [Bounds(x - 50_000, x + 50_000)], [Bounds.points(random.integers(0, 10**9, ROWS))]


def _intervals(random: np.random.Generator) -> Sides:
    """a.lo < b.hi AND b.lo < a.hi, of very different lengths; a row finds about twenty."""

    def side() -> Bounds:
        low = random.integers(0, 10**9, ROWS)
        return Bounds(low, low + random.pareto(1.2, ROWS).clip(0, 10**4).astype(np.int64) * 20_000)

    return [side()], [side()]


def _boxes(random: np.random.Generator) -> Sides:
    """Points in boxes of a hundredth of the width and of the height; a row finds about ten."""
    x, y, left, top = (random.integers(0, 10**9, ROWS) for _ in range(4))
    boxes = [Bounds(left, left + 10**7), Bounds(top, top + 10**7)]
    return boxes, [Bounds.points(x), Bounds.points(y)]


WORKLOADS: dict[str, Callable[[np.random.Generator], Sides]] = {
    "a range": _range,
    "near each other": _near,
    "intervals that overlap": _intervals,
    "points in boxes": _boxes,
}


def all_pairs(new: Sequence[Bounds], stored: Sequence[Bounds], rows: Ints) -> int:
    """How many stored rows some new rows overlap: each pair is compared."""
    found, size = 0, BLOCK // ROWS + 1
    for start in range(0, len(rows), size):
        block = rows[start : start + size, None]
        holds = np.ones((len(block), ROWS), dtype=np.bool_)
        for one, other in zip(new, stored, strict=True):
            holds &= one.low[block] <= other.high  # type: ignore[index, operator]
            holds &= other.low <= one.high[block]  # type: ignore[index, operator]
        found += len(np.nonzero(holds)[0])
    return found


def searched(new: Sequence[Bounds], prepared: StoredIntervals) -> int:
    return sum(len(rows) for rows, _ in prepared.search(NewIntervals(ROWS, new), BLOCK))


def main() -> None:
    table = Table(
        "condition", "pairs", "all pairs, s", "search, s", "prepared, s", "times", "prepared"
    )
    for name, made in WORKLOADS.items():
        new, stored = made(np.random.default_rng(7))
        some = np.arange(0, ROWS, PART)
        times: list[list[float]] = [[], [], []]
        for _ in range(PASSES):
            began = time.perf_counter()
            compared = all_pairs(new, stored, some)
            times[0].append((time.perf_counter() - began) * PART)
            began = time.perf_counter()
            prepared = StoredIntervals(ROWS, stored)
            found = searched(new, prepared)
            times[1].append(time.perf_counter() - began)
            began = time.perf_counter()
            searched(new, prepared)
            times[2].append(time.perf_counter() - began)
        few = [bounds.at(some) for bounds in new]
        assert compared == sum(
            len(rows) for rows, _ in prepared.search(NewIntervals(len(some), few), BLOCK)
        )
        slow, fast, again = (statistics.median(each) for each in times)
        figures = f"{slow:,.1f}", f"{fast:.3f}", f"{again:.3f}"
        table.add_row(name, f"{found:,}", *figures, f"{slow / fast:,.0f}", f"{slow / again:,.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
