"""Somebody between two hosts, who changes a byte of what passes."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from support.processes import free_port


class Relay:
    """A TCP relay that changes one byte of what passes once `change` is set."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.behind = free_port()
        self.change = threading.Event()
        self.changed = 0.0
        self._ends: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.behind))
                except OSError:  # nobody is there yet: who has called is to call again
                    near.close()
                    continue
                self._ends += near, far
                for pair in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pass, args=pair))
                    self._threads[-1].start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.change.is_set() and not self.changed:
                    self.changed = time.monotonic()
                    data = data[:-1] + bytes([data[-1] ^ 1])
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
