"""Parties of a meeting that nobody reaches, that fall silent or break are named, and nobody waits on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mpc_spearman.errors import PeerFailed, TableError, Unreachable
from mpc_spearman.network import coordinator, data_party
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import Attempt
from mpc_spearman.network.control import Control
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.parties import Party
from support import meetings, relay
from support.memory_network import A, B, C
from support.processes import EVER, eventually

Meet = Callable[..., meetings.Meeting]


def test_a_coordinator_that_does_not_come_is_named(meet: Meet) -> None:
    run = meet()
    run.come(B, where=Address("127.0.0.1", 9), join_timeout=2.5)
    error = run.error("B")
    assert str(error).startswith("C (coordinator) cannot be reached at 127.0.0.1:9 (Connection refused) in")
    assert error.about == ("PartyMissing", "C", "connect")
    assert any("waiting for C (coordinator) at 127.0.0.1:9" in line for line in run.lines["B"])


def test_a_party_that_cannot_be_reached_stops_and_may_come_again(meet: Meet) -> None:
    run = meet(timeout=5.0)
    run.come_all(C, A)
    run.wait_until_joined(A)
    run.come(B, "mistaken", advertise=Address("127.0.0.1", 9))
    error = run.error("mistaken")
    assert type(error) is Unreachable
    assert error.about == ("Unreachable", "B", "connect")
    assert str(error).startswith("A (source) cannot reach B (target) at 127.0.0.1:9")
    assert "lost" not in str(error)
    run.assert_printed("B left: Unreachable in connect; waiting for it again", "A")
    run.assert_all_connect(B)


def test_an_error_in_the_search_for_the_cause_ends_the_meeting(
    meet: Meet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(CoordinatorMeeting, "_find_cause", fail)
    run = meet(timeout=5.0)
    run.come_all(C, A)
    run.wait_until_joined(A)
    run.come(B, advertise=Address("127.0.0.1", 9))
    assert type(run.error("C")) is ZeroDivisionError
    assert {type(run.error(party)) for party in "AB"} == {PeerFailed}


@pytest.fixture
def cut(meet: Meet) -> Iterator[meetings.Meeting]:
    """A meeting in which A, as ``cut``, reaches the coordinator once, and not again."""
    run = meet()
    run.come_all(C, B)
    listener = socket.create_server(("127.0.0.1", 0))
    run.come(A, "cut", where=Address("127.0.0.1", listener.getsockname()[1]))
    near, _ = listener.accept()
    listener.close()  # A's later connections are refused
    far = socket.create_connection(run.address)
    thread = threading.Thread(target=relay.join, args=(near, far))
    with near, far:
        thread.start()
        yield run
        run.wait("cut")
        thread.join(EVER)


def test_a_party_that_reaches_the_coordinator_only_once_ends(cut: meetings.Meeting) -> None:
    error = cut.error("cut")
    assert type(error) is Unreachable
    assert str(error).startswith("A (source) cannot reach C (coordinator)")
    assert "an earlier connection to it worked" in str(error)
    cut.assert_all_connect(A)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no party be blamed for a failed connection, so that the attempt goes on."""
    for side in (coordinator, data_party):
        monkeypatch.setattr(side, "CAUSE_SECONDS", EVER)


@pytest.mark.usefixtures("patient")
def test_a_coordinator_that_stops_while_a_party_dials_it_says_why(cut: meetings.Meeting) -> None:
    hub: Any = cut.sides["C"]
    eventually(lambda: hub._attempt is not None)
    hub.fail(TableError("column 'x'"))
    error = cut.error("cut")
    assert type(error) is PeerFailed
    assert str(error) == "party C stopped in phase connect: its table was refused (TableError)"


def test_a_party_that_sends_nothing_more_is_lost(meet: Meet) -> None:
    run, over = meet(timeout=2.5), threading.Event()
    for member in (A, B):  # whose one thread sends keep-alives too; neither connects before C comes
        silent: Any = run.come(member, patient=False)
        silent._on_message = lambda control, message: over.wait(EVER)
    run.come(C, patient=False)
    error = run.error("C")
    over.set()
    assert type(error).__name__ == "PeerTimeout"
    assert error.about[1] in "AB"


@pytest.mark.parametrize(
    ("where", "step", "member"),
    [
        (Attempt, "_connect", C),
        (Attempt, "_connect", A),
        (Attempt, "_forwarded", B),
        (Control, "_exchange", C),
    ],
)
def test_an_unexpected_error_in_a_thread_of_a_meeting_ends_it(
    where: type, step: str, member: Party, meet: Meet, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, real = RuntimeError("at a cell's value"), getattr(where, step)

    def broken(self: Any, *arguments: Any) -> Any:
        if self.peer == A if where is Control else self._me == member:
            raise expected
        return real(self, *arguments)

    monkeypatch.setattr(where, step, broken)
    run = meet(listen={}, timeout=EVER)  # for none of which anyone waits
    run.come_all(patient=False, join_timeout=EVER)
    met = run.wait()
    assert met.pop(member.name) is expected
    assert {type(error).__name__ for error in met.values()} <= {"PeerFailed", "PeerDied", "PartyMissing"}


def test_a_port_that_is_taken_is_named_with_what_to_do(meet: Meet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        run = meet()
        run.come(C, where=Address("127.0.0.1", port))
        text = str(run.error("C"))
    assert (
        f"port {port}: Address already in use: `ss -tlnp sport = :{port}` shows which program has it" in text
    )
    assert "network.port" in text
