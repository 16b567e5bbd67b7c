"""The cache (the paper's H_R): all master rows of frequent keys, as a small table of its own.

    <base>keys             of each cached key: its code, its master rows, how often it has come
    <base>0.arrow, ...     the master rows, as partitions (:mod:`.partitions`)

Invariant: the keys ascend by code, and so do the rows: those of key i are rows ``starts[i]`` to
before ``starts[i + 1]``, through all partitions. A cached key has all of its master rows here, or,
if it has none, none: so a row of such a key is answered completely, without the table.

Rule: the files are on the host, beside the local cache of segments, and like that they may be
lost at any time. Which keys are cached is in the store, and what is lost is copied from the table
again. Files never change but for the counts (f_count), which decide about memory alone.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.errors import StagedTableError
from watersmeet.operators.enrich.candidates import Found
from watersmeet.operators.enrich.partitions import INDEX, PartitionWriter
from watersmeet.operators.enrich.table import TableShard
from watersmeet.rows.columns import Bools, Ints
from watersmeet.state.cache import TOUCH_SECONDS

_KEYS = "keys"
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
    partitions: tuple[pa.RecordBatch, ...]
    nbytes: int

    @classmethod
    def open(cls, base: str) -> HotKeys | None:
        """The cache whose files begin so; None if it has been lost."""
        try:
            _touch(base)
            keys = np.memmap(base + _KEYS, np.int64, "r+").reshape(3, -1)
            table = TableShard.open(base)
            partitions = tuple(table.partition(number).rows for number in range(len(table)))
        except (OSError, ValueError, StagedTableError):
            return None
        if sum(map(len, partitions)) != keys[1].sum():
            return None
        size = table.nbytes + KEY_BYTES * keys.shape[1]
        return cls(keys[0], keys[1], keys[2], partitions, size)

    @classmethod
    def write(
        cls,
        base: str,
        codes: Ints,
        rows: Ints,
        counts: Ints,
        master: Iterable[pa.RecordBatch],
        *,
        partition: int,
    ) -> None:
        """Write a cache: its keys, and their master rows in order."""
        writer = PartitionWriter(base, partition)
        for batch in master:
            writer.add(batch)
        writer.close()
        assert writer.total("rows") == rows.sum(), "every cached key has all of its rows"
        temporary = f"{base}{_KEYS}.{os.getpid()}.tmp"
        np.stack([codes, rows, counts]).astype(np.int64).tofile(temporary)
        os.replace(temporary, base + _KEYS)

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

    def found(self, mine: Ints, keys: Ints, *, backwards: bool = False) -> Iterator[Found]:
        """Where the master rows of stream rows are, given as positions, that have these keys;
        the partitions in order, or ``backwards``."""
        ends = np.cumsum(self.rows)
        low, high = (ends - self.rows)[keys], ends[keys]
        placed = [*self._placed()]
        for offset, partition in reversed(placed) if backwards else placed:
            stop = offset + len(partition)
            inside = np.flatnonzero((low < high) & (low < stop) & (high > offset))
            first = np.maximum(low[inside], offset) - offset
            last = np.minimum(high[inside], stop) - offset
            yield Found(partition, mine[inside], first, last)

    def master(self, keep: Bools) -> Iterator[pa.RecordBatch]:
        """The master rows of some of the keys, in order."""
        of_row = np.repeat(keep, self.rows)
        for offset, partition in self._placed():
            yield partition.filter(pa.array(of_row[offset : offset + len(partition)]))

    def _placed(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The partitions, each with the number of rows before it."""
        offset = 0
        for partition in self.partitions:
            yield offset, partition
            offset += len(partition)


def discard(base: str) -> None:
    """Delete a cache's files, if they are there."""
    for path in _files(base):
        with contextlib.suppress(OSError):
            os.unlink(path)


def _touch(base: str) -> None:
    """Mark the files as used, lest they be evicted as idle. (Counting touches that of the keys
    alone.)"""
    if time.time() - os.stat(base + INDEX).st_mtime > TOUCH_SECONDS:
        for path in _files(base):
            os.utime(path)


def _files(base: str) -> list[str]:
    return glob.glob(glob.escape(base) + "*")
