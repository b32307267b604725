"""Strangers at the listener, and answers of all kinds: a meeting is not disturbed."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import HandshakeError, MpcSpearmanError
from mpc_spearman.identity import Identity
from mpc_spearman.network import handshake
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import Settings
from mpc_spearman.network.control import LONGEST, Control
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
from mpc_spearman.network.handshake import MOST_CALLERS, Answer, Greeting, Use, greet, network_of
from mpc_spearman.network.tls import Closed
from mpc_spearman.parties import Roster
from support.meetings import KEYS, PARTIES, Meeting, tls
from support.memory_network import A, B, C
from support.processes import EVER, eventually, resident

Meet = Callable[..., Meeting]


def knock(address: Address, first_bytes: bytes) -> socket.socket:
    stranger = socket.create_connection(address, EVER)
    with suppress(OSError):
        stranger.sendall(first_bytes)
    return stranger


@pytest.mark.parametrize("strangers", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_strangers_do_not_disturb_a_meeting(meet: Meet, strangers: int) -> None:
    run = meet()
    run.come_all(C, B)
    greeting = Greeting(Use.MEET).pack()
    hello = b"\x16\x03\x01\xff\xff" + os.urandom(200)  # as TLS begins
    for i in range(strangers):
        first_bytes = [os.urandom(1 + i % 300), greeting, greeting[:-1], hello, b""]
        # Closes at once, with or without a reset; none waits for an answer.
        knock(run.address, first_bytes[i % 5]).close()
    run.assert_all_connect(A)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give callers more time than a test takes."""
    monkeypatch.setattr(handshake, "CALLER_SECONDS", EVER)


@pytest.mark.usefixtures("patient")
def test_silent_strangers_delay_nobody_and_take_little_memory_and_few_threads(meet: Meet) -> None:
    run = meet()
    threads = threading.active_count()
    run.come(C)
    with ExitStack() as strangers:
        # Three times as many as are let in at the same time: the oldest have to go.
        for i in range(3 * MOST_CALLERS):
            strangers.enter_context(knock(run.address, b"MPC" if i % 2 else b""))
            if i == MOST_CALLERS:
                before = resident()
        # The threads of those that were dropped end a moment later.
        eventually(lambda: threading.active_count() - threads < MOST_CALLERS + 20)
        assert resident() - before < 20_000_000
        run.assert_all_connect(B, A)


@pytest.mark.usefixtures("patient")
def test_a_flooding_host_keeps_out_no_party_at_another_address(meet: Meet) -> None:
    run = meet()
    run.come(C)
    slow = [socket.create_connection(run.address, EVER) for _ in (B, A)]
    crowd = [socket.create_connection(run.address, EVER, ("127.0.0.2", 0)) for _ in range(3 * MOST_CALLERS)]
    for stranger in crowd[: 2 * MOST_CALLERS]:
        assert stranger.recv(1) == b""  # dropped, since others have come
    for raw, member in zip(slow, (B, A), strict=True):
        greet(raw, tls(member.name), C, Greeting(Use.MEET)).close()
    for stranger in crowd:
        stranger.close()
    run.assert_all_connect(B, A)


def test_a_party_that_sends_nothing_holds_two_connections_at_most(meet: Meet) -> None:
    run = meet()
    hub: Any = run.come(C)

    def connect() -> Any:
        return greet(socket.create_connection(run.address, EVER), tls("A"), C, Greeting(Use.MEET))

    connections = [connect(), connect()]
    eventually(lambda: len(hub._controls) == 2)
    with pytest.raises(HandshakeError):
        connect()
    for connection in connections:
        connection.close()
    eventually(lambda: all(control.over for control in hub._controls))
    run.assert_all_connect(B, A)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_a_callers_network_is_the_part_of_its_address_that_it_cannot_change(
    first: str, second: str, same: bool
) -> None:
    assert (network_of(first) == network_of(second)) == same


def test_a_caller_that_takes_its_time_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "CALLER_SECONDS", 1.0)

    def take(*_: Any) -> None:
        pytest.fail("a stranger was let in")

    listener = handshake.Listener(Address("127.0.0.1", 0), tls("C"), take, lambda error: None)
    slow = knock(Address("127.0.0.1", listener.port), b"")

    def is_dropped() -> bool:
        try:
            slow.sendall(b"M")
        except OSError:
            return True
        return False

    try:
        eventually(is_dropped)
        assert not listener._callers
    finally:
        slow.close()
        listener.close()


@pytest.mark.parametrize("knows", [False, True], ids=["of no key", "that knows the coordinator's key"])
def test_a_stranger_is_turned_away_and_a_meeting_goes_on(meet: Meet, knows: bool) -> None:
    run, stranger = meet(), Identity.new()
    run.come_all(C, B)
    run.come(A, "stranger", tls=tls("A", own=stranger, **({} if knows else {"C": Identity.new()})))
    assert type(run.error("stranger")).__name__ == "UnknownKey"
    if knows:
        assert str(run.met["stranger"]) == f"C's plan lacks our key {stranger}"
        run.assert_printed("a connection was turned away: a caller's key is not in this plan", "C")
    run.assert_all_connect(A)


def test_a_party_is_identified_by_its_key_whatever_it_claims(meet: Meet) -> None:
    """B's key, in A's place: at C there are two processes of B, and none of A."""
    run = meet()
    run.come_all(C, B)
    run.wait_until_joined(B)
    run.come(A, "posing", tls=tls("A", own=KEYS["B"]))
    assert type(run.error("posing")).__name__ == "HandshakeError"
    run.assert_all_connect(A)


@settings(max_examples=60)
@given(st.binary(max_size=100))
def test_any_answer_to_a_greeting_is_our_own_error(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), EVER)
        far, _ = listener.accept()
    with near, far:
        far.sendall(answer)
        far.shutdown(socket.SHUT_WR)
        with pytest.raises((MpcSpearmanError, Closed)):
            greet(near, tls("A"), C, Greeting(Use.MEET))


KEYS_OF_MESSAGES = [
    "join",
    "ready",
    "broken",
    "stop",
    "missing",
    "left",
    "connect",
    "addresses",
    "met",
    "refused",
]


@settings(max_examples=60)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=6,
        ).map(lambda value: json.dumps(value).encode()),
        st.dictionaries(
            st.sampled_from(KEYS_OF_MESSAGES),
            st.sampled_from([None, [], {}, 7, "x", "00" * 16, ["TableError", "A", "load"], [None] * 3]),
            min_size=1,
            max_size=2,
        ).map(lambda message: json.dumps(message).encode()),
        st.tuples(
            st.sampled_from(["Unreachable", "TableError", "x", []]),
            st.sampled_from(["A", "C", "x", None, {}]),
            st.sampled_from(["connect", "x", 1]),
            st.sampled_from([None, 0, 1, 2, 3, -1, 1.5, "A", []]),
        ).map(lambda notice: json.dumps({"stop": notice}).encode()),
    )
)
@pytest.mark.parametrize("side", [CoordinatorMeeting, DataPartyMeeting])
def test_any_message_at_the_meeting_is_our_own_error(side: Any, data: bytes) -> None:
    me, peer = (C, A) if side is CoordinatorMeeting else (A, C)
    own = Settings(
        Roster(PARTIES, me),
        tls(me.name),
        "{}",
        "1",
        EVER,
        EVER,
        lambda text: None,
        lambda sockets, ways: None,
    )
    meeting = side(own, *([lambda low, high, size: None] if side is CoordinatorMeeting else []))
    near, far = socket.socketpair()
    lost: list[Exception] = []
    with meeting._changed:
        meeting._control = control = Control(
            near, peer, EVER, meeting._on_message, lambda control, error: lost.append(error)
        )
    far.sendall(data + b"\n")
    far.shutdown(socket.SHUT_WR)
    control.join()
    far.close()
    assert len(lost) <= 1  # none where the connection was ended on purpose
    assert all(isinstance(error, MpcSpearmanError) and len(str(error)) < 300 for error in lost)


def test_a_message_without_end_is_refused() -> None:
    near, far = socket.socketpair()
    lost: list[Exception] = []
    control = Control(near, A, EVER, lambda *message: None, lambda control, error: lost.append(error))
    with far:
        far.sendall(bytes(LONGEST + 1))
        far.shutdown(socket.SHUT_WR)
        control.join()
    assert "cannot parse" in str(lost[0])


def test_an_attempt_takes_each_direct_connection_once(meet: Meet) -> None:
    run = meet()
    run.assert_all_connect(C, B, A)
    hub: Any = run.sides["C"]
    token = hub._attempt.token
    for greeting, answer in (
        (Greeting(Use.SEND, 0, token), Answer.TAKEN),
        (Greeting(Use.SEND, 1, token), Answer.TAKEN),
        (Greeting(Use.SEND, 0, bytes(16)), Answer.UNEXPECTED),
        (Greeting(Use.FORWARD, 1, token), Answer.UNEXPECTED),
        (Greeting(Use.FORWARD, 2, token), Answer.UNEXPECTED),
    ):
        near, far = socket.socketpair()
        with near, far:
            with pytest.raises(Closed):
                hub.take(A, greeting, near)
            assert far.recv(1) == bytes([answer])


def test_an_attempt_forwards_two_connections_of_a_pair_and_no_third(meet: Meet) -> None:
    run = meet(listen={})
    run.assert_all_connect(C, B, A)
    hub: Any = run.sides["C"]
    for caller, to in ((A, 1), (B, 2)):
        assert hub._attempt._answer_to(caller, Greeting(Use.FORWARD, to, hub._attempt.token)) is Answer.TAKEN


def test_no_repr_shows_a_token() -> None:
    token = bytes(range(16))
    assert repr(token) not in repr(Greeting(Use.SEND, 0, token))
