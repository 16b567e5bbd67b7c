"""The query: from the streams' rows, through one stateful operator or several, to results.

    rows ─ encode ─► pack ─► union ─► step, shard by shard ─► observe ─┬─► results
           JVM       Python           stateful, Python        JVM      └─► capsules: the next hop

It knows operators by their contract (:mod:`watersmeet.joins.operator`), and chains of them
(:mod:`watersmeet.joins.chain`). It knows no family of joins.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from watersmeet import durations
from watersmeet.joins.chain import Chain, Hop, Input
from watersmeet.spark.checkpoint.note import OperatorState
from watersmeet.spark.checkpoint.start_check import watch
from watersmeet.spark.query import counters
from watersmeet.spark.query.capsule import CAPSULE, Pack
from watersmeet.spark.query.encode import encoded
from watersmeet.spark.query.exits import CapsuleExit, Exit, ResultExit
from watersmeet.spark.query.observations import observation_name
from watersmeet.spark.query.places import with_places
from watersmeet.spark.query.processor import Processor
from watersmeet.spark.query.shards import shard_ids
from watersmeet.spark.query.watermarks import explain_refusals
from watersmeet.state.cache import SegmentCache

CACHE_FOLDER = "spark.watersmeet.cache.folder"
CACHE_SIZE = "spark.watersmeet.cache.size"
_DEFAULT_CACHE_SIZE = 4 << 30


def run(
    chain: Chain,
    frames: Sequence[DataFrame],
    schema: T.StructType,
    *,
    unique: str | None = None,
) -> DataFrame:
    """The results of a chain of operators over its inputs, as a DataFrame of that schema, streaming
    or batch as the inputs are. ``unique`` is its :func:`unique_name`, if it has one already."""
    ids, cache = tuple(shard_ids(chain.shards)), segment_cache(frames[0].sparkSession)
    unique, told = unique or unique_name(chain.name), chain.hops[0].operator.expects
    rows = _union(
        [
            _packed(
                chain, given, df, Pack.of(given, i, ids, f"{unique}: pack {given.name}", told=told)
            )
            for i, (given, df) in enumerate(zip(chain.inputs, frames, strict=True))
        ]
    )
    states: dict[str, OperatorState] = {}
    for number, hop in enumerate(chain.hops):
        part = f", hop {number + 1} of {len(chain.hops)}" if len(chain.hops) > 1 else ""
        observation = observation_name(unique + part)
        states[observation] = OperatorState(hop.fingerprint, hop.slices, hop.waits)
        steps = _stepped(chain, hop, rows, schema, ids, cache)
        rows = counters.results_of(steps, observation, hop.operator, chain.name + part)
        if hop.onward:
            rows = rows.drop("event_time")
    if chain.streaming:
        watch(rows.sparkSession, states)
        explain_refusals()
    return rows


def _stepped(
    chain: Chain,
    hop: Hop,
    rows: DataFrame,
    schema: T.StructType,
    ids: tuple[int, ...],
    cache: SegmentCache,
) -> DataFrame:
    """The output of a hop's steps, over capsules: results of that schema, or capsules."""
    leave: Exit[Any] = CapsuleExit(tuple(Pack(i, route, ids) for i, route in enumerate(hop.onward)))
    given = CAPSULE
    if not hop.onward:
        leave, given = ResultExit(hop.operator.output), schema
    return rows.groupBy("shard").transformWithStateInPandas(
        statefulProcessor=Processor(
            hop.operator,
            leave,
            cache,
            ids,
            adapted=hop.adapted,
            streaming=chain.streaming,
            timers=chain.timers,
            hold=durations.milliseconds(chain.hold),
        ),
        outputStructType=T.StructType([*given, counters.FIELD]),
        outputMode="append",
        timeMode="eventTime" if chain.timers else "none",
    )


def shard_count(spark: SparkSession) -> int:
    """One shard for each shuffle partition."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def segment_cache(spark: SparkSession) -> SegmentCache:
    """The host-local cache, as the session's settings have it. Each worker finds its folder by
    itself: on its own host, as its own user."""
    size = spark.conf.get(CACHE_SIZE, None)
    folder = spark.conf.get(CACHE_FOLDER, None)
    return SegmentCache(folder or None, int(size) if size else _DEFAULT_CACHE_SIZE)


def _packed(chain: Chain, given: Input, df: DataFrame, pack: Pack) -> DataFrame:
    """The rows of an input as capsules, with its watermark on them."""
    capsules = with_places(encoded(df, given.rows)).mapInArrow(pack, CAPSULE)
    if chain.streaming and given.delay is not None and not given.own_watermark:
        delay = durations.milliseconds(given.delay + chain.hold)
        capsules = capsules.withWatermark("event_time", f"{delay} milliseconds")
    # Spark must not drop a capsule as late: the operator drops late rows one by one,
    # and counts them. So the operator's input carries no event time that Spark knows.
    return capsules.select("shard", "stream", "payload")


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    united = frames[0]
    for other in frames[1:]:
        united = united.union(other)
    return united


_taken: set[str] = set()
_numbers: dict[str, Iterator[int]] = {}
_lock = threading.Lock()


def unique_name(name: str) -> str:
    """The name, with a number behind it if this process has given it to another query: Spark
    refuses two observations of one name in a query."""
    with _lock:
        # A batch join may be planned in every micro-batch: what was tried is not tried again.
        numbers = _numbers.setdefault(name, itertools.count(1))
        numbered = (name if number == 1 else f"{name} ({number})" for number in numbers)
        unique = next(candidate for candidate in numbered if candidate not in _taken)
        _taken.add(unique)
    return unique
