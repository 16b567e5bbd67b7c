"""The job of Spark's that writes a table: hashed by key into shards, sorted, as partitions.

    rows ─ encode ─► shard numbers ─► repartition ─► sort ─► write, shard by shard
           JVM       Python           JVM            JVM     Python

Spark may run a task several times. So each attempt writes into folders of its own, and those of the
attempts that count get the shards' names when the job has ended.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.errors import StagedTableError
from watersmeet.rows.columns import CODE, TIME
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.shard import shard_numbers
from watersmeet.rows.types import canonical_rows
from watersmeet.spark.query.encode import encoded
from watersmeet.spark.query.places import with_places, without_places
from watersmeet.spark.query.shards import shard_ids
from watersmeet.spark.session.worker import prepare
from watersmeet.table.partitions import PartitionWriter
from watersmeet.table.staged_table import StagedTable, TableSize, shard_base

#: The column with the shard of a row, while it is staged.
_SHARD = "#shard"
_WRITTEN = "shard int, folder string, rows long, bytes long, partitions int, files long"


def cannot_stage(folder: str, error: OSError) -> StagedTableError:
    """The error where a folder cannot be written to."""
    return StagedTableError(
        f"the table cannot be staged in {folder}: {error}. Give another folder, which every "
        "executor can write to: stage='...', or spark.watersmeet.stage.folder."
    )


def write_table(
    df: DataFrame, layout: RowLayout, folder: str, *, shards: int, partition: int
) -> None:
    """Write all rows of a table, and complete it."""
    ids = tuple(shard_ids(shards))
    rows = encoded(df, layout)
    for name in {CODE, TIME} & {*rows.columns}:
        rows = rows.where(F.col(f"`{name}`").isNotNull())  # others match nothing
    schema = T.StructType([*rows.schema, T.StructField(_SHARD, T.IntegerType())])
    numbered = with_places(rows).mapInArrow(_ShardColumn(shards, ids), schema)
    order = [name for name in (_SHARD, CODE, TIME) if name in numbered.columns]
    placed = numbered.repartition(shards, F.col(f"`{_SHARD}`"))
    ordered = placed.sortWithinPartitions(*(F.col(f"`{name}`") for name in order))
    writer = _ShardWriter(folder, ids, partition)
    written = with_places(ordered).mapInArrow(writer, _WRITTEN).collect()
    for row in written:
        os.rename(row.folder, shard_base(folder, row.shard).rstrip("/"))
    for left in glob.glob(os.path.join(glob.escape(folder), "*.*", "")):
        shutil.rmtree(left, ignore_errors=True)  # of attempts of tasks that did not count
    empty = set(range(shards)) - {row.shard for row in written}
    files = sum(row.files for row in written)
    for number in empty:
        files += PartitionWriter(shard_base(folder, number), partition).close()
    StagedTable(folder).complete(
        TableSize(
            shards,
            rows=sum(row.rows for row in written),
            bytes=sum(row.bytes for row in written),
            partitions=sum(row.partitions for row in written),
        ),
        files=files,
    )


@dataclass(frozen=True)
class _ShardColumn:
    """Adds the id of the shard to every row: the same that its key has in the stream."""

    shards: int
    ids: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare()
        ids = pa.array(self.ids, pa.int32())
        for batch in map(without_places, batches):
            numbers = shard_numbers(batch.column(0), self.shards)
            yield batch.append_column(_SHARD, ids.take(pa.array(numbers)))


@dataclass(frozen=True)
class _ShardWriter:
    """Writes rows that are sorted by shard and key, each shard into a folder that no other
    attempt of the task uses; gives what it has written."""

    folder: str
    ids: tuple[int, ...]
    partition: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare()
        context = TaskContext.get()
        attempt = 0 if context is None else context.taskAttemptId()
        writer, current = None, -1
        for batch in map(without_places, batches):
            for shard, rows in _by_shard(batch):
                if shard != current:
                    if writer is not None:
                        yield self._closed(writer, current)
                    current = shard
                    writer = self._opened(f"{self.ids.index(shard)}.{attempt}")
                assert writer is not None, "the first rows have opened a writer"
                with self._writing():
                    writer.add(canonical_rows(rows))
        if writer is not None:
            yield self._closed(writer, current)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """What keeps a task from writing is said in our words, and reaches the driver as text."""
        try:
            yield
        except OSError as error:
            raise cannot_stage(os.path.dirname(self.folder), error) from error

    def _opened(self, name: str) -> PartitionWriter:
        with self._writing():
            return PartitionWriter(os.path.join(self.folder, name, ""), self.partition)

    def _closed(self, writer: PartitionWriter, shard: int) -> pa.RecordBatch:
        with self._writing():
            files = writer.close()
        return pa.RecordBatch.from_pydict(
            {
                "shard": pa.array([self.ids.index(shard)], pa.int32()),
                "folder": [writer.base.rstrip("/")],
                "rows": [writer.total("rows")],
                "bytes": [writer.total("memory")],
                "partitions": pa.array([len(writer.index)], pa.int32()),
                "files": [files],
            }
        )


def _by_shard(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows that are sorted by shard, shard by shard, without its column."""
    shards = batch.column(_SHARD).to_numpy()
    rows = batch.drop_columns([_SHARD])
    start = 0
    while start < len(batch):
        stop = int(shards.searchsorted(shards[start], side="right"))
        yield int(shards[start]), rows.slice(start, stop - start)
        start = stop
