"""The command's output streams: text that cannot be printed is lost, and the run goes on.

A run matters more than its output: a pipe without a reader, a full disk behind a redirection or a locale
without some character must neither end the run nor leave the other parties waiting.
"""

from __future__ import annotations

import errno
import io
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _NeverFails(io.FileIO):
    """A file descriptor that accepts everything, and drops all output after the first failed write."""

    lost: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        while self.lost is None:
            try:
                written = super().write(data)
            except OSError as error:
                self.lost = error
                break
            if written is not None:
                return written
            select.select([], [self], [])  # its other end has made it one that does not wait
        return memoryview(data).nbytes


def never_fail() -> None:
    """Replace this process's streams by such ones; characters that they cannot encode become escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue  # there is none, or somebody else has put one in its place
        raw = _NeverFails(stream.fileno(), "w", closefd=False)
        protected = io.TextIOWrapper(
            io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=True
        )
        setattr(sys, name, protected)


def lost() -> str | None:
    """Return why some output could not be written; None if all was, or if its reader closed the pipe."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _NeverFails):
        return None
    sys.stdout.flush()
    return None if raw.lost is None or raw.lost.errno == errno.EPIPE else raw.lost.strerror
