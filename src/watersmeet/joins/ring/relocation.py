"""Relocation: the stored rows of a stopped join get new homes, at once (ring paper, section 6).

It needs nothing but the stores of all shards of all hops: neither the query nor its predicates.

    leaving     the rows of one shard, with their marks, and the shard that each goes to
    arriving    the store of one shard, from the rows that go there

Rows that are useless or gone stay behind. The old stores are not changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.joins.ring.layout import HOP, ORDER
from watersmeet.rows.columns import CODE, Bools, times_of
from watersmeet.rows.shard import shard_numbers
from watersmeet.segments.segment import Segment
from watersmeet.state.cache import SegmentCache
from watersmeet.state.fingerprint import facts_of, fingerprint_of
from watersmeet.state.manifest import Manifest, StoredWindow
from watersmeet.state.shard import MANIFEST, ShardState
from watersmeet.state.store import MemoryStore, Store

_CACHE_BYTES = 1 << 30


@dataclass(frozen=True)
class Moved:
    """Rows that go to one window of one shard of a hop, and which of them have matched."""

    hop: int
    shard: int
    window: int
    rows: pa.RecordBatch
    marks: Bools


@dataclass(frozen=True)
class Relocation:
    """Which rows go where. Afterwards, hop h has the fingerprint ``fingerprints[h]``, and rows of
    its window i are useless up to the time ``useless_until[h][i]``. The rows of hop h go to hop
    ``hops[h]``."""

    slices: int
    fingerprints: tuple[str, ...]
    useless_until: tuple[tuple[int | None, ...], ...]
    hops: tuple[int, ...]

    @classmethod
    def of(
        cls,
        manifests: Sequence[Sequence[Manifest]],
        *,
        slices: int,
        order: Sequence[str] | None = None,
    ) -> Relocation:
        """The relocation, given the manifests of the shards of each hop."""
        prints = [of_hop[0].fingerprint for of_hop in manifests]
        before = order_of(prints[0])
        after = before if order is None else list(order)
        if sorted(after) != sorted(before):
            raise StateError(
                f"order={order!r} must name every stream of the join once"
                f"{': ' + ', '.join(before) if before else ', and this one has two, in no order'}."
            )
        hops = tuple(after.index(name) for name in before) or tuple(range(len(prints)))
        useless = [_useless_until(of_hop) for of_hop in manifests]
        return cls(
            slices,
            tuple(_reordered(fingerprint, after) for fingerprint in prints),
            tuple(useless[hops.index(hop)] for hop in range(len(hops))),
            hops,
        )

    def leaving(self, store: Store, hop: int) -> Iterator[Moved]:
        """The rows of one shard of a hop, by the shard that they go to."""
        target = self.hops[hop]
        with _opened(store) as state:
            for number, window in enumerate(state.windows):
                useless = self.useless_until[target][number]
                for entry in window.entries:
                    rows = window.open(entry).rows
                    kept = ~window.gone(entry)
                    if useless is not None:
                        kept &= times_of(rows) > useless
                    rows, marks = rows.filter(pa.array(kept)), window.marks(entry)[kept]
                    homes = shard_numbers(rows.column(CODE), self.slices)
                    for home in np.unique(homes).tolist():
                        here = homes == home
                        moved = rows.filter(pa.array(here))
                        yield Moved(target, home, number, moved, marks[here])

    def arriving(self, store: Store, hop: int, moved: Iterable[Moved]) -> Mapping[str, bytes]:
        """The values of a shard's store afterwards; ``store`` has the present ones."""
        new = MemoryStore()
        before = _manifest(store)
        section = {**before.section, "advised": None}
        windows = [StoredWindow(useless_until=until) for until in self.useless_until[hop]]
        fingerprint = self.fingerprints[hop]
        manifest = Manifest(fingerprint, windows, timer=before.timer, section=section)
        new.put(MANIFEST, manifest.to_bytes())
        with _opened(new) as state:
            for window in state.windows:
                window.indexed = False
            for part in moved:
                state.windows[part.window].add(Segment.of(part.rows), part.marks)
            # Only the query knows how long the windows are: it merges segments in its next step.
            entries = [entry for window in state.windows for entry in window.entries]
            state.write(fixed={entry.id for entry in entries})
        return new.values


def hop_of(fingerprint: str) -> tuple[int, int] | None:
    """To which hop of how many the state belongs; None: it is not of a ring join.

    >>> from watersmeet.joins.ring.layout import of_hop
    >>> hop_of(of_hop("{}", 1, 3)), hop_of("{}")
    ((1, 3), None)
    """
    hop = facts_of(fingerprint).get(HOP)
    if hop is None:
        return None
    number, count = str(hop).split(" of ")
    return int(number) - 1, int(count)


def order_of(fingerprint: str) -> list[str]:
    """The streams in the order of the hops; none, if there are two."""
    return list(facts_of(fingerprint).get(ORDER, []))


def _reordered(fingerprint: str, order: Sequence[str]) -> str:
    facts = facts_of(fingerprint)
    return fingerprint_of({**facts, ORDER: list(order)} if ORDER in facts else facts)


def _useless_until(manifests: Sequence[Manifest]) -> tuple[int | None, ...]:
    """Up to which time rows of each window are useless. A shard that stores nothing may not have
    noted it; those that do store something have noted the same."""
    of_windows = zip(*(manifest.windows for manifest in manifests), strict=True)
    noted = ([window.useless_until for window in shards] for shards in of_windows)
    return tuple(max((t for t in times if t is not None), default=None) for times in noted)


def _manifest(store: Store) -> Manifest:
    value = store.get(MANIFEST)
    assert value is not None, "every shard of a join that has run has a manifest"
    return Manifest.from_bytes(value)


@contextmanager
def _opened(store: Store) -> Iterator[ShardState]:
    """A store's state, to be read and written without its query."""
    manifest = _manifest(store)
    lengths = [None] * len(manifest.windows)
    with tempfile.TemporaryDirectory() as folder:
        cache = SegmentCache(folder, _CACHE_BYTES)
        yield ShardState(store, cache, fingerprint=manifest.fingerprint, lengths=lengths)
