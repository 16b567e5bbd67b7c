"""The folder of the local cache: it belongs to one user, and to one boot of one host.

Invariant: the folder is owned by the user of this process, nobody else may enter it (mode 0700),
and it is not a symbolic link. So everything in it was written by this user.

Rule: a process finds the folder by itself: on its own host, as its own user. It is in the
configured folder, or else in the temporary directory, and its name has the user's id and the boot
id of the machine. So all processes of a user on a host find the same folder. After a crash of the
machine the last pages of a file may be lost; such files are in a folder that nobody opens again.

Anybody can make a folder of that name in the temporary directory before us. Then we make one with
a random name beside it, and the other processes of the user find that one, because they own it. If
nothing can be made in the configured folder, the temporary directory is used.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CacheFolder:
    """Where the cache is; ``path`` is None if there can be none. ``note`` says why the folder is
    not where it should be. It is given to a process once, and as long as there is no folder."""

    path: str | None
    note: str | None = None


_found: dict[str | None, str | None] = {}


def cache_folder(configured: str | None = None) -> CacheFolder:
    """This user's folder, in the configured one or in the temporary directory. It is made if it is
    not there."""
    path = _found.get(configured)
    if path is not None and _is_own(path):
        return CacheFolder(path)
    found = _find(configured)
    if found.note is not None and _found.get(configured, "") != found.path:
        _log.warning(found.note)
    _found[configured] = found.path
    return found


def other_folders(path: str) -> list[str]:
    """This user's other folders beside that one: of earlier boots, and of hosts that share the
    configured folder."""
    parent, own = os.path.split(path)
    with os.scandir(parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_user_prefix())]
    paths = [os.path.join(parent, name) for name in names if name != own]
    return [path for path in paths if _is_own(path)]


def _find(configured: str | None) -> CacheFolder:
    temporary = tempfile.gettempdir()
    name = f"{_user_prefix()}{_boot()}"
    problems = []
    for parent in dict.fromkeys((configured or temporary, temporary)):
        path = os.path.join(parent, name)
        try:
            os.makedirs(parent, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode=0o700)
            if not _is_own(path):
                problems.append(f"{path} is not a private folder of user {os.geteuid()}")
                path = _another(parent, name)
        except OSError as error:
            problems.append(f"{parent} cannot be used: {error.strerror}")
        else:
            note = f"the local cache is in {path}: {'; '.join(problems)}" if problems else None
            return CacheFolder(path, note)
    return CacheFolder(None, f"there is no local cache: {'; '.join(problems)}")


def _another(parent: str, name: str) -> str:
    """A folder with a random name: one that a process of this user has made before, or a new
    one."""
    made = _made(parent, name)
    if not made:
        new = tempfile.mkdtemp(prefix=f"{name}-", dir=parent)
        made = _made(parent, name)
        if new not in made:  # the file system has modes of its own
            os.rmdir(new)
            raise PermissionError(errno.EPERM, "folders in it are open to other users")
    return made[0]


def _made(parent: str, name: str) -> list[str]:
    """This user's folders with a random name, in order."""
    with os.scandir(parent) as entries:
        paths = [entry.path for entry in entries if entry.name.startswith(f"{name}-")]
    return sorted(path for path in paths if _is_own(path))


def _is_own(path: str) -> bool:
    """Is this a folder of this user that nobody else may enter?"""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    )


def _user_prefix() -> str:
    return f"watersmeet-{os.geteuid()}-"


def _boot() -> str:
    """Which boot of this machine it is; "0" on a system that does not tell."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip()[:8] if boot.exists() else "0"
