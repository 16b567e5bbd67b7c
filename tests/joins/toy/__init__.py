"""A fourth family, as small as one can be: it counts the rows of every key, over all streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from watersmeet.joins.chain import Chain, Hop, Input
from watersmeet.joins.family import Family, JoinPlan
from watersmeet.joins.metrics import StepMetrics
from watersmeet.joins.operator import Chunk, Counters, Operator, StreamCounters
from watersmeet.joins.policy import Policy
from watersmeet.plan.backend import Backend
from watersmeet.plan.call import JoinCall
from watersmeet.plan.explain.tree import Node
from watersmeet.plan.keys import compared_types, resolved_keys
from watersmeet.rows import columns, input_layout, route
from watersmeet.rows.shard import Shard
from watersmeet.spec import join, join_type, output, stream
from watersmeet.state.cache import SegmentCache
from watersmeet.state.shard import ShardState
from watersmeet.state.store import Store


class CountCounters(Counters):
    family = "count"


class CountByKey(Operator[ShardState, CountCounters, pa.RecordBatch]):
    """Emits the new count of each key that came."""

    output = pa.schema([("key", pa.int64()), ("count", pa.int64())])

    def __init__(self, inputs: Sequence[str] = ("rows",)) -> None:
        self.inputs = inputs

    def counters(self) -> CountCounters:
        return CountCounters([StreamCounters() for _ in self.inputs])

    def open(self, store: Store, shard: Shard, cache: SegmentCache) -> ShardState:
        return ShardState(store, cache, shard=shard, fingerprint="count by key")

    def step(
        self, chunks: Iterable[Chunk], watermark: int | None, state: ShardState, counters: Counters
    ) -> Iterator[pa.RecordBatch]:
        for number, rows in (part for chunk in chunks for part in enumerate(chunk) if part[1]):
            keys = columns.codes_of(rows).tolist()
            for key in map(str, keys):
                state.section[key] = state.section.get(key, 0) + 1
            new = {key: state.section[str(key)] for key in keys}
            counters.streams[number].rows += len(keys)
            counters.results += len(new)
            yield pa.RecordBatch.from_pydict({"key": [*new], "count": [*new.values()]}, self.output)

    def report(self, state: ShardState, counters: Counters) -> None:
        counters.streams[0].state_rows = len(state.section)


class CountPlan(JoinPlan):
    def chain(self, schemas: Sequence[pa.Schema], output: pa.Schema) -> Chain:
        rows = zip(self.spec.streams, input_layout.keyed_layouts(self.spec), strict=True)
        inputs = [Input.of(stream, layout, route.ByKey()) for stream, layout in rows]
        hop = Hop(CountByKey([given.name for given in inputs]), "count by key")
        return Chain.of(self.spec, inputs, [hop], self.policy.shards)

    def branches(self) -> list[Node]:
        return [Node("counts the rows of all keys")]


def plan(given: Sequence[stream.StreamSpec], place: Backend, call: JoinCall, _: object) -> JoinPlan:
    on, how = resolved_keys(given, call.on), join_type.INNER
    types = compared_types(given, on)
    result = tuple(output.OutputColumn(name, "bigint") for name in CountByKey.output.names)
    spec = join.JoinSpec("counts", tuple(given), how, None, result, keys=on, key_types=types)
    return CountPlan(spec, Policy(place.shards), None)


COUNT = Family("count", StepMetrics, StreamCounters, lambda call, _: call.goal == "count", plan)
