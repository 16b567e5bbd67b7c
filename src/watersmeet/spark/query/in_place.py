"""Rows that are answered where they are read: by the task that has them, without a shuffle and
without state.

    rows ─ encode ─► step, task by task ─► observe ─► results
           JVM       Python                JVM

Invariant: the answer to a row follows from the row and the operator alone. So no state is needed
for the result, a micro-batch that is run again gives the same rows, and it does not matter which
task has a row. The operator learns on the way which keys are frequent, for example. That only saves
time: each Python worker keeps it from task to task, in memory, and begins anew if it is lost.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from watersmeet import durations
from watersmeet.joins.chain import Chain, Input
from watersmeet.joins.operator import AnyOperator, Chunk
from watersmeet.rows.columns import TIME
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.shard import Shard
from watersmeet.rows.types import canonical_rows, rows_in
from watersmeet.rows.widths import sliced
from watersmeet.spark.checkpoint.start_check import watch
from watersmeet.spark.query import counters
from watersmeet.spark.query.encode import encoded
from watersmeet.spark.query.exits import ResultExit, with_last_report
from watersmeet.spark.query.inputs import quoted
from watersmeet.spark.query.observations import observation_name
from watersmeet.spark.query.places import with_places, without_places
from watersmeet.spark.query.query import segment_cache
from watersmeet.spark.query.result import spark_types
from watersmeet.spark.session.worker import prepare, promptly
from watersmeet.spark.session.worker_object import WorkerObject, briefly
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import MemoryStore

#: A step takes about so many rows at a time, if they take no more bytes than the operator allows:
#: the JVM makes the next ones meanwhile.
_CHUNK_ROWS = 1 << 14
#: Results leave in batches of about so many rows: the JVM takes the first ones while others are
#: made.
_RESULT_ROWS = 1 << 14
#: A worker remembers so many queries: the last ones that it has worked for.
_QUERIES = 16


@dataclass
class _QueryMemory:
    """What a worker has learned from a query, and the last ``stage`` of it in which it reported
    what it keeps."""

    store: MemoryStore = field(default_factory=MemoryStore)
    stage: int | None = None


_MEMORIES: OrderedDict[str, _QueryMemory] = OrderedDict()


def run_in_place(chain: Chain, df: DataFrame, schema: T.StructType, *, unique: str) -> DataFrame:
    """The results of a chain of one operator that needs no state, over its only input, as a
    DataFrame of that schema; ``unique`` is what no other query is called."""
    ([hop], [given]) = chain.hops, chain.inputs
    rows, operator = _with_watermark(chain, given, encoded(df, given.rows)), hop.operator
    step = InPlace(
        operator,
        segment_cache(rows.sparkSession),
        query=uuid.uuid4().hex,
        label=f"{unique}: answer {operator.inputs[0]}",
        types=spark_types(T.StructType([*schema, counters.FIELD])),
    )
    if rows.isStreaming:
        watch(rows.sparkSession, {})  # there is no state, but no second watermark may follow
    steps = with_places(rows).mapInArrow(step, T.StructType([*schema, counters.FIELD]))
    return counters.results_of(steps, observation_name(unique), operator, chain.name)


def _with_watermark(chain: Chain, given: Input, rows: DataFrame) -> DataFrame:
    """Encoded rows, with the watermark of their input, if it has none of its own. (Behind the
    encoding, as Spark then encodes rows while it reads them, and copies them once.)"""
    if not chain.streaming or given.delay is None or given.own_watermark:
        return rows
    return rows.withWatermark(quoted(TIME), f"{durations.milliseconds(given.delay)} milliseconds")


@dataclass(frozen=True)
class InPlace(WorkerObject):
    """Steps an operator over the rows of a task, as a function for ``mapInArrow``. What it learns
    is kept under the name of the ``query``. ``label`` is what it is called in Spark's plans.
    ``types`` are those that Spark wants the results in, with their report; None: they stay as
    they are."""

    operator: AnyOperator
    cache: SegmentCache
    query: str
    label: str
    types: pa.Schema | None = None

    @property
    def __name__(self) -> str:
        """PySpark shows a function by this name."""
        return self.label

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare()
        for rows in briefly(self._step(promptly(batches))):
            yield rows if self.types is None else rows_in(rows, self.types)

    def _step(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = time.perf_counter()
        memory = _memory_of(self.query)
        state = self.operator.open(memory.store, Shard(), self.cache)
        counted = self.operator.counters()
        results = self.operator.step(self._chunks(batches), None, state, counted)

        def committed() -> str:
            """What the step did, once what it has learned is kept."""
            assert not state.waits, "a row that waits needs state"
            state.commit()
            self.operator.report(state, counted)
            if not _reports_memory(memory):
                counted.without_kept()
            counted.step_ms = round((time.perf_counter() - began) * 1000)
            return counters.report(counted, self.operator)

        leave = ResultExit(self.operator.output, _RESULT_ROWS).in_task(self.operator.frame_bytes)
        rows = leave.batches(results, first=True)
        yield from with_last_report(rows, self.operator.output, committed)

    def _chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
        """The rows, a bounded amount at a time."""
        limit = self.operator.chunk_bytes
        assert limit is not None, "memory is bounded"
        half = limit // 2  # together with a part that is added, no more than the limit
        gathering = Gathering(_CHUNK_ROWS, half)
        for batch in batches:
            for part in sliced(batch, half):
                for rows in gathering.add(without_places(part)):
                    yield [canonical_rows(rows)]
        for rows in gathering.rest():
            yield [canonical_rows(rows)]


def _memory_of(query: str) -> _QueryMemory:
    """What this process has learned from a query."""
    memory = _MEMORIES.pop(query, None) or _QueryMemory()
    _MEMORIES[query] = memory
    if len(_MEMORIES) > _QUERIES:
        _MEMORIES.popitem(last=False)
    return memory


def _reports_memory(memory: _QueryMemory) -> bool:
    """Does this task report what its process keeps? The first one of a stage does: reports are
    added up."""
    context = TaskContext.get()
    stage = None if context is None else context.stageId()
    before, memory.stage = memory.stage, stage
    return stage is None or stage != before
