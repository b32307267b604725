"""Strangers at the listener, and answers of all kinds: a meeting is not disturbed."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import HandshakeError, MpcSpearmanError
from mpc_spearman.identity import Identity
from mpc_spearman.network import coordinator, handshake
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import Attempt, Settings
from mpc_spearman.network.control import LONGEST, Control
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
from mpc_spearman.network.handshake import Answer, Greeting, Use, enter, network_of
from mpc_spearman.network.tls import Closed
from mpc_spearman.parties import Roster
from support.meetings import KEYS, PARTIES, Meeting, assert_connected, tls
from support.memory_network import A, B, C
from support.processes import EVER, eventually, resident

Meet = Callable[..., Meeting]


def knock(address: Address, said: bytes) -> socket.socket:
    stranger = socket.create_connection((address.host, address.port), EVER)
    with suppress(OSError):
        stranger.sendall(said)
    return stranger


@pytest.mark.parametrize("strangers", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_strangers_at_the_door_do_not_disturb_a_meeting(meet: Meet, strangers: int) -> None:
    run = meet()
    run.come(C)
    run.come(B)
    greeting = Greeting(Use.MEET).pack()
    for i in range(strangers):
        hello = b"\x16\x03\x01\xff\xff" + os.urandom(200)  # as TLS begins
        said = [os.urandom(1 + i % 300), greeting, greeting[:-1], hello, b""]
        # Closes at once, with or without a reset; none waits for an answer.
        knock(run.address, said[i % 5]).close()
    run.come(A)
    assert_connected(run.wait())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no caller's time be over, however long a test takes."""
    monkeypatch.setattr(coordinator, "Listener", partial(handshake.Listener, patience=EVER))


@pytest.mark.usefixtures("patient")
def test_silent_strangers_delay_nobody(meet: Meet) -> None:
    run = meet()
    run.come(C)
    # Three times as many as are let in at the same time: the oldest have to go.
    silent = [knock(run.address, b"MPC" if i % 2 else b"") for i in range(3 * handshake.MOST_CALLERS)]
    run.come(B)
    run.come(A)
    assert_connected(run.wait())
    for stranger in silent:
        stranger.close()


@pytest.mark.usefixtures("patient")
def test_a_flooding_host_keeps_out_no_party_at_another_address(meet: Meet) -> None:
    run = meet()
    run.come(C)
    at = run.address.host, run.address.port
    slow = [socket.create_connection(at, EVER) for _ in (B, A)]
    crowd = [socket.create_connection(at, EVER, ("127.0.0.2", 0)) for _ in range(3 * handshake.MOST_CALLERS)]
    for stranger in crowd[: 2 * handshake.MOST_CALLERS]:
        assert stranger.recv(1) == b""  # dropped, since others have come
    for raw, member in zip(slow, (B, A), strict=True):
        enter(raw, tls(member.name), C, Greeting(Use.MEET)).close()
    for stranger in crowd:
        stranger.close()
    run.come(B)
    run.come(A)
    assert_connected(run.wait())


def test_a_party_that_calls_and_says_nothing_holds_two_connections_at_most(meet: Meet) -> None:
    run = meet()
    run.come(C)
    at = run.address.host, run.address.port
    call = lambda: enter(socket.create_connection(at, EVER), tls("A"), C, Greeting(Use.MEET))  # noqa: E731
    kept = [call(), call()]
    hub: Any = run.sides["C"]
    eventually(lambda: len(hub._controls) == 2)
    with pytest.raises(HandshakeError):
        call()
    for connection in kept:
        connection.close()
    eventually(lambda: all(control.over for control in hub._controls))
    for member in (B, A):
        run.come(member)
    assert_connected(run.wait())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_strangers_are_counted_by_what_they_cannot_change_of_their_address(
    one: str, other: str, same: bool
) -> None:
    assert (network_of(one) == network_of(other)) == same


def test_memory_and_threads_do_not_grow_with_strangers(meet: Meet) -> None:
    run = meet()
    threads = threading.active_count()
    run.come(C)
    with ExitStack() as strangers:
        for i in range(3 * handshake.MOST_CALLERS):
            strangers.enter_context(knock(run.address, b"MPC"))
            if i == handshake.MOST_CALLERS:
                before = resident()
        # Those whose caller was dropped end a moment later.
        eventually(lambda: threading.active_count() - threads < handshake.MOST_CALLERS + 20)
        assert resident() - before < 20_000_000
    run.come(B)
    run.come(A)
    assert_connected(run.wait())


def test_who_takes_its_time_is_dropped() -> None:
    dropped: list[MpcSpearmanError] = []

    def take(*_: Any) -> None:
        pytest.fail("a stranger was let in")

    here = handshake.Listener(Address("127.0.0.1", 0), tls("C"), take, dropped.append, patience=1.0)
    slow = knock(Address("127.0.0.1", here.port), b"")

    def said() -> bool:
        try:
            slow.sendall(b"M")
        except OSError:
            return True
        return False

    try:
        eventually(said)
        assert not here._callers
    finally:
        slow.close()
        here.close()


@pytest.mark.parametrize("known", [False, True], ids=["of no key", "that knows the coordinator's key"])
def test_a_stranger_is_turned_away_and_a_meeting_goes_on(meet: Meet, known: bool) -> None:
    run, stranger = meet(), Identity.new()
    run.come(C)
    run.come(B)
    run.come(A, "stranger", tls=tls("A", own=stranger, **({} if known else {"C": Identity.new()})))
    assert run.classes("stranger") == {"stranger": "UnknownKey"}
    if known:
        assert str(run.met["stranger"]) == f"C's plan lacks our key {stranger}"
        eventually(
            lambda: "a connection was turned away: a caller's key is not in this plan" in run.said["C"]
        )
    run.come(A)
    assert_connected(run.wait("A", "B", "C"))


def test_a_party_is_identified_by_its_key_whatever_it_says(meet: Meet) -> None:
    """B's key, in A's place: at C there are two of B, and nobody is A."""
    run = meet()
    run.come(C)
    run.come(B)
    hub: Any = run.sides["C"]
    eventually(lambda: B.number in hub._seats)
    run.come(A, "posing", tls=tls("A", own=KEYS["B"]))
    assert run.classes("posing") == {"posing": "HandshakeError"}
    run.come(A)
    assert_connected(run.wait("A", "B", "C"))


@settings(max_examples=60)
@given(st.binary(max_size=100))
def test_any_answer_at_the_door_is_our_own_error(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), EVER)
        far, _ = listener.accept()
    with near, far:
        far.sendall(answer)
        far.shutdown(socket.SHUT_WR)
        with pytest.raises((MpcSpearmanError, Closed)):
            enter(near, tls("A"), C, Greeting(Use.MEET))


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
        st.tuples(
            st.sampled_from(
                [
                    *("join", "here", "ready", "broken", "stop"),
                    *("all", "again", "met", "missing", "refused", "number"),
                ]
            ),
            st.sampled_from([None, [], {}, 7, "x", ["TableError", "A", "load"], {"contact": []}]),
        ).map(lambda pair: json.dumps(dict([pair])).encode()),
        st.tuples(
            st.sampled_from(["Unreachable", "TableError", "x", []]),
            st.sampled_from(["A", "C", "x", None, {}]),
            st.sampled_from(["connect", "x", 1]),
            st.sampled_from([None, 0, 1, 2, 3, -1, 1.5, "A", []]),
        ).map(lambda said: json.dumps({"stop": said}).encode()),
    )
)
@pytest.mark.parametrize("side", [CoordinatorMeeting, DataPartyMeeting])
def test_any_message_at_the_meeting_is_our_own_error(side: Any, said: bytes) -> None:
    me, peer = (C, A) if side is CoordinatorMeeting else (A, C)
    own = Settings(tls(me.name), "{}", "1", EVER, EVER, lambda text: None)
    agree = lambda sockets, ways: None  # noqa: E731
    carried = [lambda low, high, size: None] if side is CoordinatorMeeting else []
    one = side(Roster(PARTIES, me), own, agree, *carried)
    near, far = socket.socketpair()
    lost: list[MpcSpearmanError] = []
    with one._changed:
        one._control = control = Control(
            near, peer, EVER, one._on_message, lambda control, error: lost.append(error), lost.append
        )
        one._attempt = Attempt(Roster(PARTIES, me), own, agree, lambda own, error: None)
    far.sendall(said + b"\n")
    far.shutdown(socket.SHUT_WR)
    control.join()
    far.close()
    assert len(lost) <= 1  # none where the connection was ended on purpose
    assert all(isinstance(error, MpcSpearmanError) and len(str(error)) < 300 for error in lost)


def test_a_message_without_end_is_refused() -> None:
    near, far = socket.socketpair()
    lost: list[MpcSpearmanError] = []
    control = Control(
        near, A, EVER, lambda *said: None, lambda control, error: lost.append(error), lost.append
    )
    with far:
        far.sendall(bytes(LONGEST + 1))
        far.shutdown(socket.SHUT_WR)
        control.join()
    assert "cannot parse" in str(lost[0])


def test_two_connections_of_one_direction_are_one_too_many(meet: Meet) -> None:
    run = meet()
    for member in PARTIES:
        run.come(member)
    assert_connected(run.wait())
    hub: Any = run.sides["C"]
    token = hub._attempt.token
    for greeting, answer in (
        (Greeting(Use.SEND, 0, token), Answer.TAKEN),
        (Greeting(Use.SEND, 0, bytes(16)), Answer.UNEXPECTED),
        (Greeting(Use.FORWARD, 1, token), Answer.UNEXPECTED),  # they are direct
        (Greeting(Use.FORWARD, 2, token), Answer.UNEXPECTED),
    ):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            with pytest.raises(Closed):
                hub.take(A, greeting, ours)
            assert theirs.recv(1) == bytes([answer])


def test_a_token_is_in_no_repr() -> None:
    token = bytes(range(16))
    assert repr(token) not in repr(Greeting(Use.SEND, 0, token))
