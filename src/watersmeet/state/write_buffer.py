"""The write buffer of a window: values that are written at the end of the step, not at once.

Invariant: a part is either in the buffer or in the store, never in both. A segment's file is either
in the buffer or (if it has not been evicted) in the local cache. At the end of a step the buffer is
empty.

Rule: small parts, and the files of all new segments, wait here. A small segment is often merged, or
dropped, in the step that made it; values that are deleted while they wait are never written. That
matters because each value costs a round trip to Spark's state store. A large part does not wait.
The buffer is flushed when parts of more than ``buffer_bytes`` have come since the last flush, or
segments that take more than ``buffered_memory``, or less under a budget
(:class:`watersmeet.spec.limits.Limits`).

A segment whose parts the store keeps at hand (:meth:`watersmeet.state.store.Store.at_hand`) gets no
file: to write one takes longer than to decode it in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import Store


@dataclass
class WriteBuffer:
    """Parts by name, on their way to the store, and segments by id, on their way to the cache.

    Invariant: all segments that have come since the last flush take ``_size`` bytes in the store
    and ``_memory`` bytes in memory. A segment counts until the flush, even if it has been dropped
    meanwhile. ``memory`` limits ``_memory`` under a budget.

    >>> from watersmeet.state.store import MemoryStore
    >>> store = MemoryStore()
    >>> buffer = WriteBuffer(store, SegmentCache("/nowhere", 0))
    >>> buffer.put("part/1", b"rows"), buffer.put("part/2", b"more rows")
    (None, None)
    >>> buffer.delete("part/1")
    >>> buffer.get("part/2"), store.values
    (b'more rows', {})
    >>> buffer.flush()
    >>> store.values
    {'part/2': b'more rows'}
    """

    store: Store
    cache: SegmentCache
    memory: int | None = None
    limits: Limits = LIMITS
    _parts: dict[str, bytes] = field(default_factory=dict)
    _segments: dict[str, tuple[Segment, Sequence[str]]] = field(default_factory=dict)
    _size: int = 0
    _memory: int = 0

    # -- parts -----------------------------------------------------------------

    def put(self, name: str, value: bytes) -> None:
        """Take a new part: a small one waits, a large one is written at once."""
        if len(value) < self.limits.buffer_bytes:
            self._parts[name] = value
        else:
            self.store.put(name, value)

    def get(self, name: str) -> bytes | None:
        """The part under that name, from the buffer or else from the store."""
        return self._parts.get(name) or self.store.get(name)

    def delete(self, name: str) -> None:
        """Delete a part, from the buffer or else from the store."""
        if self._parts.pop(name, None) is None:
            self.store.delete(name)

    # -- segments --------------------------------------------------------------

    def add_segment(
        self, segment_id: str, segment: Segment, parts: Sequence[str], *, size: int
    ) -> None:
        """Take a new segment for the cache; ``size`` is what its parts take in the store."""
        self._segments[segment_id] = segment, parts
        self._size += size
        self._memory += segment.nbytes

    def segment(self, segment_id: str) -> Segment | None:
        """The segment, if it is still waiting."""
        waiting = self._segments.get(segment_id)
        return None if waiting is None else waiting[0]

    def drop_segment(self, segment_id: str) -> None:
        """Drop a segment, from the buffer or else from the cache."""
        if self._segments.pop(segment_id, None) is None:
            self.cache.discard(segment_id)

    # -- flushing --------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Is it time to flush, before the end of the step?"""
        most = self.limits.buffered_memory
        memory = most if self.memory is None else min(most, self.memory)
        return self._size > self.limits.buffer_bytes or self._memory > memory

    def flush(self) -> None:
        """Write all values and files that wait."""
        for name, value in self._parts.items():
            self.store.put(name, value)
        for segment_id, (segment, parts) in self._segments.items():
            if not all(map(self.store.at_hand, parts)):
                self.cache.save(segment_id, segment)
        self._parts.clear()
        self._segments.clear()
        self._size = self._memory = 0
