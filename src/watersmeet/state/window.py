"""A window: the rows of one stream that may still meet a row of another.

The window owns its segments: it writes new ones, finds old ones (in the local
cache, else in the store), merges them, and drops those whose time is over. Rows
are never changed. What changes about a row, its *mark* (an outer join's "has
matched", a semi join's "is done"), lives beside the segment in a bitmap.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.state import compaction
from watersmeet.state.cache import SegmentCache
from watersmeet.state.manifest import Entry, total_memory, total_rows
from watersmeet.state.memory import OpenSegments
from watersmeet.state.segment import Bools, Segment, concat, decode, encode, times_of
from watersmeet.state.store import Store

#: A merge of fewer stored bytes than this writes its rows anew, as one part.
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
    """One stream's stored rows in one bucket.

    ``entries`` is the manifest's own list. ``length`` is in microseconds, None
    for a window without end; ``slot`` is how close the newest rows of segments
    must be in time to be merged (see :mod:`watersmeet.state.compaction`).
    ``indexed``: do new segments get an index? ``opened`` are the bucket's open segments,
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
    _marks: dict[str, Bools] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)

    # -- reading ---------------------------------------------------------------

    def open(self, entry: Entry) -> Segment:
        """The segment of an entry, from the cache or else from the store."""
        segment = self.opened.get(entry.id)
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
        marks = self._marks.get(entry.id)
        if marks is None:
            value = self.store.get(_marks_name(entry)) if entry.marked else None
            if value is None:
                marks = np.zeros(entry.rows, dtype=np.bool_)
            else:
                bits = np.unpackbits(np.frombuffer(value, np.uint8), count=entry.rows)
                marks = bits.view(np.bool_)
            self._marks[entry.id] = marks
        return marks

    def overlapping(self, earliest: int, latest: int) -> Iterator[Entry]:
        """The entries that may hold rows with a time in [earliest, latest]."""
        for entry in self.entries:
            if entry.min_time <= latest and entry.max_time >= earliest:
                yield entry

    @property
    def rows(self) -> int:
        """The rows that are stored."""
        return total_rows(self.entries)

    @property
    def memory(self) -> int:
        """What the stored rows and their indexes take, decoded."""
        return total_memory(self.entries)

    # -- changing --------------------------------------------------------------

    def mark(self, entry: Entry, positions: np.ndarray) -> None:
        """Mark rows by position; marking twice is the same as once."""
        marks = self.marks(entry)
        marks[positions] = True
        self._touched.add(entry.id)

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
            self.expired += entry.rows
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
            self.store.delete(name)
        self._forget(entry)

    def settle_marks(self) -> None:
        """Write the marks that changed, so that they commit with the micro-batch."""
        for entry in self.entries:
            if entry.id in self._touched:
                marks = self._marks[entry.id]
                entry.marked = int(marks.sum())
                self.store.put(_marks_name(entry), np.packbits(marks).tobytes())
        self._touched.clear()

    def compact(self, *, drop_marked: bool, until: int | None) -> None:
        """Merge what has become too many segments.

        Rows with a time up to ``until`` are useless, and with ``drop_marked``
        marked rows too. They leave the state when a merge writes rows anew, and
        at the latest when they are the greater part of a segment."""
        for entry in list(self.entries):
            marked = entry.marked if drop_marked else 0
            if 2 * max(marked, self._overdue(entry, until)) > entry.rows:
                self._merge([entry], rewrite=True, drop_marked=drop_marked, until=until)
        limit = self.largest if self.indexed else min(self.largest, PLAIN_BYTES)
        for group in compaction.merges(self.entries, self.slot, largest=limit):
            small = sum(entry.bytes for entry in group) < REWRITE_BELOW
            self._merge(group, rewrite=small, drop_marked=drop_marked, until=until)

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

    def _merge(
        self, group: list[Entry], *, rewrite: bool, drop_marked: bool, until: int | None
    ) -> None:
        segments = [self.open(entry) for entry in group]
        marks = np.concatenate([self.marks(entry) for entry in group])
        merged = Segment.merge(segments, indexed=self.indexed)
        if rewrite:
            useless = marks.copy() if drop_marked else np.zeros(len(marks), dtype=np.bool_)
            if until is not None:
                over = times_of(merged.rows) <= until
                self.expired += int(over.sum())
                useless |= over
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
            self._admit(merged, parts, size, marks)
        self.settle_marks()

    def _admit(self, segment: Segment, parts: list[str], size: int, marks: Bools | None) -> Entry:
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
        self.cache.save(entry.id, segment)
        if marks is not None and marks.any():
            self._marks[entry.id] = marks
            self._touched.add(entry.id)
        return entry

    def _forget(self, entry: Entry) -> None:
        if entry.marked:
            self.store.delete(_marks_name(entry))
        self.entries.remove(entry)
        self.cache.discard(entry.id)
        self.opened.discard(entry.id)
        self._marks.pop(entry.id, None)
        self._touched.discard(entry.id)

    def _write(self, rows: pa.RecordBatch) -> tuple[str, int]:
        name, value = f"part/{uuid.uuid4().hex}", encode(rows)
        self.store.put(name, value)
        return name, len(value)

    def _part(self, name: str) -> bytes:
        value = self.store.get(name)
        assert value is not None, f"{name} is in the manifest but not in the store"
        return value


def _marks_name(entry: Entry) -> str:
    return f"marks/{entry.id}"


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows cut into slices of at most about PART_BYTES."""
    count = max(1, -(-rows.nbytes // PART_BYTES))
    size = -(-len(rows) // count)
    for start in range(0, len(rows), size):
        yield rows.slice(start, size)
