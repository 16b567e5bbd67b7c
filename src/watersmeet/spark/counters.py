"""Counters on their way from a step to Spark's progress reports.

A step's counters leave among its results, as JSON in a row that holds nothing else, with
notes on what was decided; ``observe`` adds them up, and gathers the notes, over the shards
of a micro-batch. (JSON, because the column is null in every row of the result: a null string
takes less room on its way than a null structure, whose fields are all there.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.operators.base import Counters, Operator

#: The column that carries them. It is null in a row of the result.
REPORT = "_watersmeet_report"
FIELD = T.StructField(REPORT, T.StringType())
#: Their name among the observed metrics, and what is in there.
STEP = "step"
NAME = "name"
FAMILY = "family"
COUNTERS = "counters"
NOTES = "notes"
LARGEST = "largest"
_REPORT_TYPE = (
    f"{COUNTERS} array<bigint>, {NOTES} array<string>, "
    f"{LARGEST} struct<fanout: bigint, stream: string, key: string>"
)
_NO_NUMBERS = ("streams", "notes", "largest")


def numbers(counters: Counters, streams: list[str]) -> Iterator[tuple[str, int]]:
    """Every number that was counted, with its name: ``results``, ``views.rows``, ..."""
    for field in fields(counters):
        if field.name not in _NO_NUMBERS:
            yield field.name, getattr(counters, field.name)
    for stream, counted in zip(streams, counters.streams, strict=True):
        for field in fields(counted):
            yield f"{stream}.{field.name}", getattr(counted, field.name)


def report(counters: Counters) -> str:
    """What a step did, as text."""
    streams = [""] * len(counters.streams)
    return json.dumps(
        {
            COUNTERS: [number for _, number in numbers(counters, streams)],
            NOTES: counters.notes,
            LARGEST: asdict(counters.largest),
        }
    )


def observed(operator: Operator, name: str) -> Column:
    """What to observe of the join of that name: each counter's name and its sum over a
    micro-batch, the notes, and the largest fan-out.

    Spark evaluates an observed aggregate for every row that passes, and nearly all
    of them are results. So there is one only, which merely skips them. And Spark plans the
    query for every micro-batch again, so the expression is small: one literal has all names."""
    nothing = operator.counters()
    labels = [name for name, _ in numbers(nothing, list(operator.counted))]
    zeros = F.array_repeat(F.lit(0).cast("bigint"), len(labels))

    def summary(reports: Column) -> Column:
        summed = F.aggregate(
            reports[COUNTERS], zeros, lambda sums, step: F.zip_with(sums, step, _add)
        )
        return F.struct(
            F.lit(name).alias(NAME),
            F.lit(nothing.family).alias(FAMILY),
            F.map_from_arrays(F.split(F.lit("\t".join(labels)), "\t"), summed).alias(COUNTERS),
            F.flatten(reports[NOTES]).alias(NOTES),
            F.array_max(reports[LARGEST]).alias(LARGEST),
        )

    texts = F.collect_list(REPORT)
    reports = F.transform(texts, lambda text: F.from_json(text, _REPORT_TYPE))
    return F.transform(F.array(reports), summary)[0].alias(STEP)


def _add(one: Column, other: Column) -> Column:
    return one + other
