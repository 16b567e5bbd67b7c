"""The local cache of segments: files on the host, mapped into memory.

Invariant: a cached segment is a copy of one in the store. Ids are never used again, so a file is
never stale, and any process of the user on the host may use it. The folder may be deleted at any
time, even while it is in use: missing segments are read from the store again, and a mapped file
lives until its last reader closes it.

Rule: nothing about the cache is an error. A file that is missing or damaged is read from the store.
A segment that cannot be saved is not cached. Both are counted. The files, from the bottom up:

    checksum   how damage is found
    file       one segment in one file: written, and read if it is not damaged
    folder     where the files are: a folder that is private to the user
    eviction   which files are deleted, and when
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field

from watersmeet.segments.segment import Segment
from watersmeet.state.cache.eviction import counts_name, evict, file_name
from watersmeet.state.cache.file import close_files, read_file, write_file
from watersmeet.state.cache.folder import cache_folder

#: The disk, or this user's share of it, is full.
_FULL = (errno.ENOSPC, errno.EDQUOT)

#: Bytes that this process has written to a folder since it last listed it.
_unseen: dict[str, int] = {}


@dataclass
class CacheCounts:
    """How the cache served a step: how many segments were there, and were not; how many files were
    damaged; how many segments could not be saved. ``notes`` say what is wrong with the cache."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    unsaved: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Note it, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True)
class SegmentCache:
    """Segments as files in a folder; the least recently used are evicted first.

    Invariant: no method raises because of a file or a folder. Failures are counted in ``counts``.

    Our folder is made inside the ``configured`` one; None means the temporary directory. Each
    process finds our folder by itself, so a cache may be sent to another host. ``capacity`` is in
    bytes, for all files in our folder, whatever query they belong to.
    """

    configured: str | None
    capacity: int
    counts: CacheCounts = field(default_factory=CacheCounts, compare=False)

    @property
    def folder(self) -> str | None:
        """The folder with the files; None if none can be made."""
        found = cache_folder(self.configured)
        if found.note is not None:
            self.counts.note(found.note)
        return found.path

    def has(self, segment_id: str) -> bool:
        """Is there a file of the segment? It may be damaged."""
        path = self._path(segment_id)
        return path is not None and os.path.exists(path)

    def load(self, segment_id: str, *, keep_open: bool = True) -> Segment | None:
        """The cached segment, or None if it is missing or damaged. A damaged file is deleted.
        ``keep_open``: this process may keep the file mapped, if it is small."""
        path = self._path(segment_id)
        try:
            return None if path is None else read_file(path, segment_id, keep_open=keep_open)
        except OSError:
            return None
        except Exception:  # a damaged file may raise anything; the segment is in the store too
            self.counts.damaged += 1
            self.discard(segment_id)
            return None

    def save(self, segment_id: str, segment: Segment) -> None:
        """Write the segment to a file, if there is room. On a full disk, room is made once."""
        path = self._path(segment_id)
        if path is None:
            self.counts.unsaved += 1
            return
        folder = os.path.dirname(path)
        try:
            try:
                size = write_file(path, segment_id, segment)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                close_files()
                evict(folder, self.capacity, room=segment.nbytes)
                size = write_file(path, segment_id, segment)
            self._written(folder, size)
        except (OSError, MemoryError) as error:
            self.counts.unsaved += 1
            number = getattr(error, "errno", None)
            reason = os.strerror(number) if number else str(error)
            self.counts.note(f"not saved in the local cache {folder}: {reason}")

    def discard(self, segment_id: str) -> None:
        """Delete the segment's file, if it is there."""
        path = self._path(segment_id)
        with contextlib.suppress(OSError):
            if path is not None:
                os.unlink(path)

    def counts_path(self, name: str) -> str | None:
        """The path of a file in which an operator counts, beside the segments; None without a
        folder. It is evicted as segments are."""
        folder = self.folder
        return None if folder is None else os.path.join(folder, counts_name(name))

    def _path(self, segment_id: str) -> str | None:
        folder = self.folder
        return None if folder is None else os.path.join(folder, file_name(segment_id))

    def _written(self, folder: str, size: int) -> None:
        """Evict files each time a hundredth of the capacity has been written."""
        unseen = _unseen.get(folder, self.capacity) + size
        if unseen > self.capacity / 100:
            evict(folder, self.capacity)
            unseen = 0
        _unseen[folder] = unseen
