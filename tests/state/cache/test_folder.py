"""The cache's folder is private, whatever others have put in its place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from watersmeet.state.cache import folder as module
from watersmeet.state.cache.folder import CacheFolder, cache_folder, other_folders

SYSTEM = tempfile.gettempdir()
NAME = f"watersmeet-{os.geteuid()}-"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory, as a process finds it that knows nothing yet."""
    monkeypatch.setattr(module, "_found", {})
    monkeypatch.setattr(module, "_boot", lambda: "boot1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory(dir=SYSTEM) as path:
        os.chmod(path, 0o755)
        yield Path(path)


def found(configured: Path | None = None) -> tuple[Path, str | None]:
    where = cache_folder(None if configured is None else str(configured))
    assert where.path is not None
    return Path(where.path), where.note


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o7777


def as_another_process() -> None:
    module._found.clear()


def test_it_is_in_the_temporary_directory(temporary: Path) -> None:
    path, note = found()
    assert path == temporary / f"{NAME}boot1"
    assert mode(path) == 0o700
    assert note is None
    as_another_process()
    assert found() == (path, None)


def test_a_configured_folder_gets_one_inside(tmp_path: Path) -> None:
    # Given a folder that others use too,
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "report.csv").write_text("mine")
    # then ours is inside, and the folder itself stays as it is.
    path, note = found(shared)
    assert path == shared / f"{NAME}boot1"
    assert (mode(path), note) == (0o700, None)
    assert mode(shared) == 0o755
    # A folder that is not there is made.
    assert found(tmp_path / "new" / "cache")[0] == tmp_path / "new" / "cache" / f"{NAME}boot1"


def test_the_name_has_the_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for configured in (None, tmp_path / "configured"):
        before, _ = found(configured)
        with monkeypatch.context() as rebooted:
            rebooted.setattr(module, "_boot", lambda: "boot2")
            as_another_process()
            after, _ = found(configured)
        assert before.name.endswith("boot1")
        assert after == before.with_name(f"{NAME}boot2")
        assert other_folders(str(after)) == [str(before)]


def test_the_boot_is_known_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    if Path("/proc/sys/kernel/random/boot_id").exists():
        assert len(module._boot()) == 8
    assert module._boot() == module._boot()


def test_a_folder_that_is_deleted_is_made_again() -> None:
    path, _ = found()
    path.rmdir()
    assert found() == (path, None)
    assert mode(path) == 0o700


def test_a_folder_open_to_others_is_not_used(temporary: Path) -> None:
    # Given that the folder was there before, and anybody may write to it,
    taken = temporary / f"{NAME}boot1"
    taken.mkdir()
    taken.chmod(0o777)
    # then another one is made, and noted;
    path, note = found()
    assert path != taken
    assert path.name.startswith(f"{taken.name}-")
    assert mode(path) == 0o700
    assert note is not None
    assert str(taken) in note
    assert str(path) in note
    # the process is told once; other processes find the same folder.
    assert found() == (path, None)
    as_another_process()
    assert found() == (path, note)
    assert list(taken.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_folder_of_another_user_is_not_used(temporary: Path) -> None:
    taken = temporary / f"{NAME}boot1"
    taken.mkdir(mode=0o700)
    os.chown(taken, 65534, 65534)
    path, note = found()
    assert path != taken
    assert note is not None
    assert list(taken.iterdir()) == []


def test_a_symbolic_link_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (temporary / f"{NAME}boot1").symlink_to(target)
    (temporary / f"{NAME}boot1-aaaa").symlink_to(target)
    path, note = found()
    assert not path.is_symlink()
    assert path.parent == temporary
    assert note is not None
    assert list(target.iterdir()) == []


def test_a_file_in_its_place_is_left_alone(temporary: Path) -> None:
    taken = temporary / f"{NAME}boot1"
    taken.write_text("a file")
    taken.chmod(0o600)
    path, _ = found()
    assert path.is_dir()
    assert taken.read_text() == "a file"


def test_a_folder_becomes_unsafe_while_it_is_used() -> None:
    path, _ = found()
    path.chmod(0o777)
    other, note = found()
    assert other != path
    assert note is not None


def test_a_configured_folder_that_cannot_be_used_is_noted(tmp_path: Path, temporary: Path) -> None:
    # Given a path on which no folder can be made,
    (tmp_path / "file").write_text("")
    path, note = found(tmp_path / "file" / "cache")
    # then the temporary directory is used, and that is noted.
    assert path == temporary / f"{NAME}boot1"
    assert note is not None
    assert str(tmp_path / "file" / "cache") in note


def test_without_any_folder_there_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    for _ in range(2):
        where = cache_folder()
        assert where.path is None
        assert where.note is not None
    # When there is one again, it is used.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cache_folder() == CacheFolder(str(tmp_path / f"{NAME}boot1"))


def test_a_file_system_without_modes_is_not_used(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a configured folder in which every folder is open to all,
    opened = tmp_path / "opened"
    own = module._is_own
    monkeypatch.setattr(
        module, "_is_own", lambda path: not path.startswith(f"{opened}/") and own(path)
    )
    path, note = found(opened)
    assert path.parent == temporary
    assert note is not None
    assert "open to other users" in note
    assert len(list(opened.iterdir())) == 1, "folders that are not used do not pile up"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_another_user_is_not_locked_out(for_all: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver and its executor run as different users, on one host, with one configured folder."""
    # Given a temporary directory for all, and a configured folder that the first user has made,
    temporary = for_all / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    configured = for_all / "configured"
    ours, _ = found(configured)
    # when another user looks for the folder,
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(65534, 65534, 65534)
            as_another_process()
            path, note = found(configured)
            os.write(write, f"{path}|{note}|{path.lstat().st_uid}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs, why, owner = os.read(read, 10_000).decode().split("|")
    # then it gets one of its own, and is told why it is not in the configured one.
    assert theirs == f"{temporary}/watersmeet-65534-boot1"
    assert owner == "65534"
    assert str(configured) in why
    assert ours.lstat().st_uid == 0
