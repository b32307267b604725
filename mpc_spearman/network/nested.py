"""TLS between two parties inside the TLS connections that each of them has with the coordinator."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar

# Bytes of a record (RFC 8446, 5.1), and those sent at a time: a whole inner record fits the outer one, so
# that each record is read as it arrives.
_RECORD, _INNER_RECORD, _RECORDS_AT_ONCE = 1 << 14, (1 << 14) - 22, 4
_T = TypeVar("_T")


class Nested:
    """TLS inside another TLS connection, with the methods of `ssl.SSLSocket` that are used here.

    `ssl` wraps only sockets of the system. So this object passes the inner bytes to the outer connection.
    """

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, server_side: bool) -> None:
        self.outer = outer
        self._arriving, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._inner = context.wrap_bio(self._arriving, self._leaving, server_side)

    def do_handshake(self) -> None:
        """Do the inner handshake, within the outer connection's time-out in all."""
        seconds = self.outer.gettimeout()
        end = None if seconds is None else time.monotonic() + seconds
        try:
            self._run_step(self._inner.do_handshake, end)
        finally:
            with suppress(OSError):
                self._flush()  # sends the alert, if the handshake failed
            self.outer.settimeout(seconds)

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all of `data`."""
        left = memoryview(data)
        while left:
            for _ in range(_RECORDS_AT_ONCE):
                left = left[self._inner.write(left[:_INNER_RECORD]) :] if left else left
            self._flush()

    def recv_into(self, buffer: memoryview) -> int:
        """Receive into a buffer; return how many bytes, 0 once the connection has ended."""

        def read() -> int:
            count: int = self._inner.read(len(buffer), buffer)  # type: ignore[assignment]  # a count, given a buffer
            return count

        try:
            if not self._arriving.pending and not self._inner.pending():
                self._fetch()
            return self._run_step(read)
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
        """End the connection; with ``SHUT_WR``, only this party's direction."""
        self.outer.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self.outer.close()

    def _run_step(self, step: Callable[[], _T], end: float | None = None) -> _T:
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


#: A connection with another party: TLS (an `ssl.SSLSocket`), or TLS inside TLS.
Connection = socket.socket | Nested
