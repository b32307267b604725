"""Bytes between two parties: two connections with each peer, one for each direction.

A connection carries bytes one way only, so the thread that sends and the thread that receives never share a
TLS session, which neither OpenSSL nor Python's ``ssl`` would allow.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from mpc_spearman.network.nested import Nested

# A payload shorter than this is sent together with its header, so that a small message is one packet.
_SMALL = 1 << 14


class Sockets:
    """The connections of one party, by the peer's number, one for each direction.

    `end` is called when all are closed.
    """

    def __init__(
        self,
        sending: Mapping[int, socket.socket],
        receiving: Mapping[int, socket.socket],
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._sending, self._receiving, self._end = dict(sending), dict(receiving), end

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        """Send a frame; returns when the kernel has all of it."""
        connection = self._sending[number]
        if len(payload) < _SMALL:
            connection.sendall(header + payload)
        else:
            connection.sendall(header)
            connection.sendall(payload)

    def receive(self, number: int, size: int, heard: Callable[[], None]) -> memoryview:
        """Receive exactly `size` bytes, calling `heard` whenever some arrive: one message can take long."""
        connection, buffer = self._receiving[number], bytearray(size)
        left = memoryview(buffer)
        while left:
            count = connection.recv_into(left)
            if not count:
                raise ConnectionResetError("closed by the peer")
            heard()
            left = left[count:]
        return memoryview(buffer).toreadonly()

    def hurry(self, seconds: float) -> None:
        """Let a connection fail if its other end takes no byte for so many seconds (RFC 5482).

        Only at a run's end: a party that computes may be too busy to take anything for long.
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


def hang_up(connection: socket.socket | Nested, seconds: float) -> None:
    """End a connection without losing what this party has sent, within so many seconds; do not close it.

    Closing while something of the peer's is unread resets the connection, and a reset throws away what the
    peer has not read yet.
    """
    end = time.monotonic() + seconds
    raw = connection.outer if isinstance(connection, Nested) else connection
    with suppress(OSError):
        raw.shutdown(socket.SHUT_WR)
        while (left := end - time.monotonic()) > 0:
            raw.settimeout(left)
            if not socket.SocketType.recv(raw, 1 << 16):  # below TLS, which may have failed
                return
