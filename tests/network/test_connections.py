"""The connections of a run, over loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import pytest

from mpc_spearman.network.connections import Sockets, hang_up
from support.meetings import PARTIES, Meeting
from support.processes import EVER


@pytest.mark.parametrize("takes", [True, False], ids=["little", "nothing"])
def test_a_peer_that_reads_no_byte_at_the_end_is_lost(takes: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    sockets = Sockets({1: near}, {})

    pauses = [time.monotonic()]

    def take() -> None:
        with suppress(ConnectionResetError):
            while far.recv(1 << 16):
                time.sleep(0.02)
                pauses.append(time.monotonic())

    reader = threading.Thread(target=take)
    with far, near:
        sockets.set_send_timeout(1.0)
        if takes:
            reader.start()
            try:
                sockets.send(1, b"head", bytes(1 << 23))  # which takes more than a second
            except TimeoutError:
                sockets.close()
                reader.join()
                # This machine was too busy for the reader.
                assert max(after - before for before, after in pairwise(pauses)) > 0.2
            sockets.close()
            reader.join()
        else:
            with pytest.raises(TimeoutError):
                sockets.send(1, b"head", bytes(1 << 26))  # more than the system holds


def test_the_coordinator_ends_when_the_others_have(meet: Callable[..., Meeting]) -> None:
    """Its host may still have to pass on the last bytes between the others."""
    run = meet(listen={})
    for member in PARTIES:
        run.come(member)
    met = run.wait()
    done = threading.Thread(target=met["C"].sockets.close)
    done.start()
    met["A"].sockets.send(1, b"last", b" words")
    assert bytes(met["B"].sockets.receive(2, 10, lambda: None)) == b"last words"
    assert done.is_alive()
    met["A"].sockets.close()
    met["B"].sockets.close()
    done.join(EVER)
    assert not done.is_alive()


def test_hanging_up_ends_though_the_peer_goes_on_sending() -> None:
    near, far = socket.socketpair()
    over = threading.Event()

    def trickle() -> None:
        for _ in range(1000):
            if over.wait(0.01):
                return
            far.send(b"x")
        far.shutdown(socket.SHUT_WR)

    with near, far:
        sender = threading.Thread(target=trickle)
        sender.start()
        hang_up(near, 0.1)
        assert sender.is_alive()
        over.set()
        sender.join()
