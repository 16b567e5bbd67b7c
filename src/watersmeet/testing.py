"""Drive a join by hand, batch by batch, with no Spark.

:class:`LocalJoin` runs the very operator that runs on Spark, over Arrow tables,
with the watermark that Spark would have. Use it to test what a join gives you
for data of your own, late rows and silences included, in milliseconds. :class:`LocalRun` does so
for any operator, or a chain of them.

>>> import datetime, pyarrow as pa
>>> def at(second): return datetime.datetime(2024, 1, 1, 0, 0, second, tzinfo=datetime.UTC)
>>> views = pa.table({"ad": [1, 2], "seen": [at(0), at(1)]})
>>> clicks = pa.table({"ad": [1], "clicked": [at(5)]})
>>> join = LocalJoin(
...     {"views": LocalStream(views.schema, time="seen", delay="0 seconds"),
...      "clicks": LocalStream(clicks.schema, time="clicked", delay="0 seconds")},
...     on="ad", within="10 seconds", how="left")
>>> join.batch(views=views).num_rows
0
>>> join.batch(clicks=clicks).column("ad").to_pylist()
[1]
>>> join.finish().column("ad").to_pylist()
[2]
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet import durations
from watersmeet.cost import calibration
from watersmeet.cost.engine import Weights
from watersmeet.errors import (
    PredicateError,
    PunctuationError,
    StateError,
    StreamNameError,
    did_you_mean,
)
from watersmeet.operators.base import END_OF_TIME, Chunk, Counters, Operator, merged
from watersmeet.operators.enrich.layout import EnrichLayout
from watersmeet.operators.enrich.layout import lay_out as lay_out_enrich
from watersmeet.operators.enrich.staged import StagedTable, Versions, combine, stage
from watersmeet.operators.enrich.step import Enrich
from watersmeet.operators.equi.layout import lay_out
from watersmeet.operators.equi.step import EquiJoin
from watersmeet.operators.ring.chain import hops_of
from watersmeet.operators.ring.layout import lay_out as lay_out_ring
from watersmeet.operators.ring.step import RingHop
from watersmeet.plan.enrich import EnrichPlan, plan_enrich
from watersmeet.plan.equi import EquiPlan
from watersmeet.plan.family import plan_join
from watersmeet.plan.join import JoinPlan
from watersmeet.plan.ring import RingPlan
from watersmeet.rows.columns import TIME, concat
from watersmeet.rows.dealing import Dealing
from watersmeet.rows.encode import encoded, flags
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.route import ByKey, Route
from watersmeet.rows.shard import Shard
from watersmeet.rows.terms import Term
from watersmeet.rows.types import arrow_type, canonical_schema, spark_name
from watersmeet.spec.output import OutputColumn
from watersmeet.spec.policy import Schedule, SliceWeights
from watersmeet.spec.stream import Arrival, Column, Punctuation, StreamSpec, check_expected
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import MemoryStore

_CACHE_BYTES = 1 << 30


@cache
def _folders() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory("-watersmeet", ignore_cleanup_errors=True)


def _own_folder() -> str:
    """A folder of its own for a run that was given none; it is removed when the process ends."""
    return tempfile.mkdtemp(dir=_folders().name)


@dataclass(frozen=True)
class LocalStream:
    """One input of a :class:`LocalJoin`: its columns, and what ``wm.stream`` takes.

    ``watermarked``: the stream brings its own watermark, as a DataFrame after ``withWatermark``
    does, and ``delay`` is that watermark's."""

    schema: pa.Schema
    time: str | None = None
    delay: str | timedelta | None = None
    watermarked: bool = False
    rows_per_second: float | None = None
    distinct_keys: float | None = None
    unique: bool = False
    arrival: Arrival | None = None
    punctuation: Punctuation | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class LocalInput:
    """One input of a :class:`LocalRun`: where its rows go, and how far the watermark stays
    behind its times, in microseconds; None: it has no time. ``counted``: rows of equal content are
    dealt by count."""

    route: Route
    delay: int | None = None
    counted: bool = False


class LocalRun:
    """An operator that is stepped by hand, over rows as they are stored.

    ``stores`` (one for each shard) and ``folder`` are the durable state and the local cache.
    With ``restart``, it goes on from where another run stands. What the operator emits goes to the
    ``following`` run, if there is one, in the same micro-batch and under the same watermark.
    ``timers``: is there a watermark to wait for?"""

    def __init__(
        self,
        operator: Operator,
        inputs: Sequence[LocalInput],
        *,
        shards: int = 1,
        folder: str | None = None,
        restart: LocalRun | None = None,
        following: LocalRun | None = None,
    ) -> None:
        self.operator = operator
        self.inputs = inputs
        self.following = following
        self.timers = any(given.delay is not None for given in inputs)
        if following is not None:
            following.timers = self.timers
        self.stores: list[MemoryStore] = (
            restart.stores if restart else [MemoryStore() for _ in range(shards)]
        )
        self.folder: str = folder or (restart and restart.folder) or _own_folder()
        self.watermark: int | None = restart.watermark if restart else None
        self._greatest: dict[int, int] = dict(restart._greatest) if restart else {}
        self.counters: Any = operator.counters()

    def step(self, rows: Sequence[pa.RecordBatch | None], *, last: bool = False) -> list[Any]:
        """One micro-batch: new rows for any of the inputs. The watermark moves after it, as in
        Spark, and takes effect in the next one. After the ``last`` one, no more input comes."""
        emitted: list[Any] = []
        counted: list[Counters] = []
        for number, chunk in enumerate(self._dealt(rows)):
            emitted += self._step_shard(self.state(number), chunk, counted, last=last)
        self.counters = merged(counted)
        if self.following is not None:
            self.following.watermark = self.watermark
            emitted = self.following.step(_by_input(emitted, self.following), last=last)
        self._advance(rows)
        return emitted

    def pause(self) -> list[Any]:
        """A micro-batch without data. As on Spark, it steps only the shards whose timer has fired:
        one is set while a shard waits, and fires when the watermark has moved."""
        return self._woken([None] * len(self.inputs), all_shards=False)

    def _woken(self, rows: Sequence[pa.RecordBatch | None], *, all_shards: bool) -> list[Any]:
        """Steps the shards that have a reason to take one: rows that came, a timer, or a heartbeat
        that the hop before sends to ``all_shards``."""
        emitted: list[Any] = []
        counted = [self.operator.counters()]
        stepped = set()
        for number, chunk in enumerate(self._dealt(rows)):
            state = self.state(number)
            fired = state.timer is not None and state.timer <= self._milliseconds
            if all_shards or fired or any(part is not None for part in chunk):
                emitted += self._step_shard(state, chunk, counted)
                stepped.add(number)
        self.counters = merged(counted)
        if self.following is not None:
            self.following.watermark = self.watermark
            handed = _by_input(emitted, self.following)
            emitted = self.following._woken(handed, all_shards=0 in stepped)
        return emitted

    def finish(self) -> list[Any]:
        """Let time pass until nothing is stored any more."""
        self.watermark = END_OF_TIME
        return self.step([None] * len(self.inputs), last=True)

    def state(self, number: int) -> Any:
        """The state of a shard, as it was committed last."""
        cache = SegmentCache(self.folder, _CACHE_BYTES)
        return self.operator.open(self.stores[number], Shard(number, len(self.stores)), cache)

    def _dealt(self, rows: Sequence[pa.RecordBatch | None]) -> list[Chunk]:
        """The rows of each shard, by input."""
        count = len(self.stores)
        dealt: list[list[list[pa.RecordBatch]]] = [[[] for _ in rows] for _ in range(count)]
        for position, batch in enumerate(rows):
            if batch is not None and len(batch):
                given = self.inputs[position]
                if given.counted:
                    batch = Dealing().dealt(batch)
                for number, part in given.route.deal(batch, count):
                    dealt[number][position].append(part)
        return [[concat(parts) if parts else None for parts in shard] for shard in dealt]

    def _step_shard(
        self, state: Any, chunk: Chunk, counted: list[Counters], *, last: bool = False
    ) -> list[Any]:
        counters = self.operator.counters()
        emitted = [*self.operator.step([chunk], self.watermark, state, counters)]
        if last:
            emitted += self.operator.finish(state, counters)
        state.timer = self._milliseconds + 1 if self.timers and state.waits else None
        state.commit()
        self.operator.report(state, counters)
        counted.append(counters)
        return emitted

    @property
    def _milliseconds(self) -> int:
        """The watermark, as Spark's timers see it."""
        return (self.watermark or 0) // 1000

    def _advance(self, rows: Sequence[pa.RecordBatch | None]) -> None:
        timed = [i for i, given in enumerate(self.inputs) if given.delay is not None]
        for i in timed:
            batch = rows[i]
            if batch is None or not len(batch):
                continue
            greatest = pc.max(batch.column(TIME)).cast(pa.int64()).as_py()
            if greatest is not None:
                # Spark keeps event times in milliseconds.
                delay = durations.milliseconds(self.inputs[i].delay or 0)
                seen = (greatest // 1000 - delay) * 1000
                self._greatest[i] = max(seen, self._greatest.get(i, seen))
        if timed and len(self._greatest) == len(timed):
            watermark = min(self._greatest.values())
            if watermark > 0:
                self.watermark = max(watermark, self.watermark or 0)


def _by_input(emitted: Sequence[Any], run: LocalRun) -> list[pa.RecordBatch | None]:
    """What an operator has handed on, for each input of the next one."""
    handed: list[list[pa.RecordBatch]] = [[] for _ in run.inputs]
    for number, rows in emitted:
        handed[number].append(rows)
    return [concat(batches) if batches else None for batches in handed]


@dataclass(frozen=True)
class LocalBackend:
    """This process as the place where a join is planned for."""

    shards: int
    folder: str
    cores: int = 1

    def weights(self) -> Weights:
        return calibration.weights(self.folder)

    def slice_weights(self) -> SliceWeights:
        return calibration.slice_weights(self.folder)

    def translate(self, sql: str) -> tuple[Term, ...]:
        raise PredicateError(
            f"where={sql!r}: SQL needs Spark, and a local join has none. Give a Python function: "
            "where=wm.predicate(function, 'a', 'b'), from two Arrow tables to booleans."
        )


class LocalJoin:
    """A join that is stepped by hand. ``options`` are what ``wm.join`` takes; a condition is given
    by ``wm.predicate``, as SQL needs Spark.

    With ``restart``, it goes on from where another join stands. ``schedule`` is for experiments
    with the order in which new rows are processed."""

    def __init__(
        self,
        streams: Mapping[str, LocalStream],
        *,
        shards: int = 1,
        folder: str | None = None,
        restart: LocalJoin | None = None,
        schedule: Schedule | None = None,
        **options: Any,
    ) -> None:
        folder = folder or (restart and restart.folder) or _own_folder()
        specs = [_stream_spec(name, stream) for name, stream in streams.items()]
        self.plan: Any = plan_join(specs, LocalBackend(shards, folder), **options)
        if schedule is not None:
            self.plan = replace(self.plan, policy=replace(self.plan.policy, schedule=schedule))
        self.spec: Any = self.plan.spec
        for name, stream in streams.items():
            _check_condition(name, stream)
        schemas = [canonical_schema(stream.schema) for stream in streams.values()]
        output = pa.schema([(c.name, _output_type(c, schemas)) for c in self.spec.output])
        hops, self._layouts = _hops(self.plan, schemas, output)
        if restart is not None and len(restart.runs) != len(hops):
            raise StateError(
                f"restart: the join before had {len(restart.runs)} of the operators that store "
                f"rows, this one has {len(hops)}. So it has other streams, or another type."
            )
        self.runs: list[LocalRun] = []
        for number, (operator, inputs) in reversed(list(enumerate(hops))):
            run = LocalRun(
                operator,
                inputs,
                shards=shards,
                folder=folder,
                restart=restart.runs[number] if restart else None,
                following=self.runs[0] if self.runs else None,
            )
            self.runs.insert(0, run)

    def batch(self, **tables: pa.Table) -> pa.Table:
        """One micro-batch: new rows for any of the streams. The watermark moves
        after it, as in Spark, and takes effect in the next one."""
        names = [stream.name for stream in self.spec.streams]
        for name in tables:
            if name not in names:
                raise StreamNameError(
                    f"batch: {name!r} is not one of the streams {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        rows = [self.encoded(i, tables.get(name)) for i, name in enumerate(names)]
        return self._table(self.run.step(rows))

    def pause(self) -> pa.Table:
        """A micro-batch without data, as Spark runs one when the watermark has moved. (One in
        which no stream has rows, ``batch()``, is another thing: Spark runs that if a source says
        that it has data.)"""
        return self._table(self.run.pause())

    def finish(self) -> pa.Table:
        """Let time pass until nothing is stored any more."""
        return self._table(self.run.finish())

    @property
    def run(self) -> LocalRun:
        """The run of the first operator; most joins have one only."""
        return self.runs[0]

    @property
    def join(self) -> Any:
        """The first operator."""
        return self.run.operator

    @property
    def counters(self) -> Any:
        """What the last micro-batch did, in all hops."""
        return merged([deepcopy(run.counters) for run in self.runs])

    @property
    def stores(self) -> list[MemoryStore]:
        """The durable state, one store for each shard of each hop."""
        return [store for run in self.runs for store in run.stores]

    @property
    def folder(self) -> str:
        """The folder of the local cache."""
        return self.run.folder

    @property
    def watermark(self) -> int | None:
        """The watermark that the next micro-batch runs under, in microseconds."""
        return self.run.watermark

    def state_rows(self) -> list[int]:
        """Rows stored now, for each stream."""
        return self._stored("state_rows")

    def unproven(self) -> list[int]:
        """Rows stored now that may still come out unmatched, for each stream."""
        return self._stored("unproven")

    def _stored(self, counter: str) -> list[int]:
        stored = []
        for run in self.runs:
            for number in range(len(run.stores)):
                counters = run.operator.counters()
                run.operator.report(run.state(number), counters)
                stored.append([getattr(stream, counter) for stream in counters.streams])
        return [sum(rows) for rows in zip(*stored, strict=True)]

    def encoded(self, position: int, table: pa.Table | None) -> pa.RecordBatch | None:
        """Rows of a stream, by its position, as they are stored."""
        if table is None or table.num_rows == 0:
            return None
        rows = concat(table.combine_chunks().to_batches())
        return encoded(rows, self._layouts[position])

    def _table(self, results: Sequence[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(results, self.join.output)


def _hops(
    plan: JoinPlan, schemas: Sequence[pa.Schema], output: pa.Schema
) -> tuple[list[tuple[Operator, Sequence[LocalInput]]], list[RowLayout]]:
    """The operators of a plan, each with its inputs; and how rows of the streams are stored."""
    delays = [(stream.delay or 0) if stream.time else None for stream in plan.spec.streams]
    if isinstance(plan, RingPlan):
        laid = lay_out_ring(plan.spec, plan.policy, plan.conditions, schemas=schemas, output=output)
        hops: list[tuple[Operator, Sequence[LocalInput]]] = [
            (
                RingHop(laid, hop),
                [
                    LocalInput(route, delays[number], counted=True)
                    if hop.number == 0
                    else LocalInput(route)
                    for number, route in enumerate(hop.routes)
                ],
            )
            for hop in hops_of(laid)
        ]
        return hops, [stream.rows for stream in laid.streams]
    assert isinstance(plan, EquiPlan), f"no local run for {type(plan).__name__}"
    layout = lay_out(plan.spec, plan.policy, plan.predicate, schemas=schemas, output=output)
    inputs = [LocalInput(ByKey(), delay) for delay in delays]
    return [(EquiJoin(layout), inputs)], [stream.rows for stream in layout.inputs]


class LocalEnrich:
    """A stream that is enriched by hand, from a table that is staged in a folder. ``options`` are
    what ``wm.enrich`` takes; a condition is given by ``wm.predicate``.

    With ``restart``, it goes on from where another one stands, and from the table that was staged
    for that, unless one is given as ``staged``, or other columns of it are needed. ``policy`` has
    fields of the policy that are to be others than planned, for tests and experiments.

    >>> rates = pa.table({"currency": ["EUR", "USD"], "rate": [1.0, 1.1]})
    >>> orders = pa.table({"currency": ["USD", "USD", "GBP"], "amount": [10, 20, 30]})
    >>> enrich = LocalEnrich("orders", LocalStream(orders.schema), rates, on="currency", how="left")
    >>> enrich.batch(orders).sort_by("amount").to_pydict()
    {'currency': ['USD', 'USD', 'GBP'], 'amount': [10, 20, 30], 'rate': [1.1, 1.1, None]}
    """

    def __init__(
        self,
        name: str,
        stream: LocalStream,
        table: pa.Table,
        *,
        table_name: str = "table",
        shards: int = 1,
        folder: str | None = None,
        restart: LocalEnrich | None = None,
        staged: StagedTable | None = None,
        policy: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.folder: str = folder or (restart and restart.folder) or _own_folder()
        os.makedirs(self.folder, exist_ok=True)
        inputs = {name: stream, table_name: LocalStream(table.schema)}
        specs = [_stream_spec(given, inputs[given]) for given in inputs]
        specs[1] = replace(specs[1], streaming=False)
        backend = LocalBackend(shards, self.folder)
        self.plan: EnrichPlan = plan_enrich(specs[0], specs[1], backend, **options)
        self.plan = replace(self.plan, policy=replace(self.plan.policy, **(policy or {})))
        spec = self.plan.spec
        schemas = [canonical_schema(given.schema) for given in inputs.values()]
        self.layout: EnrichLayout = lay_out_enrich(
            spec,
            self.plan.policy,
            self.plan.predicate,
            schemas=schemas,
            output=pa.schema([(c.name, _output_type(c, schemas)) for c in spec.output]),
        )
        goes_on = restart and restart._versions() == self._versions()
        known = staged or (restart.staged if restart and goes_on else None)
        self.staged: StagedTable = known or self.stage(table)
        self.run: LocalRun = LocalRun(
            Enrich(self.layout, self.staged, self._versions() if spec.refresh else None),
            [LocalInput(ByKey(), spec.delay if spec.streams[0].time else None)],
            shards=shards,
            folder=os.path.join(self.folder, "cache"),
            restart=restart.run if restart else None,
        )

    def stage(self, table: pa.Table) -> StagedTable:
        """The table as it is staged, in a folder of its own."""
        folder = tempfile.mkdtemp(dir=self.folder)
        rows = self._encoded(1, table) or encoded(_empty(table.schema), self.layout.inputs[1].rows)
        policy = self.plan.policy
        return stage(rows, folder, shards=policy.shards, partition=policy.partition)

    def refresh(self, table: pa.Table) -> None:
        """Another version of the table, for the steps after the next one."""
        self._versions().set(self.stage(table).version)

    def append(self, rows: pa.Table) -> None:
        """Another version of the table, for the steps after the next one: it has these rows
        besides those of the current version, which are not staged again."""
        current = self._versions().current() or self.staged
        newer = combine(tempfile.mkdtemp(dir=self.folder), [current, self.stage(rows)])
        self._versions().set(newer.version)

    def _versions(self) -> Versions:
        columns = hashlib.sha256(repr(self.layout.inputs[1].rows).encode()).hexdigest()[:32]
        return Versions(self.folder, columns, columns)

    def batch(self, rows: pa.Table | None = None) -> pa.Table:
        """One micro-batch of new rows, or without any."""
        return self._table(self.run.step([self._encoded(0, rows)]))

    def finish(self) -> pa.Table:
        """The answers to all rows that wait."""
        return self._table(self.run.finish())

    @property
    def counters(self) -> Any:
        """What the last micro-batch did."""
        return self.run.counters

    def waiting(self) -> int:
        """Rows that wait now."""
        states = [self.run.state(number) for number in range(len(self.run.stores))]
        return sum(state.waiting.rows for state in states)

    def _encoded(self, position: int, table: pa.Table | None) -> pa.RecordBatch | None:
        if table is None or table.num_rows == 0:
            return None
        rows = concat(table.combine_chunks().to_batches())
        return encoded(rows, self.layout.inputs[position].rows)

    def _table(self, results: Sequence[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(results, self.run.operator.output)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _stream_spec(name: str, stream: LocalStream) -> StreamSpec:
    expected = stream.rows_per_second, stream.distinct_keys
    check_expected(name, rows_per_second=expected[0], distinct_keys=expected[1])
    delay = None
    if stream.delay is not None:
        delay = durations.parse(stream.delay, argument=f"delay of stream {name!r}")
    return StreamSpec(
        name,
        tuple(Column(f.name, spark_name(f.type)) for f in canonical_schema(stream.schema)),
        streaming=True,
        time=stream.time,
        delay=delay,
        watermarked=stream.watermarked,
        rows_per_second=stream.rows_per_second,
        distinct_keys=stream.distinct_keys,
        unique=stream.unique,
        arrival=stream.arrival,
        punctuation=stream.punctuation,
        prefix=stream.prefix,
    )


def _check_condition(name: str, stream: LocalStream) -> None:
    """Is the condition that marks a stream's punctuations one over its columns?"""
    if stream.punctuation is None:
        return
    when = stream.punctuation.when
    try:
        kind = flags(pa.RecordBatch.from_pylist([], stream.schema), when).type
    except Exception as error:
        raise PunctuationError(
            f"stream {name!r}: punctuation: when={when!r} is not a condition over its columns "
            f"{', '.join(stream.schema.names)}: {error}"
        ) from error
    if kind != pa.bool_():
        raise PunctuationError(
            f"stream {name!r}: punctuation: when={when!r} is of type {kind}; it must be a "
            "condition, like \"kind = 'end'\"."
        )


def _output_type(column: OutputColumn, schemas: Sequence[pa.Schema]) -> pa.DataType:
    if column.key is None and column.stream is not None and column.column is not None:
        return schemas[column.stream].field(column.column).type
    return arrow_type(column.type)
