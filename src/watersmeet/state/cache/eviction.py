"""Which files of the local cache are deleted, and when.

Invariant: only regular files with a name of ours are deleted, and symbolic links are never
followed. A deleted file costs time, never a result.

Rule: the least recently used files are evicted while all of them take more than the capacity. A
file was used when it was written, or when a process set its time of access. Besides these:

- files that nobody has used for a day: their query has ended;
- temporary files whose writer is dead, or that are too old to be still written;
- the same files in the user's folders of earlier boots; and these folders, when they are empty.

**Example.** The capacity is 100 MB, and these files are in the folder::

    file                 size    last used     becomes
    A                    40 MB   now           kept
    B, being written     15 MB   now           kept, and counts as the others do
    C                    40 MB   an hour ago   kept: 95 MB so far
    D                    40 MB   3 hours ago   evicted: 135 MB would be too much
    E                    1 MB    4 hours ago   evicted, because it is older than D
    F                    5 MB    2 days ago    deleted, because it is idle
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.state.cache.folder import other_folders

#: A file that nobody has used for this many seconds belongs to a query that has ended.
IDLE_SECONDS = 24 * 3600
#: No writer takes longer than this many seconds for a file.
WRITING_SECONDS = 600
#: A process looks into the folders of earlier boots once in so many seconds.
SWEEP_SECONDS = 3600

#: ``<id>.segment``; ``<id>.counts``, in which an operator counts; and a file that is being written:
#: ``<name>.<random>.tmp``.
_OURS = re.compile(r"[^.]+\.(segment|counts)|.+\.\w{8}(?P<temporary>\.tmp)")

#: When this process has last looked into the folders of earlier boots, by its own folder.
_swept: dict[str, float] = {}


def file_name(segment_id: str) -> str:
    """The name of a segment's file."""
    return f"{segment_id}.segment"


def counts_name(name: str) -> str:
    """The name of a file in which something is counted."""
    return f"{name}.counts"


def temporary_affixes(name: str) -> tuple[str, str]:
    """The beginning and the end of a file's name while it is written; eight random letters are
    between."""
    return f"{name}.", ".tmp"


@dataclass(frozen=True)
class _File:
    """A file of ours. A temporary one is not complete."""

    path: str
    size: int
    used: float
    temporary: bool

    @property
    def useless(self) -> bool:
        age = time.time() - self.used
        if self.temporary:
            return age > WRITING_SECONDS or not _locked(self.path)
        return age > IDLE_SECONDS


def evict(folder: str, capacity: int, *, room: int = 0) -> None:
    """Delete useless files, and the least recently used files beyond the capacity.

    ``room``: the disk is full, and so many bytes are needed. They are freed, and a tenth of the
    files' bytes as well, so that the disk is not full again at once."""
    files = []
    for file in _files(folder):
        if file.useless:
            _delete(file.path)
        else:
            files.append(file)
    if room:
        capacity = min(capacity, sum(file.size for file in files) * 9 // 10 - room)
    kept = 0
    for file in sorted(files, key=lambda file: file.used, reverse=True):
        kept += file.size
        if kept > capacity and not file.temporary:
            _delete(file.path)
    _sweep(folder)


def _sweep(folder: str) -> None:
    """Delete useless files in the user's other folders, and the folders that are empty."""
    now = time.time()
    if now - _swept.get(folder, 0) < SWEEP_SECONDS:
        return
    _swept[folder] = now
    for other in other_folders(folder):
        with contextlib.suppress(OSError):
            for file in _files(other):
                if file.useless:
                    _delete(file.path)
            os.rmdir(other)


def _files(folder: str) -> Iterator[_File]:
    """The files of ours in the folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = _OURS.fullmatch(entry.name)
            with contextlib.suppress(OSError):  # deleted meanwhile
                status = entry.stat(follow_symlinks=False)
                if name and stat.S_ISREG(status.st_mode):
                    used = max(status.st_atime, status.st_mtime)
                    yield _File(entry.path, status.st_size, used, bool(name["temporary"]))


def _locked(path: str) -> bool:
    """Does a living process still write the file? It holds a lock on it; a dead one holds none."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _delete(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
