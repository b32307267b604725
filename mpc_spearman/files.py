"""Files that are written completely or not at all, private to one user; locks; folders for a while."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from mpc_spearman.errors import OutputError, PlanError

KEY_BYTES = 32
_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW  # a pipe of that name would be waited for
_RANDOM = "[0-9a-f]" * 16


def create(path: Path, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
    """Make a new file, completely or not at all; `FileExistsError` if it exists.

    `durable` returns only once the disk has it.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        try:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
                sync_folder(path.parent)
        except BaseException:
            path.unlink()
            raise


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, or a new file could be lost with the power."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def create_once(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Do as `create`; an `OutputError` says what prevents it."""
    try:
        create(path, data, durable=durable)
    except FileExistsError:
        raise OutputError(f"{path} exists and is not replaced; move it away first") from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def write_whole(
    path: Path, data: bytes, mode: int = 0o600, *, replace: bool = True, durable: bool = False
) -> None:
    """Write a file so that nobody ever sees a part of it; an `OSError` leaves an earlier file unchanged.

    `FileExistsError` if there is an earlier one and `replace` is false; `durable` is as for `create`.
    """
    # `secrets`, not `tempfile`: no part of a run draws on a seedable generator.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    create(part, data, mode, durable=durable)
    try:
        if replace:
            part.replace(path)
        else:
            os.link(part, path)
        if durable:
            sync_folder(path.parent)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_output(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Do as `write_whole`; an `OutputError` says what prevents it."""
    try:
        write_whole(path, data, mode)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def lock(path: Path, flags: int) -> int:
    """Open a file or folder for this process alone, with the flags of `os.open`; return its descriptor.

    The lock is there until that is closed or the process ends, however it does. `BlockingIOError` if another
    has it.
    """
    # Who has just made a file waits for a process that takes it for a left one, and makes it again.
    how = fcntl.LOCK_EX if flags & os.O_EXCL else fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        opened = os.open(path, flags, 0o600)
        try:
            fcntl.flock(opened, how)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened), os.stat(path)):
                    return opened
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)  # whoever had it has just taken it away: try what takes its place


def temporary_folder() -> Path:
    """Return the folder for temporary files; `OutputError` if there is none that can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # its text lists folders, and does not say what to do
        why = "no folder for temporary files can be written"
        raise OutputError(f"{why}: set TMPDIR to one, on a disk with room") from None


@contextmanager
def own_folder(parent: Path, start: str, end: str = "") -> Iterator[Path]:
    """Make a folder that is this user's alone, and take it away again; `OutputError` if that cannot be.

    Its lock, which the system lets go of when this process ends, however it does, says that it is in use.
    Folders of that name without one are of killed processes, and are taken away.
    """
    try:
        for left in parent.glob(escape(start) + _RANDOM + escape(end)):
            with suppress(OSError):  # in use, or another user's, or gone meanwhile
                locked = lock(left, _AS_FOLDER)
                shutil.rmtree(left, ignore_errors=True)
                os.close(locked)
        place, locked = _made(parent, start, end)
    except OSError as error:
        raise OutputError(f"cannot write to {parent}: {error.strerror}") from None
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(locked)


def _made(parent: Path, start: str, end: str) -> tuple[Path, int]:
    while True:
        # `secrets`, not `tempfile`: no part of a run draws on a seedable generator.
        place = parent / f"{start}{secrets.token_hex(8)}{end}"
        place.mkdir(mode=0o700)
        with suppress(BlockingIOError, FileNotFoundError):  # taken for a left one before it was locked
            return place, lock(place, _AS_FOLDER)


def read_private(path: Path, longest: int, setting: str) -> bytes:
    """Return a regular file's content, at most so many bytes.

    `PlanError` if others may read it.
    """
    # The mode is the opened file's, whatever has its name by now; a pipe does not block.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        mode = os.fstat(file.fileno()).st_mode
        data = file.read(longest) if stat.S_ISREG(mode) else b""
    check_private(path, mode, setting)
    return data


def check_private(path: Path, mode: int, setting: str) -> None:
    """Refuse, with a `PlanError`, a file whose mode lets other users read or change it."""
    if mode & 0o077:
        why = "may be read or changed by other users of this machine"
        raise PlanError(f"{setting}: {path} {why}; make it yours alone: chmod go= {path}")


def own_key(path: Path, setting: str) -> bytes:
    """Return the key in a file of this party's own: 32 random bytes, made where missing, never replaced.

    `PlanError`, with the `setting` that named the file, if it cannot be made or read, has another size, or
    others may read it.
    """
    try:
        if not path.exists():
            with suppress(FileExistsError):  # another run of this party's was first: its key is the key
                write_whole(path, secrets.token_bytes(KEY_BYTES), replace=False, durable=True)
        key = read_private(path, KEY_BYTES + 1, setting)
    except OSError as error:
        raise PlanError(f"{setting}: {path} can be neither read nor created: {error.strerror}") from None
    if len(key) != KEY_BYTES:
        raise PlanError(f"{setting}: {path} is not a file of {KEY_BYTES} bytes, so no key of this package")
    return key
