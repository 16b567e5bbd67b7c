"""The ring join on Spark: from a plan and the streams' DataFrames to the DataFrame of results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame

from watersmeet.operators.ring.chain import hops_of
from watersmeet.operators.ring.layout import RingLayout, lay_out, of_hop
from watersmeet.operators.ring.step import RingHop
from watersmeet.rows.conditions import Conditions
from watersmeet.spark.encode import encoded
from watersmeet.spark.query import Hop, Source, run
from watersmeet.spark.result import arrow_schemas, delay_to_set, result_schema, with_event_time
from watersmeet.spark.shards import Circumstances
from watersmeet.spark.start_check import EVERY
from watersmeet.spec.policy import RingPolicy
from watersmeet.spec.ring import RingSpec


def build(
    spec: RingSpec,
    policy: RingPolicy,
    conditions: Conditions,
    frames: Sequence[DataFrame],
) -> DataFrame:
    """The join as a DataFrame, streaming or batch as its inputs are."""
    layout = layout_of(spec, policy, conditions, frames)
    first, *later = hops_of(layout)
    sources = [
        Source(encoded(df, given.rows), route, delay_to_set(spec, stream), counted=True)
        for df, stream, given, route in zip(
            frames, spec.streams, layout.streams, first.routes, strict=True
        )
    ]
    onward = [*(hop.routes for hop in later), ()]
    hops = [
        Hop(
            RingHop(layout, hop),
            routes,
            adapted=partial(_adapted, layout, hop.number),
            fingerprint=fingerprint,
            slices=policy.dealt or EVERY,
        )
        for hop, routes, fingerprint in zip(
            (first, *later), onward, fingerprints(layout), strict=True
        )
    ]
    results = run(
        sources,
        hops,
        result_schema(spec, frames),
        name=spec.name,
        shards=policy.shards,
        streaming=spec.streaming,
        timers=spec.timers,
        hold=spec.hold,
    )
    return with_event_time(spec, results)


def layout_of(
    spec: RingSpec,
    policy: RingPolicy,
    conditions: Conditions,
    frames: Sequence[DataFrame],
) -> RingLayout:
    """How rows of the streams are stored, and joined."""
    schemas, output = arrow_schemas(spec, frames)
    return lay_out(spec, policy, conditions, schemas=schemas, output=output)


def fingerprints(layout: RingLayout) -> list[str]:
    """Those of the states of all hops."""
    hops = hops_of(layout)
    return [of_hop(layout.fingerprint, hop.number, hop.count) for hop in hops]


def _adapted(layout: RingLayout, number: int, now: Circumstances) -> RingHop:
    """A hop, where the join has that many shards, and new rows reach so many at least."""
    adapted = layout.on(now.shards, reach=now.reach)
    return RingHop(adapted, hops_of(adapted)[number])
