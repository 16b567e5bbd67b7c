"""The segments that a step has open, within a limit of memory.

An open segment is a file mapped into memory, or rows just decoded. With a limit, the
least recently used ones are let go first; they are opened again when they are probed.
"""

from __future__ import annotations

from collections import OrderedDict

from watersmeet.state.segment import Segment

#: Segments, new rows and results are handled in pieces of this part of the memory.
_PIECES = 16
#: Open segments take at most this part of it.
_RESIDENT = 3


def piece_of(memory: int | None) -> int | None:
    """How large a piece may be in so much memory; None: nothing limits it."""
    return None if memory is None else memory // _PIECES


def resident_of(memory: int | None) -> int | None:
    """How much of so much memory open segments may take; None: nothing limits it."""
    return None if memory is None else memory // _RESIDENT


class OpenSegments:
    """Segments by id, at most ``limit`` bytes of them, the last one apart.

    >>> import pyarrow as pa
    >>> from watersmeet.rows.columns import CODE
    >>> segment = Segment.of(pa.RecordBatch.from_pydict({CODE: [1, 2]}))
    >>> some = OpenSegments(limit=segment.nbytes)
    >>> some.add("one", segment), some.add("two", segment)
    (None, None)
    >>> some.get("one") is None, some.get("two") is segment
    (True, True)
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._segments: OrderedDict[str, tuple[Segment, int]] = OrderedDict()
        self._bytes = 0

    def get(self, segment_id: str) -> Segment | None:
        if segment_id not in self._segments:
            return None
        self._segments.move_to_end(segment_id)
        return self._segments[segment_id][0]

    def add(self, segment_id: str, segment: Segment) -> None:
        self.discard(segment_id)
        self._segments[segment_id] = segment, segment.nbytes
        self._bytes += segment.nbytes
        while self._limit is not None and self._bytes > self._limit and len(self._segments) > 1:
            self.discard(next(iter(self._segments)))

    def discard(self, segment_id: str) -> None:
        if segment_id in self._segments:
            self._bytes -= self._segments.pop(segment_id)[1]
