"""Bytes between two parties: two connections with each peer, one for each direction.

A connection carries bytes one way only, so the thread that sends and the thread that receives never share a
TLS session, which neither OpenSSL nor Python's ``ssl`` would allow.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

# A payload shorter than this is sent together with its header, so that a small message is one packet.
_SMALL = 1 << 14


class Sockets:
    """The connections of one party, by the peer's number: plain ones or TLS.

    Parameters
    ----------
    sending, receiving : mapping of int to socket
        Blocking, connected, and used for that direction only.
    end : callable
        Called when all are closed.
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

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._sending.values(), *self._receiving.values()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._end()
