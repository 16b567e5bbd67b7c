"""A window: the rows of one stream that may still meet a row of another.

The window owns its segments: it writes new ones, finds old ones (in the local
cache, else in the store), merges them, and drops those whose time is over. Rows
are never changed. What changes about a row lives beside the segment in bitmaps: its
*mark* (an outer join's "has matched"), and that it is *gone* (done with before its time:
by a semi join's first match, a punctuation, a key that is unique). Gone rows are not met
any more; they leave when a merge writes rows anew, or as the greater part of a segment.

Small segments are often merged, and bitmaps forgotten, in the step that made them. So they are
written at its end, by :meth:`Window.write`, if they are still there.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import Bools, concat, times_of
from watersmeet.rows.ipc import decode, encode
from watersmeet.state import compaction
from watersmeet.state.cache import SegmentCache
from watersmeet.state.manifest import Entry, total_memory, total_rows
from watersmeet.state.memory import OpenSegments
from watersmeet.state.segment import Segment
from watersmeet.state.store import Store

#: A merge of fewer stored bytes than this writes its rows anew, as one part. And no more than
#: this waits to be written.
REWRITE_BELOW = 1 << 20
#: No part is larger than this, before compression.
PART_BYTES = 64 << 20
#: Plain segments are merged up to this size in memory: a scan costs the same however
#: its rows are cut, but for the cost of a call.
PLAIN_BYTES = 8 << 20


@dataclass
class CacheCounts:
    """How often a segment was found in the local cache, and how often not."""

    hits: int = 0
    misses: int = 0


@dataclass
class Window:
    """One stream's stored rows in one shard.

    ``entries`` is the manifest's own list. ``length`` is in microseconds, None
    for a window without end; ``slot`` is how close the newest rows of segments
    must be in time to be merged (see :mod:`watersmeet.state.compaction`).
    ``indexed``: do new segments get an index? ``opened`` are the shard's open segments,
    ``largest`` limits the memory of a merged one. ``expired`` counts the rows that left
    because their time was over."""

    entries: list[Entry]
    length: int | None
    slot: int | None
    store: Store
    cache: SegmentCache
    counts: CacheCounts
    opened: OpenSegments = field(default_factory=OpenSegments)
    indexed: bool = True
    largest: int = compaction.LARGEST
    expired: int = 0
    _bitmaps: dict[str, Bools] = field(default_factory=dict)
    #: Names of bitmaps that have changed, and of those that are known to be in the store.
    _touched: set[str] = field(default_factory=set)
    _durable: set[str] = field(default_factory=set)
    #: What waits to be written: parts by name, segments by id, and how much that is.
    _unwritten: dict[str, bytes] = field(default_factory=dict)
    _uncached: dict[str, Segment] = field(default_factory=dict)
    _waiting: int = 0

    # -- reading ---------------------------------------------------------------

    def open(self, entry: Entry) -> Segment:
        """The segment of an entry, from the cache or else from the store."""
        segment = self.opened.get(entry.id)
        if segment is None:
            segment = self._uncached.get(entry.id)
        if segment is None:
            segment = self.cache.load(entry.id)
            if segment is not None and len(segment) == entry.rows:
                self.counts.hits += 1
            else:
                self.counts.misses += 1
                segment = Segment.of(concat([decode(self._part(name)) for name in entry.parts]))
                if entry.indexed:
                    segment.indexed()
                self.cache.save(entry.id, segment)
            assert len(segment) == entry.rows, f"segment {entry.id} lost rows"
            self.opened.add(entry.id, segment)
        return segment

    def marks(self, entry: Entry) -> Bools:
        """The marks of an entry's rows, by position."""
        return self._bitmap(_marks_name(entry), entry.rows, present=entry.marked > 0)

    def gone(self, entry: Entry) -> Bools:
        """Which of an entry's rows are gone, by position."""
        return self._bitmap(_gone_name(entry), entry.rows, present=entry.gone > 0)

    def _bitmap(self, name: str, rows: int, *, present: bool) -> Bools:
        bitmap = self._bitmaps.get(name)
        if bitmap is None:
            value = self.store.get(name) if present else None
            if value is None:
                bitmap = np.zeros(rows, dtype=np.bool_)
            else:
                bits = np.unpackbits(np.frombuffer(value, np.uint8), count=rows)
                bitmap = bits.view(np.bool_)
                self._durable.add(name)
            self._bitmaps[name] = bitmap
        return bitmap

    def overlapping(self, earliest: int | None, latest: int | None) -> Iterator[Entry]:
        """The entries that may hold rows with a time in [earliest, latest]; None: without
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
        """What the stored rows and their indexes take, decoded."""
        return total_memory(self.entries)

    # -- changing --------------------------------------------------------------

    def mark(self, entry: Entry, positions: np.ndarray) -> None:
        """Mark rows by position; marking twice is the same as once."""
        if not len(positions):
            return
        marks = self.marks(entry)
        marks[positions] = True
        entry.marked = int(marks.sum())
        self._touched.add(_marks_name(entry))

    def discard(self, entry: Entry, positions: np.ndarray) -> int:
        """Discard rows by position, before their time; how many of them were not gone yet."""
        if not len(positions):
            return 0
        gone, before = self.gone(entry), entry.gone
        gone[positions] = True
        entry.gone = int(gone.sum())
        self._touched.add(_gone_name(entry))
        return entry.gone - before

    def add(self, segment: Segment, marks: Bools | None = None) -> Entry | None:
        """Store a new segment; its entry, or None if there are no rows."""
        if len(segment) == 0:
            return None
        parts = [self._write(piece) for piece in _pieces(segment.rows)]
        names, sizes = [name for name, _ in parts], [size for _, size in parts]
        return self._admit(segment, names, sum(sizes), marks)

    def expire(self, until: int) -> None:
        """Forget the segments whose rows all have a time up to ``until``."""
        for entry in [e for e in self.entries if e.max_time <= until]:
            self.expired += entry.rows - entry.gone
            self.drop(entry)

    def drop_oldest(self) -> Entry | None:
        """Let go of the segment whose rows would leave first; that entry, if any."""
        oldest = min(self.entries, key=lambda entry: entry.max_time, default=None)
        if oldest is not None:
            self.drop(oldest)
        return oldest

    def drop(self, entry: Entry) -> None:
        """Forget a segment and all that belongs to it."""
        for name in entry.parts:
            if self._unwritten.pop(name, None) is None:
                self.store.delete(name)
        self._forget(entry)

    def write(self) -> None:
        """Write what is new or has changed, so that it commits with the micro-batch."""
        for name in sorted(self._touched):
            self.store.put(name, np.packbits(self._bitmaps[name]).tobytes())
        self._durable |= self._touched
        self._touched.clear()
        for name, value in self._unwritten.items():
            self.store.put(name, value)
        for segment_id, segment in self._uncached.items():
            self.cache.save(segment_id, segment)
        self._unwritten.clear()
        self._uncached.clear()
        self._waiting = 0

    def compact(self, *, until: int | None, fixed: Collection[str] = ()) -> None:
        """Merge what has become too many segments; the ``fixed`` ones stay as they are.

        Rows with a time up to ``until`` are useless, and so are those that are gone. They
        leave the state when a merge writes rows anew, and at the latest when they are
        the greater part of a segment."""
        for entry in [entry for entry in self.entries if entry.id not in fixed]:
            if 2 * max(entry.gone, self._overdue(entry, until)) > entry.rows:
                self._merge([entry], rewrite=True, until=until)
        limit = self.largest if self.indexed else min(self.largest, PLAIN_BYTES)
        free = [entry for entry in self.entries if entry.id not in fixed]
        for group in compaction.merges(free, self.slot, largest=limit):
            small = sum(entry.bytes for entry in group) < REWRITE_BELOW
            self._merge(group, rewrite=small, until=until)

    # -- inside ----------------------------------------------------------------

    def _overdue(self, entry: Entry, until: int | None) -> int:
        """How many rows are useless by their time. A segment leaves as a whole, so
        they are counted only in one that would stay for more than another slot: a
        few rows of the future must not keep all the others."""
        if until is None or self.slot is None or entry.max_time <= until + self.slot:
            return 0
        if entry.min_time > until:
            return 0
        return int((times_of(self.open(entry).rows) <= until).sum())

    def _merge(self, group: list[Entry], *, rewrite: bool, until: int | None) -> None:
        segments = [self.open(entry) for entry in group]
        marks = np.concatenate([self.marks(entry) for entry in group])
        gone = np.concatenate([self.gone(entry) for entry in group])
        merged = Segment.merge(segments, indexed=self.indexed)
        if rewrite:
            useless = gone
            if until is not None:
                over = times_of(merged.rows) <= until
                self.expired += int((over & ~gone).sum())
                useless = gone | over
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
        if self.indexed:
            segment.indexed()
        entry = Entry(
            id=uuid.uuid4().hex,
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
        self._uncached[entry.id] = segment
        if marks is not None and marks.any():
            self.mark(entry, np.flatnonzero(marks))
        if gone is not None and gone.any():
            self.discard(entry, np.flatnonzero(gone))
        self._waiting += size
        if self._waiting > REWRITE_BELOW:
            self.write()
        return entry

    def _forget(self, entry: Entry) -> None:
        self.entries.remove(entry)
        if self._uncached.pop(entry.id, None) is None:
            self.cache.discard(entry.id)
        self.opened.discard(entry.id)
        for name, count in ((_marks_name(entry), entry.marked), (_gone_name(entry), entry.gone)):
            if name in self._durable or (count and name not in self._bitmaps):
                self.store.delete(name)
            self._bitmaps.pop(name, None)
            self._touched.discard(name)
            self._durable.discard(name)

    def _write(self, rows: pa.RecordBatch) -> tuple[str, int]:
        name, value = f"part/{uuid.uuid4().hex}", encode(rows)
        if len(value) < REWRITE_BELOW:
            self._unwritten[name] = value
        else:
            self.store.put(name, value)
        return name, len(value)

    def _part(self, name: str) -> bytes:
        value = self._unwritten.get(name) or self.store.get(name)
        assert value is not None, f"{name} is in the manifest but not in the store"
        return value


def _marks_name(entry: Entry) -> str:
    return f"marks/{entry.id}"


def _gone_name(entry: Entry) -> str:
    return f"gone/{entry.id}"


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows cut into slices of at most about PART_BYTES."""
    count = max(1, -(-rows.nbytes // PART_BYTES))
    size = -(-len(rows) // count)
    for start in range(0, len(rows), size):
        yield rows.slice(start, size)
