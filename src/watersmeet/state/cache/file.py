"""One segment in one file of the local cache.

Invariant: a segment is read exactly as it was written, or an error is raised. A file is never seen
half written: it gets its name when it is complete. Only its user may read it (mode 0600).

Rule: a file holds the rows, and the index if there is one, as uncompressed Arrow, which is mapped
and used without decoding. Behind that is a checksum of the content and of the segment's id. A
process checks a file when it reads it for the first time, and again when the file has changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeVar

import pyarrow as pa

from watersmeet.rows import ipc
from watersmeet.segments.segment import Segment
from watersmeet.state.cache.checksum import CHECKSUM_BYTES, checksum
from watersmeet.state.cache.eviction import temporary_affixes

#: The time of a file's last use is exact to this many seconds.
TOUCH_SECONDS = 60

#: Raised when the content of files changes.
_FORMAT = 1

#: A file's path, inode, time of modification and size. If the file changes, one of them does.
_Identity = tuple[str, int, int, int]
_Known = TypeVar("_Known")

#: A process remembers this many files that it has checked or written.
CHECKED_FILES = 4096
_checked: OrderedDict[_Identity, None] = OrderedDict()

#: Opening a file takes a tenth of a millisecond, about as long as a probe of a small segment. So a
#: process keeps this many small ones open. Their files take at most ``OPEN_BYTES`` each.
OPEN_FILES = 64
OPEN_BYTES = 256 << 10
_open: OrderedDict[_Identity, Segment] = OrderedDict()


def write_file(path: str, segment_id: str, segment: Segment) -> int:
    """Write a segment; the size of its file in bytes."""
    batch = segment.to_batch()
    with whole_file(path) as temporary:
        # Append to the empty file. If it were truncated, ext4 would flush it to the disk when it is
        # closed, which takes ten times as long.
        with pa.OSFile(temporary, "ab") as sink:
            ipc.write_file(batch, sink)
        with open(temporary, "r+b") as file:
            written = checksum(_mapped(file.fileno()), _label(segment_id))
            file.seek(0, os.SEEK_END)
            file.write(written)
        status = os.stat(temporary)
    _remember(_checked, _identity(path, status), None, CHECKED_FILES)
    return status.st_size


def read_file(path: str, segment_id: str, *, keep_open: bool) -> Segment:
    """The segment in a file. An OSError says that the file cannot be opened, any other error that
    it is damaged. ``keep_open``: may this process keep it open, if it is small?"""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise ValueError("not a file of this user")
        if time.time() - status.st_atime > TOUCH_SECONDS:
            # It was used now, and has not changed.
            with contextlib.suppress(OSError):
                os.utime(descriptor, ns=(time.time_ns(), status.st_mtime_ns))
        identity = _identity(path, status)
        segment = _open.get(identity)
        if segment is None:
            content = _mapped(descriptor)
            arrow = content.slice(0, content.size - CHECKSUM_BYTES)
            if identity not in _checked:
                _check(arrow, segment_id, content.slice(arrow.size))
            segment = Segment.from_batch(pa.ipc.open_file(arrow).get_batch(0))
    finally:
        os.close(descriptor)
    _remember(_checked, identity, None, CHECKED_FILES)
    if keep_open and status.st_size <= OPEN_BYTES:
        _remember(_open, identity, segment, OPEN_FILES)
    return segment


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """The path of a temporary file, to be written in the block. After the block it gets the given
    path; after an error it is deleted. In the block it is locked, so that other processes see that
    its writer lives."""
    folder, name = os.path.split(path)
    prefix, suffix = temporary_affixes(name)
    descriptor, temporary = tempfile.mkstemp(suffix, prefix, folder)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)


def close_files() -> None:
    """Close the small segments that this process keeps open: an open file takes room on the disk
    even when it is deleted."""
    _open.clear()


def forget() -> None:
    """Forget all files that this process knows, as if it were a new one."""
    _checked.clear()
    _open.clear()


def _mapped(descriptor: int) -> pa.Buffer:
    """A file's content, mapped into memory for as long as the buffer is in use. (The file stays
    open for that long, too: Python's maps hold a descriptor.)"""
    return pa.py_buffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))


def _check(arrow: pa.Buffer, segment_id: str, written: pa.Buffer) -> None:
    if checksum(arrow, _label(segment_id)) != written.to_pybytes():
        raise ValueError("the checksum is wrong")


def _identity(path: str, status: os.stat_result) -> _Identity:
    return path, status.st_ino, status.st_mtime_ns, status.st_size


def _label(segment_id: str) -> str:
    """What the checksum covers besides the content."""
    return f"{_FORMAT} {segment_id}"


def _remember(
    known: OrderedDict[_Identity, _Known], identity: _Identity, value: _Known, limit: int
) -> None:
    """Put the file last among the known ones; the first ones leave when there are too many."""
    known[identity] = value
    known.move_to_end(identity)
    if len(known) > limit:
        known.popitem(last=False)
