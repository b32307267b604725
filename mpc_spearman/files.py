"""Write files completely or not at all; locks, temporary folders and keys that only their user can read."""

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
_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW  # opening a pipe of that name would block
_RANDOM = "[0-9a-f]" * 16


def create(path: Path, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
    """Make a new file, completely or not at all; `FileExistsError` if it exists.

    With `durable`, return only once the file is on the disk.
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
    """Write a folder's list of files to the disk: otherwise a power failure could lose a new file."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def create_once(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Make a new file as `create` does; `OutputError` if that is impossible."""
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


def write_output(path: Path, data: bytes) -> None:
    """Write a file that others may read as `write_whole` does; `OutputError` if that is impossible."""
    try:
        write_whole(path, data, 0o644)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def lock(path: Path, flags: int) -> int:
    """Open a file or folder for this process alone, with the flags of `os.open`; return its descriptor.

    The lock lasts until the descriptor is closed or the process ends in any way. `BlockingIOError` if another
    process has it.
    """
    while True:
        opened = os.open(path, flags, 0o600)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened), os.stat(path)):
                    return opened
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)  # another process has removed or replaced the file meanwhile: open the present one


def temporary_folder() -> Path:
    """Return the folder for temporary files; `OutputError` if no such folder can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # its text lists folders, and does not say what to do
        why = "no folder for temporary files can be written"
        raise OutputError(f"{why}: set TMPDIR to one, on a disk with room") from None


@contextmanager
def private_folder(parent: Path, start: str, end: str = "") -> Iterator[Path]:
    """Make a folder that only this user can read, and remove it afterwards; `OutputError` if that fails.

    The folder is locked while it is in use. The system releases the lock when this process ends in any way,
    so folders of this name without a lock were left by killed processes, and are removed here.
    """
    try:
        for abandoned in parent.glob(escape(start) + _RANDOM + escape(end)):
            with suppress(OSError):  # the folder is in use, another user's, or removed meanwhile
                lock_file = lock(abandoned, _AS_FOLDER)
                shutil.rmtree(abandoned, ignore_errors=True)
                os.close(lock_file)
        folder, lock_file = _locked_folder(parent, start, end)
    except OSError as error:
        raise OutputError(f"cannot write to {parent}: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock_file)


def _locked_folder(parent: Path, start: str, end: str) -> tuple[Path, int]:
    """Make a folder of a random name; return it and the descriptor that holds its lock."""
    while True:
        # `secrets`, not `tempfile`: no part of a run draws on a seedable generator.
        folder = parent / f"{start}{secrets.token_hex(8)}{end}"
        folder.mkdir(mode=0o700)
        with suppress(BlockingIOError, FileNotFoundError):  # another process took it for an abandoned one
            return folder, lock(folder, _AS_FOLDER)


def read_private(path: Path, longest: int, setting: str) -> bytes:
    """Return at most `longest` bytes of a regular file that only its owner can read.

    `PlanError` if others may read it.
    """
    # The mode is read from the opened file, since its name may be another file's by now; a pipe does not
    # block.
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


def read_or_create_key(path: Path, setting: str) -> bytes:
    """Return the 32 random bytes in a key file; make the file if it is missing, and never replace it.

    `setting` is the key of the plan that names the file. `PlanError` if the file cannot be made or read, has
    another size, or others may read it.
    """
    try:
        if not path.exists():
            with suppress(FileExistsError):  # another run of this party made it first: use that key
                write_whole(path, secrets.token_bytes(KEY_BYTES), replace=False, durable=True)
        key = read_private(path, KEY_BYTES + 1, setting)
    except OSError as error:
        raise PlanError(f"{setting}: {path} can be neither read nor created: {error.strerror}") from None
    if len(key) != KEY_BYTES:
        raise PlanError(f"{setting}: {path} is not a file of {KEY_BYTES} bytes, so no key of this package")
    return key
