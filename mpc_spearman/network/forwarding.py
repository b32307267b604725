"""The coordinator's host forwards bytes between two data parties that cannot reach each other.

Each of the two has connected to the coordinator. The bytes are TLS between the two, under keys that the
coordinator does not have; it learns how many bytes pass and when. One thread serves each pair of connections,
so one pair cannot block another, and holds at most one block besides the connections' buffers.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import chain

from mpc_spearman.network.connections import Connection, hang_up

# Bytes that are passed on at a time.
_BLOCK = 1 << 18


class Forwarding:
    """Connections joined in pairs; `count` is called with two parties' numbers and the bytes passed on."""

    def __init__(self, count: Callable[[int, int, int], None]) -> None:
        self._count = count
        self._waiting: dict[tuple[int, int], list[Connection]] = {}
        self._threads: list[threading.Thread] = []
        self._joined: list[Connection] = []
        self._over = False
        self._lock = threading.Lock()

    def install(self, caller: int, to: int, connection: Connection) -> None:
        """Join a connection to one of the other party's, now or when that arrives."""
        with self._lock:
            if self._over:
                connection.close()
                return
            partners = self._waiting.get((to, caller))
            if not partners:
                self._waiting.setdefault((caller, to), []).append(connection)
                return
            joined = (partners.pop(), connection, min(caller, to), max(caller, to))
            thread = threading.Thread(target=self._pass_on, args=joined, name="forward", daemon=True)
            thread.start()  # now, as `close`, which needs the lock too, joins all threads
            self._threads.append(thread)
            self._joined += joined[:2]

    def close(self, seconds: float = 0.0) -> None:
        """Wait at most `seconds` until the parties have ended all connections; then end the rest."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._lock:
            self._over = True
            for connection in (*chain(*self._waiting.values()), *self._joined):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for connection in chain(*self._waiting.values()):
                connection.close()

    def _pass_on(self, first: socket.socket, second: socket.socket, low: int, high: int) -> None:
        block = memoryview(bytearray(_BLOCK))
        ends = {first: second, second: first}
        with first, second, suppress(OSError):
            for end in ends:
                end.settimeout(0.0)
            ready = list(ends)
            while True:
                for source in ready:
                    size, over = len(block), False
                    # After a full block TLS may hold more bytes, of which `select` does not know.
                    while size == len(block) and not over:
                        size, over = _received(source, block)
                        _send(ends[source], block[:size])
                        self._count(low, high, size)
                    if over:
                        hang_up(ends[source], 1.0)  # its last bytes may say why
                        return
                ready, _, _ = select.select(list(ends), [], [])


def _received(source: socket.socket, block: memoryview) -> tuple[int, bool]:
    """Receive what is available, up to a block; return its size, and whether the connection ended."""
    size = 0
    with suppress(BlockingIOError, ssl.SSLWantReadError):
        while size < len(block):
            count = source.recv_into(block[size:])
            if not count:
                return size, True
            size += count
    return size, False


def _send(sink: socket.socket, data: memoryview) -> None:
    """Send all of `data`, waiting while the other end does not read."""
    while data:
        try:
            data = data[sink.send(data) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            select.select([], [sink], [])
