"""The stateful operator on Spark: one step of the join for each shard.

Spark calls it once a shard with new capsules, and by a timer for every shard
with state whenever the watermark has moved. Everything that is kept goes to a
``MapState``, so it commits with the micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from watersmeet.operators.base import END_OF_TIME, Counters
from watersmeet.operators.equi.state import EquiState
from watersmeet.operators.equi.step import EquiJoin
from watersmeet.rows.columns import concat
from watersmeet.rows.ipc import from_ipc
from watersmeet.rows.shard import Shard
from watersmeet.spark.counters import REPORT, report
from watersmeet.spark.frames import to_frame
from watersmeet.spark.worker import settle
from watersmeet.state.cache import SegmentCache

if TYPE_CHECKING:
    from pyspark.sql.pandas._typing import DataFrameLike

_NAME = T.StructType([T.StructField("name", T.StringType())])
_VALUE = T.StructType([T.StructField("value", T.BinaryType())])

#: New rows are joined in chunks of at most about so many bytes.
CHUNK_BYTES = 256 << 20
#: Result pieces are gathered into frames of about so many rows or bytes.
FRAME_ROWS = 1 << 18
FRAME_BYTES = 8 << 20
_REPORT = pa.field(REPORT, pa.string())


@dataclass(frozen=True)
class SparkStore:
    """A store in Spark's state store."""

    values: MapState

    def get(self, name: str) -> bytes | None:
        row = self.values.getValue((name,))
        return None if row is None else bytes(row[0])

    def put(self, name: str, value: bytes) -> None:
        self.values.updateValue((name,), (value,))

    def delete(self, name: str) -> None:
        self.values.removeKey((name,))


class JoinProcessor(StatefulProcessor):
    """Steps the join. Shards have the ids ``ids``. ``streaming`` is false for batch
    DataFrames: all rows come in one call, and then nothing comes any more. ``timers`` says
    that there is a watermark to wait for."""

    def __init__(
        self,
        join: EquiJoin,
        cache: SegmentCache,
        ids: Sequence[int],
        *,
        streaming: bool,
        timers: bool,
    ) -> None:
        self._join = join
        self._cache = cache
        self._shards = {shard: Shard(number, len(ids)) for number, shard in enumerate(ids)}
        self._streaming = streaming
        self._timers = timers

    def init(self, handle: StatefulProcessorHandle) -> None:
        settle()
        self._handle = handle
        self._store = SparkStore(handle.getMapState("state", _NAME, _VALUE))

    def handleInputRows(
        self, key: Any, rows: Iterator[DataFrameLike], timerValues: TimerValues
    ) -> Iterator[DataFrameLike]:
        yield from self._step(key[0], self._chunks(rows), timerValues, fired=None)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[DataFrameLike]:
        fired = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._step(key[0], iter(()), timerValues, fired=fired)

    def close(self) -> None:
        pass

    def _step(
        self,
        shard: int,
        chunks: Iterator[list[pa.RecordBatch | None]],
        timer_values: TimerValues,
        *,
        fired: int | None,
    ) -> Iterator[DataFrameLike]:
        began = time.perf_counter()
        state = EquiState(
            self._store,
            self._cache,
            shard=self._shards[shard],
            fingerprint=self._join.layout.fingerprint,
            lengths=self._join.lengths,
            delay=self._join.layout.delay,
            memory=self._join.layout.memory,
        )
        counters = Counters.zero(len(state.windows))
        watermark_ms = timer_values.getCurrentWatermarkInMs()
        watermark = watermark_ms * 1000 if watermark_ms > 0 else None
        for rows in gathered(self._results(chunks, watermark, state, counters)):
            yield to_frame(rows.append_column(_REPORT, pa.nulls(len(rows), _REPORT.type)))
        self._set_timer(state, watermark_ms, fired)
        state.commit()
        counters.step_ms = round((time.perf_counter() - began) * 1000)
        yield self._report(report(counters, state))

    def _report(self, text: str) -> DataFrameLike:
        """A row that is no result: it carries the step's counters and notes."""
        layout = self._join.layout
        nothing = [
            pa.nulls(1, field.type) if source.key is None else _zero(field.type)
            for source, field in zip(layout.sources, layout.output, strict=True)
        ]
        columns = [*nothing, pa.array([text], _REPORT.type)]
        schema = layout.output.append(_REPORT)
        return to_frame(pa.RecordBatch.from_arrays(columns, schema=schema))

    def _results(
        self,
        chunks: Iterator[list[pa.RecordBatch | None]],
        watermark: int | None,
        state: EquiState,
        counters: Counters,
    ) -> Iterator[pa.RecordBatch]:
        yield from self._join.step(chunks, watermark, state, counters)
        if not self._streaming:
            yield from self._join.advance(END_OF_TIME, state, counters)

    def _set_timer(self, state: EquiState, watermark_ms: int, fired: int | None) -> None:
        """Have the shard stepped again as soon as the watermark moves, while it
        holds anything. A timer that has just fired is deleted by Spark."""
        if not self._timers:
            return
        wanted = watermark_ms + 1 if any(window.entries for window in state.windows) else None
        current = state.timer
        if current != wanted:
            if current is not None and current != fired:
                self._handle.deleteTimer(current)
            if wanted is not None:
                self._handle.registerTimer(wanted)
            state.timer = wanted

    def _chunks(self, frames: Iterator[DataFrameLike]) -> Iterator[list[pa.RecordBatch | None]]:
        """New rows of each stream, from their capsules, a bounded amount at a time."""
        count = len(self._join.layout.inputs)
        waiting: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        limit = min(CHUNK_BYTES, self._join.layout.piece or CHUNK_BYTES)
        size = 0
        for frame in frames:
            for stream, payload in zip(frame["stream"], frame["payload"], strict=True):
                if payload is None:
                    continue
                waiting[stream].append(from_ipc(payload))
                size += len(payload)
                if size >= limit:
                    yield [concat(batches) if batches else None for batches in waiting]
                    waiting, size = [[] for _ in range(count)], 0
        yield [concat(batches) if batches else None for batches in waiting]


def _zero(kind: pa.DataType) -> pa.Array:
    """One value of a key's type: Spark may have been told that a key is never null.

    >>> _zero(pa.string()).to_pylist(), _zero(pa.int32()).to_pylist()
    ([''], [0])
    """
    _, *values = pa.nulls(1, kind).buffers()
    return pa.Array.from_buffers(kind, 1, [None, *values])


def gathered(results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same results in batches that are large enough to be cheap, small enough to
    stream."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in results:
        waiting.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= FRAME_ROWS or size >= FRAME_BYTES:
            yield concat(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield concat(waiting)
