"""A staged table: one version of a table, as files that are made once and then only read.

    <folder>/table.json       what there is, in all, and its layers; it is written last
    <folder>/<shard>/...      the rows of a shard, as partitions (:mod:`.partitions`)
    <folder>/source.json      the files that the rows are from, if that is known

Invariant: the rows of a key are in the shard of its code (:mod:`watersmeet.rows.shard`). A stream
that is dealt to shards is dealt by the same hash, so that its shards find their keys in few of the
table's: if both are as many, in one. A folder without
``table.json`` is not complete, and nobody reads it.

**Layers.** A version is one layer, with the rows in its own folder; or it is several, each of them
a version of its own in a folder beside it, and it has all of their rows. So a version that has
further rows than another one shares the other's files.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import StagedTableError
from watersmeet.rows.columns import CODE, TIME, codes_of, times_of
from watersmeet.rows.route import ByKey
from watersmeet.rows.shard import Shard
from watersmeet.segments.index import sort_order
from watersmeet.table.file import unreadable
from watersmeet.table.layers import TableShard
from watersmeet.table.partitions import PartitionWriter, bytes_in
from watersmeet.table.source import Source

#: The format of the files. A change after which old files cannot be read raises it.
FORMAT = 4
_SUMMARY = "table.json"
_SOURCE = "source.json"
#: A version that no step has used for this many seconds belongs to a query that has ended.
IDLE_SECONDS = 24 * 3600
#: ... and one that has been superseded by a newer one, for this many.
SUPERSEDED_SECONDS = 3600
_SUPERSEDED = "superseded"
#: ... unless a query uses it that does not look for newer ones.
_KEPT = "kept"
#: ... and unless a query that uses it runs, though it may take no steps.
_HELD = "held"
#: When it was used or held last is known to this many seconds.
TOUCH_SECONDS = 60


@dataclass(frozen=True)
class TableSize:
    """What a staged table has, over all of its shards; ``bytes`` is what its rows take in
    memory."""

    shards: int
    rows: int
    bytes: int
    partitions: int


@dataclass(frozen=True)
class Versions:
    """The versions of a table that changes, in the folder of all tables: a small file says which
    one is current, and why the last attempt to make a newer one failed, if it did. ``name`` names
    that file. ``table`` says what they are versions of, as far as that can be told, and which
    columns they have: these are stored by their position alone, so only a version of the same
    ``table`` can be read in place of another one.

    >>> import tempfile
    >>> versions = Versions(tempfile.mkdtemp(), "prices", "prices by product")
    >>> versions.current() is None
    True
    >>> versions.set("a1b2")
    >>> versions.current().version, versions.failure()
    ('a1b2', None)
    >>> versions.fail("no column 'price'")
    >>> versions.current().version, versions.failure()
    ('a1b2', "no column 'price'")
    """

    folder: str
    name: str
    table: str

    def current(self) -> StagedTable | None:
        """The current version, if there is one."""
        version = self._read().get("version")
        return None if version is None else self.version(version)

    def failure(self) -> str | None:
        """Why there is no newer version, if making one has failed."""
        return self._read().get("failure")

    def set(self, version: str) -> None:
        """Make a version the current one."""
        self._write({"version": version})

    def fail(self, why: str) -> None:
        """Note that no newer version could be made."""
        self._write({**self._read(), "failure": why})

    def version(self, name: str) -> StagedTable:
        """The version of that name."""
        return StagedTable(os.path.join(self.folder, name))

    def idle(self) -> bool:
        """Was no version made current for long, and is the one that was gone?"""
        current = self.current()
        gone = current is None or not os.path.exists(current.folder)
        return gone and time.time() - os.stat(self._path).st_mtime > IDLE_SECONDS

    @property
    def _path(self) -> str:
        return os.path.join(self.folder, f"{self.name}.current")

    def _read(self) -> dict[str, str]:
        try:
            with open(self._path) as file:
                known: dict[str, str] = json.load(file)
                return known
        except (OSError, ValueError):
            return {}

    def _write(self, known: dict[str, str]) -> None:
        # Several threads of a driver may refresh one table, for different queries.
        temporary = f"{self._path}.{uuid.uuid4().hex}.tmp"
        with open(temporary, "w") as file:
            json.dump(known, file)
        os.replace(temporary, self._path)


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
            raise unreadable(os.path.join(self.folder, _SUMMARY), "it is gone, or not complete")
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
        sizes = {part: part._noted_size() for part in self.parts}
        return None if None in sizes.values() else sizes[self]

    def _noted_size(self) -> TableSize | None:
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
        noted = {"format": FORMAT, "size": asdict(size), "files": files, "layers": names}
        self._write(_SUMMARY, noted)

    def source(self) -> Source | None:
        """What its rows are from, if that is known."""
        known = self._read(_SOURCE)
        return Source.of(known) if known else None

    def note_source(self, source: Source) -> None:
        """Note what its rows are from."""
        self._write(_SOURCE, source.plain())

    def used_at(self) -> float:
        """When it was used last, or its folder made, in seconds since 1970."""
        try:
            return os.stat(os.path.join(self.folder, _SUMMARY)).st_mtime
        except FileNotFoundError:
            return os.stat(self.folder).st_mtime

    def idle(self) -> bool:
        """Has no step used it, nor a query held it, for so long that it belongs to none?"""
        superseded = self._has(_SUPERSEDED) and not self._has(_KEPT)
        limit = SUPERSEDED_SECONDS if superseded else IDLE_SECONDS
        return time.time() - max(self.used_at(), self._held_at()) > limit

    def supersede(self, newer: StagedTable) -> None:
        """Note that a newer version has taken its place; what that has of it stays."""
        for part in self.parts - newer.parts:
            part._mark(_SUPERSEDED)
        for part in newer.parts:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(part.folder, _SUPERSEDED))

    def keep(self) -> None:
        """Note that a query uses it that does not look for newer versions."""
        for part in self.parts:
            part._mark(_KEPT)

    def hold(self) -> None:
        """Note that a query runs that uses it, though it may take no steps for long."""
        for part in self.parts:
            if time.time() - part._held_at() > TOUCH_SECONDS:
                part._mark(_HELD)

    def _held_at(self) -> float:
        try:
            return os.stat(os.path.join(self.folder, _HELD)).st_mtime
        except OSError:
            return 0.0

    def _has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.folder, name))

    def _mark(self, name: str) -> None:
        path = os.path.join(self.folder, name)
        with contextlib.suppress(OSError), open(path, "w"):
            os.utime(path)

    def touch(self) -> None:
        """Note that it is in use."""
        for part in self.parts:
            with contextlib.suppress(OSError):
                if time.time() - part.used_at() > TOUCH_SECONDS:
                    os.utime(os.path.join(part.folder, _SUMMARY))

    def _summary(self) -> dict[str, Any]:
        return self._read(_SUMMARY)

    def _read(self, name: str) -> dict[str, Any]:
        """What a file says; nothing if it is not there."""
        path = os.path.join(self.folder, name)
        try:
            known = _parsed(path, os.stat(path).st_mtime_ns)
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _write(self, name: str, known: dict[str, Any]) -> None:
        path = os.path.join(self.folder, name)
        with open(f"{path}.tmp", "w") as file:
            json.dump(known, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.tmp", path)


@functools.lru_cache(maxsize=256)
def _parsed(path: str, written: int) -> Any:
    """What a file says that was ``written`` then. Every step asks for it, several times."""
    with open(path) as file:
        return json.load(file)


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


def matchable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that may match: none with a null key, nor, where rows are valid from a time on,
    with a null time."""
    needed = [rows.column(name).is_valid() for name in (CODE, TIME) if name in rows.schema.names]
    return rows.filter(functools.reduce(pc.and_, needed))


def stage(rows: pa.RecordBatch, folder: str, *, shards: int, partition: int) -> StagedTable:
    """Stage a table that is in memory, from rows as they are stored."""
    rows = matchable(rows)
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
