"""What a running join did, micro-batch by micro-batch.

The numbers are the operator's own counters, summed by Spark's ``observe``: they
are in every ``StreamingQueryProgress`` under ``observedMetrics``, for listeners
and dashboards; :func:`metrics` reads them from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watersmeet.operators.base import Largest, StreamCounters
from watersmeet.spark.counters import COUNTERS, LARGEST, NOTES, STEP

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PREFIX = "watersmeet: "


def observation_name(how: str, streams: Sequence[str]) -> str:
    """The name of a join's metrics in Spark's progress."""
    return f"{_PREFIX}{how} join of {' and '.join(streams)}"


@dataclass(frozen=True)
class StepMetrics:
    """One micro-batch of one join.

    ``streams`` has, for each stream by name, ``rows`` in, how many were
    ``late`` (dropped), ``shed`` (for a budget) or ``unmatchable`` (a null key or time),
    how many ``expired``, and ``state_rows``, ``state_bytes`` and ``segments`` at the end,
    of which ``indexed``. ``step_ms`` is the time spent in the operator, summed over the
    shards. ``full_results`` estimates what the results would have been without shedding.
    ``capped`` counts new rows whose results a budget's ``fanout`` cut short; ``largest`` is
    the most results that one new row has made: its ``fanout``, ``stream`` and ``key``.
    ``deferred`` counts the probes of stored segments that were put off, ``owed`` those that
    are still to be done. ``notes`` say what the join decided and why, shard by shard.
    """

    batch: int
    timestamp: str
    join: str
    watermark: datetime | None
    results: int
    full_results: int
    capped: int
    probes: int
    deferred: int
    owed: int
    cache_hits: int
    cache_misses: int
    step_ms: int
    steps: int
    streams: dict[str, StreamCounters]
    notes: list[str]
    largest: Largest

    @property
    def rows(self) -> int:
        """Rows in, over all streams."""
        return sum(stream.rows for stream in self.streams.values())

    @property
    def late(self) -> int:
        """Rows dropped because they were older than the watermark."""
        return sum(stream.late for stream in self.streams.values())

    @property
    def shed(self) -> int:
        """Rows dropped to stay within a budget."""
        return sum(stream.shed for stream in self.streams.values())

    @property
    def expected_share(self) -> float:
        """About which part of the full result this is: 1 unless something was shed."""
        return self.results / self.full_results if self.full_results else 1.0

    @property
    def state_rows(self) -> int:
        """Rows stored, over all streams."""
        return sum(stream.state_rows for stream in self.streams.values())

    @property
    def state_bytes(self) -> int:
        """Bytes stored, over all streams."""
        return sum(stream.state_bytes for stream in self.streams.values())


def metrics(query: StreamingQuery) -> list[StepMetrics]:
    """One record for each recent micro-batch of each join in the query, oldest first.

    Spark keeps the last 100 batches
    (``spark.sql.streaming.numRecentProgressUpdates``).
    """
    records = []
    for progress in query.recentProgress:
        for name, row in progress.observedMetrics.items():
            if name.startswith(_PREFIX):
                join = name.removeprefix(_PREFIX)
                records.append(_record(progress, join, row.asDict(recursive=True)[STEP]))
    return records


def _record(progress: object, join: str, observed: dict[str, Any]) -> StepMetrics:
    streams: dict[str, dict[str, int]] = {}
    totals = {}
    for name, value in observed[COUNTERS].items():
        stream, dot, counter = name.rpartition(".")
        if dot:
            streams.setdefault(stream, {})[counter] = value
        else:
            totals[name] = value
    watermark = progress.eventTime.get("watermark")  # type: ignore[attr-defined]
    return StepMetrics(
        batch=progress.batchId,  # type: ignore[attr-defined]
        timestamp=progress.timestamp,  # type: ignore[attr-defined]
        join=join,
        watermark=_parsed(watermark),
        streams={name: StreamCounters(**values) for name, values in streams.items()},
        notes=list(observed[NOTES]),
        largest=Largest(**(observed[LARGEST] or {})),
        **totals,
    )


def _parsed(watermark: str | None) -> datetime | None:
    if watermark is None or watermark.startswith("1970-01-01T00:00:00.000"):
        return None
    return datetime.fromisoformat(watermark)
