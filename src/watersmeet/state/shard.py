"""A shard's state: the part that is stepped on its own, and commits as one.

What a shard is differs: the keys of a hash bucket, slices of time, a part of a table. Its state
is the same: windows of rows, and a small section of whatever else the operator remembers.

It is opened at the start of a step and committed at its end; in between, everything
that changed is either in the store already (large segments) or written by
:meth:`ShardState.commit` (small ones, bitmaps and the manifest). Small values are in the
manifest itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from watersmeet.errors import StateError
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.compaction import LARGEST, slot_width
from watersmeet.state.manifest import Manifest
from watersmeet.state.memory import OpenSegments, piece_of, resident_of
from watersmeet.state.store import InlineStore, Store
from watersmeet.state.window import CacheCounts, Window

_MANIFEST = "manifest"


class ShardState:
    """What one shard remembers.

    ``fingerprint`` describes the query; state that another query wrote is
    refused, because its rows would be read wrongly. ``lengths`` are the windows'
    lengths and ``delay`` is how far the watermark stays behind, in microseconds.
    ``memory`` limits what is open at a time, in bytes; segments then stay small enough
    for several of them to fit. ``section`` is the operator's own: plain data, kept as JSON.
    """

    def __init__(
        self,
        store: Store,
        cache: SegmentCache,
        *,
        shard: Shard | None = None,
        fingerprint: str,
        lengths: Sequence[int | None] = (),
        delay: int = 0,
        memory: int | None = None,
    ) -> None:
        self.shard = shard or Shard()
        value = store.get(_MANIFEST)
        if value is None:
            self.manifest = Manifest(fingerprint, [[] for _ in lengths])
        else:
            self.manifest = Manifest.from_bytes(value)
        if self.manifest.fingerprint != fingerprint:
            raise StateError(
                "the checkpoint belongs to another join: its state was written for\n"
                f"  {self.manifest.fingerprint}\nand this query is\n  {fingerprint}\n"
                "Start the query with a new checkpointLocation, or change it back."
            )
        self.store = InlineStore(store, self.manifest.small)
        self.cache = cache
        self.cache_counts = CacheCounts()
        piece = piece_of(memory)
        opened = OpenSegments(resident_of(memory))
        self.windows = [
            Window(
                entries,
                length,
                slot_width(length, delay),
                self.store,
                cache,
                self.cache_counts,
                opened,
                largest=LARGEST if piece is None else piece,
            )
            for entries, length in zip(self.manifest.windows, lengths, strict=True)
        ]

    @property
    def section(self) -> dict[str, Any]:
        """What the operator keeps besides rows."""
        return self.manifest.section

    @property
    def timer(self) -> int | None:
        """The event-time timer that is set, in milliseconds; the runtime's own."""
        return self.manifest.timer

    @timer.setter
    def timer(self, milliseconds: int | None) -> None:
        self.manifest.timer = milliseconds

    @property
    def waits(self) -> bool:
        """Is there anything that a later watermark may change?"""
        return any(window.entries for window in self.windows)

    def commit(self) -> None:
        """Write what changed, so that it commits with the micro-batch."""
        self.write([None] * len(self.windows))

    def write(self, useless: Sequence[int | None], *, fixed: Collection[str] = frozenset()) -> None:
        """Merge segments where it is time, and write what changed. Rows of window i with a
        time up to ``useless[i]`` may leave; the ``fixed`` segments stay as they are."""
        for window, until in zip(self.windows, useless, strict=True):
            window.compact(until=until, fixed=fixed)
            window.write()
        self.store.store.put(_MANIFEST, self.manifest.to_bytes())
