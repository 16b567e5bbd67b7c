"""The query: from the streams' rows, through one stateful operator or several, to results.

    rows ─ encode ─► pack ─► union ─► step, shard by shard ─► observe ─┬─► results
           JVM       Python           stateful, Python        JVM      └─► capsules: the next hop

It knows operators by their contract (:mod:`watersmeet.operators.base`) and nothing of what they
join.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from watersmeet import durations
from watersmeet.operators.base import Operator
from watersmeet.rows.route import Route
from watersmeet.spark import counters
from watersmeet.spark.capsule import CAPSULE, PACK_BYTES, Pack
from watersmeet.spark.exits import Exit, HandOn, Results
from watersmeet.spark.metrics import observation_name
from watersmeet.spark.places import with_places
from watersmeet.spark.processor import Adapted, Processor
from watersmeet.spark.shards import shard_ids
from watersmeet.spark.start_check import Watched, watch
from watersmeet.state.cache import SegmentCache

CACHE_FOLDER = "spark.watersmeet.cache.folder"
CACHE_SIZE = "spark.watersmeet.cache.size"
_DEFAULT_CACHE_SIZE = 4 << 30


@dataclass(frozen=True)
class Source:
    """One input of a query: its ``rows``, as they are stored, and where they go. ``delay`` is
    that of the watermark to set on their time, in microseconds; None: it has one, or no time.
    ``counted``: rows of equal content are dealt by count. About ``packed`` bytes of rows are packed
    at a time."""

    rows: DataFrame
    route: Route
    delay: int | None = None
    counted: bool = False
    packed: int = PACK_BYTES

    def pack(self, stream: int, ids: tuple[int, ...], label: str) -> Pack:
        """What packs its rows, as those of the operator's input of that number."""
        limit = min(self.packed, PACK_BYTES)
        return Pack(stream, self.route, ids, label, self.counted, limit)


@dataclass(frozen=True)
class Hop:
    """A stateful operator in a chain of them; ``onward`` are the routes, one for each input of
    the next operator, of the rows that it hands on. The last hop has none: it gives results.
    ``adapted`` gives the operator for a query that is not as it was planned: a checkpoint keeps its
    own number of shards; an earlier run may have had more slices, of which so many must be reached;
    and there may be several watermarks. None: it depends on none of that. ``fingerprint`` is that
    of its state; None: a checkpoint is not looked at when a query starts. ``slices``: rows of an
    operator without a key are dealt to the first so many shards. ``waits``: may rows wait for a
    micro-batch without data?"""

    operator: Operator
    onward: tuple[Route, ...] = ()
    adapted: Adapted | None = None
    fingerprint: str | None = None
    slices: int | None = None
    waits: bool = False


def run(
    sources: Sequence[Source],
    hops: Sequence[Hop],
    schema: T.StructType,
    *,
    name: str,
    unique: str | None = None,
    shards: int,
    streaming: bool,
    timers: bool,
    hold: int = 0,
) -> DataFrame:
    """The results of a chain of operators, as a DataFrame of that schema, streaming or batch as
    the sources are. ``unique`` is its :func:`unique_name`, if it has one already. ``timers``: is
    there a watermark to wait for? ``hold`` is how far Spark's is held back behind that of the
    operators, in microseconds; the delays of the sources have it."""
    for hop, following in pairwise(hops):
        handed, taken = len(hop.onward), len(following.operator.inputs)
        assert handed == taken, f"a hop hands on {handed} inputs, the next one takes {taken}"
    assert not hops[-1].onward, "the last hop gives results"
    ids, cache = tuple(shard_ids(shards)), segment_cache(sources[0].rows.sparkSession)
    unique, inputs = unique or unique_name(name), hops[0].operator.inputs
    rows = _union(
        [
            _packed(source, source.pack(i, ids, f"{unique}: pack {given}"))
            for i, (source, given) in enumerate(zip(sources, inputs, strict=True))
        ]
    )
    watched: dict[str, Watched] = {}
    for number, hop in enumerate(hops):
        leave: Exit = HandOn(tuple(Pack(i, route, ids) for i, route in enumerate(hop.onward)))
        given = CAPSULE
        if not hop.onward:
            leave, given = Results(hop.operator.output), schema
        steps = rows.groupBy("shard").transformWithStateInPandas(
            statefulProcessor=Processor(
                hop.operator,
                leave,
                cache,
                ids,
                adapted=hop.adapted,
                streaming=streaming,
                timers=timers,
                hold=durations.milliseconds(hold),
            ),
            outputStructType=T.StructType([*given, counters.FIELD]),
            outputMode="append",
            timeMode="eventTime" if timers else "none",
        )
        part = f", hop {number + 1} of {len(hops)}" if len(hops) > 1 else ""
        observation = observation_name(unique + part)
        if hop.fingerprint is not None:
            watched[observation] = Watched(hop.fingerprint, hop.slices, hop.waits)
        rows = counters.results_of(steps, observation, hop.operator, name + part)
        if hop.onward:
            rows = rows.drop("event_time")
    if streaming and watched:
        watch(rows.sparkSession, watched)
    return rows


def shard_count(spark: SparkSession) -> int:
    """One shard for each shuffle partition."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def segment_cache(spark: SparkSession) -> SegmentCache:
    """The host-local cache, as the session's settings have it. Each worker finds its folder by
    itself: on its own host, as its own user."""
    size = spark.conf.get(CACHE_SIZE, None)
    folder = spark.conf.get(CACHE_FOLDER, None)
    return SegmentCache(folder or None, int(size) if size else _DEFAULT_CACHE_SIZE)


def _packed(source: Source, pack: Pack) -> DataFrame:
    """A source's rows as capsules, with its watermark on them."""
    capsules = with_places(source.rows).mapInArrow(pack, CAPSULE)
    if source.delay is not None:
        delay = durations.milliseconds(source.delay)
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
