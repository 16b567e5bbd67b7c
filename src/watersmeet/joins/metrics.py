"""What a join did in one micro-batch, as the user gets it: the counters of all shards, added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from watersmeet.joins.operator import JoinStreamCounters, Largest, StreamCounters


@dataclass(frozen=True)
class StepMetrics:
    """One micro-batch of one join, of any family.

    ``join`` is the join's name; if the query has several of that name, with a number behind it.
    ``streams`` has, for each stream by name, ``rows`` in, how many
    were ``late`` (dropped) or ``unmatchable`` (a null key or time), how many ``expired``, and
    ``state_rows``, ``state_bytes`` and ``segments`` at the end. ``step_ms`` is the time spent in
    the operator, summed over the shards. ``capped`` counts new rows whose results a budget's
    ``fanout`` cut short; ``largest`` is the most results that one new row has made: its
    ``fanout``, ``stream`` and ``key``. ``cache_damaged`` files were found damaged, and
    ``cache_unsaved`` segments could not be saved, in the local cache. ``notes`` say what the join
    decided and why, and what is wrong with the cache, shard by shard.
    """

    batch: int
    timestamp: datetime
    join: str
    watermark: datetime | None
    results: int
    probes: int
    capped: int
    cache_hits: int
    cache_misses: int
    cache_damaged: int
    cache_unsaved: int
    step_ms: int
    steps: int
    streams: Mapping[str, StreamCounters]
    notes: list[str]
    largest: Largest

    @property
    def rows(self) -> int:
        """Rows in, over all streams."""
        return self._sum("rows")

    @property
    def late(self) -> int:
        """Rows dropped because they were older than the watermark."""
        return self._sum("late")

    @property
    def state_rows(self) -> int:
        """Rows stored, over all streams."""
        return self._sum("state_rows")

    @property
    def state_bytes(self) -> int:
        """Bytes stored, over all streams."""
        return self._sum("state_bytes")

    def _sum(self, name: str) -> int:
        return sum(getattr(stream, name) for stream in self.streams.values())


@dataclass(frozen=True)
class JoinMetrics(StepMetrics):
    """One micro-batch of one join of streams."""

    streams: Mapping[str, JoinStreamCounters]

    @property
    def unproven(self) -> int:
        """Stored rows of preserved streams that may still come out unmatched."""
        return self._sum("unproven")
