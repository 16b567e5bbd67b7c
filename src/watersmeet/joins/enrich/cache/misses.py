"""How often keys came that the cache does not have: codes, as they come, in files on the host.

The paper counts the stream rows of a key that wait in H_S during one cycle. Here most rows do not
wait, and those that do leave when their partition is read. So their codes are noted when they are
answered. Counts may be lost: they decide which keys are cached, never a result.

Codes of keys that turned out to have no master row are noted a second time, apart.

**Bounded.** A micro-batch may have any number of rows, as the first one of a backlog. So no more is
noted when the file has reached its limit, which has room for the rows of a cycle. What is there by
then is a sample: it has all codes of whole pieces of rows, and pieces are cut as rows come.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import numpy as np

from watersmeet.rows.columns import Ints


@dataclass(frozen=True)
class MissCounts:
    """Two files: of the codes that ``came``, and of those that are ``barren``. None: there can be
    no file, and nothing is counted. Nothing is noted any more when ``limit`` bytes have come.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> misses = MissCounts(f"{folder}/came", f"{folder}/barren", limit=100)
    >>> misses.note(np.array([7, 5, 7]), barren=np.array([5]))
    >>> [counted.tolist() for counted in misses.counts()]
    [[5, 7], [1, 2], [True, False]]
    >>> misses.clear()
    >>> [len(counted) for counted in misses.counts()]
    [0, 0, 0]
    """

    came: str | None
    barren: str | None
    limit: int

    @property
    def full(self) -> bool:
        """Is nothing noted any more?"""
        try:
            return self.came is not None and os.path.getsize(self.came) >= self.limit
        except OSError:
            return False

    def note(self, codes: Ints, barren: Ints) -> None:
        """Note the codes of rows that the disk phase has answered, and of those without any
        master row."""
        if self.full:
            return
        for path, noted in ((self.came, codes), (self.barren, barren)):
            if path is not None and len(noted):
                with contextlib.suppress(OSError), open(path, "ab", opener=_private) as file:
                    file.write(np.ascontiguousarray(noted, np.int64).tobytes())

    def counts(self) -> tuple[Ints, Ints, np.ndarray]:
        """Each code that was noted, in order, how often it came, and whether it has no master
        row."""
        noted, barren = _read(self.came), _read(self.barren)
        # In place, as a copy of all of them takes as much memory as they do.
        noted.sort()
        barren.sort()
        starts = np.flatnonzero(np.append(True, noted[1:] != noted[:-1])) if len(noted) else noted
        codes, counts = noted[starts], np.diff(starts, append=len(noted))
        del noted, starts
        if not len(barren):
            return codes, counts, np.zeros(len(codes), dtype=np.bool_)
        return codes, counts, barren.take(np.searchsorted(barren, codes), mode="clip") == codes

    def clear(self) -> None:
        """Begin anew."""
        for path in (self.came, self.barren):
            if path is not None:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _read(path: str | None) -> Ints:
    if path is None:
        return np.empty(0, np.int64)
    try:
        size = os.path.getsize(path) // 8
        return np.fromfile(path, np.int64, count=size)
    except OSError:
        return np.empty(0, np.int64)
