"""What a running join did, micro-batch by micro-batch: for whoever asks, and for listeners.

The numbers are the operator's own counters, summed by Spark's ``observe``: they
are in every ``StreamingQueryProgress`` under ``observedMetrics``, for listeners
and dashboards; :func:`metrics` reads them from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from watersmeet.errors import PlanError
from watersmeet.joins.families import family_of
from watersmeet.joins.metrics import MetricsTable, StepMetrics
from watersmeet.joins.operator import Largest, StreamCounters
from watersmeet.spark.query.counters import (
    COUNTERS,
    FAMILY,
    LARGEST,
    NAME,
    NOTES,
    STEP,
    STREAMS,
)
from watersmeet.spark.query.observations import is_ours, name_observed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def metrics(given: StreamingQuery | StreamingQueryProgress) -> MetricsTable:
    """One record for each recent micro-batch of each join in a query, oldest first:
    an :class:`EquiMetrics` for an equality join, a :class:`RingMetrics` for each hop of a join
    without a key, an :class:`EnrichMetrics` for an enrichment. Of a single progress report of
    Spark's, as a listener gets it, the records of that micro-batch.

    Spark keeps the last 100 batches
    (``spark.sql.streaming.numRecentProgressUpdates``). A notebook shows the list as a table, and
    its ``to_pandas()`` has a column for each number.
    """
    if given is None:
        raise PlanError(
            "metrics: None is not a progress report. query.lastProgress is None until the first "
            "micro-batch has ended; give the query itself, wm.metrics(query): until then its list "
            "is empty."
        )
    if hasattr(given, "recentProgress"):
        reports = given.recentProgress
        return MetricsTable(record for report in reports for record in _records(report))
    if not hasattr(given, "observedMetrics"):
        raise PlanError(
            f"metrics: {type(given).__name__} is neither a query nor a progress report. Give what "
            "df.writeStream...start() returns, query.lastProgress, or event.progress of a listener."
        )
    return MetricsTable(_records(given))


class Listener(StreamingQueryListener):
    """Calls a function with the record of every join in every micro-batch of a session's queries.

    Register it with ``spark.streams.addListener(wm.Listener(function))``. The function runs beside
    the queries, and gets the same records as :func:`watersmeet.metrics` gives: it may send them to
    a dashboard. What it raises, Spark logs, and the queries go on.
    """

    def __init__(self, function: Callable[[StepMetrics], object]) -> None:
        self._function = function

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for record in metrics(event.progress):
            self._function(record)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass


def _records(progress: StreamingQueryProgress) -> Iterator[StepMetrics]:
    steps = {
        name_observed(name): row.asDict(recursive=True)[STEP]
        for name, row in progress.observedMetrics.items()
        if is_ours(name)
    }
    given = Counter(step[NAME] for step in steps.values())
    for unique, step in steps.items():
        join = step[NAME] if given[step[NAME]] == 1 else unique
        yield _record(progress, join, step)


def _record(progress: StreamingQueryProgress, join: str, observed: dict[str, Any]) -> StepMetrics:
    family = family_of(observed[FAMILY])
    record = StepMetrics if family is None else family.metrics
    counters = StreamCounters if family is None else family.streams
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
