"""The equality join on Spark: from a plan and the streams' DataFrames to the DataFrame of
results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame

from watersmeet.operators.equi.layout import EquiLayout, lay_out
from watersmeet.operators.equi.step import EquiJoin
from watersmeet.rows.predicate import Predicate
from watersmeet.rows.route import ByKey
from watersmeet.spark.encode import encoded
from watersmeet.spark.query import Hop, Source, run
from watersmeet.spark.result import arrow_schemas, delay_to_set, result_schema, with_event_time
from watersmeet.spark.shards import Circumstances
from watersmeet.spec.equi import EquiSpec
from watersmeet.spec.policy import EquiPolicy


def build(
    spec: EquiSpec, policy: EquiPolicy, predicate: Predicate | None, frames: Sequence[DataFrame]
) -> DataFrame:
    """The join as a DataFrame, streaming or batch as its inputs are."""
    layout = layout_of(spec, policy, predicate, frames)
    sources = [
        Source(
            encoded(df, given.rows),
            ByKey(),
            delay_to_set(spec, stream),
        )
        for df, stream, given in zip(frames, spec.streams, layout.inputs, strict=True)
    ]
    results = run(
        sources,
        [
            Hop(
                EquiJoin(layout),
                adapted=partial(_adapted, layout),
                fingerprint=layout.fingerprint,
            )
        ],
        result_schema(spec, frames),
        name=spec.name,
        shards=policy.shards,
        streaming=spec.streaming,
        timers=spec.timers,
        hold=spec.hold,
    )
    return with_event_time(spec, results)


def layout_of(
    spec: EquiSpec, policy: EquiPolicy, predicate: Predicate | None, frames: Sequence[DataFrame]
) -> EquiLayout:
    """How rows of the streams are stored, and joined."""
    schemas, output = arrow_schemas(spec, frames)
    return lay_out(spec, policy, predicate, schemas=schemas, output=output)


def _adapted(layout: EquiLayout, now: Circumstances) -> EquiJoin:
    """The join, where that many shards share its budget."""
    return EquiJoin(layout.on(now.shards))
