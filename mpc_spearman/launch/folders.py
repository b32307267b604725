"""Folders of a run that goes on, kept from others and taken away at its end; and what killed runs left."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from mpc_spearman.errors import OutputError
from mpc_spearman.files import lock

_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_RANDOM = "[0-9a-f]" * 16


@contextmanager
def own(parent: Path, start: str, end: str = "") -> Iterator[Path]:
    """Make a folder that is this user's alone, and take it away again; `OutputError` if that cannot be.

    Its lock, which the system lets go of when this process ends, however it does, says that it is in use.
    Folders of that name without one are of killed runs, and are taken away.
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
