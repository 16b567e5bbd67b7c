"""How often keys came that the cache does not have: codes, as they come, in files on the host.

The paper counts the stream rows of a key that wait in H_S during one cycle. Here most rows do not
wait, and those that do leave when their partition is read. So their codes are noted when they are
answered. A tally may be lost: it decides which keys are cached, never a result.

Codes of keys that turned out to have no master row are noted a second time, apart.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import numpy as np

from watersmeet.rows.columns import Ints


@dataclass(frozen=True)
class Tally:
    """Two files: of the codes that ``came``, and of those that are ``barren``. None: there can be
    no file, and nothing is counted.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> tally = Tally(f"{folder}/came", f"{folder}/barren")
    >>> tally.note(np.array([7, 5, 7]), barren=np.array([5]))
    >>> [counted.tolist() for counted in tally.counts()]
    [[5, 7], [1, 2], [True, False]]
    >>> tally.clear()
    >>> [len(counted) for counted in tally.counts()]
    [0, 0, 0]
    """

    came: str | None
    barren: str | None

    def note(self, codes: Ints, barren: Ints) -> None:
        """Note the codes of rows that the disk phase has answered, and of those without any
        master row."""
        for path, noted in ((self.came, codes), (self.barren, barren)):
            if path is not None and len(noted):
                with contextlib.suppress(OSError), open(path, "ab", opener=_private) as file:
                    file.write(np.ascontiguousarray(noted, np.int64).tobytes())

    def counts(self) -> tuple[Ints, Ints, np.ndarray]:
        """Each code that was noted, in order, how often it came, and whether it has no master
        row."""
        noted, barren = _read(self.came), _read(self.barren)
        codes, counts = np.unique(noted, return_counts=True)
        return codes, counts, np.isin(codes, barren)

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
