"""The versions of a table that changes: which of them is current.

    <folder>/<name>.current   the name of the current version, and why there is no newer one
    <folder>/<version>/...    a version (:mod:`.staged_table`)

Queries look there after each step, and use another version from the next one on.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass

from watersmeet.table.lease import IDLE_SECONDS
from watersmeet.table.staged_table import StagedTable


@dataclass(frozen=True)
class Versions:
    """The versions of a table that changes, in the folder of all tables: a small file says which
    one is current, and why the last attempt to make a newer one failed, if it did. ``name`` names
    that file. ``table`` says what they are versions of, as far as that can be told, and which
    columns they have: these are stored by their position alone, so only a version of the same
    ``table`` can be read in place of another one.

    >>> import tempfile
    >>> versions = Versions(tempfile.mkdtemp(), "prices", "prices by product")
    >>> versions.current() is None
    True
    >>> versions.set("a1b2")
    >>> versions.current().version, versions.failure()
    ('a1b2', None)
    >>> versions.fail("no column 'price'")
    >>> versions.current().version, versions.failure()
    ('a1b2', "no column 'price'")
    """

    folder: str
    name: str
    table: str

    def current(self) -> StagedTable | None:
        """The current version, if there is one."""
        version = self._read().get("version")
        return None if version is None else self.version(version)

    def failure(self) -> str | None:
        """Why there is no newer version, if making one has failed."""
        return self._read().get("failure")

    def set(self, version: str) -> None:
        """Make a version the current one."""
        self._write({"version": version})

    def fail(self, why: str) -> None:
        """Note that no newer version could be made."""
        self._write({**self._read(), "failure": why})

    def version(self, name: str) -> StagedTable:
        """The version of that name."""
        return StagedTable(os.path.join(self.folder, name))

    def idle(self) -> bool:
        """Was no version made current for long, and is the one that was gone?"""
        current = self.current()
        gone = current is None or not os.path.exists(current.folder)
        return gone and time.time() - os.stat(self._path).st_mtime > IDLE_SECONDS

    @property
    def _path(self) -> str:
        return os.path.join(self.folder, f"{self.name}.current")

    def _read(self) -> dict[str, str]:
        try:
            with open(self._path) as file:
                known: dict[str, str] = json.load(file)
                return known
        except (OSError, ValueError):
            return {}

    def _write(self, known: dict[str, str]) -> None:
        # Several threads of a driver may refresh one table, for different queries.
        temporary = f"{self._path}.{uuid.uuid4().hex}.tmp"
        with open(temporary, "w") as file:
            json.dump(known, file)
        os.replace(temporary, self._path)
