"""Strangers at a listening port, and answers of all kinds: a meeting is not disturbed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import MpcSpearmanError, NetworkError
from mpc_spearman.parties import Roster
from mpc_spearman.wire import handshake
from support.meetings import PARTIES, Meeting, assert_connected, credentials, knock
from support.memory_network import A, B, C
from support.processes import EVER, eventually


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("strangers", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_strangers_at_the_door_do_not_disturb_a_meeting(
    meet: Callable[..., Meeting], certificates: Path, secured: bool, strangers: int
) -> None:
    run = meet(certificates if secured else None)
    run.come(C)
    run.come(B)
    greeting = handshake._FORMAT.pack(b"MPCSPEAR", 1, 0, 2, bytes(16))
    for i in range(strangers):
        hello = b"\x16\x03\x01\xff\xff" + os.urandom(200)  # as TLS begins
        said = [os.urandom(1 + i % 300), greeting, greeting[:-1], hello, b""]
        # Closes at once, with or without a reset; none waits for an answer.
        knock(run.ports[(C, B)[i % 2]], said[i % 5]).close()
    run.come(A)
    assert_connected(run.wait())


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_silent_strangers_hold_nobody_up_for_long(certificates: Path, secured: bool) -> None:
    own = certificates if secured else None
    here = handshake.Listener(Roster(PARTIES, C), "127.0.0.1", 0, credentials(own, "C"), patience=1.0)
    caller = handshake.Listener(Roster(PARTIES, A), "127.0.0.1", 0, credentials(own, "A"))
    # More than are let in at the same time.
    silent = [knock(here.address.port, b"MPC" if i % 2 else b"") for i in range(handshake.MOST + 20)]
    try:
        caller.connect(C, here.address, EVER)
        eventually(lambda: here.wait(0.1) or A not in here.missing())
    finally:
        for end in (*silent, here, caller, here.sockets(), caller.sockets()):
            end.close()


@pytest.mark.parametrize("host", ["x" * 200, "a..b", "\0", "256.256.256.256"])
def test_an_address_that_cannot_be_one(host: str) -> None:
    door = handshake.Listener(Roster(PARTIES, A), "127.0.0.1", 0, None)
    try:
        with pytest.raises(NetworkError, match=r"^A \(source\) cannot reach C \(coordinator\) at") as raised:
            door.connect(C, handshake.Address(host, 9, bytes(16)), 5.0)
    finally:
        door.close()
    assert raised.value.about == ("NetworkError", "C", "connect")


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60))
def test_any_answer_at_the_door_is_our_own_error(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.sendall(answer)
                caller.recv(100)

        other = threading.Thread(target=reply)
        other.start()
        door = handshake.Listener(Roster(PARTIES, A), "127.0.0.1", 0, None)
        address = handshake.Address("127.0.0.1", listener.getsockname()[1], bytes(16))
        # The second connection is never answered: nobody accepts it any more.
        with pytest.raises(MpcSpearmanError):
            door.connect(C, address, 0.5)
        door.close()
        door.sockets().close()
        other.join()
