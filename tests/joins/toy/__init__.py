"""A fourth family, as small as one can be: it counts the rows of every key, over all streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.joins.chain import Chain, Hop, Input
from watersmeet.joins.family import Family, JoinPlan
from watersmeet.joins.metrics import StepMetrics
from watersmeet.joins.operator import Chunk, Counters, Operator, StreamCounters
from watersmeet.joins.policy import Policy
from watersmeet.plan.explain.shared import keys
from watersmeet.plan.keys import compared_types, resolved_keys
from watersmeet.rows.columns import CODE, codes_of
from watersmeet.rows.input_layout import keyed_layouts
from watersmeet.rows.route import ByKey
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.join_type import INNER
from watersmeet.spec.output import OutputColumn
from watersmeet.state.shard import ShardState

RESULT = pa.schema([("key", pa.int64()), ("count", pa.int64())])


class CountCounters(Counters):
    family: ClassVar[str] = "count"


class CountByKey(Operator[ShardState, CountCounters, Any]):
    """Emits the new count of each key that came; if it ``hands_on``, as a key for the next hop."""

    output = RESULT

    def __init__(self, inputs: Sequence[str] = ("rows",), *, hands_on: bool = False) -> None:
        self.inputs, self.hands_on = inputs, hands_on

    def counters(self) -> CountCounters:
        return CountCounters([StreamCounters() for _ in self.inputs])

    def open(self, store: Any, shard: Any, cache: Any) -> ShardState:
        return ShardState(store, cache, shard=shard, fingerprint="count by key")

    def step(
        self, chunks: Iterable[Chunk], watermark: int | None, state: ShardState, counters: Counters
    ) -> Iterator[Any]:
        counts = state.section.setdefault("counts", {})
        for number, rows in [part for chunk in chunks for part in enumerate(chunk) if part[1]]:
            counters.streams[number].rows += len(rows)
            codes, new = np.unique(codes_of(rows), return_counts=True)
            for key, count in zip(codes.tolist(), new.tolist(), strict=True):
                counts[str(key)] = counts.get(str(key), 0) + count
            total = pa.array([counts[str(key)] for key in codes.tolist()], pa.int64())
            counters.results += len(codes)
            result = pa.RecordBatch.from_arrays([pa.array(codes), total], schema=self.output)
            yield (0, result.select(["count"]).rename_columns([CODE])) if self.hands_on else result

    def report(self, state: ShardState, counters: Counters) -> None:
        counters.streams[0].state_rows = len(state.section["counts"])


class CountPlan(JoinPlan):
    def chain(self, schemas: Sequence[pa.Schema], output: pa.Schema) -> Chain:
        rows = zip(self.spec.streams, keyed_layouts(self.spec), strict=True)
        inputs = [Input.of(stream, layout, ByKey()) for stream, layout in rows]
        hop = Hop(CountByKey([given.name for given in inputs]), "count by key")
        return Chain.of(self.spec, inputs, [hop], self.policy.shards)

    def branches(self) -> list[Any]:
        return [keys(self.spec)]


def plan(streams: Sequence[Any], backend: Any, asked: Any, matching: Any) -> CountPlan:
    on = resolved_keys(streams, asked.on)
    types, result = compared_types(streams, on), [OutputColumn(n, "bigint") for n in RESULT.names]
    spec = JoinSpec("counts", (*streams,), INNER, None, (*result,), keys=on, key_types=types)
    return CountPlan(spec, Policy(backend.shards, cores=backend.cores), None)


COUNT = Family("count", StepMetrics, StreamCounters, lambda asked, _: asked.goal == "count", plan)
