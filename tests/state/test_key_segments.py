"""A set of codes that grows: what it holds, what it costs to add to it, and how it forgets."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.conformance.strategies import examples, until_shown
from tests.state.recording import CountingStore
from watersmeet.rows.shard import Shard
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state.cache import SegmentCache
from watersmeet.state.key_segments import KeySegments
from watersmeet.state.shard import ShardState

CODES = np.arange(-5, 46)
SECONDS = np.arange(200)
WHOLE = Shard()


class Kept:
    """A set in a store, opened and committed once a step."""

    def __init__(
        self,
        folder: str,
        *,
        length: int | None = None,
        shard: Shard = WHOLE,
        recent: int = LIMITS.recent_ranges,
    ) -> None:
        self.store = CountingStore()
        self.folder, self.length, self.shard = folder, length, shard
        self.limits = Limits(recent_ranges=recent)
        self.open()

    def open(self) -> KeySegments:
        cache = SegmentCache(self.folder, 1 << 30)
        self.state = ShardState(
            self.store, cache, shard=self.shard, fingerprint="a query", limits=self.limits
        )
        self.window = self.state.named("some", length=self.length)
        return KeySegments(self.state, "some", length=self.length, shard=self.shard)

    def step(self, low: Any, high: Any = None, watermark: int | None = None) -> KeySegments:
        low = np.asarray(low, dtype=np.int64)
        keys = self.open()
        keys.add(low, low if high is None else np.asarray(high, dtype=np.int64))
        keys.save(watermark)
        self.state.commit()
        return self.open()


# --- what it holds

RANGE = st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 1, 5])).map(lambda r: (r[0], sum(r)))


def test_it_is_the_union_of_all_steps() -> None:
    most = 0

    @examples(100)
    @given(
        steps=st.lists(st.lists(RANGE, max_size=4), max_size=30),
        shard=st.sampled_from([WHOLE, Shard(0, 2), Shard(2, 3)]),
        asked=st.lists(RANGE, min_size=1, max_size=6),
        lost=st.booleans(),
        recent=st.sampled_from([0, 2, 128]),
    )
    def check(
        steps: list[list[tuple[int, int]]],
        shard: Shard,
        asked: list[tuple[int, int]],
        lost: bool,
        recent: int,
    ) -> None:
        nonlocal most
        expected: set[int] = set()
        mine = set(CODES[shard.has(CODES)].tolist())
        with tempfile.TemporaryDirectory() as folder:
            kept = Kept(folder, shard=shard, recent=recent)
            for ranges in steps:
                keys = kept.open()
                low, high = (np.array([r[i] for r in ranges], dtype=np.int64) for i in (0, 1))
                # Half of them is added before it is asked, and saved later.
                for part in (slice(None, 2), slice(2, None)):
                    keys.add(low[part], high[part])
                    for first, last in ranges[part]:
                        expected |= set(range(first, last + 1))
                    holds(keys, expected, mine, asked)
                keys.save(None)
                kept.state.commit()
                if lost:
                    shutil.rmtree(folder, ignore_errors=True)
                holds(kept.open(), expected, mine, asked)
            most = max(most, len(kept.window.entries))
        event(f"{len(kept.window.entries)} segments")

    until_shown(check, lambda: most >= 4, "several segments")


def holds(
    keys: KeySegments, expected: set[int], mine: set[int], asked: list[tuple[int, int]]
) -> None:
    """The set holds what is expected, as far as it is the shard's own."""
    for codes in (CODES, CODES[:1], CODES[9:12]):  # many, so that segments are united, and few
        found = set(codes[keys.contains(codes)].tolist())
        assert found & mine == expected & mine & set(codes.tolist())
    low, high = (np.array([r[i] for r in asked]) for i in (0, 1))
    if len(mine) == len(CODES):
        covered = [set(range(a, b + 1)) <= expected for a, b in asked]
        assert keys.covers(low, high).tolist() == covered
    assert bool(keys) == bool(expected)


def test_an_empty_range_is_covered(tmp_path: Path) -> None:
    keys = Kept(str(tmp_path)).step([3], [9])
    assert keys.covers(np.array([15]), np.array([14])).tolist() == [True]


def test_what_is_cleared_is_gone_from_the_store(tmp_path: Path) -> None:
    kept = Kept(str(tmp_path))
    for code in range(0, 500 * 3, 3):
        kept.step([code])
    assert len(kept.window.entries) > 1
    keys = kept.open()
    keys.clear()
    keys.add(np.array([99]), np.array([99]))
    keys.clear()
    assert not keys
    keys.save(None)
    kept.state.commit()
    assert list(kept.store.values) == ["manifest"]
    assert not kept.state.manifest.small
    assert not kept.open()


# --- what it costs


@pytest.mark.parametrize("kind", ["at random", "in order, in one shard of three"])
def test_a_step_writes_what_is_new_however_much_is_stored(tmp_path: Path, kind: str) -> None:
    shard = WHOLE if kind == "at random" else Shard(1, 3)
    codes = np.arange(200_000)
    if kind == "at random":
        codes = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 200_000)
    codes = codes[shard.has(codes)]
    kept, stored, written = Kept(str(tmp_path), shard=shard), 0, []
    for size in (1_000, 10_000, len(codes) - 100):
        while stored < size:
            kept.step(codes[stored : min(size, stored + 1_000)])
            stored = min(size, stored + 1_000)
        before = kept.store.written
        for code in codes[size : size + 100]:
            kept.step([code])
        stored += 100
        written.append((kept.store.written - before) / 100)
    # The names of the segments are in the manifest, and they become a few more.
    assert max(written) < 3 * min(written)
    assert max(written) < 10_000, "all of it would be 1.6 MB"
    # A code is written again at most once for each size of segments.
    assert kept.store.written < 8 * 200_000 * 9
    assert len(kept.window.entries) <= (3 * 9 if kind == "at random" else 4)
    assert kept.open().contains(codes).all()


# --- how it forgets


@pytest.mark.parametrize("recent", [0, 128])
def test_codes_are_forgotten_after_a_length_of_time(tmp_path: Path, recent: int) -> None:
    # Given codes that are added one a second, kept for 16 seconds,
    kept = Kept(str(tmp_path), length=16, recent=recent)
    for second in range(200):
        keys = kept.step([3 * second], watermark=second)
        # then each is there for that long after the next watermark, and at most a quarter longer.
        there = SECONDS[keys.contains(3 * SECONDS)].tolist()
        since = max(0, second - 16)
        assert set(range(since, second + 1)) <= set(there)
        assert min(there) >= since - 4
        assert len(kept.window.entries) <= 10 + 3 + 3


@pytest.mark.parametrize("count", [3, 1000])
def test_the_clock_starts_with_the_first_watermark(tmp_path: Path, count: int) -> None:
    kept = Kept(str(tmp_path), length=80)
    codes = np.arange(0, 3 * count, 3)
    for some in np.array_split(codes, min(count, 40)):
        kept.step(some)
    assert len(kept.window.entries) <= 2 * 3, "they are merged without a clock too"
    for watermark in (1000, 1009, 1010, 1079):
        assert kept.step([], watermark=watermark).contains(codes).all()
    # The recent ones have become a segment when a slot of ten was over: they are as old as its end.
    recent = kept.step([], watermark=1080)
    assert recent.contains(codes).sum() == (3 if count == 3 else 1000 % 150), "six steps fill one"
    assert not kept.step([], watermark=1090)


def test_without_a_length_nothing_is_forgotten(tmp_path: Path) -> None:
    kept = Kept(str(tmp_path))
    kept.step([1], watermark=5)
    assert kept.step([], watermark=10**15).contains(np.array([1])).all()
