"""A window: the rows of one stream that may still match a row of another.

Invariant: every stored row is in exactly one segment, and every segment has one entry in the
manifest. After :meth:`Window.write` the store has the parts and bitmaps that the entries name, and
no others. A stored row never changes. What changes about it is in a bitmap beside its segment
(:mod:`watersmeet.state.bitmaps`): that it is *marked* (has matched), or that it is *gone*.

Rule: a segment expires as a whole, when its newest row does. A row may be discarded before its
time: a semi or anti join needs it no more, or its key is closed. It is then gone: it matches
nothing, and it does not count. Gone rows are removed when a merge rewrites their segment, or when
they are more than half of it.

New segments are written at the end of the step, because some of them are merged or dropped before
(:mod:`watersmeet.state.write_buffer`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import Bools, concat, times_of
from watersmeet.rows.ipc import decode, encode
from watersmeet.rows.widths import sliced
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state import compaction
from watersmeet.state.bitmaps import Bitmaps
from watersmeet.state.cache import SegmentCache
from watersmeet.state.manifest import Entry, StoredWindow, total_memory, total_rows
from watersmeet.state.memory import OpenSegments
from watersmeet.state.part_names import PartNames, segment_id
from watersmeet.state.store import Store
from watersmeet.state.write_buffer import WriteBuffer

#: Plain segments are merged up to this size in memory. A scan of larger ones is not faster: it
#: costs a call for each segment, and the time for the rows.
PLAIN_BYTES = 8 << 20
#: New segments wait for the end of the step, up to the memory of so many of the largest.
_BUFFERED = 2


@dataclass
class Window:
    """One stream's stored rows in one shard.

    Invariant: ``stored`` is the manifest's own, so the manifest is always up to date.

    ``length`` is in microseconds, None for a window without end. ``slot`` is the width of a slot
    of time; only segments of one slot are merged (see :mod:`watersmeet.state.compaction`).
    ``opened`` are the open segments of the shard, and ``part_names`` names its parts. ``indexed``
    says whether new segments get an index. ``largest`` limits the memory of a merged segment.
    ``limits`` are the other sizes by which segments are cut and merged.
    ``expired`` counts the rows that have expired, without those that were gone before."""

    stored: StoredWindow
    length: int | None
    slot: int | None
    store: Store
    cache: SegmentCache
    opened: OpenSegments = field(default_factory=OpenSegments)
    part_names: PartNames = field(default_factory=PartNames)
    indexed: bool = True
    largest: int = LIMITS.largest_bytes
    limits: Limits = LIMITS
    expired: int = 0
    _bitmaps: Bitmaps = field(init=False)
    _buffer: WriteBuffer = field(init=False)

    def __post_init__(self) -> None:
        self._bitmaps = Bitmaps(self.store)
        memory = max(self.limits.buffer_bytes, _BUFFERED * self.largest)
        self._buffer = WriteBuffer(self.store, self.cache, memory, self.limits)

    @property
    def entries(self) -> list[Entry]:
        """The entries of its segments."""
        return self.stored.entries

    @property
    def useless_until(self) -> int | None:
        """Up to which time its rows can match nothing any more; None: all rows may match."""
        return self.stored.useless_until

    # -- reading ---------------------------------------------------------------

    def open(self, entry: Entry) -> Segment:
        """The segment of an entry: open already, or at hand in the manifest, or from the cache, or
        else from the store."""
        segment = self.opened.get(entry.id)
        if segment is None:
            segment = self._buffer.segment(entry.id)
            if segment is None and all(map(self.store.at_hand, entry.parts)):
                segment = self._decoded(entry)
            if segment is None:
                segment = self._cached(entry)
            assert len(segment) == entry.rows, f"segment {entry.id} lost rows"
            self.opened.add(entry.id, segment)
        return segment

    def marks(self, entry: Entry) -> Bools:
        """The marks of an entry's rows, by position."""
        return self._bitmaps.marks(entry)

    def gone(self, entry: Entry) -> Bools:
        """Which of an entry's rows are gone, by position."""
        return self._bitmaps.gone(entry)

    def overlapping(self, earliest: int | None, latest: int | None) -> Iterator[Entry]:
        """The entries that may hold rows with a time in [earliest, latest]; None means no
        bound."""
        for entry in self.entries:
            if (latest is None or entry.min_time <= latest) and (
                earliest is None or entry.max_time >= earliest
            ):
                yield entry

    @property
    def rows(self) -> int:
        """The rows that are stored, and not gone."""
        return total_rows(self.entries)

    @property
    def memory(self) -> int:
        """The bytes that the stored rows and their indexes take in memory."""
        return total_memory(self.entries)

    # -- changing --------------------------------------------------------------

    def mark(self, entry: Entry, positions: np.ndarray) -> None:
        """Mark rows by position; marking twice is the same as once."""
        self._bitmaps.mark(entry, positions)

    def discard(self, entry: Entry, positions: np.ndarray) -> int:
        """Discard rows by position, before their time; how many of them were not gone before."""
        return self._bitmaps.discard(entry, positions)

    def add(self, segment: Segment, marks: Bools | None = None) -> Entry | None:
        """Store a new segment; its entry, or None if there are no rows."""
        if len(segment) == 0:
            return None
        names, size = [], 0
        for piece in sliced(segment.rows, self.limits.part_bytes):
            value = encode(piece)
            names.append(self.part_names.next(value))
            self._buffer.put(names[-1], value)
            size += len(value)
        return self._admit(segment, names, size, marks)

    def expire(self, until: int) -> None:
        """From now on rows with a time up to ``until`` are useless: segments that have only such
        rows are dropped."""
        self.stored.useless_until = until
        for entry in [e for e in self.entries if e.max_time <= until]:
            self.expired += entry.rows - entry.gone
            self.drop(entry)

    def drop_oldest(self) -> Entry | None:
        """Drop the segment that would expire first; its entry, or None if there is no segment."""
        oldest = min(self.entries, key=lambda entry: entry.max_time, default=None)
        if oldest is not None:
            self.drop(oldest)
        return oldest

    def drop(self, entry: Entry) -> None:
        """Drop a segment and everything that belongs to it."""
        for name in entry.parts:
            self._buffer.delete(name)
        self._forget(entry)

    def write(self) -> None:
        """Write all that is new or has changed, so that it commits with the micro-batch."""
        self._bitmaps.write()
        self._buffer.flush()

    def compact(self, *, fixed: Collection[str] = ()) -> None:
        """Merge segments, so that they stay few; the ``fixed`` ones stay as they are.

        Rows that are useless or gone are removed when a merge rewrites their segment. A segment in
        which more than half of the rows are useless is rewritten by itself. Tiny segments are
        rewritten when they become one."""
        until = self.useless_until
        for entry in [entry for entry in self.entries if entry.id not in fixed]:
            if 2 * max(entry.gone, self._overdue(entry)) > entry.rows:
                self._merge([entry], rewrite=True)
        limit = self.largest if self.indexed else min(self.largest, PLAIN_BYTES)
        free = [entry for entry in self.entries if entry.id not in fixed]
        if tiny := compaction.tiny(free, self.slot, until, largest=limit, limits=self.limits):
            self._merge(tiny, rewrite=True)
            free = [entry for entry in self.entries if entry.id not in fixed]
        for group in compaction.merges(free, self.slot, largest=limit, limits=self.limits):
            small = sum(entry.bytes for entry in group) < self.limits.rewrite_below
            self._merge(group, rewrite=small)

    # -- inside ----------------------------------------------------------------

    def _cached(self, entry: Entry) -> Segment:
        """The segment of an entry, from the cache or else from the store."""
        segment = self.cache.load(entry.id)
        if segment is not None and len(segment) == entry.rows:
            self.cache.counts.hits += 1
        else:
            self.cache.counts.misses += 1
            segment = self._decoded(entry)
            self.cache.save(entry.id, segment)
        return segment

    def _decoded(self, entry: Entry) -> Segment:
        """The segment of an entry, from its parts."""
        segment = Segment.of(concat([decode(self._part(name)) for name in entry.parts]))
        return segment.indexed() if entry.indexed else segment

    def _overdue(self, entry: Entry) -> int:
        """How many rows of a segment are useless.

        They are counted only in a segment that would stay for more than another slot. Any other
        one soon expires as a whole. A few rows with a time far in the future must not keep all the
        others in the state."""
        until = self.useless_until
        if until is None or self.slot is None or entry.max_time <= until + self.slot:
            return 0
        if entry.min_time > until:
            return 0
        return int((times_of(self.open(entry).rows) <= until).sum())

    def _merge(self, group: list[Entry], *, rewrite: bool) -> None:
        """Merge segments into one. With ``rewrite`` it has new parts, without useless rows;
        otherwise it has the parts of all merged segments."""
        segments = [self.open(entry) for entry in group]
        marks = np.concatenate([self.marks(entry) for entry in group])
        gone = np.concatenate([self.gone(entry) for entry in group])
        merged = Segment.merge(segments, indexed=self.indexed)
        if rewrite:
            useless, until = gone, self.useless_until
            if until is not None:
                expired = times_of(merged.rows) <= until
                self.expired += int((expired & ~gone).sum())
                useless = gone | expired
            if useless.any():
                merged = Segment.of(merged.rows.filter(pa.array(~useless)))
                marks = marks[~useless]
            for entry in group:
                self.drop(entry)
            self.add(merged, marks)
        else:
            parts = [name for entry in group for name in entry.parts]
            size = sum(entry.bytes for entry in group)
            for entry in group:
                self._forget(entry)
            self._admit(merged, parts, size, marks, gone)

    def _admit(
        self,
        segment: Segment,
        parts: list[str],
        size: int,
        marks: Bools | None,
        gone: Bools | None = None,
    ) -> Entry:
        """Make an entry for a segment whose parts are stored already."""
        if self.indexed:
            segment.indexed()
        entry = Entry(
            id=segment_id(parts, indexed=segment.has_index),
            parts=parts,
            rows=len(segment),
            bytes=size,
            memory=segment.nbytes,
            min_time=segment.min_time,
            max_time=segment.max_time,
            indexed=segment.has_index,
        )
        self.entries.append(entry)
        self.opened.add(entry.id, segment)
        self._buffer.add_segment(entry.id, segment, parts, size=size)
        if marks is not None and marks.any():
            self.mark(entry, np.flatnonzero(marks))
        if gone is not None and gone.any():
            self.discard(entry, np.flatnonzero(gone))
        if self._buffer.full:
            self.write()
        return entry

    def _forget(self, entry: Entry) -> None:
        """Drop a segment, but not its parts."""
        self.entries.remove(entry)
        self._buffer.drop_segment(entry.id)
        self.opened.discard(entry.id)
        self._bitmaps.forget(entry)

    def _part(self, name: str) -> bytes:
        value = self._buffer.get(name)
        assert value is not None, f"{name} is in the manifest but not in the store"
        return value
