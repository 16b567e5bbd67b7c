"""A bucket's state: the windows of all streams, for the keys of one bucket.

Opened at the start of a step and committed at its end; in between, everything
that changed is either in the store already (large segments) or written by
:meth:`BucketState.commit` (small ones, bitmaps and the manifest). Small values are in the
manifest itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import StateError
from watersmeet.state.cache import SegmentCache
from watersmeet.state.compaction import LARGEST, slot_width
from watersmeet.state.manifest import Manifest
from watersmeet.state.memory import OpenSegments, piece_of, resident_of
from watersmeet.state.share import Share
from watersmeet.state.store import Pocket, Store
from watersmeet.state.window import CacheCounts, Window

_MANIFEST = "manifest"


class BucketState:
    """The windows of one bucket, whose keys are ``share`` (all, if not given).

    ``fingerprint`` describes the query; state that another query wrote is
    refused, because its rows would be read wrongly. ``lengths`` are the windows'
    lengths and ``delay`` is how far the watermark stays behind, in microseconds.
    ``memory`` limits what is open at a time, in bytes; segments then stay small enough
    for several of them to fit.
    """

    def __init__(
        self,
        store: Store,
        cache: SegmentCache,
        *,
        share: Share | None = None,
        fingerprint: str,
        lengths: Sequence[int | None],
        delay: int,
        memory: int | None = None,
    ) -> None:
        self.share = share or Share()
        value = store.get(_MANIFEST)
        if value is None:
            self.manifest = Manifest.empty(fingerprint, len(lengths))
        else:
            self.manifest = Manifest.from_bytes(value)
        if self.manifest.fingerprint != fingerprint:
            raise StateError(
                "the checkpoint belongs to another join: its state was written for\n"
                f"  {self.manifest.fingerprint}\nand this query is\n  {fingerprint}\n"
                "Start the query with a new checkpointLocation, or change it back."
            )
        self.store = Pocket(store, self.manifest.small)
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
                indexed=flow.indexed,
                largest=LARGEST if piece is None else piece,
            )
            for entries, length, flow in zip(
                self.manifest.windows, lengths, self.manifest.flows, strict=True
            )
        ]

    def commit(self) -> None:
        """Merge segments where it is time, and write what changed."""
        owing = self.manifest.owing
        for window, until in zip(self.windows, self.manifest.settled, strict=True):
            window.compact(until=until, fixed=owing)
            window.write()
        stored = {entry.id for window in self.windows for entry in window.entries}
        assert owing <= stored, "a segment that owes something is stored"
        self.store.store.put(_MANIFEST, self.manifest.to_bytes())
