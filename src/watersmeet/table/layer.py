"""A layer of one shard of a table: its partitions, read, and which of them may hold a key.

A layer is what :mod:`.partitions` has written: sorted by key code, in files that never change. A
key's rows can only be in the partitions whose bounds have its code, and only if the filter of the
first of them has it. Which partitions those are is known from the index alone. A partition is
mapped into memory while its rows are used; whoever drops it unmaps it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from watersmeet.rows.columns import Bools, Ints
from watersmeet.rows.widths import cuts
from watersmeet.segments.segment import Segment
from watersmeet.state.cache.checksum import CHECKSUM_BYTES
from watersmeet.table.files import (
    Extent,
    MappedNumbers,
    check,
    damage_error,
    map_rows,
    read_error,
    read_rows,
)
from watersmeet.table.partitions import (
    FENCES,
    FILTER,
    INDEX,
    SHARED,
    bytes_in,
    fence_count,
    filter_places,
    partition_path,
)

#: A process keeps the index of a layer until it has not opened it for so many seconds. A query
#: opens its layers in each micro-batch, so few are read again. Those of superseded versions are not
#: opened any more: while they are kept they take memory, and also disk, though they are deleted.
_KEPT_SECONDS = 60
#: ... with the time when it was opened last; that one is at the end.
_INDEXES: OrderedDict[tuple[str, int], tuple[Layer, float]] = OrderedDict()


@dataclass(frozen=True)
class Layer:
    """Partitions in the order of their codes. ``written`` is when the index was, in nanoseconds
    since 1970, and ``files`` the bytes of all files. ``spent`` is what seeks in each partition have
    taken of this process, in nanoseconds: whoever copies partitions to the host goes by it."""

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
    filter: MappedNumbers[np.uint8]
    fences: MappedNumbers[np.int64]
    spent: np.ndarray

    @classmethod
    def open(cls, base: str) -> Layer:
        """The layer whose files begin so; its index is kept for the next time."""
        try:
            written = os.stat(base + INDEX).st_mtime_ns
        except OSError as error:
            raise read_error(base + INDEX, error) from error
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
        index = read_rows(base + INDEX, sizes[INDEX])
        columns = {name: index.column(name).to_numpy() for name in index.schema.names}
        return cls(
            base=base,
            written=written,
            files=sum(sizes.values()) + CHECKSUM_BYTES * len(sizes) + int(columns["bytes"].sum()),
            filter=MappedNumbers.open(base + FILTER, np.uint8, sizes[FILTER]),
            fences=MappedNumbers.open(base + FENCES, np.int64, sizes[FENCES]),
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

    def partition(self, number: int, extent: Extent = "some") -> Segment:
        """A partition's rows, mapped into memory, in the order of their codes."""
        rows = map_rows(self.path(number), int(self.bytes[number]), extent)
        if len(rows) != self.rows[number]:
            raise damage_error(
                self.path(number), f"{len(rows)} rows instead of {self.rows[number]}"
            )
        return Segment(rows, 0, 0).with_widest(int(self.widest[number]))
