"""The files of a case's streams: written at once, and shown to the query little by little.

Spark reads the files of a folder in the order of their modification times, so each is set to a
time after the one before. A hidden file is not read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from soak.case import Case

_FIRST = 1_700_000_000


class Input:
    """The input of a case, in the folders of its streams. ``tables`` has every file that was
    written, by stream and name; ``waiting`` how many of them are still hidden."""

    def __init__(self, folder: Path, case: Case) -> None:
        self._folder = folder
        self._case = case
        self._hidden: dict[str, list[str]] = {name: [] for name in case.schemas}
        self.tables: dict[str, dict[str, pa.Table]] = {name: {} for name in case.schemas}
        for name, tables in case.files().items():
            for table in tables:
                self._write(name, table)

    @property
    def waiting(self) -> Mapping[str, int]:
        return {name: len(files) for name, files in self._hidden.items()}

    def show(self, stream: str, count: int) -> None:
        """Show so many more files of a stream, if there are any."""
        folder = self._folder / stream
        for _ in range(min(count, len(self._hidden[stream]))):
            file = self._hidden[stream].pop(0)
            (folder / f".{file}").rename(folder / file)

    def show_all(self) -> None:
        for stream, count in self.waiting.items():
            self.show(stream, count)

    def close(self) -> None:
        """Write what closes the streams; it is still to be shown."""
        for name, table in self._case.closing().items():
            self._write(name, table)

    def _write(self, stream: str, table: pa.Table) -> None:
        folder, number = self._folder / stream, len(self.tables[stream])
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{number:04}.parquet"
        pq.write_table(table, folder / f".{file}")
        os.utime(folder / f".{file}", (_FIRST + number,) * 2)
        self.tables[stream][file] = table
        self._hidden[stream].append(file)
