"""TLS between two parties inside the TLS connections that each of them has with the coordinator."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar

# Bytes of a record (RFC 8446, 5.1), and those sent at a time: a whole inner record fits the outer one, so
# that each record is read as it arrives.
_RECORD, _INNER, _AT_ONCE = 1 << 14, (1 << 14) - 22, 4
_T = TypeVar("_T")


class Nested:
    """The part of `ssl.SSLSocket` that connections here use, over another one, which has shaken hands.

    `ssl` wraps sockets of the system's only; this hands its bytes to the outer connection by itself.
    """

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, server_side: bool) -> None:
        self.outer = outer
        self._arriving, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._inner = context.wrap_bio(self._arriving, self._leaving, server_side)

    def do_handshake(self) -> None:
        """Shake hands; as a whole within the outer connection's time-out."""
        seconds = self.outer.gettimeout()
        end = None if seconds is None else time.monotonic() + seconds
        try:
            self._advance(self._inner.do_handshake, end)
        finally:
            with suppress(OSError):
                self._flush()  # the alert, if it failed
            self.outer.settimeout(seconds)

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all of it."""
        left = memoryview(data)
        while left:
            for _ in range(_AT_ONCE):
                left = left[self._inner.write(left[:_INNER]) :] if left else left
            self._flush()

    def recv(self, size: int) -> bytes:
        """Receive up to so many bytes; none at the end."""
        buffer = bytearray(size)
        return bytes(buffer[: self.recv_into(memoryview(buffer))])

    def recv_into(self, buffer: memoryview) -> int:
        """Receive into a buffer; 0 at the end."""

        def read() -> int:
            count: int = self._inner.read(len(buffer), buffer)  # type: ignore[assignment]  # a count, given a buffer
            return count

        try:
            if not self._arriving.pending and not self._inner.pending():
                self._fetch()
            return self._advance(read)
        except ssl.SSLZeroReturnError:
            return 0

    def getpeercert(self, binary_form: Literal[True]) -> bytes | None:
        """Return the inner peer's certificate."""
        return self._inner.getpeercert(binary_form)

    def settimeout(self, seconds: float | None) -> None:
        """Set the time-out of every step."""
        self.outer.settimeout(seconds)

    def setsockopt(self, *option: int) -> None:
        """Set an option of the system's socket."""
        self.outer.setsockopt(*option)

    def shutdown(self, how: int) -> None:
        """End the connection, or with ``SHUT_WR`` this party's direction."""
        self.outer.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self.outer.close()

    def __enter__(self) -> Nested:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _advance(self, step: Callable[[], _T], end: float | None = None) -> _T:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._flush()
            if end is not None:
                self.outer.settimeout(max(0.01, end - time.monotonic()))
            self._fetch()

    def _fetch(self) -> None:
        data = self.outer.recv(_RECORD)
        if data:
            self._arriving.write(data)
        else:
            self._arriving.write_eof()

    def _flush(self) -> None:
        data = self._leaving.read()
        if data:
            self.outer.sendall(data)
