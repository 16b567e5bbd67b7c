"""The segments that a step has open, within a limit of memory.

Invariant: open segments take at most the limit, or there is only one of them. So the memory of a
step grows neither with its new rows nor with the stored ones. Data that searches make of the rows
(:meth:`watersmeet.segments.segment.Segment.kept`) count too: for a narrow row, they take more than
the row itself.

Rule: the least recently used segments are evicted first. An evicted segment is opened again when
the next probe needs it. An open segment is a file mapped into memory, or rows just decoded. Only
the one in use grows; it is weighed again when another one is asked for.
"""

from __future__ import annotations

from collections import OrderedDict

from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import LIMITS, Limits

#: Segments, new rows and results are handled in pieces of one sixteenth of the memory.
_PIECES = 16
#: Open segments take at most one third of it.
_RESIDENT = 3


def piece_of(memory: int | None) -> int | None:
    """The limit of a piece, given the limit of all memory; None means no limit."""
    return None if memory is None else memory // _PIECES


def resident_of(memory: int | None, limits: Limits = LIMITS) -> int:
    """The limit of open segments, given the limit of all memory, if there is one."""
    return limits.open_bytes if memory is None else memory // _RESIDENT


def memory_for(resident: int) -> int:
    """The limit of all memory, given the limit of open segments."""
    return resident * _RESIDENT


class OpenSegments:
    """Open segments by id, least recently used first.

    Invariant: they take at most ``limit`` bytes, or there is only one. (The one used last may have
    grown since then.)

    >>> import pyarrow as pa
    >>> from watersmeet.rows.columns import CODE
    >>> segment = Segment.of(pa.RecordBatch.from_pydict({CODE: [1, 2]}))
    >>> some = OpenSegments(limit=segment.nbytes)
    >>> some.add("one", segment), some.add("two", segment)
    (None, None)
    >>> some.get("one") is None, some.get("two") is segment
    (True, True)
    """

    def __init__(self, limit: int = LIMITS.open_bytes) -> None:
        self._limit = limit
        self._segments: OrderedDict[str, tuple[Segment, int]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """What the open segments take."""
        self._weigh()
        return self._bytes

    def get(self, segment_id: str) -> Segment | None:
        """The segment, if it is open; it is now the most recently used one."""
        if segment_id not in self._segments:
            return None
        self._weigh()
        self._segments.move_to_end(segment_id)
        self._evict()
        return self._segments[segment_id][0]

    def add(self, segment_id: str, segment: Segment) -> None:
        """Add a segment, and evict others if there is not enough room."""
        self.discard(segment_id)
        self._weigh()
        self._segments[segment_id] = segment, 0
        self._weigh()
        self._evict()

    def discard(self, segment_id: str) -> None:
        """Close the segment, if it is open."""
        if segment_id in self._segments:
            segment, size = self._segments.pop(segment_id)
            self._bytes -= size
            segment.close()

    def _weigh(self) -> None:
        """Measure the segment used last again: it may have grown."""
        if self._segments:
            segment_id = next(reversed(self._segments))
            segment, before = self._segments[segment_id]
            now = segment.nbytes
            self._segments[segment_id] = segment, now
            self._bytes += now - before

    def _evict(self) -> None:
        """Close the segments used least recently, as long as all take more than the limit."""
        while self._bytes > self._limit and len(self._segments) > 1:
            self.discard(next(iter(self._segments)))
