"""Relays between two connections, one of which changes a byte of what passes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread

from support.processes import free_port

Change = Callable[[bytes], bytes]


def pass_on(source: socket.socket, sink: socket.socket, change: Change = bytes) -> None:
    """Pass on what arrives, changed; when that ends, end both connections."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(change(data))
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def join(near: socket.socket, far: socket.socket, change: Change = bytes) -> None:
    """Pass on bytes both ways, until either connection ends."""
    back = Thread(target=pass_on, args=(far, near, change))
    back.start()
    pass_on(near, far, change)
    back.join()


class Relay(ThreadingTCPServer):
    """A TCP relay to the port `behind` that changes one byte of what passes once `change` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Joined)
        self.port, self.behind = self.server_address[1], free_port()
        self.change, self.changed = Event(), 0.0
        Thread(target=self.serve_forever).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def change_once(self, data: bytes) -> bytes:
        if not self.change.is_set() or self.changed:
            return data
        self.changed = time.monotonic()
        return data[:-1] + bytes([data[-1] ^ 1])


class _Joined(BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        # If nobody listens there yet, the caller has to call again.
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.behind)) as far:
            join(self.request, far, self.server.change_once)
