"""Forwarded connections: a stalled pair does not block others, and little of its data is held."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mpc_spearman.network.forwarding import Forwarding
from support.meetings import tls
from support.memory_network import C

BLOCK = bytes(1 << 16)
#: More than the buffers of the sockets and one block, in bytes.
A_FEW = 24 << 20


class Host:
    """A coordinator's host that forwards, and parties connected with it."""

    def __init__(self, undo: ExitStack) -> None:
        self._coordinator, self._party = tls("C"), tls("A")
        self._undo = undo
        self.carried = 0
        self.forwarding = Forwarding(self._carry)

    def _carry(self, low: int, high: int, size: int) -> None:
        self.carried += size

    def connect(self, caller: int, to: int) -> ssl.SSLSocket:
        """Return a party's end of a connection that is forwarded."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            raw = socket.create_connection(listener.getsockname(), 10)
            accepted, _ = listener.accept()
        accepted.settimeout(10)
        ends: list[ssl.SSLSocket] = []
        thread = threading.Thread(target=lambda: ends.append(self._coordinator.answer(accepted)[0]))
        thread.start()
        connection = self._party.call(raw, C)
        thread.join()
        ends[0].settimeout(None)
        self._undo.enter_context(connection)
        self.forwarding.install(caller, to, ends[0])
        return connection


@pytest.fixture
def host() -> Iterator[Host]:
    with ExitStack() as undo:
        yield Host(undo)


def send_until_stuck(connection: ssl.SSLSocket) -> int:
    """Send until nothing has left for a second; return how many bytes have."""
    connection.settimeout(1.0)
    sent = 0
    try:
        while sent < 20 * A_FEW:
            connection.sendall(BLOCK)
            sent += len(BLOCK)
    except TimeoutError:
        pass
    return sent


def receive(connection: ssl.SSLSocket, size: int) -> int:
    connection.settimeout(20)
    received = 0
    while received < size:
        part = connection.recv(1 << 18)
        assert part, received
        received += len(part)
    return received


def test_a_slow_reader_holds_up_no_other_pair(host: Host) -> None:
    """Nobody reads what the slow pair sends; the host holds a bounded number of its bytes."""
    slow, _ = host.connect(2, 1), host.connect(1, 2)
    assert send_until_stuck(slow) < A_FEW
    for caller, to in ((3, 1), (3, 2)):
        sender, reader = host.connect(caller, to), host.connect(to, caller)
        sending = threading.Thread(target=lambda sender=sender: [sender.sendall(BLOCK) for _ in range(512)])
        sending.start()
        assert receive(reader, 512 * len(BLOCK)) == 512 * len(BLOCK)
        sending.join()
    assert host.carried >= 2 * 512 * len(BLOCK)


def test_the_last_bytes_arrive_before_the_end(host: Host) -> None:
    for number in range(2):
        sender, reader = host.connect(2, 1), host.connect(1, 2)
        sender.sendall(b"last words")
        sender.close()
        reader.settimeout(20)
        assert receive(reader, 10) == 10
        assert reader.recv(1) == b"", number


def test_a_connection_that_comes_when_forwarding_has_ended_is_closed(host: Host) -> None:
    host.forwarding.close()
    assert host.connect(1, 2).recv(1) == b""


def test_forwarding_that_ends_as_two_connections_are_joined_ends_both(host: Host) -> None:
    ender = threading.Thread(target=host.forwarding.close)

    class Threads(list[threading.Thread]):
        def append(self, thread: threading.Thread) -> None:
            super().append(thread)
            ender.start()
            ender.join(0.2)

    host.forwarding._threads = Threads()
    assert [end.recv(1) for end in (host.connect(1, 2), host.connect(2, 1))] == [b"", b""]
    ender.join()
