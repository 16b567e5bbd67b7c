"""The cache (the paper's H_R): all master rows of frequent keys, in the local cache of segments.

    <name>-keys       of each cached key: its code and how many master rows it has
    <name>-0, ...     the master rows, in partitions
    <name>.counts     how often each key has come (f_count)

Invariant: the keys ascend by code, and so do the rows: those of key i are rows ``starts[i]`` to
before ``starts[i + 1]``, through all partitions. A cached key has all of its master rows here, or,
if it has none, none: so a row of such a key is answered completely, without the table.

Rule: all of it may be lost at any time, like everything in the local cache. Which keys are cached
is in the store, and what is lost is copied from the table again. Counts decide about memory alone.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import CODE, Bools, Ints
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.widths import range_bytes, sliced
from watersmeet.segments.segment import Segment
from watersmeet.state.cache import SegmentCache
from watersmeet.table.lookup import MasterRanges

#: The bytes that a key takes besides its rows: code, number of rows and count.
KEY_BYTES = 24


@dataclass(frozen=True)
class HotKeys:
    """The cached keys: their ``codes``, how many master ``rows`` each has, and how often it has
    come (``counts``, which are shared by all processes of the host). The ``partitions`` are
    mapped into memory: they stay readable when their files are deleted."""

    codes: Ints
    rows: Ints
    counts: Ints
    partitions: tuple[Segment, ...]

    @classmethod
    def open(cls, cache: SegmentCache, name: str) -> HotKeys | None:
        """The cache of that name; None if any of it has been lost."""
        # Another cache takes its place soon. What is kept open of it would stay in memory.
        keys = cache.load(_keys_id(name), keep_open=False)
        if keys is None:
            return None
        codes, rows = (column.to_numpy(zero_copy_only=True) for column in keys.rows.columns)
        partitions: list[Segment] = []
        missing = int(rows.sum())
        while missing:
            partition = cache.load(_partition_id(name, len(partitions)), keep_open=False)
            if partition is None:
                return None
            partitions.append(partition)
            missing -= len(partition)
        return cls(codes, rows, _counts(cache, name, len(codes)), tuple(partitions))

    @classmethod
    def write(
        cls,
        cache: SegmentCache,
        name: str,
        codes: Ints,
        rows: Ints,
        counts: Ints,
        master: Iterable[pa.RecordBatch],
        *,
        partition: int,
    ) -> None:
        """Write a cache, if there is room for it: its keys, and their master rows in order, in
        partitions of so many bytes."""
        written = 0
        for number, part in enumerate(_partitions(master, partition)):
            cache.save(_partition_id(name, number), Segment(part, 0, 0))
            written += len(part)
        assert written == rows.sum(), "every cached key has all of its rows"
        keys = pa.RecordBatch.from_pydict({CODE: pa.array(codes), "rows": pa.array(rows)})
        cache.save(_keys_id(name), Segment(keys, 0, 0))
        _counts(cache, name, len(codes))[:] = counts

    @property
    def nbytes(self) -> int:
        """What the keys and their rows take in memory."""
        return KEY_BYTES * len(self) + sum(int(part.rows.nbytes) for part in self.partitions)

    def __len__(self) -> int:
        return len(self.codes)

    def find(self, codes: Ints) -> tuple[Bools, Ints]:
        """Which codes are cached, and as which of the keys (of those that are)."""
        if not len(self):
            return np.zeros(len(codes), dtype=np.bool_), np.empty(0, np.int64)
        at = np.searchsorted(self.codes, codes)
        at[at == len(self)] = 0
        cached: Bools = self.codes[at] == codes
        return cached, at[cached]

    def count(self, keys: Ints) -> None:
        """Note that keys have come, each as often as it is named; they ascend."""
        if len(keys):
            starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            self.counts[keys[starts]] += np.diff(starts, append=len(keys))

    def ranges(self, mine: Ints, keys: Ints, *, backwards: bool = False) -> Iterator[MasterRanges]:
        """Where the master rows of stream rows are, given as positions, that have these keys;
        the partitions in order, or ``backwards``."""
        low, high = self._starts[keys], self._ends[keys]
        placed = [*self._placed()]
        for offset, partition in reversed(placed) if backwards else placed:
            stop = offset + len(partition)
            inside = np.flatnonzero((low < high) & (low < stop) & (high > offset))
            first = np.maximum(low[inside], offset) - offset
            last = np.minimum(high[inside], stop) - offset
            yield MasterRanges(partition, mine[inside], first, last)

    def sizes(self) -> Ints:
        """The bytes that the master rows of each key take."""
        sizes = np.zeros(len(self), dtype=np.int64)
        for offset, partition in self._placed():
            bounds = (self._starts, self._ends)
            low, high = (np.clip(at - offset, 0, len(partition)) for at in bounds)
            sizes += range_bytes(partition.rows, low, high)
        return sizes

    def master(self, keep: Bools) -> Iterator[pa.RecordBatch]:
        """The master rows of some of the keys, in order."""
        of_row = np.repeat(keep, self.rows)
        for offset, partition in self._placed():
            chosen = of_row[offset : offset + len(partition)]
            if chosen.any():
                yield partition.rows.filter(pa.array(chosen))

    @cached_property
    def _ends(self) -> Ints:
        """Where the rows of each key end, through all partitions."""
        return np.cumsum(self.rows)

    @cached_property
    def _starts(self) -> Ints:
        """Where they begin."""
        return self._ends - self.rows

    def _placed(self) -> Iterator[tuple[int, Segment]]:
        """The partitions, each with the number of rows before it."""
        offset = 0
        for partition in self.partitions:
            yield offset, partition
            offset += len(partition)


def discard(cache: SegmentCache, name: str) -> None:
    """Delete a cache's files, if they are there."""
    folder = cache.folder
    if folder is not None:
        for path in glob.glob(os.path.join(glob.escape(folder), f"{name}*")):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _keys_id(name: str) -> str:
    return f"{name}-keys"


def _partition_id(name: str, number: int) -> str:
    return f"{name}-{number}"


def _partitions(master: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Rows in order, gathered or cut into partitions of about so many bytes."""
    gathering = Gathering(rows=1 << 31, size=size)
    for batch in master:
        for part in sliced(batch, size):
            yield from gathering.add(part)
    yield from gathering.rest()


def _counts(cache: SegmentCache, name: str, size: int) -> Ints:
    """How often each of so many keys has come: in a file that all processes of the host map, or
    in memory if there can be none. Its room on the disk is taken now: writing to mapped memory
    without any would end the process."""
    path = cache.counts_path(name)
    if path is not None and size:
        with contextlib.suppress(OSError, ValueError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "r+b") as file:
                os.posix_fallocate(descriptor, 0, 8 * size)
                return np.memmap(file, np.int64, "r+", shape=(size,))
    return np.zeros(size, dtype=np.int64)
