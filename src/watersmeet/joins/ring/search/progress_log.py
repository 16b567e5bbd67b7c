"""The log of a worker: while a step compares for long, it says how far it is.

Metrics come at the end of a micro-batch. A step that compares for minutes says something before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.probing_rows import ProbingRows
from watersmeet.rows.shard import Shard
from watersmeet.state.manifest import Entry

#: After so many seconds there is another line.
EVERY = 30.0

_log = logging.getLogger(__name__)


class ProgressLog:
    """Says how many pairs a step has compared, of how many at most; lives for a step."""

    def __init__(self, layout: RingLayout, shard: Shard, counters: RingCounters) -> None:
        self._layout = layout
        self._shard = shard
        self._counters = counters
        self._most = 0
        self._began = self._written = time.monotonic()

    def expect(self, probing: ProbingRows, entries: Sequence[Entry]) -> None:
        """Rows are about to probe segments. (Pairs may not be close in time, or be found by a
        search: then fewer are compared.)"""
        self._most += len(probing) * sum(entry.rows for entry in entries)

    def write(self) -> None:
        """Write a line, if it is time for one."""
        now = time.monotonic()
        if now - self._written < EVERY:
            return
        self._written = now
        names = ", ".join(stream.name for stream in self._layout.streams)
        # Workers show no less than warnings.
        _log.warning(
            "join of %s, shard %d: %s pairs compared in %.0f s, of at most %s that have met so far",
            names,
            self._shard.number,
            f"{self._counters.pairs:,}",
            now - self._began,
            f"{self._most:,}",
        )
