"""Streams for the tests: files that are read one a micro-batch, and runs of a query over them."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, overload

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm

M = TypeVar("M", bound=wm.StepMetrics)

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
TIMESTAMP = pa.timestamp("us", "UTC")
SECOND = 1_000_000

#: Keys that only the rows at the end have, which make the watermark pass all others.
CLOSING = 1_000_000


@overload
def at(seconds: float) -> datetime: ...
@overload
def at(seconds: float | None) -> datetime | None: ...
def at(seconds: float | None) -> datetime | None:
    """So many seconds after the start of the tests' clock."""
    return None if seconds is None else START + timedelta(seconds=seconds)


def rows_of(data: Sequence[Sequence[Any]], **types: pa.DataType) -> pa.Table:
    """A table from literal rows; ``types`` names and types its columns."""
    columns = list(zip(*data, strict=True)) if data else [() for _ in types]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
    return pa.table(arrays, names=list(types))


def events(
    seed: int,
    *,
    key: str,
    time: str,
    value: str,
    batches: int = 3,
    rows: int = 40,
    keys: int = 8,
    null_keys: bool = True,
    null_times: bool = True,
    end: bool = True,
) -> list[pa.Table]:
    """Micro-batches of a stream, a minute each. A row is up to 50 seconds out of order;
    some keys and times are null. With ``end``, a last row, an hour later, of a key that
    no other stream has, lets the watermark pass all others."""
    dice = random.Random(seed)
    numbers = iter(range(seed * CLOSING, (seed + 1) * CLOSING))

    def row(batch: int) -> tuple[Any, ...]:
        null_key = dice.random() < 0.1
        null_time = dice.random() < 0.05
        return (
            None if null_keys and null_key else dice.randrange(keys),
            None if null_times and null_time else at(60 * batch + dice.uniform(-50, 60)),
            next(numbers),
        )

    data = [[row(batch) for _ in range(rows)] for batch in range(batches)]
    if end:
        data.append([(CLOSING + seed, at(3600), next(numbers))])
    types = {key: pa.int64(), time: TIMESTAMP, value: pa.int64()}
    return [rows_of(batch, **types) for batch in data]


def without_end(batches: Sequence[pa.Table], key: str) -> pa.Table:
    """All rows but those that only let the watermark pass."""
    rows = pa.concat_tables(batches)
    kept = [value is None or value < CLOSING for value in rows.column(key).to_pylist()]
    return rows.filter(pa.array(kept))


def write(folder: Path, batches: Sequence[pa.Table], *, first: int = 0) -> Path:
    """One file for each micro-batch, in an order that the file source keeps."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(batches, start=first):
        hidden = folder / f".{number:04}"
        pq.write_table(rows, hidden)
        os.utime(hidden, (1_700_000_000 + number,) * 2)
        hidden.rename(folder / f"{number:04}.parquet")
    return folder


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """The folder as a stream, one file a micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def start(df: DataFrame, checkpoint: Path | None = None) -> StreamingQuery:
    """Start the query over what is there now; its result is the table of the query's name."""
    writer = df.writeStream.format("memory").queryName(f"t{uuid.uuid4().hex}")
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.outputMode("append").trigger(availableNow=True).start()


def metrics_of(query: StreamingQuery, kind: type[M]) -> list[M]:
    """What a query says of its steps, which are all of one kind of join."""
    records = [record for record in wm.metrics(query) if isinstance(record, kind)]
    assert len(records) == len(wm.metrics(query)), "another kind of join"
    return records


def result(spark: SparkSession, query: StreamingQuery) -> pa.Table:
    """All that a query gave, once it has ended."""
    query.awaitTermination()
    assert query.name is not None
    return table(spark.table(query.name))


def run(df: DataFrame) -> pa.Table:
    """The result of a streaming query over what is there now."""
    return result(df.sparkSession, start(df))


def table(df: DataFrame) -> pa.Table:
    """A batch DataFrame's rows, with times in UTC whatever the session's zone."""
    rows = df.toArrow()
    for position, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz:
            column = rows.column(position).cast(TIMESTAMP)
            rows = rows.set_column(position, field.name, column)
    return rows
