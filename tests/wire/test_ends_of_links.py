"""Links whose peers are gone or stop: who is named, and what others learn about an error."""

from __future__ import annotations

import threading
import time

import pytest

from mpc_spearman.errors import (
    ERRORS,
    AlignmentError,
    BoundError,
    DisclosureError,
    HandshakeError,
    MpcSpearmanError,
    NetworkError,
    OutputError,
    PeerDied,
    PeerFailed,
    PeerTimeout,
    PlanMismatch,
    PolicyError,
    ProtocolViolation,
    TableError,
)
from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party
from mpc_spearman.wire.channel import Header
from mpc_spearman.wire.kinds import Kind
from mpc_spearman.wire.messages import encode
from support.memory_network import PLAN, SHAPE, A, B, C, Make
from support.processes import EVER, eventually

# ---- peers that are gone or stop


def test_a_closed_connection_is_a_dead_peer(make: Make) -> None:
    network = make()
    with network.meters[C].phase("describe"):
        threading.Timer(0.2, network.cut, (A,)).start()
        with pytest.raises(PeerDied) as raised:
            network.links[C].receive(A, Kind.SHAPE)
    assert str(raised.value) == (
        "the connection to A (source) is gone (closed by the peer) "
        "[C (coordinator), waiting for SHAPE from A (source) in phase describe]"
    )
    assert raised.value.about == ("PeerDied", "A", "describe")


def test_messages_before_the_end_are_still_read(make: Make) -> None:
    network = make()
    network.links[A].send(C, Kind.SHAPE, SHAPE)
    eventually(lambda: len(network.links[C]._channels[A]._inbox) == 1)
    network.cut(A)
    eventually(lambda: network.links[C]._channels[A].failure is not None)
    assert network.links[C].receive(A, Kind.SHAPE)["n"] == [9]
    with pytest.raises(PeerDied):
        network.links[C].receive(A, Kind.SHAPE)


OWN = [TableError, DisclosureError, PolicyError, BoundError, OutputError, ProtocolViolation, NetworkError]
SHARED = [HandshakeError, PlanMismatch, AlignmentError]


@pytest.mark.parametrize(
    ("error", "heard", "name"),
    [
        *((cls("column 'salary'"), PeerFailed, cls.__name__) for cls in OWN),
        *((cls("column 'salary'"), cls, cls.__name__) for cls in SHARED),
        (ZeroDivisionError("column 'salary'"), PeerFailed, "MpcSpearmanError"),
        (KeyboardInterrupt("column 'salary'"), PeerFailed, "MpcSpearmanError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_peers_receive_an_errors_class_and_phase_but_not_its_text(
    make: Make, error: BaseException, heard: type[MpcSpearmanError], name: str
) -> None:
    network = make()
    with pytest.raises(type(error)), network.meters[A].phase("load"):
        raise error
    network.links[A].abort(error)
    for peer in (B, C):
        with pytest.raises(heard) as raised:
            network.links[peer].receive(A, Kind.SHAPE)
        assert type(raised.value) is heard
        assert raised.value.about == (name, "A", "load")
        assert f"party A stopped in phase load: {ERRORS[name].public} ({name}) [" in str(raised.value)
    assert b"salary" not in network.wire(A, B).log + network.wire(A, C).log


@pytest.mark.parametrize(
    ("error", "heard", "text"),
    [
        (TableError("x"), PeerFailed, "party A stopped in phase load: its table was refused (TableError)"),
        (AlignmentError("x"), AlignmentError, "party A stopped in phase load: the parties' rows are not"),
        (
            PeerDied("x", ("PeerDied", "A", "load")),
            PeerDied,
            "B (target) reports a lost connection with party A (Pe",
        ),
        (
            PeerTimeout("x", ("PeerTimeout", "A", "load")),
            PeerTimeout,
            "reports a lost connection with party A (P",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_passed_on_error_names_the_party_where_it_began(
    make: Make, error: MpcSpearmanError, heard: type[MpcSpearmanError], text: str
) -> None:
    network = make()
    name = type(error).__name__
    if error.about is None:
        # A can reach B only; B passes the error on to C.
        network.meters[A].current = "load"
        network.wire(A, C).mute = True
        network.links[A].abort(error)
        with pytest.raises(heard) as raised:
            network.links[B].receive(A, Kind.SHAPE)
        error = raised.value
    network.meters[B].current = "rank"
    network.links[B].abort(error)
    with pytest.raises(heard) as passed_on:
        network.links[C].receive(B, Kind.SHAPE)
    assert text in str(passed_on.value)
    assert passed_on.value.about == (name, "A", "load")


@pytest.mark.parametrize("first", [A, B])
def test_a_reason_for_stopping_comes_before_a_lost_connection(first: Party, make: Make) -> None:
    """In whichever order a party learns of the two."""
    network = make()
    links = network.links[C]
    steps = {A: lambda: network.links[A].abort(TableError("x")), B: lambda: network.cut(B)}
    for peer in (first, *({A, B} - {first})):
        steps[peer]()
        eventually(lambda peer=peer: links._channels[peer].failure is not None)
    with pytest.raises(PeerFailed, match="party A stopped"):
        links.check()


@pytest.mark.parametrize(
    "values", [("Oops", "A", "load"), ("TableError", "D", "load"), ("TableError", "A", "lunch")]
)
def test_an_abort_with_an_unknown_error_party_or_phase_is_refused(
    make: Make, values: tuple[str, str, str]
) -> None:
    network = make()
    abort = VIEW.fields(PLAN, Kind.ABORT, A.role, C.role)
    assert abort is not None
    payload = encode(abort, {}, dict(zip(("error", "party", "phase"), values, strict=True)))
    network.wire(A, C).send(Header(Kind.ABORT, 0, 0, len(payload)).pack() + payload)
    with pytest.raises(ProtocolViolation, match=r"A \(source\) stopped with a message that this"):
        network.links[C].receive(A, Kind.SHAPE)


def test_a_peer_that_is_gone_does_not_delay_a_notice(make: Make) -> None:
    network = make(abort_seconds=EVER)
    network.cut(B)
    eventually(lambda: network.links[A]._channels[B].failure is not None)
    network.links[A].abort(TableError("x"))
    eventually(lambda: network.links[C]._channels[A].failure is not None)
    assert isinstance(network.links[C]._channels[A].failure, PeerFailed)


def test_a_notice_that_nobody_takes_is_given_up(make: Make) -> None:
    network = make(capacity=0, abort_seconds=0.3)
    begin = time.monotonic()
    network.links[A].abort(TableError("x"))
    assert time.monotonic() - begin > 0.25


def test_links_of_parties_that_have_stopped_keep_no_thread(make: Make) -> None:
    before = set(threading.enumerate())
    network = make()
    network.links[A].abort(TableError("x"))
    for party in (A, B, C):
        network.cut(party)
    eventually(lambda: set(threading.enumerate()) <= before)


def test_an_abort_ends_a_wait_for_another_party_at_once(make: Make) -> None:
    network = make(abort_seconds=EVER)
    network.links[A].abort(TableError("x"))
    with pytest.raises(PeerFailed):
        network.links[C].receive(B, Kind.HELLO)
