"""A file that ends with its checksum, so that damage is noticed before anything is read of it.

Rule: a file is its content and, behind that, the checksum of the content, taken piece by piece: to
check a file of any size takes the memory of one piece. The checksum covers the file's name too, so
that no file is taken for another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from io import BufferedRandom, BufferedReader

import pyarrow as pa

from watersmeet.errors import StagedTableError
from watersmeet.state.cache.checksum import CHECKSUM_BYTES, checksum

#: So much of a file is checked at a time.
_PIECE = 1 << 20


def write_checked(path: str, content: bytes) -> None:
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
        raise unreadable(path, error) from error
    raise damaged(path, "its checksum is wrong")


def damaged(path: str, what: object) -> StagedTableError:
    """What is said of a file that is not as it was. It is deleted: then the table is not whole any
    more, and is staged anew when a query starts."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    return unreadable(path, what)


def unreadable(path: str, what: object) -> StagedTableError:
    """What is said of a file of a staged table that is not there, or not as it was."""
    return StagedTableError(
        f"the staged table cannot be read: {path}: {what}. Call wm.enrich again, and start the "
        "query from what it gives: that stages the table anew if its files are not there as a "
        "whole. Nothing is lost."
    )


def _checksum(file: BufferedReader | BufferedRandom, size: int) -> bytes:
    """The checksum of that much of a file, which is then read as far."""
    name = os.path.basename(file.name)
    digest = hashlib.blake2b(f"{name} {size}".encode(), digest_size=CHECKSUM_BYTES)
    file.seek(0)
    for start in range(0, size, _PIECE):
        piece = file.read(min(_PIECE, size - start))
        digest.update(checksum(pa.py_buffer(piece), ""))
    return digest.digest()
