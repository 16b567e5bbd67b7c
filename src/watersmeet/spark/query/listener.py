"""A listener: what joins do, as it happens."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from watersmeet.joins.metrics import StepMetrics
from watersmeet.spark.query.metrics import metrics


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
