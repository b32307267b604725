"""Bytes between two parties: two connections with each peer, one for each direction.

A connection carries bytes one way only, so the thread that sends and the thread that receives never share a
TLS session, which neither OpenSSL nor Python's ``ssl`` would allow.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from mpc_spearman.network.nested import Connection, Nested

# A payload shorter than this is sent together with its header, so that a small message is one packet.
_SMALL = 1 << 14


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
        for connection in (*self._sending.values(), *self._receiving.values()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._end()


def receive_exactly(
    connection: Connection, size: int, on_arrival: Callable[[], None] = lambda: None
) -> memoryview:
    """Return exactly `size` received bytes; call `on_arrival` whenever some arrive.

    `ConnectionResetError` if the connection ends before.
    """
    buffer = bytearray(size)
    left = memoryview(buffer)
    while left:
        count = connection.recv_into(left)
        if not count:
            raise ConnectionResetError("closed by the peer")
        on_arrival()
        left = left[count:]
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
        while (left := end - time.monotonic()) > 0:
            raw.settimeout(left)
            if not socket.SocketType.recv(raw, 1 << 16):  # below TLS, which may have failed
                return
