"""The rows of one shard of a table as files: sorted by key code, cut into partitions.

    <base>index.arrow      one row for each partition: what it holds, in order of the codes
    <base>filter           bits, one set for each code of a partition
    <base>fences           some of the codes of each partition
    <base><number>.arrow   a partition: one record batch, uncompressed, to be mapped

The first three end with a checksum (:mod:`.files`); of a partition, the index has the size.

Invariant: rows ascend by (code, time) through all partitions. So the rows of a key are together:
in one partition, or in some that follow one another. No row has a null code. A file that is
there is complete and never changes. It is on the disk before its writer is closed: a host that
fails leaves no table that only seems complete.

Rule: partitions take about the same number of bytes. Where the rows of a key are cut, both
partitions have its code in their bounds.

``base`` is what the paths of all files begin with: a folder, or a folder and the start of a name.

**Filters and fences** say where a code is, with few pages of the partitions touched. By its filter,
most codes that a partition does not have are known not to be there. And a binary search jumps
through the whole column: for each code it waits for some twenty places, one after the other, each
of them in another part of memory, or of a disk. So every 64th code is kept apart, as a *fence*. The
fences of a partition are few, and stay at hand. Between two of them are 64 codes: half a kilobyte
of the column, in one page, or two. All codes that are looked for are halved towards together, so
the memory is asked for many places at a time.

Invariant: the first row whose code is at least c is behind the last fence that is less than c, and
not behind the next one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.rows import ipc
from watersmeet.rows.columns import Ints, codes_of
from watersmeet.rows.gathering import Gathering
from watersmeet.rows.widths import sliced
from watersmeet.segments.segment import Segment
from watersmeet.table.files import write_with_checksum

#: A filter has at least this number of bits for each different code of its partition.
FILTER_BITS = 16
#: From fence to fence: a power of two.
FENCE_STEP = 64

#: 2**64 divided by the golden ratio: Fibonacci hashing spreads runs of integers.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

INDEX = "index.arrow"
FILTER = "filter"
FENCES = "fences"
#: The files that all partitions share.
SHARED = (INDEX, FILTER, FENCES)
#: The ``rows`` of a partition, what they take in ``memory``, and in the file (``bytes``), both in
#: bytes, and what the ``widest`` row takes; the ``least`` and the ``greatest`` code in it; where
#: its filter begins, in bytes, and of how many bits it is the power of two.
_COLUMNS = ("rows", "memory", "bytes", "widest", "least", "greatest", "filter_at", "filter_bits")
INDEX_SCHEMA = pa.schema([(name, pa.int64()) for name in _COLUMNS])
#: A partition is gathered from slices of this part of it, so that partitions are about equal.
_SLICES = 16


@dataclass
class PartitionWriter:
    """Writes the rows of one shard, which come in order, as partitions.

    ``at_most`` bytes of rows are a partition. Only wide rows may make it more."""

    base: str
    at_most: int
    index: list[dict[str, int]] = field(default_factory=list)
    _gathering: Gathering = field(init=False)
    _filters: list[bytes] = field(default_factory=list)
    _fences: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        os.makedirs(os.path.dirname(self.base), exist_ok=True)
        # What is gathered exceeds its limit by a slice at most, or by a wide row.
        self._gathering = Gathering(rows=1 << 31, size=max(1, self.at_most - self._slice))

    @property
    def _slice(self) -> int:
        return max(1, self.at_most // _SLICES)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that follow all rows before."""
        for part in sliced(rows, self._slice):
            for gathered in self._gathering.add(part):
                self._write(gathered)

    def close(self) -> int:
        """Write what is left, then the index; the bytes of all files."""
        for gathered in self._gathering.rest():
            self._write(gathered)
        index = pa.BufferOutputStream()
        ipc.write_file(pa.RecordBatch.from_pylist(self.index, INDEX_SCHEMA), index)
        write_with_checksum(self.base + FILTER, b"".join(self._filters))
        write_with_checksum(self.base + FENCES, b"".join(self._fences))
        write_with_checksum(self.base + INDEX, index.getvalue().to_pybytes())
        return self.total("bytes") + sum(os.path.getsize(self.base + name) for name in SHARED)

    def total(self, name: str) -> int:
        """The sum of a column of the index."""
        return sum(entry[name] for entry in self.index)

    def _write(self, rows: pa.RecordBatch) -> None:
        codes = codes_of(rows)
        assert (codes[1:] >= codes[:-1]).all(), "rows of a partition ascend by code"
        greatest = self.index[-1]["greatest"] if self.index else codes[0]
        assert codes[0] >= greatest, "partitions ascend by code"
        path = partition_path(self.base, len(self.index))
        write_file(path, rows)
        bits, packed = filter_of(codes)
        self.index.append(
            {
                "rows": len(rows),
                "memory": rows.nbytes,
                "bytes": os.path.getsize(path),
                "widest": Segment.of(rows).widest,
                "least": int(codes[0]),
                "greatest": int(codes[-1]),
                "filter_at": sum(map(len, self._filters)),
                "filter_bits": bits,
            }
        )
        self._filters.append(packed)
        self._fences.append(fences_of(codes).tobytes())


def partition_path(base: str, number: int) -> str:
    """The file of a partition."""
    return f"{base}{number}.arrow"


def bytes_in(base: str) -> int:
    """The bytes of all files that are in a folder that is a base. If one of them is gone, or cut,
    they are fewer than were written: each had some."""
    try:
        with os.scandir(base) as entries:
            ours = (entry for entry in entries if entry.name in SHARED or is_partition(entry.name))
            return sum(entry.stat().st_size for entry in ours)
    except FileNotFoundError:  # another error does not say that it is gone
        return 0


def is_partition(name: str) -> bool:
    """Is this the name of a partition's file in a folder that is a base?

    >>> [is_partition(name) for name in ("12.arrow", "index.arrow", "12.arrow.7.tmp")]
    [True, False, False]
    """
    number, dot, suffix = name.partition(".")
    return number.isdecimal() and (dot, suffix) == (".", "arrow")


def write_file(path: str, rows: pa.RecordBatch) -> None:
    """Rows as an Arrow file; it is there as a whole, and on the disk, or not at all."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with pa.OSFile(temporary, "wb") as sink:
        ipc.write_file(rows, sink)
        os.fsync(sink.fileno())
    os.replace(temporary, path)


# -- filters ------------------------------------------------------------------------


def filter_of(codes: Ints) -> tuple[int, bytes]:
    """A bit table with the bits set of where sorted codes are hashed to: the power of two of its
    size, and its bytes.

    >>> bits, packed = filter_of(np.array([5, 5, 9]))
    >>> bits, len(packed), sum(byte.bit_count() for byte in packed)
    (6, 8, 2)
    """
    different = codes[np.append(True, codes[1:] != codes[:-1])]
    bits = max(6, (FILTER_BITS * len(different)).bit_length())
    table = np.zeros(1 << bits, dtype=np.bool_)
    table[filter_places(different, np.uint64(bits))] = True
    return bits, np.packbits(table).tobytes()


def filter_places(codes: Ints, bits: np.ndarray | np.uint64) -> Ints:
    """Where codes are hashed to, in tables of two to the power of ``bits`` places."""
    with np.errstate(over="ignore"):
        spread = codes.view(np.uint64) * _GOLDEN
    places: Ints = (spread >> (np.uint64(64) - bits)).view(np.int64)
    return places


# -- fences -------------------------------------------------------------------------


def fences_of(codes: Ints) -> Ints:
    """The fences of codes that ascend.

    >>> fences_of(np.arange(130)).tolist()
    [0, 64, 128]
    """
    return codes[::FENCE_STEP]


def fence_count(rows: Ints) -> Ints:
    """How many fences partitions of so many rows have.

    >>> fence_count(np.array([1, 64, 65])).tolist()
    [1, 1, 2]
    """
    return -(-rows // FENCE_STEP)


def first_at_least(stored: Ints, fences: Ints, codes: Ints) -> Ints:
    """For each of some codes, the first of the stored ones, which ascend, that is not less; their
    number if there is none.

    >>> stored = np.arange(0, 400, 2)
    >>> first_at_least(stored, fences_of(stored), np.array([-1, 0, 7, 398, 500])).tolist()
    [0, 0, 4, 199, 200]
    """
    first: Ints = np.maximum(np.searchsorted(fences, codes) - 1, 0) * FENCE_STEP
    step = FENCE_STEP // 2
    while step:
        first += step * (stored.take(first + (step - 1), mode="clip") < codes)
        step //= 2
    first += stored.take(first, mode="clip") < codes
    return np.minimum(first, len(stored))
