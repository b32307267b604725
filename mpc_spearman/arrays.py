"""Arrays that may be larger than memory, and how they are gone through: a block of rows at a time.

Such an array is a mapped file without a name, which nobody else can open and which is gone with its process.
The system can take its pages back, so it needs disk in place of memory. What is computed from a mapped array,
and is as large, is mapped as well: `beside`.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mpc_spearman.errors import OutputError

#: Numbers that are worked on at a time: as many as fit a cache.
BLOCK = 1 << 17
_SMALL = 1 << 24  # bytes; what is smaller is in memory

Array = npt.NDArray[Any]
Some = TypeVar("Some", bound=np.generic)


def room(shape: tuple[int, ...], kind: type[Some], *, in_file: bool) -> npt.NDArray[Some]:
    """Make an array of zeros, in memory, or, if it is large, in a file in ``TMPDIR``.

    Raises
    ------
    OutputError
        The file cannot be made, or the disk has no room for all of it.
    """
    if not in_file or prod(shape) * np.dtype(kind).itemsize < _SMALL:
        return np.zeros(shape, kind)
    folder = Path(tempfile.gettempdir())
    # `secrets`, not `tempfile`: no part of a run draws on a seedable generator.
    path = folder / f".mpc-spearman-{secrets.token_hex(8)}"
    try:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink()
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; set TMPDIR") from None
    return mapped(opened, folder, shape, kind)


def mapped(opened: int, folder: Path, shape: tuple[int, ...], kind: type[Some]) -> npt.NDArray[Some]:
    """Map an empty file, whose descriptor this takes; `OutputError` if there is no room for the array."""
    with os.fdopen(opened, "r+b") as file:
        size, disk = prod(shape) * np.dtype(kind).itemsize, os.fstatvfs(opened)
        try:
            if size > disk.f_bavail * disk.f_frsize:  # do not even try, and leave others nothing meanwhile
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.posix_fallocate(opened, 0, size)  # else a disk that is full later would kill the process
        except OSError as error:
            why = f"{error.strerror}; it takes {size / 1e9:.1f} GB there"
            raise OutputError(f"cannot write to {folder}: {why}") from None
        return np.memmap(file, kind, "r+", shape=shape)


def beside(array: Array, shape: tuple[int, ...], kind: type[Some]) -> npt.NDArray[Some]:
    """Make an array of zeros, in a file if `array` is."""
    return room(shape, kind, in_file=isinstance(array, np.memmap))


def reordered(array: Array, order: npt.NDArray[np.int64]) -> Array:
    """Take the columns of (m, n) in an order; row by row, since jumping about in all is slow on disk."""
    found = beside(array, array.shape, array.dtype.type)
    for row, into in zip(array, found, strict=True):
        np.take(np.array(row), order, out=into, mode="clip")  # "raise" would make another copy
    return found


def blocks(n: int, rows: int) -> Iterator[slice]:
    """Cut n rows into blocks of so many."""
    for start in range(0, n, rows):
        yield slice(start, min(n, start + rows))
