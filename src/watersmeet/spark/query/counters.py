"""Counters on their way from a step to Spark's progress reports.

A step's counters leave among its results, as JSON in a row that holds nothing else, with
notes on what was decided; ``observe`` adds them up, or takes the greatest, and gathers the notes,
over the shards of a micro-batch. (JSON, because the column is null in every row of the result: a
null string takes less room on its way than a null structure, whose fields are all there.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.joins.operator import AnyOperator, Counters

#: The column that carries them. It is null in a row of the result.
REPORT = "_watersmeet_report"
FIELD = T.StructField(REPORT, T.StringType())
#: Their name among the observed metrics, and what is in there.
STEP = "step"
NAME = "name"
FAMILY = "family"
STREAMS = "streams"
COUNTERS = "counters"
NOTES = "notes"
LARGEST = "largest"
_SUMS = "map<string, bigint>"
_REPORTS = (
    f"array<struct<{COUNTERS}: {_SUMS}, {NOTES}: array<string>, "
    f"{LARGEST}: struct<fanout: bigint, stream: string, key: string>>>"
)
_NO_NUMBERS = ("streams", "notes", "largest")


def numbers(counters: Counters, streams: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Every number that was counted, with its name: ``results``, ``views.rows``, ..."""
    for field in fields(counters):
        if field.name not in _NO_NUMBERS:
            yield field.name, getattr(counters, field.name)
    for stream, counted in zip(streams, counters.streams, strict=True):
        for field in fields(counted):
            yield f"{stream}.{field.name}", getattr(counted, field.name)


def report(counters: Counters, operator: AnyOperator) -> str:
    """What a step did, as text."""
    return json.dumps(
        {
            COUNTERS: dict(numbers(counters, operator.counted)),
            NOTES: counters.notes,
            LARGEST: asdict(counters.largest),
        }
    )


def results_of(steps: DataFrame, observation: str, operator: AnyOperator, name: str) -> DataFrame:
    """What an operator's steps gave, without their reports. These are observed under that name:
    ``name`` is the join's."""
    observed = steps.observe(observation, _summary(operator, name))
    return observed.where(F.col(REPORT).isNull()).drop(REPORT)


def _summary(operator: AnyOperator, name: str) -> Column:
    """What to observe of the join of that name: the sum of each counter over a micro-batch, or
    the greatest, the notes, and the largest fan-out.

    Spark evaluates an observed aggregate for every row that passes, and nearly all of them are
    results. So there is one only, which merely skips them. And Spark plans the query for every
    micro-batch again, and shows the expression wherever it shows the plan, so it is small: the
    names of the counters come with the reports. (Without a report there are none.)"""
    counters = operator.counters()
    texts = F.concat_ws(",", F.collect_list(REPORT))
    reports = F.from_json(F.concat(F.lit("["), texts, F.lit("]")), _REPORTS)

    def summary(reports: Column) -> Column:
        nothing = F.from_json(F.lit("{}"), _SUMS)
        return F.struct(
            F.lit(name).alias(NAME),
            F.lit(counters.family).alias(FAMILY),
            F.array(*map(F.lit, operator.counted)).alias(STREAMS),
            F.aggregate(reports[COUNTERS], nothing, _merging(counters.maxima)).alias(COUNTERS),
            F.flatten(reports[NOTES]).alias(NOTES),
            F.array_max(reports[LARGEST]).alias(LARGEST),
        )

    return F.transform(F.array(reports), summary)[0].alias(STEP)


def _merging(maxima: frozenset[str]) -> Callable[[Column, Column], Column]:
    """How the counters of a step are merged with those of others."""

    def one(name: Column, total: Column, more: Column) -> Column:
        added = F.nvl(total, F.lit(0)) + more
        if not maxima:
            return added
        return F.when(name.isin(*sorted(maxima)), F.greatest(total, more)).otherwise(added)

    return lambda totals, step: F.map_zip_with(totals, step, one)
