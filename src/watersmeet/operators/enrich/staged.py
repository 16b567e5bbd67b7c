"""A staged table: one version of a table, as files that are made once and then only read.

    <folder>/table.json       what there is, in all; it is written last
    <folder>/<shard>/...      the rows of a shard, as partitions (:mod:`.partitions`)

Invariant: the rows of a key are in the shard to which the stream's rows of that key go, because
both are dealt by the same hash of the code (:mod:`watersmeet.rows.shard`). A folder without
``table.json`` is not complete, and nobody reads it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.enrich.partitions import PartitionWriter
from watersmeet.operators.enrich.table import TableShard
from watersmeet.rows.columns import CODE, TIME, codes_of, times_of
from watersmeet.rows.route import ByKey
from watersmeet.spec.enrich import TableSize
from watersmeet.state.index import sort_order

#: The format of the files. A change after which old files cannot be read raises it.
FORMAT = 1
_SUMMARY = "table.json"
#: A version that no step has used for this many seconds belongs to a query that has ended.
IDLE_SECONDS = 24 * 3600
#: When it was used last is known to this many seconds.
_TOUCH_SECONDS = 60


@dataclass(frozen=True)
class StagedTable:
    """A version of a table in a folder, which is named after it."""

    folder: str

    @property
    def version(self) -> str:
        """What names this version."""
        return os.path.basename(self.folder)

    def shard(self, number: int) -> TableShard:
        """The rows of one shard."""
        return TableShard.open(shard_base(self.folder, number))

    def size(self) -> TableSize | None:
        """What there is; None if the folder is not complete, or of another format."""
        try:
            with open(os.path.join(self.folder, _SUMMARY)) as file:
                known = json.load(file)
        except (OSError, ValueError):
            return None
        return TableSize(**known) if known.pop("format", None) == FORMAT else None

    def complete(self, size: TableSize) -> None:
        """Note that all files are there."""
        path = os.path.join(self.folder, _SUMMARY)
        with open(f"{path}.tmp", "w") as file:
            json.dump({"format": FORMAT, **asdict(size)}, file)
        os.replace(f"{path}.tmp", path)

    def used_at(self) -> float:
        """When it was used last, or its folder made, in seconds since 1970."""
        try:
            return os.stat(os.path.join(self.folder, _SUMMARY)).st_mtime
        except FileNotFoundError:
            return os.stat(self.folder).st_mtime

    def touch(self) -> None:
        """Note that it is in use."""
        with contextlib.suppress(OSError):
            if time.time() - self.used_at() > _TOUCH_SECONDS:
                os.utime(os.path.join(self.folder, _SUMMARY))


def shard_base(folder: str, number: int) -> str:
    """What the paths of a shard's files begin with."""
    return os.path.join(folder, str(number), "")


def matchable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that may match: none with a null key, nor, where rows are valid from a time on,
    with a null time."""
    needed = [rows.column(name).is_valid() for name in (CODE, TIME) if name in rows.schema.names]
    return rows.filter(functools.reduce(pc.and_, needed))


def stage(rows: pa.RecordBatch, folder: str, *, shards: int, partition: int) -> StagedTable:
    """Stage a table that is in memory, from rows as they are stored."""
    rows = matchable(rows)
    dealt = dict(ByKey().deal(rows, shards)) if len(rows) else {}
    writers = []
    for number in range(shards):
        writer = PartitionWriter(shard_base(folder, number), partition)
        if number in dealt:
            part = dealt[number]
            order = sort_order(codes_of(part), times_of(part))
            writer.add(part.take(pa.array(order)))
        writer.close()
        writers.append(writer)
    staged = StagedTable(folder)
    staged.complete(
        TableSize(
            shards,
            rows=sum(writer.total("rows") for writer in writers),
            bytes=sum(writer.total("memory") for writer in writers),
            partitions=sum(len(writer.index) for writer in writers),
        )
    )
    return staged
