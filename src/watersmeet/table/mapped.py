"""The numbers of a file that is mapped into memory.

A page of it is in memory when it has been touched; and it stays there, as long as the system has
room. The processes of a host share it, but each of them is charged with it. So a process that is to
take less gives pages back: it keeps the map, and the next touch finds the page again, as a rule in
what the system keeps of files in otherwise free memory.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np

from watersmeet.table.file import unreadable


@dataclass(frozen=True)
class Mapped:
    """Some ``numbers``, and the ``file`` that they are from."""

    numbers: np.ndarray[Any, Any]
    file: mmap.mmap

    @classmethod
    def open(cls, path: str, kind: type[np.generic], size: int) -> Mapped:
        """The numbers in that many bytes of a file."""
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            return cls(np.frombuffer(mapped, kind, size // np.dtype(kind).itemsize), mapped)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error

    def give_back(self) -> None:
        """Give back the pages that this process has touched."""
        self.file.madvise(mmap.MADV_DONTNEED)
