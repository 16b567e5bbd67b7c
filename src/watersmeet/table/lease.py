"""The lease of a folder of a staged table: for how long its files are kept.

Several queries may read one folder, and none of them knows of the others. So nobody says that a
folder is not needed any more. A lease ends when nobody has renewed it for a day. Whoever stages a
table then deletes the folder.

    table.json     its time is when a step has *used* the folder last
    held           its time is when a query has *held* it last: it runs, but may take no steps
    superseded     a newer version has taken its place: the lease ends after an hour
    kept           a query uses it that does not look for newer versions: an hour is too short then,
                   and the lease ends after a day

All of these are files in the folder. If one cannot be written, that is ignored: the lease may end
earlier, and a query that still needs the folder fails with a message that says what to do.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

#: The file without which a folder is not complete (:mod:`.staged_table`).
SUMMARY = "table.json"
_HELD, _SUPERSEDED, _KEPT = "held", "superseded", "kept"
#: The lease of a folder ends so many seconds after it was used or held last.
IDLE_SECONDS = 24 * 3600
#: ... and that of one that a newer version has superseded.
SUPERSEDED_SECONDS = 3600
#: When it was used or held last is known to this many seconds.
TOUCH_SECONDS = 60


@dataclass(frozen=True)
class Lease:
    """The lease of one folder.

    >>> import tempfile
    >>> lease = Lease(tempfile.mkdtemp())
    >>> lease.ended  # the folder has just been made
    False
    >>> two_hours_ago = time.time() - 7200
    >>> os.utime(lease.folder, (two_hours_ago, two_hours_ago))
    >>> lease.supersede()
    >>> os.utime(lease.folder, (two_hours_ago, two_hours_ago))
    >>> lease.ended
    True
    >>> lease.hold()
    >>> lease.ended
    False
    """

    folder: str

    @property
    def ended(self) -> bool:
        """Has no step used the folder, nor a query held it, for so long that none needs it?"""
        superseded = self._has(_SUPERSEDED) and not self._has(_KEPT)
        limit = SUPERSEDED_SECONDS if superseded else IDLE_SECONDS
        return time.time() - max(self._used_at(), self._held_at()) > limit

    def use(self) -> None:
        """Note that a step uses the folder."""
        with contextlib.suppress(OSError):
            if time.time() - self._used_at() > TOUCH_SECONDS:
                os.utime(self._path(SUMMARY))

    def hold(self) -> None:
        """Note that a query runs that uses the folder, though it may take no steps for long."""
        if time.time() - self._held_at() > TOUCH_SECONDS:
            self._mark(_HELD)

    def keep(self) -> None:
        """Note that a query uses the folder that does not look for newer versions."""
        self._mark(_KEPT)

    def supersede(self) -> None:
        """Note that a newer version has taken its place."""
        self._mark(_SUPERSEDED)

    def reinstate(self) -> None:
        """Note that the current version needs the folder, though it may have been superseded."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(_SUPERSEDED))

    def _used_at(self) -> float:
        """When it was used last, or made, in seconds since 1970."""
        try:
            return os.stat(self._path(SUMMARY)).st_mtime
        except FileNotFoundError:
            return os.stat(self.folder).st_mtime

    def _held_at(self) -> float:
        try:
            return os.stat(self._path(_HELD)).st_mtime
        except OSError:
            return 0.0

    def _has(self, name: str) -> bool:
        return os.path.exists(self._path(name))

    def _mark(self, name: str) -> None:
        path = self._path(name)
        with contextlib.suppress(OSError), open(path, "w"):
            os.utime(path)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)
