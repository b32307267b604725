"""The connections of a run: bytes one way between two parties, in TLS, or in TLS inside TLS.

A connection carries bytes one way only, so the thread that sends and the thread that receives never share a
TLS session, which neither OpenSSL nor Python's ``ssl`` would allow. Forwarded bytes are in TLS between two
parties, inside the TLS connections that each of them has with the coordinator: :class:`Nested`.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal, TypeVar

# A payload shorter than this is sent together with its header, so that a small message is one packet.
_SMALL = 1 << 14
# Bytes of a record (RFC 8446, 5.1), and those sent at a time: a whole inner record fits the outer one, so
# that each record is read as it arrives.
_RECORD, _INNER_RECORD, _RECORDS_AT_ONCE = 1 << 14, (1 << 14) - 22, 4
_T = TypeVar("_T")


class Sockets:
    """The connections of one party, by the peer's number, one for each direction.

    `end` is called once all are closed.
    """

    def __init__(
        self,
        sending: Mapping[int, Connection],
        receiving: Mapping[int, Connection],
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._sending, self._receiving, self._end = dict(sending), dict(receiving), end

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        """Send a frame; return when the kernel has all of it."""
        connection = self._sending[number]
        if len(payload) < _SMALL:
            connection.sendall(header + payload)
        else:
            connection.sendall(header)
            connection.sendall(payload)

    def receive(self, number: int, size: int, on_arrival: Callable[[], None]) -> memoryview:
        """Return exactly `size` received bytes; call `on_arrival` whenever some arrive."""
        return receive_exactly(self._receiving[number], size, on_arrival)

    def set_send_timeout(self, seconds: float) -> None:
        """From now on, fail a connection whose other end reads no byte for `seconds` (RFC 5482).

        Use it only at the end of a run: a party that computes may read nothing for long.
        """
        for connection in self._sending.values():
            with suppress(OSError):  # it has failed already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))

    def close(self) -> None:
        """Close all connections."""
        close_now(*self._sending.values(), *self._receiving.values())
        self._end()


class Nested:
    """TLS inside another TLS connection, with the methods of `ssl.SSLSocket` that are used here.

    `ssl` wraps only sockets of the system. So this object passes the inner bytes to the outer connection.
    """

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, server_side: bool) -> None:
        self.outer = outer
        self.settimeout, self.setsockopt = outer.settimeout, outer.setsockopt
        self.shutdown, self.close = outer.shutdown, outer.close
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
        unsent = memoryview(data)
        while unsent:
            for _ in range(_RECORDS_AT_ONCE):
                unsent = unsent[self._inner.write(unsent[:_INNER_RECORD]) :] if unsent else unsent
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


def receive_exactly(
    connection: Connection, size: int, on_arrival: Callable[[], None] = lambda: None
) -> memoryview:
    """Return exactly `size` received bytes; call `on_arrival` whenever some arrive.

    `ConnectionResetError` if the connection ends before.
    """
    buffer = bytearray(size)
    missing = memoryview(buffer)
    while missing:
        count = connection.recv_into(missing)
        if not count:
            raise ConnectionResetError("closed by the peer")
        on_arrival()
        missing = missing[count:]
    return memoryview(buffer).toreadonly()


def hang_up(connection: Connection, seconds: float) -> None:
    """End a connection, within `seconds`, so that the peer can still read what was sent; do not close it.

    Closing a connection that holds unread bytes of the peer resets it, and a reset discards what the peer has
    not read yet. So the peer's bytes are read here, and ignored.
    """
    end = time.monotonic() + seconds
    raw = connection.outer if isinstance(connection, Nested) else connection
    with suppress(OSError):
        raw.shutdown(socket.SHUT_WR)
        while (remaining := end - time.monotonic()) > 0:
            raw.settimeout(remaining)
            if not socket.SocketType.recv(raw, 1 << 16):  # below TLS, which may have failed
                return


def close_now(*connections: Connection) -> None:
    """End and close connections, also those that another thread reads or writes."""
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
