"""Which files of the local cache are deleted, and when.

Invariant: only regular files with a name of ours are deleted, and symbolic links are never
followed. A deleted file costs time, never a result.

Rule: the least recently used files are evicted while all of them take more than the capacity. A
file was used when it was written, or when a process set its time of access. Besides these:

- files that nobody has used for a day: their query has ended;
- temporary files whose writer is dead, or too old to be still written;
- the user's folders of earlier boots, a day after their last use.
"""

from __future__ import annotations

import contextlib
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
#: So often, in seconds, a process looks for folders of earlier boots.
SWEEP_SECONDS = 3600

#: ``<id>.segment``; and a file that is being written: ``<name>.<process>.<random>.tmp``.
_OURS = re.compile(r"[^.]+\.segment|.+\.(?P<writer>\d+)\.\w+\.tmp")

#: When this process has last looked for folders of earlier boots, by folder.
_swept: dict[str, float] = {}


def file_name(segment_id: str) -> str:
    """The name of a segment's file."""
    return f"{segment_id}.segment"


def temporary_affixes(name: str) -> tuple[str, str]:
    """While this process writes a file, its name begins and ends so, with a random word between."""
    return f"{name}.{os.getpid()}.", ".tmp"


@dataclass(frozen=True)
class _File:
    """A file of ours. ``writer`` is the process that writes it; None if it is complete."""

    path: str
    size: int
    used: float
    writer: int | None

    @property
    def useless(self) -> bool:
        age = time.time() - self.used
        if self.writer is None:
            return age > IDLE_SECONDS
        return age > WRITING_SECONDS or not _alive(self.writer)


def evict(folder: str, capacity: int, *, room: int = 0) -> None:
    """Delete what is useless, and the least recently used files beyond the capacity.

    ``room`` says that the disk is full, and how many bytes are needed. They are freed, and a tenth
    of what is there, so that the disk is not full again at once."""
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
        if kept > capacity and file.writer is None:
            _delete(file.path)
    _sweep(folder)


def _sweep(folder: str) -> None:
    """Delete the user's other folders, if nobody has used anything in them for a day."""
    now = time.time()
    if now - _swept.get(folder, 0) < SWEEP_SECONDS:
        return
    _swept[folder] = now
    with contextlib.suppress(OSError):
        for other in other_folders(folder):
            with contextlib.suppress(OSError), os.scandir(other) as entries:
                used = {e.path: _last_used(e.stat(follow_symlinks=False)) for e in entries}
                if max([os.lstat(other).st_mtime, *used.values()]) < now - IDLE_SECONDS:
                    for path in used:
                        os.unlink(path)
                    os.rmdir(other)


def _files(folder: str) -> Iterator[_File]:
    """The files of ours in the folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = _OURS.fullmatch(entry.name)
            with contextlib.suppress(OSError):  # deleted meanwhile
                status = entry.stat(follow_symlinks=False)
                if name and stat.S_ISREG(status.st_mode):
                    writer = name["writer"] and int(name["writer"])
                    yield _File(entry.path, status.st_size, _last_used(status), writer or None)


def _last_used(status: os.stat_result) -> float:
    return max(status.st_atime, status.st_mtime)


def _delete(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _alive(process: int) -> bool:
    """Is there a process of that number? One of another user is none of ours."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True
