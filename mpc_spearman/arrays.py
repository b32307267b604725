"""Arrays that may be larger than memory, and the way to process them: some columns of all rows at a time.

Such an array is a mapped file without a name, which nobody else can open and which disappears with its
process. The system can take its pages back, so it needs disk in place of memory. Equally large arrays
computed from a mapped array are mapped too: `zeros_like`.

The system's own reading ahead is off for arrays of several rows: it would read megabytes of each row, and
drop them for the next row before they are used. `parts` itself asks for the next part of all rows, and drops
the part before.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from math import prod
from pathlib import Path
from threading import RLock
from typing import IO, Any, Literal, TypeVar
from weakref import finalize

import numpy as np
import numpy.typing as npt
from rich.filesize import decimal

from mpc_spearman.errors import OutputError
from mpc_spearman.files import temporary_folder

#: How many numbers to process at a time, to fit a cache; and how many per row if all rows are needed.
BLOCK, STRIP = 1 << 17, 1 << 14
_SMALL = 1 << 24  # bytes; smaller arrays are always in memory
_AHEAD = 1 << 24  # bytes that are read at a time
_SEGMENT = 1 << 26  # bytes of a file that several small arrays share
_SHARE = 8  # a table may take one eighth of the machine's memory

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]  # of a table, by their places
Some = TypeVar("Some", bound=np.generic)


def zeros(shape: tuple[int, ...], kind: type[Some], *, in_file: bool) -> npt.NDArray[Some]:
    """Return an array of zeros, in memory or, if it is large and `in_file`, in a file in ``TMPDIR``.

    Raises
    ------
    OutputError
        The file cannot be made, or the disk has no room for all of it.
    """
    if not in_file or prod(shape) * np.dtype(kind).itemsize < _SMALL:
        return np.zeros(shape, kind)
    folder = temporary_folder()
    # `secrets`, not `tempfile`: no part of a run draws on a seedable generator.
    path = folder / f".mpc-spearman-{secrets.token_hex(8)}"
    try:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink()
        return mapped(opened, shape, kind)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; set TMPDIR") from None


class Memory:
    """The memory that the arrays of a table may take. Arrays beyond it are in files, as by `zeros`."""

    def __init__(self, limit: int | None = None) -> None:
        """Allow so many bytes; by default a share of what the machine, or the control group, has."""
        self.limit = machine_memory() // _SHARE if limit is None else limit
        self._left, self._lock, self._spare = self.limit, RLock(), np.empty(0, np.uint8)

    def zeros(self, shape: tuple[int, ...], kind: type[Some]) -> npt.NDArray[Some]:
        """Return an array of zeros: in memory while enough is left, if below a quarter of the limit."""
        size = prod(shape) * np.dtype(kind).itemsize
        if size >= _SMALL and not (size <= self.limit // 4 and self.take(size)):
            return zeros(shape, kind, in_file=True)
        array = np.zeros(shape, kind)
        if size >= _SMALL:
            finalize(array, self.take, -size)
        return array

    def keep(self, array: Array) -> Array:
        """Return the array itself if memory has room for it, or a copy in a file."""
        if self.take(array.nbytes):
            return array
        with self._lock:
            if array.nbytes > self._spare.nbytes:
                self._spare = zeros((max(_SEGMENT, array.nbytes),), np.uint8, in_file=True)
            copy = self._spare[: array.nbytes].view(array.dtype)
            self._spare = self._spare[-(-array.nbytes // 8) * 8 :]
        copy[:] = array
        return copy

    def take(self, size: int) -> bool:
        """Take `size` bytes of the allowed memory, if they are left; return whether they were."""
        with self._lock:
            fits = size <= self._left
            self._left -= size * fits
            return fits


@cache
def machine_memory() -> int:
    """Return how many bytes of memory the machine has, or the control group of this process may take."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, group = line.split(":", 2)
            for path in (Path(group), *Path(group).parents):
                folder = Path("/sys/fs/cgroup", kind, str(path).lstrip("/"))
                for name in ("memory.max", "memory.limit_in_bytes"):
                    with suppress(OSError, ValueError):  # such as "max"
                        sizes.append(int((folder / name).read_text()))
    return min(sizes)


def mapped(opened: int, shape: tuple[int, ...], kind: type[Some]) -> npt.NDArray[Some]:
    """Map an empty file, and close its descriptor; `OSError` if its disk has no room for the array."""
    with os.fdopen(opened, "r+b") as file:
        size, disk = prod(shape) * np.dtype(kind).itemsize, os.fstatvfs(opened)
        if size > disk.f_bavail * disk.f_frsize:  # do not even try: it would fill the disk for others
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} for {decimal(size)}")
        os.posix_fallocate(opened, 0, size)  # else a disk that is full later would kill the process
        return from_file(file, "r+", shape, kind)


def from_file(
    file: IO[bytes] | Path, mode: Literal["r", "r+"], shape: tuple[int, ...], kind: type[Some]
) -> npt.NDArray[Some]:
    """Map a file that holds an array; `ValueError` if it is too short."""
    array = np.memmap(file, kind, mode, shape=shape)
    if len(shape) > 1:
        array._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return array


def zeros_like(array: Array, shape: tuple[int, ...], kind: type[Some]) -> npt.NDArray[Some]:
    """Return an array of zeros; if it is large, in a file if `array` is in one."""
    return zeros(shape, kind, in_file=isinstance(array, np.memmap))


def reordered(array: Array, order: npt.NDArray[np.int64]) -> Array:
    """Return the columns of an array, (m, n), in the given order."""
    copied = zeros_like(array, array.shape, array.dtype.type)
    # Row by row, since random access to all rows is slow on disk.
    for row, into in zip(array, copied, strict=True):
        whole = np.concatenate([part for _, part in parts(row, BLOCK)])
        np.take(whole, order, out=into, mode="clip")  # "raise" would make another copy
    return copied


def parts(array: Array, columns: int) -> Iterator[tuple[slice, Array]]:
    """Yield an array, (n,) or (m, n), in parts of `columns` columns: each part's slice and view."""
    n = array.shape[-1]
    step = columns * max(1, _AHEAD // max(1, columns * array.nbytes // max(1, n)))
    for part in blocks(n, columns):
        if isinstance(array, np.memmap) and part.start % step == 0:
            array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
            _fetch(array, slice(part.start + step if part.start else 0, part.start + 2 * step))
        yield part, array[..., part]


def _fetch(array: Array, columns: slice) -> None:
    """Have the system read some columns of a mapped array, and not wait for it."""
    mapping = array._mmap  # type: ignore[attr-defined]
    begin = np.frombuffer(mapping, np.uint8).ctypes.data
    for row in np.atleast_2d(array)[:, columns]:
        if row.size:
            start = row.ctypes.data - begin
            before = start % mmap.PAGESIZE  # in the same page
            mapping.madvise(mmap.MADV_WILLNEED, start - before, row.nbytes + before)


def blocks(n: int, rows: int) -> Iterator[slice]:
    """Cut n rows into blocks of so many."""
    for start in range(0, n, rows):
        yield slice(start, min(n, start + rows))
