"""The folders of staged tables: how one gets its name, and how it is removed.

Invariant: who finds a folder by its name finds a table as a whole, or one that is damaged. A table
is written in a hidden folder, which is renamed when it is complete; and a folder is hidden again
before its files are deleted. Two drivers may do so at the same time.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid

from watersmeet.table.staged_table import StagedTable
from watersmeet.table.versions import Versions

#: The folders of tables, and of those that are being staged.
_OURS = re.compile(r"[0-9a-f]{32}|\.[0-9a-f]{32}-[0-9a-f]{8}")
#: The files that name the current version of a table.
_CURRENT = re.compile(r"([0-9a-f]{32})\.current")


def remove_idle(folder: str) -> None:
    """Remove versions that belong to no query any more, the files that named them as current, and
    what failures have left. Anything else in the folder is not ours."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                if _OURS.fullmatch(entry.name) and StagedTable(entry.path).idle():
                    remove(entry.path)
                named = _CURRENT.fullmatch(entry.name)
                if named and Versions(folder, named[1], named[1]).idle():
                    os.unlink(entry.path)


def hidden_folder(folder: str) -> str:
    """The path of a folder while nobody is to find it; no other one has it."""
    return os.path.join(os.path.dirname(folder), f".{_name(folder)}-{uuid.uuid4().hex[:8]}")


def _name(folder: str) -> str:
    """The version that a folder is of, hidden or not.

    >>> _name(f"/tables/{'a' * 32}") == _name(f"/tables/.{'a' * 32}-01234567") == "a" * 32
    True
    """
    return os.path.basename(folder).removeprefix(".").partition("-")[0]


def remove(folder: str) -> None:
    """Remove a folder. It is hidden first: while its files are deleted, or if that is not finished,
    nobody finds a part of it."""
    hidden = hidden_folder(folder)
    os.rename(folder, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def give_name(hidden: str, staged: StagedTable) -> None:
    """Give a complete table its name, unless another query was faster. What is there without
    being intact is of another format, or damaged."""
    if not staged.intact():
        with contextlib.suppress(OSError):
            _remove_damaged(staged.folder)
    try:
        os.rename(hidden, staged.folder)
    except OSError:
        if not staged.intact():
            raise


def _remove_damaged(folder: str) -> None:
    """Remove what is there without being intact. It is hidden first, and looked at again: another
    driver may have put a table there meanwhile, which goes back to its place."""
    hidden = hidden_folder(folder)
    os.rename(folder, hidden)
    if StagedTable(hidden).intact():
        os.rename(hidden, folder)
    else:
        shutil.rmtree(hidden, ignore_errors=True)
