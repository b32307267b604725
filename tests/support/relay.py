"""Somebody between two hosts, who changes a byte of what passes."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread

from support.processes import free_port


class Relay(ThreadingTCPServer):
    """A TCP relay to the port `behind` that changes one byte of what passes once `change` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Between)
        self.port, self.behind = self.server_address[1], free_port()
        self.change, self.changed = Event(), 0.0
        Thread(target=self.serve_forever).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.change.is_set() and not self.changed:
                    self.changed = time.monotonic()
                    data = data[:-1] + bytes([data[-1] ^ 1])
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class _Between(BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        # Where nobody is there yet, who has called is to call again.
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.behind)) as far:
            back = Thread(target=self.server.carry, args=(far, self.request))
            back.start()
            self.server.carry(self.request, far)
            back.join()
