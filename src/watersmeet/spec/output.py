"""The columns of a result, and where their values come from."""

from __future__ import annotations

from dataclasses import dataclass

#: The column that carries a join's event time; always the last of the result.
EVENT_TIME = "event_time"
#: The column that tells a punctuation from a row of the result.
IS_PUNCTUATION = "is_punctuation"


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result.

    ``stream`` and ``column`` name the source. Both are None for ``is_punctuation``, and for
    ``event_time`` if it is the greatest of the times; with a ``stream`` alone, it is that stream's
    time. For a key column, ``key`` is its position among the keys, and the value is that of any
    stream that has a row.
    """

    name: str
    type: str
    stream: int | None = None
    column: str | None = None
    key: int | None = None
