"""Which segments are merged: the bounds that the module promises, on entries without rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state.compaction import SLOTS, merges, slot_width
from watersmeet.state.manifest import Entry, total_rows

WINDOW = 8000
SLOT = WINDOW // SLOTS


def entry(max_time: int, *, rows: int = 1, size: int = 10, min_time: int | None = None) -> Entry:
    """An entry of that size in memory; in the store it takes next to nothing."""
    first = max_time if min_time is None else min_time
    return Entry(f"{max_time}/{rows}", [], rows, 1, size, first, max_time)


def merged(group: list[Entry]) -> Entry:
    first = min(e.min_time for e in group)
    last = max(e.max_time for e in group)
    return entry(last, rows=total_rows(group), size=memory(group), min_time=first)


def memory(group: list[Entry]) -> int:
    return sum(e.memory for e in group)


def run(window: int | None, arriving: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The entries after each of many batches, with what is over dropped; an entry's size
    counts how often its rows have been merged."""
    entries: list[Entry] = []
    for new in arriving:
        if window is not None:
            entries = [e for e in entries if e.max_time > new.min_time - window]
        entries.append(new)
        for group in merges(entries, slot_width(window, 0)):
            entries = [e for e in entries if e not in group]
            one = merged(group)
            one.memory = max(e.memory for e in group) + 1
            entries.append(one)
        yield entries


def steady(until: int, step: int) -> list[Entry]:
    """Batches of the same size, one after the other."""
    times = range(0, until, step)
    return [entry(t + step - 1, rows=10, size=0, min_time=t) for t in times]


def most_merges(batches: int) -> float:
    """How often a row is merged at most, in a slot of so many batches: by tiers, and with
    the whole slot only if its largest segment grows by a quarter."""
    return math.log(batches, LIMITS.fan) + math.log(batches, 1 + 1 / LIMITS.fan)


def test_nothing_is_merged_without_need() -> None:
    assert merges([], SLOT) == []
    assert merges([], None) == []
    assert merges([entry(1)], SLOT) == []
    assert merges([entry(t) for t in range(LIMITS.fan - 1)], SLOT) == []


def test_a_full_tier_becomes_one() -> None:
    small = [entry(t) for t in range(LIMITS.fan)]
    large = [entry(t, rows=1000) for t in range(LIMITS.fan - 1)]
    assert merges([*small, *large], SLOT) == [small]
    assert merges([*small, *large], None) == [small]


def test_an_old_slot_becomes_one_and_the_newest_two_do_not() -> None:
    slots = [[entry(slot * SLOT), entry(slot * SLOT + 1, rows=4)] for slot in range(4)]
    assert merges([e for slot in slots for e in slot], SLOT) == slots[:2]


def test_the_merged_are_of_one_slot() -> None:
    entries = [entry(t * SLOT // 3, rows=1 + t % 7) for t in range(60)]
    for group in merges(entries, SLOT):
        assert len({e.max_time // SLOT for e in group}) == 1


@settings(max_examples=100, deadline=None, print_blob=True)
@given(
    entries=st.lists(
        st.builds(
            entry,
            st.integers(-WINDOW, 3 * WINDOW),
            rows=st.integers(0, 5000),
            size=st.integers(0, LIMITS.largest_bytes + 5),
        ),
        max_size=40,
    ),
    window=st.sampled_from([None, 0, 1, 7, 8, WINDOW]),
)
def test_groups_are_disjoint_fit_and_come_to_an_end(
    entries: list[Entry], window: int | None
) -> None:
    rounds = 0
    while groups := merges(entries, slot_width(window, 0)):
        for group in groups:
            assert len(group) > 1
            assert memory(group) <= LIMITS.largest_bytes
            for member in group:
                entries.remove(member)
            entries.append(merged(group))
        rounds += 1
        assert rounds < 40, "merging never ends"


@pytest.mark.parametrize("step", [3, 20, 100, 999])
def test_a_window_has_about_ten_segments_and_a_few_young_ones(step: int) -> None:
    tiers = 1 + math.log(max(SLOT / step, 1), LIMITS.fan)
    for entries in run(WINDOW, steady(2 * WINDOW, step)):
        assert len(entries) <= SLOTS + 2 + 2 * (LIMITS.fan - 1) * tiers


@pytest.mark.parametrize("step", [3, 20, 100])
def test_a_row_is_merged_about_log4_times(step: int) -> None:
    for entries in run(WINDOW, steady(2 * WINDOW, step)):
        # The last merge is that of the closed slot.
        assert max(e.memory for e in entries) <= math.log(SLOT / step, LIMITS.fan) + 2


def test_rows_that_lag_behind_are_not_merged_each_by_itself() -> None:
    # Given that every second batch is three slots older than the one before,
    lagging = [t - 3 * SLOT * (number % 2) for number, t in enumerate(range(0, 2 * WINDOW, 10))]
    arriving = [entry(t, rows=10, size=0) for t in lagging]
    # then a row is still merged a few times only, and the segments stay few.
    for entries in run(2 * WINDOW, arriving):
        assert max(e.memory for e in entries) <= most_merges(2 * SLOT // 10)
        assert len(entries) <= 100


def test_a_row_of_the_future_does_not_make_every_slot_an_old_one() -> None:
    arriving = [entry(t, rows=10, size=0) for t in range(0, 2 * WINDOW, 10)]
    arriving[7].max_time = 10**9
    for entries in run(WINDOW, arriving):
        assert max(e.memory for e in entries) <= most_merges(SLOT // 10)


def test_an_old_slot_that_hardly_grew_is_left_alone() -> None:
    old, newest = [entry(1, rows=100), entry(2, rows=10)], entry(10 * SLOT)
    assert merges([*old, newest], SLOT) == []
    assert merges([*old, entry(3, rows=15), newest], SLOT) != []


@pytest.mark.parametrize("step", [3, 20, 100])
def test_a_row_stays_at_most_an_eighth_longer(step: int) -> None:
    for entries in run(WINDOW, steady(2 * WINDOW, step)):
        oldest, newest = min(e.min_time for e in entries), max(e.max_time for e in entries)
        assert newest - oldest <= WINDOW + SLOT + 2 * step


def test_without_a_window_segments_grow_by_tiers() -> None:
    for number, entries in enumerate(run(None, (entry(t) for t in range(1000)))):
        assert total_rows(entries) == number + 1
        assert len(entries) <= (LIMITS.fan - 1) * (1 + math.log(number + 1, LIMITS.fan))


def test_a_large_segment_is_left_alone() -> None:
    limits = Limits(largest_bytes=100)
    old = [entry(1, size=90), entry(2, size=20), entry(3, size=20)]
    newest = entry(10 * SLOT)
    assert merges([*old, newest], SLOT, limits=limits) == [old[1:]]
    assert merges([old[0], old[1], newest], SLOT, limits=limits) == []
