"""Folders of a run that goes on, kept from others and taken away at its end; and what killed runs left."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mpc_spearman.errors import OutputError
from mpc_spearman.files import lock

_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_RANDOM = "[0-9a-f]{16}"


@contextmanager
def temporary() -> Iterator[Path]:
    """Make a folder among this machine's temporary files."""
    with _folder(Path(tempfile.gettempdir()), "mpc-spearman-run-", "") as place:
        yield place


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Make a folder from which to put things in their place renaming is all there is to do."""
    with _folder(target.parent, f".{target.name}.", ".part") as place:
        yield place


@contextmanager
def _folder(parent: Path, start: str, end: str) -> Iterator[Path]:
    """Make a folder that is this user's alone, and take it away again; `OutputError` if that cannot be.

    Its lock, which the system lets go of when this process ends, however it does, says that it is in use.
    """
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    try:
        try:
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sweep(parent, start, end)
            place, locked = _make(parent, start, end)
        except OSError as error:
            raise OutputError(f"cannot write to {parent}: {error.strerror}") from None
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            os.close(locked)
    finally:
        for folder in missing:
            with suppress(OSError):  # gone already, or the results are in it
                folder.rmdir()


def _make(parent: Path, start: str, end: str) -> tuple[Path, int]:
    while True:
        # `secrets`, not `tempfile`: no part of a run draws on a seedable generator.
        place = parent / f"{start}{secrets.token_hex(8)}{end}"
        place.mkdir(mode=0o700)
        try:
            return place, lock(place, _AS_FOLDER)
        except (BlockingIOError, FileNotFoundError):  # taken for a left one before it was locked
            continue


def _sweep(parent: Path, start: str, end: str) -> None:
    """Take away what is left of runs of this user that were killed: nobody has a lock on it."""
    name = re.compile(re.escape(start) + _RANDOM + re.escape(end))
    for entry in os.scandir(parent):
        if not name.fullmatch(entry.name):
            continue
        with suppress(OSError):  # in use, or not this user's, or gone meanwhile
            locked = lock(Path(entry.path), _AS_FOLDER)
            try:
                if os.fstat(locked).st_uid == os.getuid():
                    shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(locked)
