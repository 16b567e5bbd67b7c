"""One shard of a table, as it was staged: which partitions may hold a key, and their rows.

A shard is one or more *layers*. Each layer is what :mod:`.partitions` has written: sorted by key
code, in files that never change. A table to which rows were added has a further layer for them
(:mod:`.staged`), so a key's rows may be in several layers. And if the table was staged in more
shards than it is read by, each of its shards is a layer: a key is then asked for only in the layers
of its own shard. The partitions of all layers are numbered through, layer after layer.

In a layer, a key's rows can only be in the partitions whose bounds have its code, and only if the
filter of the first of them has it. Which partitions those are is known from the index alone. A
partition is mapped into memory while its rows are used; whoever drops it unmaps it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import BufferedReader
from typing import Literal

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import Bools, Ints, codes_of
from watersmeet.rows.shard import Shard, numbers_of
from watersmeet.rows.widths import cuts
from watersmeet.segments.segment import Segment
from watersmeet.state.cache.checksum import CHECKSUM_BYTES
from watersmeet.table.fences import fence_count
from watersmeet.table.file import check, damaged, unreadable
from watersmeet.table.mapped import Mapped
from watersmeet.table.partitions import (
    FENCES,
    FILTER,
    INDEX,
    SHARED,
    bytes_in,
    filter_places,
    partition_path,
)

#: A process keeps the index of a layer until it has not opened it for so many seconds. A query
#: opens its layers in each micro-batch, so few are read again. Those of superseded versions are not
#: opened any more: while they are kept they take memory, and also disk, though they are deleted.
_KEPT_SECONDS = 60
#: ... with the time when it was opened last; that one is at the end.
_INDEXES: OrderedDict[tuple[str, int], tuple[Layer, float]] = OrderedDict()

#: Where a file cannot be read by mapping it, a scan reads this many bytes at a time.
_READ_BYTES = 1 << 20
#: ``MADV_POPULATE_READ`` of Linux 5.14 and newer, which Python does not name.
_POPULATE_READ = 22


#: How much of a partition is going to be touched. Where it is ``"some"``, pages come in as they are
#: touched, without reading ahead. Where it is ``"most"``, Linux is asked for pages of 2 MB: then it
#: can be touched, now and later, with few page faults. ``"all"`` is read now.
Touched = Literal["some", "most", "all"]


@dataclass(frozen=True)
class Layer:
    """Partitions in the order of their codes. ``spent`` is what this process has spent on seeks in
    each, in nanoseconds (:mod:`.copies`), ``written`` when the index was, in nanoseconds since
    1970, and ``files`` the bytes of all files."""

    base: str
    written: int
    files: int
    rows: Ints
    memory: Ints
    bytes: Ints
    widest: Ints
    least: Ints
    greatest: Ints
    filter_at: Ints
    filter_bits: Ints
    filter: Mapped
    fences: Mapped
    spent: np.ndarray

    @classmethod
    def open(cls, base: str) -> Layer:
        """The layer whose files begin so; its index is kept for the next time."""
        try:
            written = os.stat(base + INDEX).st_mtime_ns
        except OSError as error:
            raise unreadable(base + INDEX, error) from error
        kept, _ = _INDEXES.pop((base, written), (None, None))
        layer = cls._read(base, written) if kept is None else kept  # one without rows is false
        now = time.monotonic()
        _INDEXES[base, written] = layer, now
        while now - next(iter(_INDEXES.values()))[1] > _KEPT_SECONDS:
            _INDEXES.popitem(last=False)
        return layer

    @classmethod
    def _read(cls, base: str, written: int) -> Layer:
        sizes = {name: check(base + name) for name in SHARED}
        index = _read(base + INDEX, sizes[INDEX])
        columns = {name: index.column(name).to_numpy() for name in index.schema.names}
        return cls(
            base=base,
            written=written,
            files=sum(sizes.values()) + CHECKSUM_BYTES * len(sizes) + int(columns["bytes"].sum()),
            filter=Mapped.open(base + FILTER, np.uint8, sizes[FILTER]),
            fences=Mapped.open(base + FENCES, np.int64, sizes[FENCES]),
            spent=np.zeros(len(index)),
            **columns,
        )

    def __len__(self) -> int:
        """The number of partitions."""
        return len(self.rows)

    @cached_property
    def name(self) -> str:
        """What names it among the layers of all tables, and among those that were staged under the
        same path before: these may have had the same rows in other partitions."""
        return hashlib.sha256(f"{self.base} {self.written}".encode()).hexdigest()[:32]

    @property
    def shared(self) -> int:
        """The bytes of its filters and fences."""
        return self.filter.numbers.nbytes + self.fences.numbers.nbytes

    def homes(self, codes: Ints, at_a_time: int | None = None) -> tuple[Ints, Ints]:
        """The partitions that may hold each code: from the first to before the last. They are
        none if the bounds or the filter exclude it. With ``at_a_time``, no more bytes of filters
        are in memory at a time, unless that of one partition takes more, and none afterwards."""
        first = np.searchsorted(self.greatest, codes, side="left")
        last = np.searchsorted(self.least, codes, side="right")
        within = np.flatnonzero(first < last)
        asked = self._in_filter if at_a_time is None else partial(self._in_pieces, at_a_time)
        absent = within[~asked(codes[within], first[within])]
        last[absent] = first[absent]
        return first, np.maximum(first, last)

    def _in_filter(self, codes: Ints, partitions: Ints) -> Bools:
        places = filter_places(codes, self.filter_bits[partitions].astype(np.uint64))
        bits = self.filter.numbers[self.filter_at[partitions] + (places >> 3)]
        present: Bools = (bits >> (7 - (places & 7)).astype(np.uint8)) & 1 == 1
        return present

    def _in_pieces(self, at_a_time: int, codes: Ints, partitions: Ints) -> Bools:
        """The same, of some partitions after the other: their filters are one behind the other."""
        sizes = np.diff(self.filter_at, append=len(self.filter.numbers))
        stops = [run.stop for run in cuts(sizes, len(sizes), at_a_time)]
        order = np.argsort(partitions, kind="stable")
        present = np.empty(len(codes), dtype=np.bool_)
        for some in np.split(order, np.searchsorted(partitions[order], stops)):
            if len(some):
                present[some] = self._in_filter(codes[some], partitions[some])
                self.filter.give_back()
        return present

    @cached_property
    def _fenced(self) -> Ints:
        """Where the fences of each partition end."""
        return np.cumsum(fence_count(self.rows))

    def fences_of(self, number: int) -> Ints:
        """The fences of a partition."""
        start = self._fenced[number - 1] if number else 0
        return self.fences.numbers[start : self._fenced[number]]

    def path(self, number: int) -> str:
        """The file of a partition."""
        return partition_path(self.base, number)

    def whole(self) -> bool:
        """Are all of its files there, as long as they were?"""
        return bytes_in(self.base) == self.files

    def partition(self, number: int, touched: Touched = "some") -> Segment:
        """A partition's rows, mapped into memory, in the order of their codes."""
        rows = _mapped(self.path(number), int(self.bytes[number]), touched)
        if len(rows) != self.rows[number]:
            raise damaged(self.path(number), f"{len(rows)} rows instead of {self.rows[number]}")
        return Segment(rows, 0, 0).with_widest(int(self.widest[number]))


@dataclass(frozen=True)
class TableShard:
    """The layers of one shard. ``staged`` says of which shard each layer was staged; a code is
    asked for in the layers of its own. Without it, in all. Filters and fences stay in memory if
    they take no more than ``room`` bytes, over all layers; otherwise they are given back as soon
    as they have been used. None: they stay in any case."""

    layers: tuple[Layer, ...]
    staged: tuple[Shard, ...] = ()
    room: int | None = None

    @classmethod
    def open(cls, bases: Sequence[str], staged: Sequence[Shard], room: int | None) -> TableShard:
        """The shard of the layers whose files begin so, and which were staged for those."""
        several = len(set(staged)) > 1
        return cls(tuple(map(Layer.open, bases)), tuple(staged) if several else (), room)

    def __len__(self) -> int:
        """The number of partitions."""
        return sum(map(len, self.layers))

    def whole(self) -> bool:
        """Are the files of all layers there, as long as they were?"""
        return all(layer.whole() for layer in self.layers)

    @cached_property
    def starts(self) -> Ints:
        """The number of the first partition of each layer."""
        counts = [len(layer) for layer in self.layers]
        return np.cumsum([0, *counts[:-1]])

    @cached_property
    def bytes(self) -> Ints:
        """The bytes of the file of each partition."""
        return np.concatenate([layer.bytes for layer in self.layers])

    @property
    def nbytes(self) -> int:
        """What all partitions take in memory."""
        return sum(int(layer.memory.sum()) for layer in self.layers)

    @cached_property
    def _at_a_time(self) -> int | None:
        """How many bytes of filters are in memory at a time; None: all of them stay there."""
        fits = self.room is None or sum(layer.shared for layer in self.layers) <= self.room
        return None if fits else self.room

    @property
    def width(self) -> float:
        """The mean bytes of a row: the paper's v_R."""
        return self.nbytes / max(sum(int(layer.rows.sum()) for layer in self.layers), 1)

    def home(self, codes: Ints) -> Ints:
        """The first partition that may hold each code; -1 if none may."""
        home = np.full(len(codes), -1)
        for start, layer, asked in self.asked(codes):
            first, last = self.homes(layer, codes[asked])
            here = (home[asked] < 0) & (first < last)
            home[asked[here]] = start + first[here]
        return home

    def homes(self, layer: Layer, codes: Ints) -> tuple[Ints, Ints]:
        """The partitions of a layer that may hold each code: from the first to before the last."""
        return layer.homes(codes, self._at_a_time)

    def asked(self, codes: Ints) -> Iterator[tuple[int, Layer, Ints]]:
        """Each layer that may have some of the codes: the number of its first partition, itself,
        and the positions of these codes."""
        everything = np.arange(len(codes))
        numbers = numbers_of(codes, self.staged[0].count) if self.staged else None
        for at, (start, layer) in enumerate(zip(self.starts.tolist(), self.layers, strict=True)):
            if numbers is None:
                yield start, layer, everything
            else:
                yield start, layer, np.flatnonzero(numbers == self.staged[at].number)

    def holding(self, codes: Ints) -> Ints:
        """The partitions between whose bounds any of some codes is, which ascend."""
        low = np.searchsorted(codes, self._least, side="left")
        return np.flatnonzero(low < np.searchsorted(codes, self._greatest, side="right"))

    def spans(self, partitions: Ints) -> list[tuple[int, int]]:
        """The codes of partitions, which ascend: of neighbours, from the least to the
        greatest."""
        if not len(partitions):
            return []
        apart = (np.diff(partitions) > 1) | np.isin(partitions[1:], self.starts)
        low = self._least[partitions[np.append(True, apart)]]
        high = self._greatest[partitions[np.append(apart, True)]]
        return [*zip(low.tolist(), high.tolist(), strict=True)]

    @cached_property
    def _least(self) -> Ints:
        return np.concatenate([layer.least for layer in self.layers])

    @cached_property
    def _greatest(self) -> Ints:
        return np.concatenate([layer.greatest for layer in self.layers])

    def locate(self, number: int) -> tuple[Layer, int]:
        """The layer of a partition, and its number there."""
        at = int(np.searchsorted(self.starts, number, side="right")) - 1
        return self.layers[at], number - int(self.starts[at])

    def partition(self, number: int, touched: Touched = "some") -> Segment:
        """A partition's rows, mapped into memory, in the order of their codes."""
        layer, local = self.locate(number)
        return layer.partition(local, touched)

    def fences_of(self, number: int) -> Ints:
        """The fences of a partition."""
        layer, local = self.locate(number)
        fences = layer.fences_of(local)
        if self._at_a_time is not None:
            fences = fences.copy()
            layer.fences.give_back()
        return fences


def ascending(rows: pa.RecordBatch, *, stable: bool = True) -> pa.RecordBatch:
    """The same rows, in the order of their codes. Those of one code stay as they are if that is
    to be ``stable``, which takes four times as long."""
    codes = codes_of(rows)
    if (codes[1:] >= codes[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(codes, kind="stable" if stable else None)))


def _mapped(path: str, size: int | None = None, touched: Touched = "some") -> pa.RecordBatch:
    """The only record batch of a file, mapped into memory, to be ``touched`` so much."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno()).st_size
            if size is not None and found != size:
                raise damaged(path, f"{found:,} bytes instead of {size:,}")
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            if touched == "some":
                mapped.madvise(mmap.MADV_RANDOM)
            elif hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):  # a kernel may have been built without
                    mapped.madvise(mmap.MADV_HUGEPAGE)
            if touched == "all":
                _read_all(mapped, file)
        return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).get_batch(0)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise damaged(path, error) from error


def _read_all(mapped: mmap.mmap, file: BufferedReader) -> None:
    """Read a file that is mapped from one end to the other, so that it is in memory."""
    if sys.platform == "linux":
        try:
            mapped.madvise(_POPULATE_READ)
            return
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    # An older kernel, or another system.
    buffer = bytearray(_READ_BYTES)
    while file.readinto(buffer):
        pass


def _read(path: str, size: int) -> pa.RecordBatch:
    """The only record batch in that much of a file."""
    try:
        with open(path, "rb") as file:
            return pa.ipc.open_file(file.read(size)).get_batch(0)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
