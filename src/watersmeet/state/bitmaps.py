"""The bitmaps of a window's segments: which rows are marked, and which are gone.

Invariant: a segment has two bitmaps, each with one bit for every row, by position. Its entry
counts the bits that are set: ``marked`` in its *marks* ("has matched", for outer joins), ``gone``
in the other (discarded before their time). A bit is never cleared. At the end of a step a bitmap
is in the store if, and only if, one of its bits is set.

Rule: a bitmap is loaded when it is first asked for, and only if its count says that it is stored.
A change stays in memory until :meth:`Bitmaps.write`. So a bitmap that was only read is not
written. A bitmap whose segment is dropped in the step that made it never reaches the store. Written
bitmaps may leave memory: if they take more than :data:`MEMORY`, all of them do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from watersmeet.rows.columns import Bools
from watersmeet.state.manifest import Entry
from watersmeet.state.store import Store

#: Loaded bitmaps take at most this many bytes after a write.
MEMORY = 32 << 20


@dataclass
class Bitmaps:
    """The marks and the gone bitmaps of one window, by entry.

    Invariant: a name in ``_changed`` is in ``_loaded``. A loaded bitmap is in the store if, and
    only if, its name is in ``_stored``; the store may have an older version of it. If a bitmap is
    not loaded, the store has all of its set bits.

    >>> from watersmeet.state.store import MemoryStore
    >>> store, entry = MemoryStore(), Entry("x", [], 3, 0, 0, 0, 0)
    >>> bitmaps = Bitmaps(store)
    >>> bitmaps.discard(entry, np.array([0, 2])), bitmaps.discard(entry, np.array([1, 2]))
    (2, 1)
    >>> bitmaps.marks(entry).tolist(), list(store.values)
    ([False, False, False], [])
    >>> bitmaps.write()
    >>> list(store.values)
    ['gone/x']
    """

    store: Store
    _loaded: dict[str, Bools] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _stored: set[str] = field(default_factory=set)

    def marks(self, entry: Entry) -> Bools:
        """The marks of an entry's rows, by position."""
        return self._load(_marks_name(entry), entry.rows, stored=entry.marked > 0)

    def gone(self, entry: Entry) -> Bools:
        """Which of an entry's rows are gone, by position."""
        return self._load(_gone_name(entry), entry.rows, stored=entry.gone > 0)

    def mark(self, entry: Entry, positions: np.ndarray) -> None:
        """Mark rows by position; marking twice is the same as once."""
        if len(positions):
            entry.marked = self._set(_marks_name(entry), self.marks(entry), positions)

    def discard(self, entry: Entry, positions: np.ndarray) -> int:
        """Note that rows are gone, by position; how many of them were not gone before."""
        before = entry.gone
        if len(positions):
            entry.gone = self._set(_gone_name(entry), self.gone(entry), positions)
        return entry.gone - before

    def forget(self, entry: Entry) -> None:
        """Forget both bitmaps of an entry; delete from the store those that are there."""
        for name, count in ((_marks_name(entry), entry.marked), (_gone_name(entry), entry.gone)):
            # A bitmap with set bits that is not loaded has been there since an earlier step.
            if name in self._stored or (count and name not in self._loaded):
                self.store.delete(name)
            self._loaded.pop(name, None)
            self._changed.discard(name)
            self._stored.discard(name)

    def write(self) -> None:
        """Write the bitmaps that have changed."""
        for name in sorted(self._changed):
            self.store.put(name, np.packbits(self._loaded[name]).tobytes())
        self._stored |= self._changed
        self._changed.clear()
        if sum(map(len, self._loaded.values())) > MEMORY:
            self._loaded.clear()

    def _load(self, name: str, rows: int, *, stored: bool) -> Bools:
        bitmap = self._loaded.get(name)
        if bitmap is None:
            value = self.store.get(name) if stored else None
            if value is None:
                bitmap = np.zeros(rows, dtype=np.bool_)
            else:
                bits = np.unpackbits(np.frombuffer(value, np.uint8), count=rows)
                bitmap = bits.view(np.bool_)
                self._stored.add(name)
            self._loaded[name] = bitmap
        return bitmap

    def _set(self, name: str, bitmap: Bools, positions: np.ndarray) -> int:
        """Set bits of a loaded bitmap; how many are set now."""
        bitmap[positions] = True
        self._changed.add(name)
        return int(bitmap.sum())


def _marks_name(entry: Entry) -> str:
    return f"marks/{entry.id}"


def _gone_name(entry: Entry) -> str:
    return f"gone/{entry.id}"
