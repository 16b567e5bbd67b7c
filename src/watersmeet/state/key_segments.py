"""A set of key codes that grows, as segments.

Invariant: the set is the union of its recent codes and its segments. The recent ones are a small
value in the store, written again when it changes. A segment holds one
:class:`~watersmeet.segments.keyset.KeySet`, a row for each range. It is immutable, and is stored,
cached and opened as segments of a stream's rows are (:mod:`watersmeet.state.window`).

Rule: when the recent codes take more than ``recent_ranges``
(:class:`watersmeet.spec.limits.Limits`), they become a segment. Segments are merged in tiers of
size (:mod:`watersmeet.state.compaction`), and a merge unites their ranges. So a step writes what is
new and little more, a code is written again about log4(codes / recent) times, and a search visits a
few segments of each tier.

Where the set has a length, codes are forgotten after it. The clock is the watermark. A step adds
its codes when all of its rows have come, so their time begins with the next watermark. Recent codes
become a segment at the latest after an eighth of the length, a slot, and segments of one slot are
merged. So a code is remembered for that length, and at most a quarter longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from watersmeet.rows.columns import Bools, Ints
from watersmeet.rows.shard import Shard
from watersmeet.segments.keyset import KeySet
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import LIMITS
from watersmeet.state import compaction
from watersmeet.state.manifest import Entry
from watersmeet.state.shard import ShardState
from watersmeet.state.window import Window

#: The time of codes after which no watermark has come yet.
_UNTIMED = 2**63 - 1


class KeySegments:
    """A growing set of codes, under a name in the ``state``; without a state, in memory only.

    ``length`` is in microseconds; None: nothing is forgotten. With a ``shard``, gaps without a key
    of that shard are closed.

    >>> some = KeySegments()
    >>> some.add(np.array([3, 9]), np.array([5, 9]))
    >>> some.contains(np.array([2, 4, 9])).tolist()
    [False, True, True]
    """

    def __init__(
        self,
        state: ShardState | None = None,
        name: str = "",
        *,
        length: int | None = None,
        shard: Shard | None = None,
    ) -> None:
        self._limits = LIMITS if state is None else state.limits
        self._state, self._name = state, name
        self._shard = shard or Shard()
        self._window = None if state is None else state.named(name, length=length)
        self._value = None if state is None else state.value(name)
        self._time, self._recent = _decoded(self._value)
        self._new = KeySet()
        self._whole: KeySet | None = None

    def __bool__(self) -> bool:
        return bool(self._new) or bool(self._recent) or bool(self._entries)

    # -- reading -------------------------------------------------------------------

    def contains(self, codes: Ints) -> Bools:
        """For each code: is it in the set?"""
        # Uniting the segments costs no more than searching for so many codes in each of them.
        if sum(entry.rows for entry in self._entries) <= len(codes):
            return self.whole().contains(codes)
        found = self._new.contains(codes) | self._recent.contains(codes)
        for entry in self._entries:
            found |= self._open(entry).contains(codes)
        return found

    def covers(self, low: Ints, high: Ints) -> Bools:
        """For each range, from low to high: is every code of it in the set?"""
        # Usually one of the ends tells, and the segments need not be united.
        covered: Bools = (low > high) | (self.contains(low) & self.contains(high))
        several = np.flatnonzero(covered & (low < high))
        if len(several):
            covered[several] = self.whole().covers(low[several], high[several])
        return covered

    def whole(self) -> KeySet:
        """All of it, as one set."""
        if self._whole is None:
            opened = map(self._open, self._entries)
            self._whole = self._united([self._new, self._recent, *opened])
        return self._whole

    # -- changing ------------------------------------------------------------------

    def add(self, low: Ints, high: Ints) -> None:
        """Add the codes from ``low[i]`` to ``high[i]``, for every i."""
        self._new, self._whole = self._new.with_ranges(low, high), None

    def clear(self) -> None:
        """Remove everything."""
        for entry in list(self._entries):
            self._stored.drop(entry)
        self._new = self._recent = KeySet()
        self._whole = None

    def save(self, watermark: int | None) -> None:
        """Forget what is too old, keep what is new, and merge segments that are due."""
        if self._stored.length is not None and watermark is not None:
            self._let_pass(watermark)
        if not self._recent:
            self._time = _UNTIMED
        new = self._new.bridged(KeySet(), self._shard)
        self._recent, self._new = self._united([self._recent, new]), KeySet()
        if len(self._recent.low) > self._limits.recent_ranges:
            self._store(self._recent, _UNTIMED)
            self._recent = KeySet()
        self._merge_tiers()
        self._keep_recent()
        self._whole = None

    # -- inside --------------------------------------------------------------------

    @property
    def _stored(self) -> Window:
        assert self._window is not None, "what is stored has a window"
        return self._window

    @property
    def _entries(self) -> Sequence[Entry]:
        return () if self._window is None else self._window.entries

    def _open(self, entry: Entry) -> KeySet:
        return KeySet.from_rows(self._stored.open(entry).rows)

    def _store(self, keys: KeySet, time: int) -> None:
        """Make a segment of codes; ``time`` is the first watermark after the newest of them."""
        entry = self._stored.add(Segment.of(keys.to_rows()))
        assert entry is not None, "it has codes"
        entry.min_time = entry.max_time = time

    def _let_pass(self, watermark: int) -> None:
        """Time what is not timed, forget what is too old, and close a slot that is over."""
        window = self._stored
        for entry in window.entries:
            if entry.max_time == _UNTIMED:
                entry.min_time = entry.max_time = watermark
        assert window.length is not None, "codes are forgotten"
        assert window.slot is not None, "a length has slots"
        window.expire(watermark - window.length)
        self._time = min(self._time, watermark)
        if self._recent and watermark - self._time >= window.slot:
            self._store(self._recent, watermark)
            self._recent = KeySet()

    def _merge_tiers(self) -> None:
        window = self._stored
        timed = [entry for entry in window.entries if entry.max_time < _UNTIMED]
        untimed = [entry for entry in window.entries if entry.max_time == _UNTIMED]
        for entries, slot in ((timed, window.slot), (untimed, None)):
            for group in compaction.merges(
                entries, slot, largest=window.largest, limits=self._limits
            ):
                united = self._united([self._open(entry) for entry in group])
                for entry in group:
                    window.drop(entry)
                self._store(united, max(entry.max_time for entry in group))

    def _keep_recent(self) -> None:
        value = _encoded(self._time, self._recent)
        if value != self._value:
            assert self._state is not None, "what is stored has a state"
            self._state.keep(self._name, value)
            self._value = value

    def _united(self, sets: Iterable[KeySet]) -> KeySet:
        """The union. Each gap of the largest set has been examined, and has a key of the shard."""
        filled = sorted(filter(None, sets), key=lambda keys: len(keys.low))
        if len(filled) < 2:
            return filled[0] if filled else KeySet()
        *others, largest = filled
        low = np.concatenate([keys.low for keys in others])
        high = np.concatenate([keys.high for keys in others])
        return largest.with_ranges(low, high).bridged(largest, self._shard)


def _encoded(time: int, keys: KeySet) -> bytes | None:
    """Recent codes, and the first watermark after the oldest of them, as bytes."""
    return np.concatenate([[time], keys.low, keys.high]).tobytes() if keys else None


def _decoded(value: bytes | None) -> tuple[int, KeySet]:
    """The inverse of :func:`_encoded`."""
    if value is None:
        return _UNTIMED, KeySet()
    numbers = np.frombuffer(value, dtype=np.int64)
    low, high = numbers[1:].reshape(2, -1)
    return int(numbers[0]), KeySet(low, high)
