"""The files of a staged table: how they are written, checked, and mapped into memory.

Rule: a file that all partitions share is its content and, behind that, the checksum of the content.
So damage is noticed before anything is read of it. The checksum is taken piece by piece: to check a
file of any size takes the memory of one piece. It covers the file's name too, so that no file is
taken for another one.

A partition has no checksum: all of it would have to be read, where a few pages are enough. Its size
is known, and it is mapped into memory.

**Pages.** A page of a mapped file is in memory when it has been touched; and it stays there, as
long as the system has room. The processes of a host share it, but each of them is charged with it.
So a process that is to take less gives pages back: it keeps the map, and the next touch finds the
page again, as a rule in what the system keeps of files in otherwise free memory.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import sys
from dataclasses import dataclass
from io import BufferedRandom, BufferedReader
from typing import Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import StagedTableError
from watersmeet.state.cache.checksum import CHECKSUM_BYTES, checksum

#: So much of a file is checked at a time.
_PIECE = 1 << 20
#: Where a file cannot be read by mapping it, a scan reads this many bytes at a time.
_READ_BYTES = 1 << 20
#: ``MADV_POPULATE_READ`` of Linux 5.14 and newer, which Python does not name.
_POPULATE_READ = 22

#: How much of a partition is going to be touched. Where it is ``"some"``, pages come in as they are
#: touched, without reading ahead. Where it is ``"most"``, Linux is asked for pages of 2 MB: then it
#: can be touched, now and later, with few page faults. ``"all"`` is read now.
Extent = Literal["some", "most", "all"]

Number = TypeVar("Number", bound=np.generic)


# -- files that end with their checksum ---------------------------------------------


def write_with_checksum(path: str, content: bytes) -> None:
    """Write a file that ends with its checksum; it is on the disk then."""
    with open(path, "w+b") as file:
        file.write(content)
        file.write(_checksum(file, len(content)))
        file.flush()
        os.fsync(file.fileno())


def check(path: str) -> int:
    """The length of a file's content, if it is as it was written."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size - CHECKSUM_BYTES
            if size >= 0 and _checksum(file, size) == file.read():
                return size
    except OSError as error:
        raise read_error(path, error) from error
    raise damage_error(path, "its checksum is wrong")


def _checksum(file: BufferedReader | BufferedRandom, size: int) -> bytes:
    """The checksum of that much of a file, which is then read as far."""
    name = os.path.basename(file.name)
    digest = hashlib.blake2b(f"{name} {size}".encode(), digest_size=CHECKSUM_BYTES)
    file.seek(0)
    for start in range(0, size, _PIECE):
        piece = file.read(min(_PIECE, size - start))
        digest.update(checksum(pa.py_buffer(piece), ""))
    return digest.digest()


def read_rows(path: str, size: int) -> pa.RecordBatch:
    """The only record batch in that much of a file."""
    try:
        with open(path, "rb") as file:
            return pa.ipc.open_file(file.read(size)).get_batch(0)
    except (OSError, ValueError) as error:
        raise read_error(path, error) from error


# -- files that are mapped into memory ----------------------------------------------


@dataclass(frozen=True)
class MappedNumbers(Generic[Number]):
    """Some ``numbers``, and the ``file`` that they are mapped from."""

    numbers: npt.NDArray[Number]
    file: mmap.mmap

    @classmethod
    def open(cls, path: str, kind: type[Number], size: int) -> MappedNumbers[Number]:
        """The numbers in that many bytes of a file."""
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            return cls(np.frombuffer(mapped, kind, size // np.dtype(kind).itemsize), mapped)
        except (OSError, ValueError) as error:
            raise read_error(path, error) from error

    def give_back(self) -> None:
        """Give back the pages that this process has touched."""
        self.file.madvise(mmap.MADV_DONTNEED)


def map_rows(path: str, size: int, extent: Extent) -> pa.RecordBatch:
    """The only record batch of a file of that size, mapped into memory, to be touched so much."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                raise damage_error(path, f"{found:,} bytes instead of {size:,}")
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            if extent == "some":
                mapped.madvise(mmap.MADV_RANDOM)
            elif hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):  # a kernel may have been built without
                    mapped.madvise(mmap.MADV_HUGEPAGE)
            if extent == "all":
                _read_all(mapped, file)
        return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).get_batch(0)
    except OSError as error:
        raise read_error(path, error) from error
    except ValueError as error:
        raise damage_error(path, error) from error


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


# -- files that are not as they were ------------------------------------------------


def damage_error(path: str, what: object) -> StagedTableError:
    """What is said of a file that is not as it was. It is deleted: then the table is not whole any
    more, and is staged anew when a query starts."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    return read_error(path, what)


def read_error(path: str, what: object) -> StagedTableError:
    """What is said of a file of a staged table that is not there, or not as it was."""
    return StagedTableError(
        f"the staged table cannot be read: {path}: {what}. Call wm.enrich again, and start the "
        "query from what it gives: that stages the table anew if its files are not there as a "
        "whole. Nothing is lost."
    )
