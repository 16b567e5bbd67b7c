"""What a running join did, micro-batch by micro-batch.

The numbers are the operator's own counters, summed by Spark's ``observe``: they
are in every ``StreamingQueryProgress`` under ``observedMetrics``, for listeners
and dashboards; :func:`metrics` reads them from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watersmeet.errors import PlanError
from watersmeet.operators.base import JoinStreamCounters, Largest, StreamCounters
from watersmeet.operators.enrich.counters import TABLE_VERSION, EnrichCounters
from watersmeet.operators.equi.counters import EquiCounters, EquiStreamCounters
from watersmeet.operators.ring.counters import RingCounters
from watersmeet.spark.counters import COUNTERS, FAMILY, LARGEST, NAME, NOTES, STEP, STREAMS

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_PREFIX = "watersmeet: "


def observation_name(name: str) -> str:
    """The name of a join's metrics in Spark's progress."""
    return f"{_PREFIX}{name}"


def name_observed(observation: str) -> str:
    """The name of the join whose metrics are observed under this name."""
    return observation.removeprefix(_PREFIX)


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


@dataclass(frozen=True)
class EquiMetrics(JoinMetrics):
    """One micro-batch of one equality join.

    ``streams`` also tell how many rows were ``shed`` (for a budget), and the other numbers of
    :class:`EquiStreamCounters`. ``full_results`` estimates what the results would have been
    without shedding. ``deferred`` counts the probes of stored segments that were put off,
    ``owed`` those that are still to be done.
    """

    full_results: int
    deferred: int
    owed: int
    streams: Mapping[str, EquiStreamCounters]

    @property
    def shed(self) -> int:
        """Rows dropped to stay within a budget."""
        return self._sum("shed")

    @property
    def expected_share(self) -> float:
        """About which part of the full result this is: 1 unless something was shed."""
        return self.results / self.full_results if self.full_results else 1.0


@dataclass(frozen=True)
class RingMetrics(JoinMetrics):
    """One micro-batch of one hop of a ring join: a join without a key.

    ``pairs`` were compared by a predicate, in so many ``blocks``, which took ``predicate_ms``, over
    all shards; ``partial`` results went on to the next hop. The first hop counts the new rows of
    all streams, each hop what it stores. ``largest`` and ``capped`` are about matches in one slice;
    what stands for the key is the time of the row.
    """

    pairs: int
    blocks: int
    partial: int
    predicate_ms: int


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


#: For each family of joins, what its metrics and its streams' are read into.
_FAMILIES: dict[str, tuple[type[StepMetrics], type[StreamCounters]]] = {
    EquiCounters.family: (EquiMetrics, EquiStreamCounters),
    EnrichCounters.family: (EnrichMetrics, StreamCounters),
    RingCounters.family: (RingMetrics, JoinStreamCounters),
}


def metrics(given: StreamingQuery | StreamingQueryProgress) -> list[StepMetrics]:
    """One record for each recent micro-batch of each join in a query, oldest first:
    an :class:`EquiMetrics` for an equality join, a :class:`RingMetrics` for each hop of a join
    without a key, an :class:`EnrichMetrics` for an enrichment. Of a single progress report of
    Spark's, as a listener gets it, the records of that micro-batch.

    Spark keeps the last 100 batches
    (``spark.sql.streaming.numRecentProgressUpdates``).
    """
    if given is None:
        raise PlanError(
            "metrics: None is not a progress report. query.lastProgress is None until the first "
            "micro-batch has ended; give the query itself, wm.metrics(query): until then its list "
            "is empty."
        )
    if hasattr(given, "recentProgress"):
        return [record for report in given.recentProgress for record in _records(report)]
    if not hasattr(given, "observedMetrics"):
        raise PlanError(
            f"metrics: {type(given).__name__} is neither a query nor a progress report. Give what "
            "df.writeStream...start() returns, query.lastProgress, or event.progress of a listener."
        )
    return list(_records(given))


def _records(progress: Any) -> Iterator[StepMetrics]:
    steps = {
        name.removeprefix(_PREFIX): row.asDict(recursive=True)[STEP]
        for name, row in progress.observedMetrics.items()
        if name.startswith(_PREFIX)
    }
    given = Counter(step[NAME] for step in steps.values())
    for unique, step in steps.items():
        join = step[NAME] if given[step[NAME]] == 1 else unique
        yield _record(progress, join, step)


def _record(progress: Any, join: str, observed: dict[str, Any]) -> StepMetrics:
    record, counters = _FAMILIES.get(observed[FAMILY], (StepMetrics, StreamCounters))
    # A micro-batch in which no shard took a step has no counters: nothing was done.
    totals = dict.fromkeys(_counted(record), 0)
    streams = {name: dict.fromkeys(_counted(counters), 0) for name in observed[STREAMS]}
    for name, value in observed[COUNTERS].items():
        stream, _, counter = name.rpartition(".")
        counts = streams.get(stream, {}) if stream else totals
        if counter in counts:
            counts[counter] = value
    return record(
        batch=progress.batchId,
        timestamp=datetime.fromisoformat(progress.timestamp),
        join=join,
        watermark=_parsed(progress.eventTime.get("watermark")),
        streams={name: counters(**values) for name, values in streams.items()},
        notes=list(observed[NOTES]),
        largest=Largest(**(observed[LARGEST] or {})),
        **totals,
    )


def _counted(kind: type[StepMetrics | StreamCounters]) -> list[str]:
    """The names of the numbers that are counted."""
    return [
        field.name for field in fields(kind) if field.type in (int, "int") and field.name != "batch"
    ]


def _parsed(watermark: str | None) -> datetime | None:
    if watermark is None or watermark.startswith("1970-01-01T00:00:00.000"):
        return None
    return datetime.fromisoformat(watermark)
