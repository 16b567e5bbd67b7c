"""The local cache of segments: files on the host, mapped into memory.

Invariant: a cached segment is a copy of what the store holds. Ids are never used again, so a file
is never stale, and any process on the host may use it. The folder may be deleted at any time, also
while it is in use: what is missing is read from the store again, and a mapped file lives until its
last reader closes it.

Rule: a file holds the rows, and the index if there is one, as uncompressed Arrow, which needs no
decoding. When the folder exceeds its capacity, the least recently used files are evicted.

The name of the default folder contains the boot id of the machine. After a crash of the machine
the last pages of a file may be lost; such files are in a folder that nobody opens again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from watersmeet.state.segment import Segment

#: A file that nobody has read for this many seconds belongs to a query that has ended.
IDLE_SECONDS = 24 * 3600

#: The time of a file's last use is exact to this many seconds.
TOUCH_SECONDS = 60


def default_folder() -> str:
    """The folder of this user, for this boot of this host."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    session = boot.read_text().strip()[:8] if boot.exists() else "0"
    return os.path.join(tempfile.gettempdir(), f"watersmeet-{os.getuid()}-{session}")


#: Opening a file takes half a millisecond, as long as a probe of a small segment. So a process
#: keeps this many small segments open, those that it read last. A small one takes at most
#: ``OPEN_BYTES``.
OPEN_FILES = 64
OPEN_BYTES = 256 << 10
_OPEN: OrderedDict[tuple[str, int, int], Segment] = OrderedDict()

#: Bytes that this process has written to a cache since it last listed the folder.
_UNSEEN: dict[SegmentCache, int] = {}


@dataclass(frozen=True)
class SegmentCache:
    """Segments as files in a folder; the least recently used are evicted first.

    Invariant: no method raises because of a file or a folder. A segment that could not be saved or
    loaded is read from the store.

    ``capacity`` is in bytes, for everything in the folder, whoever wrote it.
    """

    folder: str
    capacity: int

    def load(self, segment_id: str) -> Segment | None:
        """The cached segment, or None if it is not there or not readable."""
        path = self._path(segment_id)
        # A damaged file may raise anything; the segment is in the store too.
        with contextlib.suppress(Exception):
            status = os.stat(path)
            if time.time() - status.st_mtime > TOUCH_SECONDS:
                os.utime(path)
                status = os.stat(path)
            key = path, status.st_size, status.st_mtime_ns  # changes with the file
            segment = _OPEN.pop(key, None)
            if segment is None:
                with pa.memory_map(path) as source:
                    segment = Segment.from_batch(pa.ipc.open_file(source).get_batch(0))
            if segment.rows.nbytes <= OPEN_BYTES:
                _OPEN[key] = segment
                if len(_OPEN) > OPEN_FILES:
                    _OPEN.popitem(last=False)
            return segment
        return None

    def save(self, segment_id: str, segment: Segment) -> None:
        """Write the segment to a file. A full disk, or a folder that was deleted, is no error: the
        segment is in the store."""
        path = self._path(segment_id)
        temporary = f"{path}.{os.getpid()}.tmp"
        batch = segment.to_batch()
        with contextlib.suppress(OSError):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            with pa.OSFile(temporary, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            os.replace(temporary, path)
            self._written(batch.nbytes)

    def discard(self, segment_id: str) -> None:
        """Delete the segment's file, if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(segment_id))

    def _path(self, segment_id: str) -> str:
        return os.path.join(self.folder, f"{segment_id}.arrow")

    def _written(self, size: int) -> None:
        """Evict files each time a hundredth of the capacity has been written."""
        unseen = _UNSEEN.get(self, self.capacity) + size
        if unseen > self.capacity / 100:
            self._evict()
            unseen = 0
        _UNSEEN[self] = unseen

    def _evict(self) -> None:
        """Delete idle files, and the least recently used ones beyond the capacity."""
        files = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    files.append((status.st_mtime, status.st_size, entry.path))
        files.sort(reverse=True)
        total, oldest = 0, time.time() - IDLE_SECONDS
        for used_at, size, path in files:
            total += size
            if total > self.capacity or used_at < oldest:
                with contextlib.suppress(OSError):
                    os.unlink(path)
