"""A staged table: one version of a table, as files that are made once and then only read.

    <folder>/table.json       what there is, in all, and its layers; it is written last
    <folder>/<shard>/...      the rows of a shard, as partitions (:mod:`.partitions`)
    <folder>/source.json      the files that the rows are from, if that is known (:mod:`.origin`)

Invariant: the rows of a key are in the shard of its code (:mod:`watersmeet.rows.shard`). A stream
that is dealt to shards is dealt by the same hash, so that its shards find their keys in few of the
table's: if both are as many, in one. A folder without ``table.json`` is not complete, and nobody
reads it.

**Layers.** A version is one layer, with the rows in its own folder; or it is several, each of them
a version of its own in a folder beside it, and it has all of their rows. So a version that has
further rows than another one shares the other's files.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import StagedTableError
from watersmeet.rows.columns import CODE, TIME, codes_of, times_of
from watersmeet.rows.route import ByKey
from watersmeet.rows.shard import Shard
from watersmeet.segments.index import sort_order
from watersmeet.table.files import read_error
from watersmeet.table.lease import SUMMARY, Lease
from watersmeet.table.origin import Origin, OriginFacts
from watersmeet.table.partitions import PartitionWriter, bytes_in
from watersmeet.table.shard import TableShard

#: The format of the files. A change after which old files cannot be read raises it.
FORMAT = 4
_ORIGIN = "source.json"


@dataclass(frozen=True)
class TableSize:
    """What a staged table has, over all of its shards; ``bytes`` is what its rows take in
    memory."""

    shards: int
    rows: int
    bytes: int
    partitions: int


class _Summary(TypedDict, total=False):
    """What a folder says of itself."""

    format: int
    size: dict[str, int]
    files: int
    layers: list[str]


@dataclass(frozen=True)
class StagedTable:
    """A version of a table in a folder, which is named after it."""

    folder: str

    @property
    def version(self) -> str:
        """What names this version."""
        return os.path.basename(self.folder)

    @property
    def layers(self) -> list[StagedTable]:
        """The versions whose rows it has: itself, or others."""
        names = self._summary().get("layers", [])
        beside = os.path.dirname(self.folder)
        return [StagedTable(os.path.join(beside, name)) for name in names] or [self]

    @property
    def parts(self) -> set[StagedTable]:
        """The folders that it needs: its own, and those of its layers."""
        return {self, *self.layers}

    def shard(self, shard: Shard, room: int | None = None) -> TableShard:
        """The rows of one shard of the stream. If the table was staged for another number of
        shards, they may be in several of its own; these may then have other rows too, which no row
        of this shard asks for. Filters and fences stay in memory if there is ``room`` for so many
        bytes."""
        size = self.size()
        if size is None:
            # Without it nobody knows which shards have a key: it would seem to be in none.
            raise read_error(os.path.join(self.folder, SUMMARY), "it is gone, or not complete")
        staged = size.shards
        # Both are the same hash modulo a number: so they agree modulo what divides both.
        common = math.gcd(staged, shard.count)
        shards = [Shard(number, staged) for number in range(shard.number % common, staged, common)]
        bases = [shard_base(layer.folder, part.number) for layer in self.layers for part in shards]
        return TableShard.open(bases, shards * len(self.layers), room)

    def serves(self, shard: Shard) -> bool:
        """Is every file there, as long as it was, that a shard of the stream reads?"""
        try:
            return self.shard(shard).whole()
        except StagedTableError:
            return False

    def size(self) -> TableSize | None:
        """What there is; None if a folder is not complete, or of another format."""
        sizes = {part: part._own_size() for part in self.parts}
        return None if None in sizes.values() else sizes[self]

    def _own_size(self) -> TableSize | None:
        """What its own summary says, if that is not damaged, nor of another format."""
        summary = self._summary()
        if summary.get("format") != FORMAT:
            return None
        try:
            return TableSize(**summary["size"])
        except (KeyError, TypeError):
            return None

    def intact(self) -> bool:
        """Is all there, every single file, as long as it was? A folder may have been deleted in
        part, and a file may have been cut."""
        return self.size() is not None and all(layer._has_its_files() for layer in self.layers)

    def _has_its_files(self) -> bool:
        """Have the files of a layer as many bytes as were written? It takes a listing for each
        shard."""
        size = self.size()
        assert size is not None, "a layer is complete"
        there = sum(bytes_in(shard_base(self.folder, number)) for number in range(size.shards))
        return bool(there == self._summary().get("files"))

    def complete(self, size: TableSize, *, files: int, layers: Sequence[StagedTable] = ()) -> None:
        """Note that all files are there, of so many bytes; or, with ``layers``, that it is
        these."""
        names = [layer.version for layer in layers]
        summary = {"format": FORMAT, "size": asdict(size), "files": files, "layers": names}
        self._write(SUMMARY, summary)

    def origin(self) -> Origin | None:
        """What its rows are from, if that is known."""
        facts = self._read(_ORIGIN)
        return Origin.of(cast(OriginFacts, facts)) if facts else None

    def note_origin(self, origin: Origin) -> None:
        """Note what its rows are from."""
        self._write(_ORIGIN, origin.facts())

    def idle(self) -> bool:
        """Has the lease of its own folder ended: is there no query that it belongs to?"""
        return Lease(self.folder).ended

    def touch(self) -> None:
        """Note that a step uses it."""
        for lease in self._leases():
            lease.use()

    def hold(self) -> None:
        """Note that a query runs that uses it, though it may take no steps for long."""
        for lease in self._leases():
            lease.hold()

    def keep(self) -> None:
        """Note that a query uses it that does not look for newer versions."""
        for lease in self._leases():
            lease.keep()

    def supersede(self, newer: StagedTable) -> None:
        """Note that a newer version has taken its place; what that has of it stays."""
        for part in self.parts - newer.parts:
            Lease(part.folder).supersede()
        for lease in newer._leases():
            lease.reinstate()

    def _leases(self) -> list[Lease]:
        return [Lease(part.folder) for part in self.parts]

    def _summary(self) -> _Summary:
        return cast(_Summary, self._read(SUMMARY))

    def _read(self, name: str) -> dict[str, object]:
        """What a file says; nothing if it is not there."""
        path = os.path.join(self.folder, name)
        try:
            facts = _parsed(path, os.stat(path).st_mtime_ns)
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def _write(self, name: str, facts: Mapping[str, object]) -> None:
        path = os.path.join(self.folder, name)
        with open(f"{path}.tmp", "w") as file:
            json.dump(facts, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.tmp", path)


@functools.lru_cache(maxsize=256)
def _parsed(path: str, _written: int) -> object:
    """What a file says that was written then. Every step asks for it, several times."""
    with open(path) as file:
        facts: object = json.load(file)
        return facts


def combine(folder: str, layers: Sequence[StagedTable]) -> StagedTable:
    """A version with the rows of several others, which are in folders beside it."""
    sizes = [size for layer in layers if (size := layer.size()) is not None]
    assert len(sizes) == len(layers), "a layer is complete"
    combined = StagedTable(folder)
    combined.complete(
        TableSize(
            sizes[0].shards,
            rows=sum(size.rows for size in sizes),
            bytes=sum(size.bytes for size in sizes),
            partitions=sum(size.partitions for size in sizes),
        ),
        files=0,
        layers=[part for layer in layers for part in layer.layers],
    )
    return combined


def shard_base(folder: str, number: int) -> str:
    """What the paths of a shard's files begin with."""
    return os.path.join(folder, str(number), "")


def matchable_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that may match: none with a null key, nor, where rows are valid from a time on,
    with a null time."""
    needed = [rows.column(name).is_valid() for name in (CODE, TIME) if name in rows.schema.names]
    return rows.filter(functools.reduce(pc.and_, needed))


def stage(rows: pa.RecordBatch, folder: str, *, shards: int, partition: int) -> StagedTable:
    """Stage a table that is in memory, from rows as they are stored."""
    rows = matchable_rows(rows)
    dealt = dict(ByKey().deal(rows, shards)) if len(rows) else {}
    writers, files = [], 0
    for number in range(shards):
        writer = PartitionWriter(shard_base(folder, number), partition)
        if number in dealt:
            part = dealt[number]
            order = sort_order(codes_of(part), times_of(part))
            writer.add(part.take(pa.array(order)))
        files += writer.close()
        writers.append(writer)
    staged = StagedTable(folder)
    staged.complete(
        TableSize(
            shards,
            rows=sum(writer.total("rows") for writer in writers),
            bytes=sum(writer.total("memory") for writer in writers),
            partitions=sum(len(writer.index) for writer in writers),
        ),
        files=files,
    )
    return staged
