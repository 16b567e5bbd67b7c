"""Counters on their way from a step to Spark's progress reports.

A step's counters leave among its results, as JSON in a row that holds nothing else, with
notes on what was decided; ``observe`` adds them up, and gathers the notes, over the shards
of a micro-batch. (JSON, because the column is null in every row of the result: a null text
takes less room on its way than a null structure, whose fields are all there.)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.operators.base import Counters, StreamCounters
from watersmeet.operators.equi.state import EquiState
from watersmeet.state.manifest import total_bytes

#: The column that carries them. It is null in a row of the result.
REPORT = "_watersmeet_report"
FIELD = T.StructField(REPORT, T.StringType())
#: Their name among the observed metrics, and what is in there.
STEP = "step"
COUNTERS = "counters"
NOTES = "notes"
LARGEST = "largest"
_REPORT_TYPE = (
    f"{COUNTERS} array<bigint>, {NOTES} array<string>, "
    f"{LARGEST} struct<fanout: bigint, stream: string, key: string>"
)
_NO_NUMBERS = ("streams", "notes", "largest")
TOTALS = tuple(field.name for field in fields(Counters) if field.name not in _NO_NUMBERS)
PER_STREAM = tuple(field.name for field in fields(StreamCounters))


def names(streams: Sequence[str]) -> list[str]:
    """The counters' names in the order of a :func:`report`: ``results``, ``views.rows``, ..."""
    return [*TOTALS, *(f"{stream}.{name}" for stream in streams for name in PER_STREAM)]


def report(counters: Counters, state: EquiState) -> str:
    """What a step did, with what is stored at its end."""
    for stream, window in zip(counters.streams, state.windows, strict=True):
        stream.expired = window.expired
        stream.state_rows = window.rows
        stream.state_bytes = total_bytes(window.entries)
        stream.segments = len(window.entries)
        stream.indexed = sum(entry.indexed for entry in window.entries)
    counters.cache_hits = state.cache_counts.hits
    counters.cache_misses = state.cache_counts.misses
    counters.owed = len(state.debts)
    totals = [getattr(counters, name) for name in TOTALS]
    per_stream = [getattr(s, name) for s in counters.streams for name in PER_STREAM]
    return json.dumps(
        {
            COUNTERS: totals + per_stream,
            NOTES: counters.notes,
            LARGEST: asdict(counters.largest),
        }
    )


def observed(streams: Sequence[str]) -> Column:
    """What to observe: each counter's name and its sum over a micro-batch, the notes, and
    the largest fan-out.

    Spark evaluates an observed aggregate for every row that passes, and nearly all
    of them are results. So there is one only, which merely skips them. And Spark plans the
    query anew for every micro-batch, so the expression is kept small: one literal has all names."""
    labels = names(streams)
    zeros = F.array_repeat(F.lit(0).cast("bigint"), len(labels))

    def summary(reports: Column) -> Column:
        summed = F.aggregate(
            reports[COUNTERS], zeros, lambda sums, step: F.zip_with(sums, step, _add)
        )
        return F.struct(
            F.map_from_arrays(F.split(F.lit("\t".join(labels)), "\t"), summed).alias(COUNTERS),
            F.flatten(reports[NOTES]).alias(NOTES),
            F.array_max(reports[LARGEST]).alias(LARGEST),
        )

    texts = F.collect_list(REPORT)
    reports = F.transform(texts, lambda text: F.from_json(text, _REPORT_TYPE))
    return F.transform(F.array(reports), summary)[0].alias(STEP)


def _add(one: Column, other: Column) -> Column:
    return one + other
