"""A third family of operators, as small as one can be: it counts the rows of every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.operators.base import Counters, StreamCounters
from watersmeet.rows.columns import CODE, codes_of
from watersmeet.state.shard import ShardState


class CountCounters(Counters):
    family: ClassVar[str] = "count"


@dataclass(frozen=True)
class CountByKey:
    """Emits the new count of each key that came; if it ``hands_on``, to the next operator, for
    which a count is a key."""

    hands_on: bool = False
    inputs: ClassVar = ("rows",)
    counted: ClassVar = ("rows",)
    output: ClassVar = pa.schema([("key", pa.int64()), ("count", pa.int64())])
    chunk_bytes: ClassVar = None
    frame_bytes: ClassVar = None

    def counters(self) -> CountCounters:
        return CountCounters([StreamCounters()])

    def open(self, store: Any, shard: Any, cache: Any) -> ShardState:
        return ShardState(store, cache, shard=shard, fingerprint="count by key")

    def step(self, chunks: Any, watermark: int | None, state: Any, counters: Any) -> Iterator[Any]:
        counts = state.section.setdefault("counts", {})
        for rows in [rows for [rows] in chunks if rows is not None]:
            counters.streams[0].rows += len(rows)
            keys, new = np.unique(codes_of(rows), return_counts=True)
            for key, count in zip(keys.tolist(), new.tolist(), strict=True):
                counts[str(key)] = counts.get(str(key), 0) + count
            total = pa.array([counts[str(key)] for key in keys.tolist()], pa.int64())
            counters.results += len(keys)
            if self.hands_on:
                yield 0, pa.RecordBatch.from_pydict({CODE: total})
            else:
                yield pa.RecordBatch.from_arrays([pa.array(keys), total], schema=self.output)

    def finish(self, state: Any, counters: Any) -> Iterator[Any]:
        return iter(())

    def report(self, state: Any, counters: Any) -> None:
        counters.streams[0].state_rows = len(state.section["counts"])
