"""A set of key codes that grows, as segments.

Invariant: the set is the union of its segments and of what is new in this step. A segment holds one
:class:`~watersmeet.state.keyset.KeySet`, a row for each range. It is immutable, and is stored,
cached and opened as segments of a stream's rows are (:mod:`watersmeet.state.window`).

Rule: what is new in a step becomes one segment. Segments are merged in tiers of size
(:mod:`watersmeet.state.compaction`), and a merge unites their ranges. So a step writes what is new,
a code is written again about log4(codes) times, and a search visits a few segments of each tier.

Where the window has a length, codes are forgotten after it. The clock is the watermark. What a step
adds is there when all rows of the step have come; so its time is the first watermark after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from watersmeet.rows.columns import Bools, Ints
from watersmeet.rows.shard import Shard
from watersmeet.state import compaction
from watersmeet.state.keyset import KeySet
from watersmeet.state.manifest import Entry
from watersmeet.state.segment import Segment
from watersmeet.state.window import Window

#: The time of a segment after which no watermark has come yet.
_UNTIMED = 2**63 - 1


class KeySegments:
    """A growing set of codes. Without a ``window`` it lives in memory only.

    In a ``shard``, gaps that have no key of it are closed.

    >>> some = KeySegments()
    >>> some.add(np.array([3, 9]), np.array([5, 9]))
    >>> some.contains(np.array([2, 4, 9])).tolist()
    [False, True, True]
    """

    def __init__(self, window: Window | None = None, shard: Shard | None = None) -> None:
        self._window = window
        self._shard = shard or Shard()
        self._new = KeySet()
        self._whole: KeySet | None = None

    def __bool__(self) -> bool:
        return bool(self._new) or bool(self._entries)

    # -- reading -------------------------------------------------------------------

    def contains(self, codes: Ints) -> Bools:
        """For each code: is it in the set?"""
        # To unite the segments costs no more than to search for so many codes in each of them.
        if sum(entry.rows for entry in self._entries) <= len(codes):
            return self.whole().contains(codes)
        found = self._new.contains(codes)
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
            self._whole = self._united([self._new, *map(self._open, self._entries)])
        return self._whole

    # -- changing ------------------------------------------------------------------

    def add(self, low: Ints, high: Ints) -> None:
        """Add the codes from ``low[i]`` to ``high[i]``, for every i."""
        self._new = self._new.with_ranges(low, high)
        self._whole = None

    def clear(self) -> None:
        """Remove everything."""
        for entry in list(self._entries):
            self._stored.drop(entry)
        self._new, self._whole = KeySet(), None

    def save(self, watermark: int | None) -> None:
        """Forget what is too old, store what is new, and merge segments that are due."""
        window = self._stored
        if window.length is not None and watermark is not None:
            for entry in window.entries:
                if entry.max_time == _UNTIMED:
                    entry.min_time = entry.max_time = watermark
            window.expire(watermark - window.length)
        if self._new:
            self._store(self._new.bridged(KeySet(), self._shard), _UNTIMED)
            self._new = KeySet()
        timed = [entry for entry in window.entries if entry.max_time < _UNTIMED]
        untimed = [entry for entry in window.entries if entry.max_time == _UNTIMED]
        for entries, slot in ((timed, window.slot), (untimed, None)):
            for group in compaction.merges(entries, slot, largest=window.largest):
                self._merge(group)
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
        entry = self._stored.add(Segment.of(keys.to_rows()))
        assert entry is not None, "it has codes"
        entry.min_time = entry.max_time = time

    def _merge(self, group: Sequence[Entry]) -> None:
        united = self._united([self._open(entry) for entry in group])
        for entry in group:
            self._stored.drop(entry)
        self._store(united, max(entry.max_time for entry in group))

    def _united(self, sets: Iterable[KeySet]) -> KeySet:
        """The union, the largest first: its gaps are known to have keys of the shard."""
        largest, *others = sorted(sets, key=lambda keys: len(keys.low), reverse=True)
        for keys in others:
            more = largest.with_ranges(keys.low, keys.high)
            largest = more.bridged(largest, self._shard)
        return largest
