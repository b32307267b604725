"""A meeting has one outcome for all who have joined, and each is told what it was."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from mpc_spearman.errors import TableError, Unreachable
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.meeting import Meeting
from mpc_spearman.network.pairs import DIRECT, FORWARDED, Contact, way
from mpc_spearman.parties import Party, Role
from support import meetings
from support.meetings import ANYWHERE, PARTIES, assert_connected
from support.memory_network import A, B, C
from support.processes import eventually

Meet = Callable[..., meetings.Meeting]


def come(run: meetings.Meeting, *members: Party) -> None:
    for member in members or PARTIES:
        run.come(member)


@pytest.mark.parametrize("order", [(C, B, A), (A, B, C), (B, C, A)], ids=str)
def test_parties_meet_in_whatever_order_they_come(meet: Meet, order: tuple[Party, ...]) -> None:
    run = meet()
    come(run, *order)
    met = run.wait()
    assert_connected(met)
    assert {tuple(one.ways.values()) for one in met.values()} == {(DIRECT, DIRECT, DIRECT)}


@pytest.mark.parametrize("listen", [{}, {B: ANYWHERE}, {A: ANYWHERE}, {A: ANYWHERE, B: ANYWHERE}], ids=len)
def test_a_pair_is_connected_directly_where_one_of_them_can_be_dialled(
    meet: Meet, listen: dict[Party, Address]
) -> None:
    run = meet(listen=listen)
    come(run)
    met = run.wait()
    assert_connected(met)
    how = DIRECT if listen else FORWARDED
    assert {tuple(one.ways.items()) for one in met.values()} == {
        ((("C", "B"), DIRECT), (("C", "A"), DIRECT), (("B", "A"), how))
    }
    eventually(lambda: (run.carried[1, 2] > 0) == (not listen))
    forwarded = "what passes between B and A is forwarded by the coordinator's host"
    assert {forwarded in one.sentences for one in met.values()} == {not listen}


def test_many_sources_meet_each_as_it_can(meet: Meet) -> None:
    parties = (*PARTIES, Party("A2", Role.SOURCE, 3), Party("A3", Role.SOURCE, 4))
    run = meet(listen={parties[3]: ANYWHERE})
    for party in reversed(parties):
        run.come(party, parties=parties)
    met = run.wait()
    assert_connected(met, parties)
    ways = met["C"].ways
    assert {pair for pair, how in ways.items() if how == FORWARDED} == {("B", "A"), ("B", "A3"), ("A", "A3")}


@pytest.mark.parametrize("party", PARTIES, ids=str)
def test_a_party_that_cannot_take_part_tells_all(meet: Meet, party: Party) -> None:
    run = meet()
    for member in PARTIES:
        run.come(member, fault=TableError("column 'salary'") if member is party else None)
    met = run.wait()
    for member in PARTIES:
        error = met[member.name]
        if member is party:
            assert str(error) == "column 'salary'"
        else:
            assert type(error).__name__ == "PeerFailed"
            assert error.about == ("TableError", party.name, "load")
            assert "salary" not in str(error)


@pytest.mark.parametrize("second", [A, B], ids=str)
@pytest.mark.parametrize("last", PARTIES, ids=str)
def test_two_processes_of_one_party_are_an_error_at_everyone(
    meet: Meet, monkeypatch: pytest.MonkeyPatch, second: Party, last: Party
) -> None:
    run = meet()
    connect = Meeting._connect

    def connect_late(self: Meeting) -> None:
        eventually(lambda: "second" in run.met)  # before all have met
        connect(self)

    monkeypatch.setattr(Meeting, "_connect", connect_late)
    come(run, *(member for member in PARTIES if member not in (last, second)))
    run.come(second)
    run.come(second, "second")
    if last != second:
        run.come(last)
    assert set(run.classes().values()) == {"HandshakeError"}


def test_a_second_process_that_comes_when_all_have_met_disturbs_nobody(meet: Meet) -> None:
    run = meet()
    come(run)
    assert_connected(run.wait())
    run.come(A, "second", join_timeout=0.5)
    assert type(run.wait()["second"]).__name__ == "PartyMissing"


def test_who_does_not_come_is_named_to_all(meet: Meet) -> None:
    run = meet()
    run.come(C, join_timeout=1.0)
    run.come(B)
    met = run.wait()
    assert str(met["C"]) == "A (source) did not join within 1 s"
    assert {error.about for error in met.values()} == {("PartyMissing", "A", "connect")}
    assert "reports that party A did not join in time (PartyMissing)" in str(met["B"])


def test_a_coordinator_that_does_not_come_is_named(meet: Meet) -> None:
    run = meet()
    run.come(B, where=Address("127.0.0.1", 9), join_timeout=2.5)
    error = run.wait()["B"]
    assert str(error).startswith("C (coordinator) cannot be met at 127.0.0.1:9 (Connection refused) within")
    assert error.about == ("PartyMissing", "C", "connect")
    assert any("waiting for C (coordinator) at 127.0.0.1:9" in line for line in run.said["B"])


def test_who_waits_says_for_whom(meet: Meet) -> None:
    run = meet()
    come(run, C, B)
    eventually(lambda: all("waiting for A (source) to join" in run.said[name] for name in "BC"))
    run.come(A)
    assert_connected(run.wait())


def test_an_address_that_cannot_be_reached_is_named_to_all_and_nobody_is_blamed(meet: Meet) -> None:
    run = meet(timeout=5.0)
    come(run, C, A)
    run.come(B, advertise=Address("127.0.0.1", 9))
    met = run.wait()
    for name, error in met.items():
        assert type(error) is Unreachable
        assert error.about == ("Unreachable", "A", "connect")
        assert str(error).startswith("A (source) cannot reach B (target) at 127.0.0.1:9"), name
        assert "lost" not in str(error)


def test_a_coordinator_that_is_reached_once_and_not_again_is_named_to_all(meet: Meet) -> None:
    run = meet()
    come(run, C, B)
    listener = socket.create_server(("127.0.0.1", 0))
    run.come(A, where=Address("127.0.0.1", listener.getsockname()[1]))
    near, _ = listener.accept()
    listener.close()  # A's later connections are refused
    far = socket.create_connection((run.address.host, run.address.port))
    threads = [threading.Thread(target=pass_on, args=pair) for pair in ((near, far), (far, near))]
    for thread in threads:
        thread.start()
    met = run.wait()
    for thread in threads:
        thread.join(60.0)
    near.close()
    far.close()
    for error in met.values():
        assert type(error) is Unreachable
        assert error.about == ("Unreachable", "A", "connect")
        assert str(error).startswith("A (source) cannot reach C (coordinator)")
        assert "the meeting's connection got there" in str(error)


def pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(4096):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


def test_plans_with_other_numbers_of_parties_differ(meet: Meet) -> None:
    run = meet()
    come(run, C, B)
    run.come(A, parties=(*PARTIES, Party("D", Role.SOURCE, 3)))
    met = run.wait()
    assert set(run.classes().values()) == {"PlanMismatch"}
    assert "number of parties: 3 here, 4 there" in str(met["C"])


def test_a_party_that_ends_is_lost_to_all(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setattr(Meeting, "_connect", lambda self: held.wait(60.0))
    run = meet()
    side: Any = None
    come(run, C, A)
    side = run.come(B)
    eventually(lambda: bool(side._contacts))
    controls = run.sides["C"]._controls  # type: ignore[union-attr]
    controls[A.number]._connection.close()
    met = run.wait()
    held.set()
    assert type(met["C"]).__name__ == "PeerDied"
    assert met["C"].about == met["B"].about == ("PeerDied", "A", "connect")


def test_a_party_that_says_nothing_more_is_lost(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> None:
    run = meet(timeout=1.5)
    monkeypatch.setattr(
        "mpc_spearman.network.data_party.DataPartyMeeting._hear", lambda self, message: time.sleep(4)
    )
    come(run)
    met = run.wait()
    assert type(met["C"]).__name__ == "PeerTimeout"
    assert met["C"].about[1] in "AB"


def test_who_dials_whom() -> None:
    told = {number: Contact(None, b"") for number in range(3)}
    there = {**told, 1: Contact(ANYWHERE, b"")}
    here = {**told, 2: Contact(ANYWHERE, b"")}
    assert way(A, B, told) == (A, FORWARDED)
    assert way(A, B, there) == way(B, A, there) == (A, DIRECT)
    assert way(A, B, here) == (B, DIRECT)
    assert way(C, B, told) == (B, DIRECT)


def test_meeting_takes_no_torch() -> None:
    code = (
        "import sys, mpc_spearman.network.coordinator\n"
        "import mpc_spearman.launch.rendezvous, mpc_spearman.launch.local\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
