"""Staging a table by Spark: hashed by key into shards, sorted, and written as partitions.

    rows ─ encode ─► shard numbers ─► repartition ─► sort ─► write, shard by shard
           JVM       Python           JVM            JVM     Python

A staged table is in a folder that is named after what it was made from (:mod:`.table_identity`).
So a query that starts again finds it, and queries over the same table share it, if it can be known
to be the same; otherwise it belongs to one plan alone. It is staged in
a folder beside that and renamed when it is complete: of two queries that stage the same table at
the same time, one gets the name and the other uses it.

Of a table whose rows are each from one file, a newer version shares what it can with the one
before: only files are staged that no layer of that has (:mod:`watersmeet.table.origin`).

A version that no step has used for a day, and that no query holds (:mod:`.keeping`), belongs to
none any more; one that a newer version has superseded, after an hour. It is removed when a table is
staged in the same folder. (One that belongs to one plan alone may go before that: :mod:`.owned`.)
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PythonException
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
from watersmeet.spark.session.worker import settle
from watersmeet.spark.sql.analysis import reason
from watersmeet.spark.tables.files import only
from watersmeet.spark.tables.identity import Identity, identity, version_of
from watersmeet.table.origin import Origin, kept_layers
from watersmeet.table.partitions import PartitionWriter
from watersmeet.table.staged_table import StagedTable, TableSize, combine, shard_base
from watersmeet.table.versions import Versions

#: The column with the shard of a row, while it is staged.
_SHARD = "#shard"
_WRITTEN = "shard int, folder string, rows long, bytes long, partitions int, files long"
#: The folders of tables, and of those that are being staged.
_OURS = re.compile(r"[0-9a-f]{32}|\.[0-9a-f]{32}-[0-9a-f]{8}")
#: The files that name the current version of a table.
_CURRENT = re.compile(r"([0-9a-f]{32})\.current")


@dataclass(frozen=True)
class Staging:
    """How a table is staged: its ``layout`` and the ``folder`` of all staged tables, in so many
    ``shards``, with partitions of about ``partition`` bytes. ``in_layers``: may a version have
    several layers? ``owner`` names the plan that it is staged for."""

    layout: RowLayout
    folder: str
    shards: int
    partition: int
    in_layers: bool
    owner: str

    def identity(self, table: DataFrame) -> Identity:
        """What names a table that is staged so."""
        return identity(
            table,
            self.layout,
            shards=self.shards,
            partition=self.partition,
            owner=self.owner,
        )

    def stage(
        self, table: DataFrame, *, known: Identity | None = None, before: StagedTable | None = None
    ) -> StagedTable:
        """The table, staged now if it is not there as a whole; with what it shares with the version
        ``before`` it. ``known`` is its identity, if that is known."""
        known = known or self.identity(table)
        staged = StagedTable(os.path.join(self.folder, known.version))
        if staged.intact():
            staged.touch()
            return staged
        shared = None
        if before is not None and self.in_layers and known.source is not None:
            shared = self._shared(table, known.source, before)
        if shared is None:
            self._make(staged, lambda folder: self._write_whole(table, folder, known.source))
        return shared or staged

    def stage_unknown(self, table: DataFrame) -> StagedTable:
        """A table of which nobody can tell whether it has changed, staged now."""
        staged = StagedTable(os.path.join(self.folder, uuid.uuid4().hex))
        self._make(staged, lambda folder: self._write(table, folder, None))
        return staged

    def _shared(self, table: DataFrame, now: Origin, before: StagedTable) -> StagedTable | None:
        """The table, in layers of which some are of the version before; None if there are none, or
        a file has changed meanwhile."""
        known = {layer: layer.origin() for layer in before.layers if layer.intact()}
        layers, anew = kept_layers(known, now)
        if not layers:
            return None
        if anew:
            added = Origin(now.series, anew)
            layer = StagedTable(os.path.join(self.folder, version_of(added)))
            if not layer.intact():
                rows = only(table, anew)
                if rows is None:
                    return None
                self._make(layer, lambda folder: self._write(rows, folder, added))
            layers.append(layer)
        staged = StagedTable(os.path.join(self.folder, version_of(now)))
        self._make(staged, lambda folder: combine(folder, layers))
        return staged

    def _make(self, staged: StagedTable, write: Callable[[str], object]) -> None:
        """Write a version in a hidden folder, and give it its name."""
        hidden = _hidden(staged.folder)
        try:
            os.makedirs(hidden)
            remove_idle(self.folder)
            write(hidden)
            _rename(hidden, staged)
        except OSError as error:
            raise _cannot_stage(self.folder, error) from error
        except PythonException as error:
            said = _said_by_task(str(error))
            if said is None:
                raise
            raise StagedTableError(said) from error
        except Py4JJavaError as error:
            raise StagedTableError(f"the table cannot be read: {reason(error)}.") from error
        finally:
            shutil.rmtree(hidden, ignore_errors=True)

    def _write_whole(self, table: DataFrame, folder: str, source: Origin | None) -> None:
        """Write all rows of a table. Those of its files are read from just these: another query
        that uses the same DataFrame may have its files listed anew at any time."""
        rows = None if source is None else only(table, source.files)
        if rows is None:
            self._write(table, folder, None)
        else:
            self._write(rows, folder, source)

    def _write(self, table: DataFrame, folder: str, source: Origin | None) -> None:
        """Write all rows of a table, and complete it."""
        if source is not None:
            StagedTable(folder).note_origin(source)
        _write(table, self.layout, folder, shards=self.shards, partition=self.partition)


def _cannot_stage(folder: str, error: OSError) -> StagedTableError:
    return StagedTableError(
        f"the table cannot be staged in {folder}: {error}. Give another folder, which every "
        "executor can write to: stage='...', or spark.watersmeet.stage.folder."
    )


def _said_by_task(text: str) -> str | None:
    """Why a task could not write, by the text of the error that Spark makes of its own.

    >>> _said_by_task("...\\nwatersmeet.errors.StagedTableError: no room\\n at ...")
    'no room'
    """
    said = re.search(rf"{StagedTableError.__name__}: (.+)", text)
    return None if said is None else said[1]


def remove_idle(folder: str) -> None:
    """Remove versions that belong to no query any more, the files that named them as current, and
    what failures have left. Anything else in the folder is not ours."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                if _OURS.fullmatch(entry.name) and StagedTable(entry.path).idle():
                    remove(entry.path)
                named = _CURRENT.fullmatch(entry.name)
                if named and Versions(folder, named[1], named[1]).idle():
                    os.unlink(entry.path)


def _write(df: DataFrame, layout: RowLayout, folder: str, *, shards: int, partition: int) -> None:
    """Write all rows of a table, and complete it."""
    ids = tuple(shard_ids(shards))
    rows = encoded(df, layout)
    for name in {CODE, TIME} & {*rows.columns}:
        rows = rows.where(F.col(f"`{name}`").isNotNull())  # others match nothing
    numbered = with_places(rows).mapInArrow(
        _Numbered(shards, ids), T.StructType([*rows.schema, T.StructField(_SHARD, T.IntegerType())])
    )
    order = [name for name in (_SHARD, CODE, TIME) if name in numbered.columns]
    placed = numbered.repartition(shards, F.col(f"`{_SHARD}`"))
    ordered = placed.sortWithinPartitions(*(F.col(f"`{name}`") for name in order))
    written = with_places(ordered).mapInArrow(_Write(folder, ids, partition), _WRITTEN).collect()
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


def _hidden(folder: str) -> str:
    """The path of a folder while nobody is to find it; no other one has it."""
    return os.path.join(os.path.dirname(folder), f".{_name(folder)}-{uuid.uuid4().hex[:8]}")


def _name(folder: str) -> str:
    """The version that a folder is of, hidden or not.

    >>> _name(f"/tables/{'a' * 32}") == _name(f"/tables/.{'a' * 32}-01234567") == "a" * 32
    True
    """
    return os.path.basename(folder).removeprefix(".").partition("-")[0]


def remove(folder: str) -> None:
    """Remove a folder. It is hidden first: while its files are deleted, or if that is not finished,
    nobody finds a part of it."""
    hidden = _hidden(folder)
    os.rename(folder, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _rename(hidden: str, staged: StagedTable) -> None:
    """Give a complete table its name, unless another query was faster. What is there without
    being intact is of another format, or damaged."""
    if not staged.intact():
        with contextlib.suppress(OSError):
            _remove_damaged(staged.folder)
    try:
        os.rename(hidden, staged.folder)
    except OSError:
        if not staged.intact():
            raise


def _remove_damaged(folder: str) -> None:
    """Remove what is there without being intact. It is hidden first, and looked at again: another
    driver may have put a table there meanwhile, which goes back to its place."""
    hidden = _hidden(folder)
    os.rename(folder, hidden)
    if StagedTable(hidden).intact():
        os.rename(hidden, folder)
    else:
        shutil.rmtree(hidden, ignore_errors=True)


@dataclass(frozen=True)
class _Numbered:
    """Adds the id of the shard to every row: the same that its key has in the stream."""

    shards: int
    ids: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        ids = pa.array(self.ids, pa.int32())
        for batch in map(without_places, batches):
            numbers = shard_numbers(batch.column(0), self.shards)
            yield batch.append_column(_SHARD, ids.take(pa.array(numbers)))


@dataclass(frozen=True)
class _Write:
    """Writes rows that are sorted by shard and key, each shard into a folder that no other
    attempt of the task uses; gives what it has written."""

    folder: str
    ids: tuple[int, ...]
    partition: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
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
        """What keeps a task from writing is told in our words, and reaches the driver as text."""
        try:
            yield
        except OSError as error:
            raise _cannot_stage(os.path.dirname(self.folder), error) from error

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
