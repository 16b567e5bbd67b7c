"""Drive a join by hand, batch by batch, with no Spark.

:class:`LocalJoin` runs the very operator that runs on Spark, over Arrow tables,
with the watermark that Spark would have. Use it to test what a join gives you
for data of your own, late rows and silences included, in milliseconds.

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

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet import durations
from watersmeet.errors import StreamNameError, did_you_mean
from watersmeet.operators.base import END_OF_TIME, Counters
from watersmeet.operators.equi.layout import is_exact, lay_out, stored_names
from watersmeet.operators.equi.order.runs import Schedule
from watersmeet.operators.equi.promises.closing import for_one_shard
from watersmeet.operators.equi.state import EquiState
from watersmeet.operators.equi.step import EquiJoin
from watersmeet.plan.equi import plan_join
from watersmeet.rows.columns import CODE, HIGH, LOW, PUNCTUATION, TIME, concat, key_name
from watersmeet.rows.predicate import Predicate
from watersmeet.rows.shard import Shard, shard_numbers
from watersmeet.spec import Column, JoinSpec, Punctuation, StreamSpec
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import MemoryStore

_SPARK_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_ARROW_TYPES = {name: kind for kind, name in _SPARK_NAMES.items()}


@dataclass(frozen=True)
class LocalStream:
    """One input of a :class:`LocalJoin`: its columns, and what ``wm.stream`` takes."""

    schema: pa.Schema
    time: str | None = None
    delay: str | timedelta | None = None
    rate: float | None = None
    keys: float | None = None
    unique: bool = False
    arrival: str | None = None
    punctuation: Punctuation | None = None


class LocalJoin:
    """A join that is stepped by hand. ``options`` are what ``wm.join`` takes.

    ``stores`` (one a shard) and ``folder`` are the durable state and the local
    cache: hand them to another :class:`LocalJoin` to restart from where this
    one stands.
    """

    def __init__(
        self,
        streams: Mapping[str, LocalStream],
        *,
        where: Predicate | None = None,
        schedule: Schedule | None = None,
        shards: int = 1,
        restart: LocalJoin | None = None,
        folder: str | None = None,
        **options: Any,
    ) -> None:
        specs = [_stream_spec(name, stream) for name, stream in streams.items()]
        spec = plan_join(specs, **options)
        self.spec: JoinSpec = replace(spec, where=where.sql if where else None)
        schemas = [_in_utc(stream.schema) for stream in streams.values()]
        output = pa.schema([(c.name, _output_type(c, schemas)) for c in spec.output])
        layout = lay_out(self.spec, schemas, output, where, shards=shards)
        self.join = EquiJoin(replace(layout, schedule=schedule or layout.schedule))
        self.stores: list[MemoryStore] = (
            restart.stores if restart else [MemoryStore() for _ in range(shards)]
        )
        self._greatest: dict[int, int] = dict(restart._greatest) if restart else {}
        self.watermark: int | None = restart.watermark if restart else None
        given = folder or (restart and restart.folder)
        self.folder: str = given or tempfile.mkdtemp("-watersmeet")
        self.counters = Counters.zero(len(specs))

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
        rows = [self._stored(i, tables.get(name)) for i, name in enumerate(names)]
        results: list[pa.RecordBatch] = []
        self.counters = Counters.zero(len(rows))
        for shard in range(len(self.stores)):
            results += self._step(shard, [_of_shard(r, shard, len(self.stores)) for r in rows])
        self._advance(rows)
        return pa.Table.from_batches(results, self.join.layout.output)

    def finish(self) -> pa.Table:
        """Let time pass until nothing is stored any more."""
        self.watermark = END_OF_TIME
        return self.batch()

    def state_rows(self) -> list[int]:
        """Rows stored now, for each stream."""
        states = [self._state(shard) for shard in range(len(self.stores))]
        return [
            sum(state.windows[i].rows for state in states) for i in range(len(self.spec.streams))
        ]

    def _state(self, shard: int) -> EquiState:
        return EquiState(
            self.stores[shard],
            SegmentCache(self.folder, 1 << 30),
            shard=Shard(shard, len(self.stores)),
            fingerprint=self.join.layout.fingerprint,
            lengths=self.join.lengths,
            delay=self.join.layout.delay,
            memory=self.join.layout.memory,
        )

    def _step(self, shard: int, rows: list[pa.RecordBatch | None]) -> Iterable[pa.RecordBatch]:
        state = self._state(shard)
        results = list(self.join.step([rows], self.watermark, state, self.counters))
        state.commit()
        for counters, window in zip(self.counters.streams, state.windows, strict=True):
            counters.expired += window.expired
        self.counters.cache_hits += state.cache_counts.hits
        self.counters.cache_misses += state.cache_counts.misses
        self.counters.owed += len(state.debts)
        return results

    def _advance(self, rows: list[pa.RecordBatch | None]) -> None:
        timed = [i for i, stream in enumerate(self.spec.streams) if stream.time]
        for i in timed:
            batch = rows[i]
            greatest = (
                None if batch is None else pc.max(batch.column(TIME)).cast(pa.int64()).as_py()
            )
            if greatest is not None:
                # Spark keeps event times in milliseconds.
                seen = greatest // 1000 * 1000 - (self.spec.streams[i].delay or 0) // 1000 * 1000
                self._greatest[i] = max(seen, self._greatest.get(i, seen))
        if timed and len(self._greatest) == len(timed):
            watermark = min(self._greatest.values())
            if watermark > 0:
                self.watermark = max(watermark, self.watermark or 0)

    def _stored(self, position: int, table: pa.Table | None) -> pa.RecordBatch | None:
        if table is None or table.num_rows == 0:
            return None
        stream, keys = self.spec.streams[position], self.spec.keys[position]
        rows = concat(table.cast(_in_utc(table.schema)).combine_chunks().to_batches())
        typed = [
            _canonical_key(rows.column(name).cast(_arrow_type(kind)))
            for name, kind in zip(keys, self.spec.key_types, strict=True)
        ]
        columns = {CODE: _code(typed, exact=is_exact(self.spec))}
        if stream.punctuation is not None:
            columns |= self._punctuation(stream.punctuation, rows)
        if stream.time:
            columns[TIME] = rows.column(stream.time)
        if not is_exact(self.spec):
            columns |= {key_name(i): key for i, key in enumerate(typed)}
        for name, stored in stored_names(self.spec, position, self.join.layout.predicate).items():
            if name not in keys and stored != TIME:
                columns[stored] = rows.column(name)
        return pa.RecordBatch.from_pydict(columns)

    def _punctuation(self, given: Punctuation, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        frame = pl.from_arrow(rows)
        flags = frame.select(pl.sql_expr(given.when).fill_null(False).alias("flag"))  # type: ignore[union-attr]
        columns = {PUNCTUATION: flags["flag"].to_arrow()}
        kind = _arrow_type(self.spec.key_types[0])
        for name, bound in ((LOW, given.low), (HIGH, given.high)):
            if is_exact(self.spec) and bound is not None:
                columns[name] = _code([rows.column(bound).cast(kind)], exact=True)
        return columns


def _stream_spec(name: str, stream: LocalStream) -> StreamSpec:
    delay = None
    if stream.delay is not None:
        delay = durations.parse(stream.delay, argument=f"delay of stream {name!r}")
    columns = tuple(Column(field.name, _spark_name(field.type)) for field in _in_utc(stream.schema))
    return StreamSpec(
        name,
        columns,
        streaming=True,
        time=stream.time,
        delay=delay,
        rate=stream.rate,
        keys=stream.keys,
        unique=stream.unique,
        arrival=stream.arrival,
        punctuation=stream.punctuation,
    )


def _in_utc(schema: pa.Schema) -> pa.Schema:
    def kind(field: pa.Field) -> pa.DataType:
        zoned = pa.types.is_timestamp(field.type) and field.type.tz
        return pa.timestamp("us", "UTC") if zoned else field.type

    return pa.schema([pa.field(field.name, kind(field)) for field in schema])


def _spark_name(kind: pa.DataType) -> str:
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_NAMES.get(kind, str(kind))


def _arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW_TYPES[name]


def _output_type(column: Any, schemas: list[pa.Schema]) -> pa.DataType:
    if column.key is None and column.stream is not None:
        return schemas[column.stream].field(column.column).type
    return _arrow_type(column.type)


def _canonical_key(key: pa.Array) -> pa.Array:
    if not pa.types.is_floating(key.type):
        return key
    zero = pc.equal(key, pa.scalar(0, key.type))
    return pc.if_else(zero, pa.scalar(0, key.type), key)


def _code(keys: list[pa.Array], *, exact: bool) -> pa.Array:
    if exact:
        key = keys[0]
        if pa.types.is_date32(key.type):
            key = key.view(pa.int32())
        return key.view(pa.int64()) if pa.types.is_timestamp(key.type) else key.cast(pa.int64())
    frame = pl.DataFrame({str(i): pl.from_arrow(key) for i, key in enumerate(keys)})
    codes = frame.hash_rows(seed=0).to_numpy().view(np.int64)
    null = np.zeros(len(codes), dtype=np.bool_)
    for key in keys:
        null |= key.is_null().to_numpy(zero_copy_only=False)
    return pa.array(codes, mask=null)


def _of_shard(rows: pa.RecordBatch | None, shard: int, count: int) -> pa.RecordBatch | None:
    if rows is None or count == 1:
        return rows
    rows, everywhere = for_one_shard(rows)
    mine = shard_numbers(rows.column(CODE), count) == shard
    return concat([rows.filter(pa.array(mine)), everywhere])
