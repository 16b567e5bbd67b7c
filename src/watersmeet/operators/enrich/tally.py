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
    """Files whose names begin with ``base``.

    >>> import tempfile
    >>> tally = Tally(tempfile.mkdtemp() + "/some-")
    >>> tally.note(np.array([7, 5, 7]), barren=np.array([5]))
    >>> [counted.tolist() for counted in tally.counts()]
    [[5, 7], [1, 2], [True, False]]
    >>> tally.clear()
    >>> [len(counted) for counted in tally.counts()]
    [0, 0, 0]
    """

    base: str

    @property
    def _paths(self) -> tuple[str, str]:
        return f"{self.base}tally", f"{self.base}barren"

    def note(self, codes: Ints, barren: Ints) -> None:
        """Note the codes of rows that the disk phase has answered, and of those without any
        master row."""
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.base), mode=0o700, exist_ok=True)
            for path, noted in zip(self._paths, (codes, barren), strict=True):
                if len(noted):
                    with open(path, "ab") as file:
                        file.write(np.ascontiguousarray(noted, np.int64).tobytes())

    def counts(self) -> tuple[Ints, Ints, np.ndarray]:
        """Each code that was noted, in order, how often it came, and whether it has no master
        row."""
        noted, barren = (_read(path) for path in self._paths)
        codes, counts = np.unique(noted, return_counts=True)
        return codes, counts, np.isin(codes, barren)

    def clear(self) -> None:
        """Begin anew."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _read(path: str) -> Ints:
    try:
        size = os.path.getsize(path) // 8
        return np.fromfile(path, np.int64, count=size)
    except OSError:
        return np.empty(0, np.int64)
