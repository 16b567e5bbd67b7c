"""Bitmaps are read when they are needed, and written when they have changed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.state.recording import RecordingStore
from watersmeet.state.bitmaps import Bitmaps
from watersmeet.state.manifest import Entry


def entry(rows: int = 20) -> Entry:
    return Entry("x", [], rows, 0, 0, 0, 0)


@pytest.fixture
def store() -> RecordingStore:
    return RecordingStore()


def test_a_bitmap_without_set_bits_is_neither_read_nor_written(store: RecordingStore) -> None:
    bitmaps, some = Bitmaps(store), entry(3)
    bitmaps.mark(some, np.array([], dtype=np.int64))
    assert bitmaps.discard(some, np.array([], dtype=np.int64)) == 0
    assert bitmaps.marks(some).tolist() == bitmaps.gone(some).tolist() == [False] * 3
    bitmaps.write()
    bitmaps.forget(some)
    assert (store.reads, store.writes, store.deletes) == ([], [], [])


def test_the_entry_counts_the_bits_that_are_set(store: RecordingStore) -> None:
    bitmaps, some = Bitmaps(store), entry()
    bitmaps.mark(some, np.array([7, 7, 19]))
    bitmaps.mark(some, np.array([0, 7]))
    assert bitmaps.discard(some, np.array([1, 2, 2])) == 2
    assert bitmaps.discard(some, np.array([2, 3])) == 1
    assert (some.marked, some.gone) == (3, 3)
    assert np.flatnonzero(bitmaps.marks(some)).tolist() == [0, 7, 19]
    assert np.flatnonzero(bitmaps.gone(some)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 1000])
def test_a_later_step_finds_the_bits(store: RecordingStore, rows: int) -> None:
    bitmaps, some = Bitmaps(store), entry(rows)
    bitmaps.mark(some, np.array([rows - 1]))
    bitmaps.discard(some, np.array([0]))
    bitmaps.write()
    assert store.writes == ["gone/x", "marks/x"]
    again = Bitmaps(store)
    assert len(again.marks(some)) == len(again.gone(some)) == rows
    assert np.flatnonzero(again.marks(some)).tolist() == [rows - 1]
    assert np.flatnonzero(again.gone(some)).tolist() == [0]
    assert store.reads == ["marks/x", "gone/x"], "each is read once a step"


def test_a_bitmap_that_was_only_read_is_not_written(store: RecordingStore) -> None:
    # Given an entry with both bitmaps in the store,
    bitmaps, some = Bitmaps(store), entry()
    bitmaps.mark(some, np.array([1]))
    bitmaps.discard(some, np.array([2]))
    bitmaps.write()
    store.writes.clear()
    # when a step reads both and changes one,
    again = Bitmaps(store)
    again.marks(some)
    again.gone(some)
    again.mark(some, np.array([3]))
    again.write()
    # then that one is written, once.
    again.write()
    assert store.writes == ["marks/x"]


@pytest.mark.parametrize("loaded", [True, False])
def test_forgetting_deletes_what_an_earlier_step_has_stored(
    store: RecordingStore, loaded: bool
) -> None:
    bitmaps, some = Bitmaps(store), entry()
    bitmaps.mark(some, np.array([1]))
    bitmaps.write()
    again = Bitmaps(store)
    if loaded:
        again.marks(some)
        again.gone(some)
    again.forget(some)
    assert store.deletes == ["marks/x"], "the other one was never stored"
    assert store.values == {}


def test_forgetting_deletes_what_this_step_has_written(store: RecordingStore) -> None:
    bitmaps, some = Bitmaps(store), entry()
    bitmaps.discard(some, np.array([1]))
    bitmaps.write()
    bitmaps.discard(some, np.array([2]))
    bitmaps.forget(some)
    bitmaps.write()
    assert (store.writes, store.deletes) == (["gone/x"], ["gone/x"])
    assert store.values == {}


def test_a_bitmap_that_is_forgotten_before_it_is_written_never_reaches_the_store(
    store: RecordingStore,
) -> None:
    bitmaps, some = Bitmaps(store), entry()
    bitmaps.mark(some, np.array([1]))
    bitmaps.discard(some, np.array([2]))
    bitmaps.forget(some)
    bitmaps.write()
    assert (store.reads, store.writes, store.deletes) == ([], [], [])
