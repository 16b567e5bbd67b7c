"""The stateful operator on Spark: one step of any operator of ours, shard by shard.

Spark calls it once a shard with new capsules, and by a timer for every shard
with state whenever the watermark has moved. Everything that is kept goes to a
``MapState``, so it commits with the micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic

from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from watersmeet.joins.chain import Circumstances
from watersmeet.joins.operator import C, Chunk, E, Operator, S, State
from watersmeet.rows.inflow import Inflow
from watersmeet.rows.shard import Shard
from watersmeet.spark.query.capsule import told_input
from watersmeet.spark.query.chunks import Capsule, chunks
from watersmeet.spark.query.counters import report
from watersmeet.spark.query.exits import Exit, with_last_report
from watersmeet.spark.query.frames import to_frame
from watersmeet.spark.query.shards import ids_in_task, reach_in_task, several_in_task
from watersmeet.spark.query.store import SparkStore, declared
from watersmeet.spark.session.worker import acknowledge, prepare, promptly
from watersmeet.spark.session.worker_object import WorkerObject, briefly
from watersmeet.state.cache import SegmentCache
from watersmeet.state.shard import repartitioned

if TYPE_CHECKING:
    from pyspark.sql.pandas._typing import DataFrameLike

#: New rows are handed to the operator in chunks of at most this number of bytes, or of one capsule.
CHUNK_BYTES = 256 << 20


class Processor(WorkerObject, StatefulProcessor, Generic[S, C, E]):
    """Steps an operator; what its steps emit leaves by an exit. Spark knows its shards by ``ids``.
    ``adapted`` gives the operator for a query of which a task learns what was not planned, if it
    depends on that. ``streaming`` is false for batch DataFrames: all rows come in one call, and
    then nothing comes any more. ``timers`` says that there is a watermark to wait for, and ``hold``
    how far Spark's is held back behind the operator's, in milliseconds."""

    declare = staticmethod(declared)

    def __init__(
        self,
        operator: Operator[S, C, E],
        leave: Exit[E],
        cache: SegmentCache,
        ids: tuple[int, ...],
        *,
        adapted: Callable[[Circumstances], Operator[S, C, E]] | None = None,
        streaming: bool,
        timers: bool,
        hold: int = 0,
    ) -> None:
        self._operator = operator
        self._exit = leave
        self._cache = cache
        self._ids = ids
        self._adapted = adapted
        self._streaming = streaming
        self._timers = timers
        self._hold = hold

    def init(self, handle: StatefulProcessorHandle) -> None:
        # Spark calls it when the first rows are there.
        acknowledge()
        prepare()
        ids = ids_in_task(self._ids)
        found = Circumstances(len(ids), reach_in_task(), several_in_task())
        if self._adapted is not None and found != Circumstances(len(self._ids)):
            self._operator = self._adapted(found)
        self._exit = self._exit.in_task(self._operator.frame_bytes)
        self._shards = {shard: Shard(number, len(ids)) for number, shard in enumerate(ids)}
        self._handle = handle
        self._store = SparkStore.of(handle)

    def handleInputRows(
        self, key: Any, rows: Iterator[DataFrameLike], timerValues: TimerValues
    ) -> Iterator[DataFrameLike]:
        yield from briefly(self._step(key[0], promptly(rows), timerValues, fired=None))

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[DataFrameLike]:
        fired = expiredTimerInfo.getExpiryTimeInMs()
        yield from briefly(self._step(key[0], None, timerValues, fired=fired))

    def close(self) -> None:
        pass

    def _step(
        self,
        key: int,
        frames: Iterator[DataFrameLike] | None,
        timer_values: TimerValues,
        *,
        fired: int | None,
    ) -> Iterator[DataFrameLike]:
        began = time.perf_counter()
        shard = self._shards.get(key)
        if shard is None:
            raise repartitioned(len(self._shards))
        state = self._operator.open(self._store, shard, self._cache)
        counters = self._operator.counters()
        watermark_ms = timer_values.getCurrentWatermarkInMs()
        watermark = (watermark_ms + self._hold) * 1000 if watermark_ms > 0 else None
        chunks = iter(()) if frames is None else self._chunks(frames, state)
        emitted = self._emitted(chunks, watermark, state, counters)

        def committed() -> str:
            """What the step did, once its state is written."""
            self._set_timer(state, watermark_ms, fired)
            state.commit()
            self._operator.report(state, counters)
            counters.step_ms = round((time.perf_counter() - began) * 1000)
            return report(counters, self._operator)

        batches = self._exit.batches(emitted, first=shard.number == 0)
        yield from map(to_frame, with_last_report(batches, self._exit.schema, committed))

    def _emitted(
        self, chunks: Iterator[Chunk], watermark: int | None, state: S, counters: C
    ) -> Iterator[E]:
        yield from self._operator.step(chunks, watermark, state, counters)
        if not self._streaming:
            yield from self._operator.finish(state, counters)

    def _set_timer(self, state: State, watermark_ms: int, fired: int | None) -> None:
        """Have the shard stepped again as soon as the watermark moves, while that may change
        anything. A timer that has just fired is deleted by Spark."""
        if not self._timers:
            return
        wanted = watermark_ms + 1 if state.waits else None
        current = state.timer
        if current != wanted:
            if current is not None and current != fired:
                self._handle.deleteTimer(current)
            if wanted is not None:
                self._handle.registerTimer(wanted)
            state.timer = wanted

    def _chunks(self, frames: Iterator[DataFrameLike], state: S) -> Iterator[Chunk]:
        """New rows of each input, from their capsules, a bounded amount at a time."""
        capsules = self._capsules(frames, state)
        limit = min(CHUNK_BYTES, self._operator.chunk_bytes or CHUNK_BYTES)
        return chunks(capsules, inputs=len(self._operator.inputs), limit=limit)

    def _capsules(self, frames: Iterator[DataFrameLike], state: S) -> Iterator[Capsule]:
        """The capsules with rows. When all have been read, which is before the first chunk, the
        operator is told what the others say."""
        inflows = [Inflow() for _ in self._operator.inputs]
        for frame in frames:
            for stream, payload in zip(frame["stream"], frame["payload"], strict=True):
                if payload is None:
                    continue
                if stream < 0:
                    inflows[told_input(stream)].merge(Inflow.from_bytes(payload))
                else:
                    yield stream, payload
        self._operator.expect(inflows, state)
