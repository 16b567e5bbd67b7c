"""The state of a shard: the unit that a step works on, and that commits as one.

Invariant: after :meth:`ShardState.commit` the store holds exactly what the manifest names. On
Spark it becomes durable with the micro-batch: after a crash, the state is that of the last
micro-batch that was committed.

Rule: a shard is opened at the start of a step and committed at its end. In between, changes are in
the store already (large parts), or wait for the commit (small parts, bitmaps, the manifest). Small
values are in the manifest itself.

What a shard holds depends on the operator: the keys of a hash bucket, slices, a part of a table.
The state is the same for all: windows of the streams' rows, windows by name for other things that
grow, and a small section for whatever else the operator keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from watersmeet.errors import StateError
from watersmeet.rows.shard import Shard
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state.cache import CacheCounts, SegmentCache
from watersmeet.state.compaction import slot_width
from watersmeet.state.fingerprint import differences
from watersmeet.state.manifest import Manifest, StoredWindow
from watersmeet.state.memory import OpenSegments, piece_of, resident_of
from watersmeet.state.part_names import PartNames
from watersmeet.state.store import InlineStore, Store
from watersmeet.state.window import Window

#: The name under which a shard's manifest is stored.
MANIFEST = "manifest"


class ShardState:
    """What one shard keeps between two steps.

    Invariant: all of it was written by the query that reads it. ``fingerprint`` describes the
    query; the state of another one raises a StateError, because its rows would be read wrongly.

    ``lengths`` are the lengths of the windows, and ``delay`` is that of the watermark, in
    microseconds. ``memory`` limits what is open at a time, in bytes; segments then stay so small
    that several of them fit. ``limits`` are the sizes by which segments are cut and merged.
    ``section`` belongs to the operator: plain data, kept as JSON.
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
        limits: Limits = LIMITS,
    ) -> None:
        self.limits = limits
        self.shard = shard or Shard()
        value = store.get(MANIFEST)
        if value is None:
            self.manifest = Manifest(fingerprint, [StoredWindow() for _ in lengths])
        else:
            self.manifest = Manifest.from_bytes(value)
        if self.manifest.fingerprint != fingerprint:
            raise refusal(self.manifest.fingerprint, fingerprint)
        if shard is not None:
            if self.manifest.shards not in (None, shard.count):
                raise repartitioned(shard.count, self.manifest.shards)
            self.manifest.shards = shard.count
        self.store = InlineStore(store, self.manifest.small)
        self.cache = replace(cache, counts=CacheCounts())
        self._memory = memory
        self._opened = OpenSegments(resident_of(memory, limits))
        self._part_names = PartNames(self.manifest.parts)
        self.windows = [
            self._window(stored, length, delay)
            for stored, length in zip(self.manifest.windows, lengths, strict=True)
        ]
        self._named: dict[str, Window] = {}

    def named(self, name: str, *, length: int | None = None, indexed: bool = False) -> Window:
        """The window of that name, for rows other than a stream's; an empty one, if there is
        none."""
        if name not in self._named:
            stored = self.manifest.named.setdefault(name, StoredWindow())
            self._named[name] = self._window(stored, length, delay=0)
            self._named[name].indexed = indexed
        return self._named[name]

    def names(self, prefix: str) -> list[str]:
        """The names of windows and values that begin so."""
        names = {*self.manifest.named, *self.manifest.values}
        return [name for name in names if name.startswith(prefix)]

    def value(self, name: str) -> bytes | None:
        """What is kept as one value under that name, or None."""
        return self.store.get(_value_name(name)) if name in self.manifest.values else None

    def keep(self, name: str, value: bytes | None) -> None:
        """Keep a value under a name; None removes the value. Whoever calls this has read the old
        value before."""
        known = name in self.manifest.values
        if value is not None:
            self.store.put(_value_name(name), value)
            if not known:
                self.manifest.values.append(name)
        elif known:
            self.store.delete(_value_name(name))
            self.manifest.values.remove(name)

    @property
    def section(self) -> dict[str, Any]:
        """What the operator keeps besides rows, as plain data."""
        return self.manifest.section

    @property
    def timer(self) -> int | None:
        """The event-time timer that is set, in milliseconds. It belongs to the runtime."""
        return self.manifest.timer

    @timer.setter
    def timer(self, milliseconds: int | None) -> None:
        self.manifest.timer = milliseconds

    @property
    def waits(self) -> bool:
        """Can a later watermark change anything?"""
        return any(window.entries for window in self.windows)

    def commit(self) -> None:
        """Write all changes, so that they commit with the micro-batch."""
        self.write()

    def write(self, *, fixed: Collection[str] = frozenset()) -> None:
        """Merge segments that are due, and write all changes; the ``fixed`` segments stay as they
        are. (Windows by name are compacted by the code that fills them.)"""
        for window in self.windows:
            window.compact(fixed=fixed)
            window.write()
        for window in self._named.values():
            window.write()
        self.manifest.parts = self._part_names.made
        self.store.store.put(MANIFEST, self.manifest.to_bytes())

    def _window(self, stored: StoredWindow, length: int | None, delay: int) -> Window:
        piece = piece_of(self._memory)
        return Window(
            stored,
            length,
            slot_width(length, delay),
            self.store,
            self.cache,
            self._opened,
            self._part_names,
            largest=self.limits.largest_bytes if piece is None else piece,
            limits=self.limits,
        )


def refusal(before: str, now: str) -> StateError:
    """The error for state of another query, by the fingerprints of both."""
    changes = "; ".join(differences(before, now))
    return StateError(
        f"the checkpoint was written by another query: {changes}. Change that back, or start the "
        "query with a new checkpointLocation."
    )


def repartitioned(now: int, before: int | None = None) -> StateError:
    """The error for state in other partitions than those that it was written in."""
    was = "another number of" if before is None else before
    return StateError(
        f"the checkpoint was repartitioned: its state was written in {was} shuffle partitions, and "
        f"is in {now} now, where a join does not find its rows. (Spark's repartition moves "
        "whole shards, not rows by their keys.) Take the checkpoint as it was before, or start the "
        "query with a new checkpointLocation."
    )


def _value_name(name: str) -> str:
    return f"value/{name}"
