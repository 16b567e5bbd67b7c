"""A window owns its segments: marks survive, merges lose nothing, and nothing leaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.segments.test_segment import rows_of
from tests.state.recording import RecordingStore
from watersmeet.errors import StateError
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state.cache import CacheCounts, SegmentCache
from watersmeet.state.manifest import Entry, StoredWindow
from watersmeet.state.memory import OpenSegments
from watersmeet.state.part_names import PartNames
from watersmeet.state.shard import ShardState
from watersmeet.state.store import InlineStore, MemoryStore
from watersmeet.state.window import Window

LENGTH = 8000
SLOT = LENGTH // 8


@pytest.fixture
def window(tmp_path: Path) -> Window:
    cache = SegmentCache(str(tmp_path / "cache"), 1 << 30)
    return Window(StoredWindow(), LENGTH, SLOT, MemoryStore(), cache)


def reopened(window: Window, *, cached: bool = True) -> Window:
    """The same window, as the next batch finds it."""
    folder = window.cache.configured if cached else f"{window.cache.configured}-empty"
    cache = SegmentCache(folder, window.cache.capacity if cached else 0)
    return replace(window, cache=cache, opened=OpenSegments(), part_names=PartNames())


def add(window: Window, *numbers: int, time: int = 0, marked: tuple[int, ...] = ()) -> Entry:
    """A segment of rows with these numbers, all of one key."""
    rows = rows_of([(1, time)] * len(numbers))
    rows = rows.set_column(2, "n", pa.array(numbers, pa.int64()))
    entry = window.add(Segment.of(rows), np.isin(numbers, marked))
    assert entry is not None
    return entry


def numbers(window: Window, *, marked: bool | None = None) -> list[int]:
    """The numbers of all rows, or of the marked or unmarked ones."""
    found = []
    for entry in window.entries:
        values = window.open(entry).rows.column("n").to_pylist()
        marks = window.marks(entry).tolist()
        assert sum(marks) == entry.marked
        found += [n for n, m in zip(values, marks, strict=True) if marked in (None, m)]
    return sorted(found)


def values(window: Window) -> set[str]:
    assert isinstance(window.store, MemoryStore)
    return set(window.store.values)


def owned(window: Window) -> Iterator[str]:
    for entry in window.entries:
        yield from entry.parts
        if entry.marked:
            yield f"marks/{entry.id}"
        if entry.gone:
            yield f"gone/{entry.id}"


def commit(window: Window, *, until: int | None = None) -> None:
    window.stored.useless_until = until
    window.compact()
    window.write()
    assert values(window) == set(owned(window)), "the store holds what the entries name, no more"


def limited(window: Window, **sizes: int) -> Window:
    """The same window, with other limits."""
    limits = Limits(**sizes)
    largest = min(window.largest, limits.largest_bytes)
    return replace(window, limits=limits, largest=largest)


def write_limit(size: int) -> dict[str, int]:
    """Rewrite merges below that size only, and let no more than that wait."""
    return {"tiny_bytes": size, "rewrite_below": size, "buffer_bytes": size}


def test_no_rows_are_no_segment(window: Window) -> None:
    assert window.add(Segment.of(rows_of([]))) is None
    assert (window.entries, values(window), window.rows) == ([], set(), 0)


def test_a_segment_is_read_from_the_cache_else_from_the_store(window: Window) -> None:
    entry = add(window, 1, 2, 3)
    commit(window)
    hot, cold = reopened(window), reopened(window, cached=False)
    assert hot.open(entry).rows.equals(cold.open(entry).rows)
    assert (hot.cache.counts.hits, hot.cache.counts.misses) == (1, 0)
    assert (cold.cache.counts.hits, cold.cache.counts.misses) == (0, 1)
    hot.open(entry)
    assert (hot.cache.counts.hits, hot.cache.counts.misses) == (1, 0), "opened once a step"


def test_a_cached_segment_of_the_wrong_length_is_a_miss(window: Window) -> None:
    entry = add(window, 1, 2, 3)
    commit(window)
    window.cache.save(entry.id, Segment.of(rows_of([(1, 0)])))
    again = reopened(window)
    assert len(again.open(entry)) == 3
    assert again.cache.counts.misses == 1
    assert len(reopened(window).open(entry)) == 3


def test_marks_are_kept_by_position(window: Window) -> None:
    entry = add(window, *range(20), marked=(3,))
    window.mark(entry, np.array([7, 7, 19]))
    commit(window)
    again = reopened(window)
    assert numbers(again, marked=True) == [3, 7, 19]
    again.mark(entry, np.array([0]))
    again.mark(entry, np.array([], dtype=np.int64))
    commit(again)
    assert numbers(reopened(window, cached=False), marked=True) == [0, 3, 7, 19]


def test_what_does_not_outlive_its_step_is_not_written(window: Window) -> None:
    store = window.store
    assert isinstance(store, MemoryStore)
    entry = add(window, 1, 2, marked=(1,))
    window.discard(entry, np.array([0]))
    assert window.open(entry).rows.column("n").to_pylist() == [1, 2]
    with (
        mock.patch.object(store, "put", wraps=store.put) as put,
        mock.patch.object(store, "delete", wraps=store.delete) as delete,
    ):
        window.drop(entry)
        kept = add(window, 3)
        commit(window)
    assert [call.args[0] for call in put.call_args_list] == kept.parts
    assert not delete.called
    assert [file.stem for file in Path(str(window.cache.folder)).iterdir()] == [kept.id]


def test_a_part_that_is_merged_away_in_its_step_is_never_written(tmp_path: Path) -> None:
    # Given segments of one step, some with bitmaps,
    store, cache = RecordingStore(), SegmentCache(str(tmp_path / "cache"), 1 << 30)
    window = Window(StoredWindow(), LENGTH, SLOT, store, cache)
    for number in range(LIMITS.fan):
        window.discard(add(window, number, number + 10, marked=(number,)), np.array([1]))
    # when they are merged at its end,
    commit(window)
    # then the store and the cache get the merged segment, and nothing else.
    (merged,) = window.entries
    assert store.writes == [f"marks/{merged.id}", *merged.parts]
    assert store.deletes == []
    assert [file.stem for file in Path(str(cache.folder)).iterdir()] == [merged.id]
    assert numbers(reopened(window, cached=False)) == list(range(LIMITS.fan))


def test_reading_a_bitmap_writes_nothing(tmp_path: Path) -> None:
    store, cache = RecordingStore(), SegmentCache(str(tmp_path / "cache"), 1 << 30)
    window = Window(StoredWindow(), LENGTH, SLOT, store, cache)
    window.discard(add(window, 1, 2, 3, marked=(1,)), np.array([1]))
    commit(window)
    store.writes.clear()
    again = reopened(window)
    assert numbers(again, marked=True) == [1]
    assert again.gone(again.entries[0]).tolist() == [False, True, False]
    commit(again)
    assert (store.writes, store.deletes) == ([], [])


def test_no_more_than_a_little_waits_to_be_written(window: Window) -> None:
    window = limited(window, **write_limit(1500))
    first = add(window, 1, 2, marked=(1,))
    assert not values(window)
    for number in range(5):
        add(window, number)
    assert values(window) >= {*first.parts, f"marks/{first.id}"}
    window.drop(first)
    commit(window)


def test_dropping_a_segment_removes_everything_of_it(window: Window) -> None:
    entry = add(window, 1, 2, marked=(1,))
    kept = add(window, 3)
    commit(window)
    again = reopened(window)
    again.drop(entry)
    commit(again)
    assert numbers(again) == [3]
    assert values(window) == set(kept.parts)
    assert len(list(Path(str(window.cache.folder)).iterdir())) == 1


def test_dropping_a_segment_whose_marks_are_not_written_yet(window: Window) -> None:
    entry = add(window, 1, 2)
    commit(window)
    window.mark(entry, np.array([0]))
    window.drop(entry)
    commit(window)
    assert values(window) == set()


@pytest.mark.parametrize("rewrite_below", [0, 1 << 20], ids=["kept parts", "rewritten"])
@pytest.mark.parametrize("part_bytes", [1, 1 << 20], ids=["many parts", "one part"])
def test_a_merge_keeps_rows_and_marks(window: Window, rewrite_below: int, part_bytes: int) -> None:
    window = limited(window, **write_limit(rewrite_below), part_bytes=part_bytes)
    for start in range(0, 16, 4):
        add(window, *range(start, start + 4), marked=(start, start + 3))
    commit(window)
    assert len(window.entries) == 1
    assert len(window.entries[0].parts) == (16 if part_bytes == 1 else 1 if rewrite_below else 4)
    for again in (window, reopened(window), reopened(window, cached=False)):
        assert numbers(again) == list(range(16))
        assert numbers(again, marked=True) == [0, 3, 4, 7, 8, 11, 12, 15]


def test_rows_that_are_gone_leave_when_they_are_the_greater_part(window: Window) -> None:
    entry = add(window, 1, 2, 3, 4, marked=(4,))
    assert window.discard(entry, np.array([0, 1, 1])) == 2
    assert window.discard(entry, np.array([1])) == 0
    commit(window)
    assert numbers(window) == [1, 2, 3, 4]
    assert window.rows == 2, "they do not count any more"
    assert reopened(window).gone(window.entries[0]).tolist() == [True, True, False, False]
    window.discard(window.entries[0], np.array([2]))
    commit(window)
    assert numbers(window) == numbers(window, marked=True) == [4]
    window.discard(window.entries[0], np.array([0]))
    commit(window)
    assert (window.entries, values(window)) == ([], set())


def test_a_merge_that_rewrites_drops_rows_that_are_gone(window: Window) -> None:
    for start in range(0, 12, 3):
        window.discard(add(window, start, start + 1, start + 2), np.array([0]))
    commit(window)
    assert numbers(window) == [1, 2, 4, 5, 7, 8, 10, 11]


def test_a_merge_that_does_not_rewrite_carries_both_bitmaps(window: Window) -> None:
    window = limited(window, **write_limit(0))
    for start in range(0, 12, 3):
        window.discard(add(window, start, start + 1, start + 2, marked=(start + 2,)), np.array([0]))
    commit(window)
    (entry,) = window.entries
    assert (entry.marked, entry.gone, window.rows) == (4, 4, 8)
    again = reopened(window, cached=False)
    assert again.gone(entry).tolist() == [True, False, False] * 4
    assert again.marks(entry).tolist() == [False, False, True] * 4


def test_rows_whose_time_is_over_leave_when_they_are_the_greater_part(window: Window) -> None:
    window = limited(window, tiny_bytes=0)
    # Given a segment with a row far in the future, and one without,
    times = [(1, 0), (1, 100), (1, 3000), (1, 10**9)]
    wide = window.add(Segment.of(rows_of(times)), np.array([True, False, True, True]))
    narrow = window.add(Segment.of(rows_of([(1, 500), (1, 600), (1, 1200)], first=10)))
    assert wide is not None
    # when half of its rows are over, they stay;
    commit(window, until=1100)
    assert numbers(window) == [0, 1, 2, 3, 10, 11, 12]
    # when it is more than half, they go, and marks stay with the others.
    window.expire(3000)
    commit(window, until=3000)
    assert numbers(window) == [3]
    assert numbers(window, marked=True) == [3]
    assert narrow not in window.entries


def test_tiny_segments_become_one_whatever_their_slots(window: Window) -> None:
    for number in range(LIMITS.fan - 1):
        add(window, number, time=number * SLOT, marked=(0,) if number == 0 else ())
    commit(window)
    assert len(window.entries) == LIMITS.fan - 1
    add(window, 9, time=10 * SLOT)
    commit(window)
    assert len(window.entries) == 1
    assert (numbers(window), numbers(window, marked=True)) == ([0, 1, 2, 9], [0])


def test_a_row_of_a_tiny_segment_leaves_a_slot_after_its_time_at_the_latest(
    window: Window,
) -> None:
    window.add(Segment.of(rows_of([(1, 0), (1, 4 * SLOT), (1, 5 * SLOT)])))
    commit(window, until=SLOT - 1)
    assert (numbers(window), window.expired) == ([0, 1, 2], 0)
    commit(window, until=SLOT)
    assert (numbers(window), window.expired) == ([1, 2], 1)


def test_rows_at_hand_are_read_without_the_cache(tmp_path: Path) -> None:
    store = InlineStore(RecordingStore(), {})
    window = Window(
        StoredWindow(), LENGTH, SLOT, store, SegmentCache(str(tmp_path / "cache"), 1 << 30)
    )
    add(window, 1, 2)
    window.compact()
    window.write()
    again = Window(window.stored, LENGTH, SLOT, store, replace(window.cache, counts=CacheCounts()))
    assert numbers(again) == [1, 2]
    assert again.cache.counts == CacheCounts(), "neither hits nor misses"
    assert list(Path(str(window.cache.folder)).iterdir()) == []


def test_rows_that_are_over_leave_with_a_merge(window: Window) -> None:
    for time in range(0, 1000, 250):
        add(window, time, time + 1, time=time, marked=(time,))
    commit(window, until=499)
    assert numbers(window) == [500, 501, 750, 751]
    assert numbers(window, marked=True) == [500, 750]


def test_no_merge_is_larger_than_allowed_in_memory(window: Window) -> None:
    # Given rows that are large in memory and small in the store,
    window = limited(window, largest_bytes=100_000)
    text = pa.array(["x" * 5000] * 5)
    for number in range(40):
        rows = rows_of([(1, number)] * 5).append_column("text", text)
        window.add(Segment.of(rows))
        # when they are merged,
        commit(window)
        # then no segment is larger than the limit, though in the store all would fit.
        assert max(window.open(e).rows.nbytes for e in window.entries) <= 100_000
    assert window.rows == 200
    assert len(window.entries) < 40
    assert sum(e.bytes for e in window.entries) < 100_000


def test_overlapping_includes_the_bounds(window: Window) -> None:
    entry = window.add(Segment.of(rows_of([(1, 10), (1, 20)])))
    for earliest, latest, found in ((20, 30, 1), (0, 10, 1), (21, 30, 0), (0, 9, 0), (12, 13, 1)):
        assert list(window.overlapping(earliest, latest)) == [entry] * found


@settings(max_examples=60, deadline=None, print_blob=True)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(1, 5),  # rows that arrive
            st.integers(0, 2500),  # how far time goes on
            st.lists(st.integers(0, 99), max_size=4),  # which rows are marked, or gone
            st.booleans(),  # is the cache lost?
        ),
        min_size=1,
        max_size=15,
    ),
    gone=st.booleans(),
    rewrite_below=st.sampled_from([0, 1500, 1 << 20]),
    part_bytes=st.sampled_from([1, 100, 1 << 20]),
)
def test_any_history_keeps_what_it_must(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, list[int], bool]],
    gone: bool,
    rewrite_below: int,
    part_bytes: int,
) -> None:
    """A model beside the window: which rows are alive, and which of them are marked."""
    folder = tmp_path_factory.mktemp("cache")
    window = Window(StoredWindow(), LENGTH, SLOT, MemoryStore(), SegmentCache(str(folder), 1 << 30))
    alive: dict[int, int] = {}
    marked: set[int] = set()
    now = number = 0
    window = limited(window, **write_limit(rewrite_below), fan=2, part_bytes=part_bytes)
    for arriving, passed, marks, lost in steps:
        window = reopened(window)
        if lost:
            for file in folder.glob("*/*.segment"):
                file.unlink()
        now += passed
        for entry in [e for e in window.entries if e.max_time <= now - LENGTH]:
            window.drop(entry)
        for entry in window.entries:
            for position in {mark % entry.rows for mark in marks}:
                (window.discard if gone else window.mark)(entry, np.array([position]))
                marked.add(window.open(entry).rows.column("n")[position].as_py())
        add(window, *range(number, number + arriving), time=now)
        alive |= dict.fromkeys(range(number, number + arriving), now)
        number += arriving
        commit(window)
        needed = {n for n, time in alive.items() if time > now - LENGTH}
        found = numbers(window)
        assert len(set(found)) == len(found), "no row twice"
        assert needed - (marked if gone else set()) <= set(found) <= set(alive)
        if gone:
            assert window.rows == len(set(found) - marked)
        else:
            assert set(numbers(window, marked=True)) == marked & set(found)
    for entry in list(window.entries):
        window.drop(entry)
    assert values(window) == set()


class TestShardState:
    def test_state_of_another_query_is_refused(self, tmp_path: Path) -> None:
        store, cache = MemoryStore(), SegmentCache(str(tmp_path), 1 << 30)
        state = ShardState(store, cache, fingerprint="left join", lengths=[1, 1], delay=0)
        state.commit()
        with pytest.raises(StateError, match="query: was left join, now inner join"):
            ShardState(store, cache, fingerprint="inner join", lengths=[1, 1], delay=0)

    def test_what_is_committed_is_found_again(self, tmp_path: Path) -> None:
        store, cache = MemoryStore(), SegmentCache(str(tmp_path), 1 << 30)
        state = ShardState(store, cache, fingerprint="q", lengths=[LENGTH, None], delay=0)
        add(state.windows[1], 1, 2, 3, marked=(2,))
        state.section["settled"] = 42
        state.commit()
        again = ShardState(store, cache, fingerprint="q", lengths=[LENGTH, None], delay=0)
        assert [window.rows for window in again.windows] == [0, 3]
        assert numbers(again.windows[1], marked=True) == [2]
        assert again.section == {"settled": 42}


def test_rows_that_are_gone_do_not_expire_again(window: Window) -> None:
    # Given four old rows, one of which is gone, and one with a time far in the future,
    rows = rows_of([(1, 0)] * 4 + [(1, 100 * LENGTH)])
    entry = window.add(Segment.of(rows), np.zeros(5, dtype=np.bool_))
    assert entry is not None
    window.discard(entry, np.array([2]))
    # when the old ones are removed, then three have expired.
    window.stored.useless_until = LENGTH
    window.compact()
    assert window.rows == 1
    assert window.expired == 3
