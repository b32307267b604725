"""Strangers at the listener, and answers of all kinds: a meeting is not disturbed."""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.errors import HandshakeError, MpcSpearmanError
from mpc_spearman.network import handshake
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.authentication import Closed, Secret
from mpc_spearman.network.control import LONGEST, Control
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
from mpc_spearman.network.handshake import Greeting, Purpose, enter, network_of
from mpc_spearman.network.meeting import Own
from mpc_spearman.network.pairs import Told
from mpc_spearman.parties import Roster
from mpc_spearman.wire.certificates import make_certificates
from support.meetings import PARTIES, SECRET, Meeting, assert_connected, authentication, knock
from support.memory_network import A, B, C
from support.processes import EVER, eventually

Meet = Callable[..., Meeting]


@pytest.mark.parametrize("secured", [False, True], ids=["secret", "tls"])
@pytest.mark.parametrize("strangers", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_strangers_at_the_door_do_not_disturb_a_meeting(
    meet: Meet, certificates: Path, secured: bool, strangers: int
) -> None:
    run = meet(certificates if secured else None)
    run.come(C)
    run.come(B)
    greeting = Greeting(Purpose.MEET, 2, 0).pack()
    for i in range(strangers):
        hello = b"\x16\x03\x01\xff\xff" + os.urandom(200)  # as TLS begins
        said = [os.urandom(1 + i % 300), greeting, greeting[:-1], hello, b""]
        # Closes at once, with or without a reset; none waits for an answer.
        knock(run.address, said[i % 5]).close()
    run.come(A)
    assert_connected(run.wait())


@pytest.mark.parametrize("secured", [False, True], ids=["secret", "tls"])
def test_silent_strangers_hold_nobody_up(meet: Meet, certificates: Path, secured: bool) -> None:
    run = meet(certificates if secured else None)
    run.come(C)
    # Three times as many as are let in at the same time: the oldest have to go.
    silent = [knock(run.address, b"MPC" if i % 2 else b"") for i in range(3 * handshake.MOST)]
    began = time.monotonic()
    run.come(B)
    run.come(A)
    assert_connected(run.wait())
    assert time.monotonic() - began < handshake.PATIENCE / 2
    for stranger in silent:
        stranger.close()


def test_a_host_that_never_stops_calling_keeps_out_no_party_at_another_address(meet: Meet) -> None:
    run = meet(None)
    run.come(C)
    at = run.address.host, run.address.port
    slow = [socket.create_connection(at, 20.0) for _ in (B, A)]
    crowd = [socket.create_connection(at, 20.0, ("127.0.0.2", 0)) for _ in range(3 * handshake.MOST)]
    for stranger in crowd[: 2 * handshake.MOST]:
        assert stranger.recv(1) == b""  # dropped, since others have come
    for raw, member in zip(slow, (B, A), strict=True):
        greeting = Greeting(Purpose.MEET, member.number, 0)
        enter(raw, Secret(SECRET), Roster(PARTIES, member), C, greeting).close()  # type: ignore[union-attr]
    for stranger in crowd:
        stranger.close()
    assert run.classes() == {"C": "PeerDied"}


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
    run = meet(None)
    threads = threading.active_count()
    run.come(C)
    with ExitStack() as strangers:
        for i in range(3 * handshake.MOST):
            strangers.enter_context(knock(run.address, b"MPC"))
            if i == handshake.MOST:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # Those whose caller was dropped end a moment later.
        eventually(lambda: threading.active_count() - threads < handshake.MOST + 20)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kilobytes
    run.come(B)
    run.come(A)
    assert_connected(run.wait())


def test_who_takes_its_time_is_dropped() -> None:
    dropped: list[MpcSpearmanError] = []
    here = handshake.Listener(
        Address("127.0.0.1", 0), Secret(SECRET), Roster(PARTIES, C), Nobody(), dropped.append, patience=1.0
    )
    slow = knock(Address("127.0.0.1", here.port), b"")

    def said() -> bool:
        try:
            slow.sendall(b"M")
        except OSError:
            return True
        return False

    try:
        eventually(said)
        assert not here._knocking
    finally:
        slow.close()
        here.close()


class Nobody:
    """Who would take in whoever is let in: nobody is."""

    def knows(self, greeting: Greeting) -> bool:
        return False

    def reserve(self, greeting: Greeting) -> Any:
        pytest.fail("a stranger was let in")

    def install(self, greeting: Greeting, connection: Any) -> None:
        pytest.fail("a stranger was let in")

    def fail(self, error: MpcSpearmanError) -> None:
        pytest.fail("a stranger has stopped a run")


def test_a_stranger_without_the_secret_learns_nothing_and_is_named(meet: Meet) -> None:
    run = meet(None)
    run.come(C)
    run.come(B)
    run.come(A, "stranger", authenticated=Secret(bytes(32)))
    error = run.wait("stranger")["stranger"]
    assert type(error) is HandshakeError
    assert "C (coordinator) does not know this party's `network.secret`" in str(error)
    run.come(A)
    assert_connected(run.wait("A", "B", "C"))


def test_a_stranger_that_goes_on_without_a_proof_is_named_to_the_coordinator(meet: Meet) -> None:
    run = meet(None)
    run.come(C)
    stranger = knock(run.address, Greeting(Purpose.MEET, 2, 0).pack())
    stranger.settimeout(EVER)
    heard = stranger.recv(1 << 16)
    stranger.sendall(bytes(32))
    eventually(lambda: bool(run.said["C"]))
    assert "who connected does not know `network.secret`" in run.said["C"][0]
    assert len(heard) <= 65  # random, and an HMAC over it
    assert stranger.recv(1 << 16) == b""
    stranger.close()
    run.come(A)
    run.come(B)
    assert_connected(run.wait())


def test_a_proof_is_good_for_one_greeting_and_one_direction() -> None:
    one, other = socket.socketpair()
    with one, other:
        said = Greeting(Purpose.MEET, 2, 0).pack()
        own = Secret(SECRET)
        nonce = bytes(32)
        answer = b"S" + nonce + own._mac(b"answer", said, nonce)
        for wrong in (
            b"S" + nonce + own._mac(b"call", said, nonce),
            b"S" + nonce + own._mac(b"answer", Greeting(Purpose.MEET, 2, 0).pack(), nonce),
            answer[:-1] + bytes([answer[-1] ^ 1]),
        ):
            other.sendall(wrong)
            with pytest.raises(HandshakeError):
                own.prove(one, said, C)
        other.sendall(answer)
        own.prove(one, said, C)
        assert other.recv(100) == own._mac(b"call", said, nonce)


def test_a_stranger_with_a_certificate_of_another_ca_is_turned_away(
    meet: Meet, certificates: Path, tmp_path: Path
) -> None:
    make_certificates(tmp_path / "own", ["A"])
    (tmp_path / "own" / "ca.pem").write_bytes((certificates / "ca.pem").read_bytes())
    run = meet(certificates)
    run.come(C)
    run.come(B)
    run.come(A, "stranger", authenticated=authentication(tmp_path / "own", "A"))
    assert run.classes("stranger") == {"stranger": "UntrustedCertificate"}
    eventually(lambda: any(line.startswith("a connection was turned away") for line in run.said["C"]))
    run.come(A)
    assert_connected(run.wait("A", "B", "C"))


def test_a_party_with_anothers_certificate_stops_all(meet: Meet, certificates: Path) -> None:
    run = meet(certificates)
    run.come(C)
    run.come(B)
    run.come(A, authenticated=authentication(certificates, "B"))
    assert set(run.classes().values()) == {"WrongName"}


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pin_takes_one_certificate_and_no_other(
    meet: Meet, certificates: Path, tmp_path: Path, pinned: bool
) -> None:
    from ssl import PEM_cert_to_DER_cert

    from mpc_spearman.wire.tls import fingerprint

    own = fingerprint(PEM_cert_to_DER_cert((certificates / "A.pem").read_text()))
    pins = {"A": own if pinned else "sha256:" + "0" * 64}
    run = meet(certificates, listen={})
    run.come(C)
    run.come(A)
    run.come(B, authenticated=authentication(certificates, "B", pins))
    met = run.wait()
    if pinned:
        assert_connected(met)
    else:
        assert set(run.classes().values()) == {"UntrustedCertificate"}
        assert "network.pins has sha256:0000" in str(met["B"])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=100))
def test_any_answer_at_the_door_is_our_own_error(answer: bytes) -> None:
    for own in (Secret(SECRET),):
        near, far = socket.socketpair()
        with near, far:
            near.settimeout(5.0)
            far.sendall(answer)
            far.shutdown(socket.SHUT_WR)
            with pytest.raises((MpcSpearmanError, Closed)):
                enter(near, own, Roster(PARTIES, A), C, Greeting(Purpose.MEET, 2, 0))


@settings(max_examples=60, deadline=None)
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
            st.sampled_from(["terms", "stop", "all", "connected", "missing"]),
            st.sampled_from([None, [], {}, 7, "x", ["TableError", "A", "load"], {"told": []}]),
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
    own = Own(Secret(SECRET), None, None, None, 5.0, 5.0, lambda text: None)
    me, peer = (C, A) if side is CoordinatorMeeting else (A, C)
    one = side(
        Roster(PARTIES, me), own, *([lambda low, high, size: None] if side is CoordinatorMeeting else [])
    )
    one._told = {member.number: Told(None, bytes(16)) for member in PARTIES}
    near, far = socket.socketpair()
    lost: list[MpcSpearmanError] = []
    hear = (lambda message: one._hear(A, message)) if side is CoordinatorMeeting else one._hear
    control = Control(near, peer, 5.0, hear, lost.append)
    far.sendall(struct.pack("!I", len(said)) + said)
    far.shutdown(socket.SHUT_WR)
    control.join()
    far.close()
    assert len(lost) == 1
    assert len(str(lost[0])) < 300


def test_a_message_without_end_is_refused() -> None:
    near, far = socket.socketpair()
    lost: list[MpcSpearmanError] = []
    control = Control(near, A, 5.0, lambda message: None, lost.append)
    with far:
        far.sendall(struct.pack("!I", LONGEST + 1))
        control.join()
    assert "makes no sense" in str(lost[0])


def test_two_connections_of_one_direction_are_one_too_many(meet: Meet) -> None:
    run = meet(None)
    for member in PARTIES:
        run.come(member)
    assert_connected(run.wait())
    hub: Any = run.sides["C"]
    assert hub.reserve(Greeting(Purpose.SEND, 2, 0, hub._token)).name == "TAKEN"
    assert hub.reserve(Greeting(Purpose.SEND, 2, 0, bytes(16))).name == "UNKNOWN"
    assert hub.reserve(Greeting(Purpose.FORWARD, 2, 1, hub._token)).name == "UNKNOWN"  # they are direct
    assert hub.reserve(Greeting(Purpose.FORWARD, 2, 2, hub._token)).name == "UNKNOWN"


def test_a_secret_is_in_no_repr() -> None:
    assert SECRET.hex() not in repr(Secret(SECRET))
    assert repr(SECRET[:16]) not in repr(Greeting(Purpose.SEND, 1, 0, SECRET[:16]))
