"""Spark classic, as opposed to Spark Connect, whose sessions have no JVM of their own."""

from __future__ import annotations

from watersmeet.errors import SessionError

_CONNECT = "pyspark.sql.connect."


def refuse_connect(given: object, argument: str) -> None:
    """Refuse what belongs to Spark Connect."""
    if type(given).__module__.startswith(_CONNECT):
        raise SessionError(
            f"{argument}: Watersmeet needs Spark classic, not Connect, and this is a "
            f"{type(given).__name__} of Connect's. Make the session without .remote(...) and "
            "SPARK_REMOTE: SparkSession.builder.master(...), or wm.local_session()."
        )
