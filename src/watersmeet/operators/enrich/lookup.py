"""Looking codes up in a table: which partitions may hold them, how many rows they have there, and
those rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.operators.enrich.table import Layer, TableShard, codes_in_order
from watersmeet.rows.columns import Ints
from watersmeet.rows.output import PIECE
from watersmeet.rows.widths import row_bytes, runs
from watersmeet.state.probe import Ranges, probe, spread
from watersmeet.state.segment import Segment


@dataclass(frozen=True)
class Visits:
    """Which partitions are read for codes that ascend.

    ``wanted`` are the positions of the codes that may be in the table, layer after layer; they
    ascend for each layer. For each of the ``partitions``, ``low`` and ``high`` are the range of
    them that may be there, and ``keys`` counts the different codes among those."""

    wanted: Ints
    partitions: Ints
    low: Ints
    high: Ints
    keys: Ints

    @classmethod
    def of(cls, table: TableShard, codes: Ints) -> Visits:
        visits, wanted = [], 0
        for start, layer, asked in table.asked(codes):
            some = cls._in_layer(layer, codes[asked])
            visits.append(
                (
                    asked[some.wanted],
                    start + some.partitions,
                    wanted + some.low,
                    wanted + some.high,
                    some.keys,
                )
            )
            wanted += len(some.wanted)
        return cls(*map(np.concatenate, zip(*visits, strict=True)))

    @classmethod
    def _in_layer(cls, layer: Layer, codes: Ints) -> Visits:
        first, last = layer.homes(codes)
        wanted = np.flatnonzero(first < last)
        first, last, codes = first[wanted], last[wanted], codes[wanted]
        # Both ascend with the codes, so that the codes of a partition are a range.
        numbers = np.arange(len(layer))
        low = np.searchsorted(last, numbers, side="right")
        high = np.searchsorted(first, numbers, side="right")
        needed = np.flatnonzero(low < high)
        low, high = low[needed], high[needed]
        # A range begins with a new code: partitions that share a code share all of its rows.
        changes = np.concatenate([[0], np.cumsum(codes[1:] != codes[:-1])])
        keys = changes[high - 1] - changes[low] + 1 if len(low) else low
        return cls(wanted, needed, low, high, keys)

    def sizes(self, table: TableShard) -> Ints:
        """The bytes of the partitions."""
        return table.bytes[self.partitions]


def master_counts(table: TableShard, codes: Ints) -> Ints:
    """How many rows each of some different codes has, which ascend."""
    counts = np.zeros(len(codes), dtype=np.int64)
    for _, positions, ranges in _ranges(table, codes):
        counts[positions[ranges.searchers]] += ranges.high - ranges.low
    return counts


def master_rows(table: TableShard, codes: Ints, *, piece: int) -> Iterator[pa.RecordBatch]:
    """The rows of some different codes, which ascend, in pieces: in order, layer after layer."""
    for partition, _, ranges in _ranges(table, codes):
        for _, places in spread(ranges.low, ranges.high, PIECE):
            for run in runs(row_bytes(partition.rows, places), len(places), piece):
                yield partition.rows.take(pa.array(places[run]))


def _ranges(table: TableShard, codes: Ints) -> Iterator[tuple[Segment, Ints, Ranges]]:
    """For each partition that may hold some codes: itself, the positions of these codes, and
    where they are in it."""
    visits = Visits.of(table, codes)
    for number, low, high in zip(visits.partitions, visits.low, visits.high, strict=True):
        positions = visits.wanted[low:high]
        partition = table.partition(int(number))
        wanted = codes_in_order(codes[positions])
        yield partition, positions, probe(wanted, partition, None, None)
