"""Counters on their way from a step to Spark's progress reports.

A step's counters leave as one array of numbers; ``observe`` sums each position
over the buckets of a micro-batch, under the names given here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from pyspark.sql import Column
from pyspark.sql import functions as F

from watersmeet.operators.base import Counters, StreamCounters
from watersmeet.state.bucket import BucketState
from watersmeet.state.manifest import total_bytes

TOTALS = tuple(field.name for field in fields(Counters) if field.name != "streams")
PER_STREAM = tuple(field.name for field in fields(StreamCounters))


def names(streams: Sequence[str]) -> list[str]:
    """The counters' names in the order of :func:`to_row`: ``results``, ``views.rows``, ..."""
    return [*TOTALS, *(f"{stream}.{name}" for stream in streams for name in PER_STREAM)]


def to_row(counters: Counters, state: BucketState) -> list[int]:
    """The numbers of a step, with what is stored at its end."""
    for stream, window in zip(counters.streams, state.windows, strict=True):
        stream.expired = window.expired
        stream.state_rows = window.rows
        stream.state_bytes = total_bytes(window.entries)
        stream.segments = len(window.entries)
    counters.cache_hits = state.cache_counts.hits
    counters.cache_misses = state.cache_counts.misses
    values = [getattr(counters, name) for name in TOTALS]
    return values + [getattr(s, name) for s in counters.streams for name in PER_STREAM]


def sums(streams: Sequence[str]) -> list[Column]:
    """What to observe: the sum of each counter over a micro-batch."""
    return [
        F.sum(F.col("counters")[position]).alias(name)
        for position, name in enumerate(names(streams))
    ]
