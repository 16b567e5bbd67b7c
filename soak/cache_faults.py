"""What may happen to the local cache, which is only a copy: files deleted or damaged, a full disk.

A file that a process has open is never changed in place, but replaced by a damaged one, as a disk
that loses what is in use is not ours to survive. Between two lives nothing is open: then a file is
damaged where it is, and keeps its time, as by a crash of the machine that loses pages.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_PAGE = 4096
#: What fits on the disk that is full: hardly a segment.
FULL_DISK_BYTES = 16 * _PAGE


def delete(folder: Path, dice: random.Random) -> int:
    """Delete some of the files, or all with the folders; gives how many."""
    files = _files(folder)
    if dice.random() < 0.3:
        shutil.rmtree(folder, ignore_errors=True)
        return len(files)
    chosen = dice.sample(files, (len(files) + 1) // 2)
    for file in chosen:
        file.unlink(missing_ok=True)
    return len(chosen)


def damage(folder: Path, dice: random.Random, *, in_place: bool) -> int:
    """Damage half of the files, each in one way or the other; gives how many."""
    files = _files(folder)
    count = 0
    for file in dice.sample(files, (len(files) + 1) // 2):
        # Any of them may be deleted by its owner meanwhile.
        with suppress(OSError):
            status = file.stat()
            content = _damaged(file.read_bytes(), dice)
            if in_place:
                file.write_bytes(content)
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            else:
                other = file.with_name(f".{file.name}.damaged")
                other.write_bytes(content)
                os.chmod(other, status.st_mode)
                other.rename(file)
            count += 1
    return count


def _damaged(content: bytes, dice: random.Random) -> bytes:
    """Cut, zeroed in the middle, with a few other bytes, or nothing of it left."""
    if not content:
        return content
    way = dice.choice(["cut", "zeroed", "flipped", "overwritten"])
    if way == "cut":
        return content[: dice.randrange(len(content))]
    changed = bytearray(content)
    if way == "zeroed":
        begin = dice.randrange(len(content))
        end = min(len(content), begin + dice.randint(1, 2 * _PAGE))
        changed[begin:end] = bytes(end - begin)
    elif way == "flipped":
        for _ in range(3):
            changed[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    else:
        changed[:] = dice.randbytes(len(content))
    return bytes(changed)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def full_disk(folder: Path) -> Sequence[str]:
    """A command that runs another one in which a tiny disk is mounted at the folder. The mount is
    seen by that command alone, and is gone when it ends."""
    mount = f"mount -t tmpfs -o size={FULL_DISK_BYTES},mode=700 tmpfs {shlex.quote(str(folder))}"
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *own, "sh", "-c", f'{mount} && exec "$@"', "sh"]


def can_fill_a_disk(folder: Path) -> bool:
    """May this user mount a disk?"""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        tried = subprocess.run([*full_disk(folder), "true"], capture_output=True)
    except FileNotFoundError:
        return False
    return tried.returncode == 0


def is_full(pid: int, folder: Path) -> bool:
    """Is the disk full that a process has mounted at the folder?"""
    try:
        status = os.statvfs(f"/proc/{pid}/root{folder}")
    except FileNotFoundError:
        return False  # The folder was deleted, by another fault, and the disk with it.
    return status.f_bavail * status.f_frsize < FULL_DISK_BYTES // 4
