"""Counters on their way from a step to Spark's progress reports.

A step's counters leave among its results, as one array of numbers in a row that
holds nothing else but notes on what was decided; ``observe`` adds them up, and gathers the
notes, over the buckets of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.operators.base import Counters, StreamCounters
from watersmeet.state.bucket import BucketState
from watersmeet.state.manifest import total_bytes

#: The column that carries them. It is null in a row of the result.
REPORT = "_watersmeet_report"
#: Their names in it, and among the observed metrics.
COUNTERS = "counters"
NOTES = "notes"
LARGEST = "largest"
FIELD = T.StructField(
    REPORT,
    T.StructType(
        [
            T.StructField(COUNTERS, T.ArrayType(T.LongType())),
            T.StructField(NOTES, T.ArrayType(T.StringType())),
            T.StructField(
                LARGEST,
                T.StructType()
                .add("fanout", T.LongType())
                .add("stream", T.StringType())
                .add("key", T.StringType()),
            ),
        ]
    ),
)
_NO_NUMBERS = ("streams", "notes", "largest")
TOTALS = tuple(field.name for field in fields(Counters) if field.name not in _NO_NUMBERS)
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
        stream.indexed = sum(entry.indexed for entry in window.entries)
    counters.cache_hits = state.cache_counts.hits
    counters.cache_misses = state.cache_counts.misses
    counters.owed = len(state.manifest.debts)
    values = [getattr(counters, name) for name in TOTALS]
    return values + [getattr(s, name) for s in counters.streams for name in PER_STREAM]


def observed(streams: Sequence[str]) -> list[Column]:
    """What to observe: each counter's name and its sum over a micro-batch, the notes, and
    the largest fan-out.

    Spark evaluates an observed aggregate for every row that passes, and nearly all
    of them are results. So there are three only, which merely skip them."""
    labels = names(streams)
    report = F.col(REPORT)
    zeros = F.array_repeat(F.lit(0).cast("bigint"), len(labels))
    summed = F.aggregate(
        F.collect_list(report[COUNTERS]), zeros, lambda sums, step: F.zip_with(sums, step, _add)
    )
    return [
        F.map_from_arrays(F.array(*map(F.lit, labels)), summed).alias(COUNTERS),
        F.flatten(F.collect_list(report[NOTES])).alias(NOTES),
        F.max(report[LARGEST]).alias(LARGEST),
    ]


def _add(one: Column, other: Column) -> Column:
    return one + other
