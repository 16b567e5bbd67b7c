"""Looking codes up in a table: which partitions may hold them, how many rows they have there, and
those rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import Bools, Ints, codes_of
from watersmeet.rows.widths import cuts, range_bytes, row_bytes
from watersmeet.segments.probe import spread
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import LIMITS
from watersmeet.table.partitions import first_at_least
from watersmeet.table.shard import TableShard


@dataclass(frozen=True)
class MasterRanges:
    """Where master rows are: those of stream row ``mine[i]`` are rows ``low[i]`` to before
    ``high[i]`` of the ``master`` rows, which are a partition, or were fetched from several. Of a
    key that has rows in several places, a stream row is there several times."""

    master: Segment
    mine: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True)
class DistinctCodes:
    """The different codes of rows that ascend by code: row ``starts[i]`` to before
    ``starts[i + 1]`` have ``codes[i]``."""

    codes: Ints
    starts: Ints

    @classmethod
    def of(cls, codes: Ints) -> DistinctCodes:
        """What rows with such codes ask for.

        >>> asked = DistinctCodes.of(np.array([4, 4, 7]))
        >>> asked.codes.tolist(), asked.starts.tolist()
        ([4, 7], [0, 2, 3])
        """
        first = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])) if len(codes) else codes
        return cls(codes[first], np.append(first, len(codes)))

    def ranges(self, master: Segment, keys: Ints, low: Ints, high: Ints) -> MasterRanges:
        """Where the master rows of each row are, given where those of each key are; keys by their
        number. One that has rows in several places is named for each.

        >>> keys, low, high = np.array([0, 1, 0]), np.array([8, 5, 2]), np.array([9, 6, 4])
        >>> ranges = DistinctCodes.of(np.array([4, 4, 7])).ranges(None, keys, low, high)
        >>> ranges.mine.tolist(), ranges.low.tolist(), ranges.high.tolist()
        ([0, 1, 2, 0, 1], [8, 8, 5, 2, 2], [9, 9, 6, 4, 4])
        """
        rows = spread(self.starts[keys], self.starts[keys + 1], 1 << 62)
        number, mine = next(rows, (keys[:0], keys[:0]))
        return MasterRanges(master, mine, low[number], high[number])

    def of_rows(self, of_keys: Bools) -> Bools:
        """What is true of keys, for each row."""
        return np.repeat(of_keys, np.diff(self.starts))


@dataclass(frozen=True)
class Visits:
    """Which partitions are read for different codes that ascend.

    ``wanted`` are the positions of the codes that may be in the table, layer after layer; they
    ascend for each layer. For each of the ``partitions``, ``low`` and ``high`` are the range of
    them that may be there."""

    wanted: Ints
    partitions: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, table: TableShard, codes: Ints) -> Visits:
        visits, wanted = [], 0
        for start, layer, asked in table.asked(codes):
            first, last = table.homes(layer, codes[asked])
            some = cls._in_layer(len(layer), first, last)
            low, high = wanted + some.low, wanted + some.high
            visits.append((asked[some.wanted], start + some.partitions, low, high))
            wanted += len(some.wanted)
        return cls(*map(np.concatenate, zip(*visits, strict=True)))

    @classmethod
    def _in_layer(cls, partitions: int, first: Ints, last: Ints) -> Visits:
        """Those in a layer of so many partitions, given which of them may hold each code."""
        wanted = np.flatnonzero(first < last)
        first, last = first[wanted], last[wanted]
        # Both ascend with the codes, so that the codes of a partition are a range.
        numbers = np.arange(partitions)
        low = np.searchsorted(last, numbers, side="right")
        high = np.searchsorted(first, numbers, side="right")
        needed = np.flatnonzero(low < high)
        return cls(wanted, needed, low[needed], high[needed])

    @property
    def keys(self) -> Ints:
        """How many codes may be in each of the partitions."""
        return self.high - self.low

    def sizes(self, table: TableShard) -> Ints:
        """The bytes of the partitions."""
        return table.bytes[self.partitions]


def code_ranges(stored: Ints, fences: Ints, codes: Ints) -> tuple[Ints, Ints, Ints]:
    """Which of some different codes are among the stored ones, which have such fences, and from
    where to where. Both ascend.

    >>> stored, fences = np.array([3, 5, 5, 9]), np.array([3])
    >>> there, low, high = code_ranges(stored, fences, np.array([2, 5, 9, 11]))
    >>> there.tolist(), low.tolist(), high.tolist()
    ([1, 2], [1, 3], [3, 4])
    """
    low = first_at_least(stored, fences, codes)
    there = np.flatnonzero(stored.take(low, mode="clip") == codes)
    low = low[there]
    high = low + 1
    # Most keys have one row. Of the others, the end is searched for.
    more = np.flatnonzero(stored.take(high, mode="clip") == codes[there])
    high[more] = np.searchsorted(stored, codes[there[more]], side="right")
    return there, low, high


def ascending(rows: pa.RecordBatch, *, stable: bool = True) -> pa.RecordBatch:
    """The same rows, in the order of their codes. Those of one code stay as they are if that is
    to be ``stable``, which takes four times as long."""
    codes = codes_of(rows)
    if (codes[1:] >= codes[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(codes, kind="stable" if stable else None)))


def master_sizes(table: TableShard, codes: Ints) -> tuple[Ints, Ints]:
    """How many rows each of some different codes has, which ascend, and the bytes of these."""
    counts, sizes = np.zeros((2, len(codes)), dtype=np.int64)
    for partition, positions, low, high in _ranges(table, codes):
        counts[positions] += high - low
        sizes[positions] += range_bytes(partition.rows, low, high)
        del partition
    return counts, sizes


def master_rows(
    table: TableShard, codes: Ints, *, piece: int, rows: int = LIMITS.piece_rows
) -> Iterator[pa.RecordBatch]:
    """The rows of some different codes, which ascend, in pieces of so many bytes and ``rows`` at
    most: in order, layer after layer."""
    for partition, _, low, high in _ranges(table, codes):
        for _, places in spread(low, high, rows):
            for run in cuts(row_bytes(partition.rows, places), len(places), piece):
                yield partition.rows.take(pa.array(places[run]))
        del partition


def _ranges(table: TableShard, codes: Ints) -> Iterator[tuple[Segment, Ints, Ints, Ints]]:
    """For each partition that may hold some codes: itself, the positions of the codes that it
    holds, and where they are in it. Whoever has used it drops it, so that it is not mapped any more
    when the next one is."""
    visits = Visits.of(table, codes)
    for number, low, high in zip(visits.partitions, visits.low, visits.high, strict=True):
        positions = visits.wanted[low:high]
        partition = table.partition(int(number))
        fences = table.fences_of(int(number))
        there, first, last = code_ranges(codes_of(partition.rows), fences, codes[positions])
        yield partition, positions[there], first, last
        del partition
