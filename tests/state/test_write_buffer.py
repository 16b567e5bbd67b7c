"""What waits is read as if it were written, and is written once, if it is still needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.segments.test_segment import rows_of
from tests.state.recording import RecordingStore
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import Limits
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import SMALL, InlineStore
from watersmeet.state.write_buffer import WriteBuffer


@pytest.fixture
def store() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
def cache(tmp_path: Path) -> SegmentCache:
    return SegmentCache(str(tmp_path / "cache"), 1 << 30)


@pytest.fixture
def buffer(store: RecordingStore, cache: SegmentCache) -> WriteBuffer:
    return WriteBuffer(store, cache)


def segment(rows: int = 3) -> Segment:
    return Segment.of(rows_of([(1, time) for time in range(rows)]))


def test_a_small_part_waits_for_the_flush(buffer: WriteBuffer, store: RecordingStore) -> None:
    buffer.put("part/1", b"rows")
    assert buffer.get("part/1") == b"rows"
    assert (store.reads, store.writes) == ([], [])
    buffer.flush()
    assert store.values == {"part/1": b"rows"}
    assert buffer.get("part/1") == b"rows"
    buffer.flush()
    assert store.writes == ["part/1"], "it is written once"


def test_a_large_part_does_not_wait(buffer: WriteBuffer, store: RecordingStore) -> None:
    buffer.put("part/small", bytes(Limits().buffer_bytes - 1))
    buffer.put("part/large", bytes(Limits().buffer_bytes))
    assert store.writes == ["part/large"]
    buffer.flush()
    assert store.writes == ["part/large", "part/small"]


def test_a_part_that_is_deleted_while_it_waits_is_never_written(
    buffer: WriteBuffer, store: RecordingStore
) -> None:
    buffer.put("part/1", b"rows")
    buffer.put("part/2", b"more")
    buffer.delete("part/1")
    assert buffer.get("part/1") is None
    buffer.flush()
    assert (store.writes, store.deletes) == (["part/2"], [])


def test_a_part_that_is_written_is_deleted_from_the_store(
    buffer: WriteBuffer, store: RecordingStore
) -> None:
    buffer.put("part/small", b"rows")
    buffer.put("part/large", bytes(Limits().buffer_bytes))
    buffer.flush()
    buffer.delete("part/small")
    buffer.delete("part/large")
    assert store.deletes == ["part/small", "part/large"]
    assert store.values == {}


def test_under_a_budget_it_is_full_sooner(store: RecordingStore, cache: SegmentCache) -> None:
    buffer = WriteBuffer(store, cache, memory=segment().nbytes)
    buffer.add_segment("one", segment(), ["part/1"], size=1)
    assert not buffer.full
    buffer.add_segment("two", segment(), ["part/1"], size=1)
    assert buffer.full


def test_a_segment_waits_for_the_flush(buffer: WriteBuffer, cache: SegmentCache) -> None:
    one = segment()
    buffer.add_segment("one", one, ["part/1"], size=10)
    assert buffer.segment("one") is one
    assert cache.load("one") is None
    buffer.flush()
    assert buffer.segment("one") is None
    assert cache.load("one") is not None


def test_a_segment_that_is_dropped_while_it_waits_never_reaches_the_cache(
    buffer: WriteBuffer, cache: SegmentCache
) -> None:
    buffer.add_segment("one", segment(), ["part/1"], size=10)
    buffer.add_segment("two", segment(), ["part/1"], size=10)
    buffer.drop_segment("one")
    assert buffer.segment("one") is None
    buffer.flush()
    assert [file.stem for file in Path(str(cache.folder)).iterdir()] == ["two"]
    buffer.drop_segment("two")
    assert list(Path(str(cache.folder)).iterdir()) == []


def test_a_segment_whose_parts_are_at_hand_gets_no_file(cache: SegmentCache) -> None:
    store = InlineStore(RecordingStore(), {})
    buffer = WriteBuffer(store, cache)
    buffer.put("part/small", b"rows")
    buffer.add_segment("small", segment(), ["part/small"], size=4)
    buffer.put("part/other", bytes(SMALL + 1))
    buffer.add_segment("both", segment(), ["part/small", "part/other"], size=SMALL + 5)
    buffer.flush()
    assert [file.stem for file in Path(str(cache.folder)).iterdir()] == ["both"]


def test_the_buffer_is_full_when_it_exceeds_its_limit(buffer: WriteBuffer) -> None:
    buffer.limits = Limits(buffer_bytes=100)
    buffer.add_segment("one", segment(), ["part/1"], size=60)
    buffer.add_segment("two", segment(), ["part/1"], size=40)
    assert not buffer.full
    buffer.add_segment("three", segment(), ["part/1"], size=1)
    assert buffer.full
    buffer.flush()
    assert not buffer.full


def test_a_dropped_segment_counts_until_the_flush(buffer: WriteBuffer) -> None:
    buffer.limits = Limits(buffer_bytes=100)
    for name in ("one", "two", "three"):
        buffer.add_segment(name, segment(), ["part/1"], size=50)
        buffer.drop_segment(name)
    assert buffer.full
