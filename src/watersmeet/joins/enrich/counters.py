"""What a semi-stream join counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from watersmeet.joins.metrics import StepMetrics
from watersmeet.joins.operator import Counters, StreamCounters

#: A note begins so that says which version of the table a step has used.
TABLE_VERSION = "table version "


@dataclass
class EnrichCounters(Counters):
    """What one step did, and what is there now.

    ``hits`` are the new rows that the cache answered (the paper's w_N), ``sought`` and ``scanned``
    the partitions that were read in either way, ``copied`` those that were read from a copy on the
    host, ``skipped`` those that were not read, as they cannot match; ``seeks`` are the keys that
    were sought. ``cached_keys`` and ``cached_bytes`` are in the cache now, ``cycles`` is how many
    have ended so far; ``waited`` rows were answered after their micro-batch, and ``oldest_wait`` is
    the greatest number of steps for which a row waits now. ``retried`` rows without a match wait
    for a newer version of the table, ``given_up`` ones have waited in vain.

    What reading has cost so far decides which way partitions are read: ``seek_ns`` is nanoseconds
    for a key that is sought, ``read_us`` microseconds for a megabyte that is read in a scan, and
    ``find_ns`` nanoseconds for a key in what was read; 0 has not been measured. Of several shards
    it is the greatest."""

    family: ClassVar[str] = "enrichment"
    maxima: ClassVar[frozenset[str]] = frozenset({"oldest_wait", "seek_ns", "read_us", "find_ns"})

    hits: int = 0
    sought: int = 0
    scanned: int = 0
    copied: int = 0
    skipped: int = 0
    seeks: int = 0
    cached_keys: int = 0
    cached_bytes: int = 0
    cycles: int = 0
    waited: int = 0
    oldest_wait: int = 0
    retried: int = 0
    given_up: int = 0
    seek_ns: int = 0
    read_us: int = 0
    find_ns: int = 0

    @classmethod
    def zero(cls) -> EnrichCounters:
        return cls([StreamCounters()])

    def without_kept(self) -> None:
        self.cached_keys = self.cached_bytes = self.cycles = 0


@dataclass(frozen=True)
class EnrichMetrics(StepMetrics):
    """One micro-batch of one enrichment.

    ``hits`` of its new rows were answered from the cache, which has ``cached_keys`` keys, in
    ``cached_bytes`` bytes. ``sought`` and ``scanned`` partitions of the table were read, in either
    way, ``copied`` ones from a copy on the host, and ``skipped`` ones not at all; ``seeks`` keys
    were sought. ``waited`` rows were answered
    after their micro-batch; ``state_rows`` wait now, for at most ``oldest_wait`` micro-batches so
    far. ``cycles`` have ended, over all shards. ``retried`` rows without a match wait for a newer
    version of the table, ``given_up`` ones have waited in vain. ``seek_ns``, ``read_us`` and
    ``find_ns`` are what decides how a partition is read: what a key takes that is sought, in
    nanoseconds, what a megabyte takes that is read in a scan, in microseconds, and what a key takes
    there, as measured so far, in the shard where it takes longest; 0 has not been measured.
    """

    hits: int
    sought: int
    scanned: int
    copied: int
    skipped: int
    seeks: int
    cached_keys: int
    cached_bytes: int
    cycles: int
    waited: int
    oldest_wait: int
    retried: int
    given_up: int
    seek_ns: int
    read_us: int
    find_ns: int

    @property
    def versions(self) -> set[str]:
        """The versions of the table that rows were answered from."""
        prefix = TABLE_VERSION
        return {note.removeprefix(prefix) for note in self.notes if note.startswith(prefix)}

    @property
    def hit_rate(self) -> float:
        """The share of the new rows that were answered from the cache, from 0 to 1. Rows that
        have waited or are retried came in an earlier micro-batch, and do not count."""
        return self.hits / self.rows if self.rows else 0.0
