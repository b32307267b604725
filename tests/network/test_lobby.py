"""The lobby: parties meet in any order, may leave and come again, and all hear who left and why."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from mpc_spearman.errors import (
    ApprovalError,
    PartyMissing,
    PeerFailed,
    PolicyError,
    TableError,
)
from mpc_spearman.network import control
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import DIRECT, FORWARDED, Attempt, Contact
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.handshake import Greeting, Use, enter
from mpc_spearman.network.tls import Closed
from mpc_spearman.parties import Party, Role
from support import meetings
from support.meetings import ANYWHERE, PARTIES, assert_connected, tls
from support.memory_network import A, B, C
from support.processes import EVER, eventually

Meet = Callable[..., meetings.Meeting]


@pytest.mark.parametrize("order", [(C, B, A), (A, B, C), (B, C, A)], ids=str)
def test_parties_meet_in_whatever_order_they_come(meet: Meet, order: tuple[Party, ...]) -> None:
    run = meet()
    run.come_all(*order)
    met = run.wait()
    assert_connected(met)
    assert {tuple(one.ways.values()) for one in met.values()} == {(DIRECT, DIRECT, DIRECT)}


@pytest.mark.parametrize("listen", [{}, {B: ANYWHERE}, {A: ANYWHERE}, {A: ANYWHERE, B: ANYWHERE}], ids=len)
def test_a_pair_is_connected_directly_where_one_of_them_can_be_dialled(
    meet: Meet, listen: dict[Party, Address]
) -> None:
    run = meet(listen=listen)
    run.come_all()
    met = run.wait()
    assert_connected(met)
    how = DIRECT if listen else FORWARDED
    assert {tuple(one.ways.items()) for one in met.values()} == {
        ((("C", "B"), DIRECT), (("C", "A"), DIRECT), (("B", "A"), how))
    }
    eventually(lambda: (run.carried[1, 2] > 0) == (not listen))
    forwarded = "what passes between B and A is forwarded by the coordinator's host"
    assert {forwarded in run.said[name] for name in met} == {not listen}


def test_many_sources_meet_each_as_it_can(meet: Meet) -> None:
    parties = (*PARTIES, Party("A2", Role.SOURCE, 3), Party("A3", Role.SOURCE, 4))
    run = meet(listen={parties[3]: ANYWHERE})
    for party in reversed(parties):
        run.come(party, parties=parties)
    met = run.wait()
    assert_connected(met, parties)
    ways = met["C"].ways
    assert {pair for pair, how in ways.items() if how == FORWARDED} == {("B", "A"), ("B", "A3"), ("A", "A3")}


@pytest.mark.parametrize("patient", [True, False], ids=["between hosts", "started by one"])
def test_a_party_that_cannot_take_part_tells_all_and_may_come_again(meet: Meet, patient: bool) -> None:
    run = meet()
    for member in (C, B):
        run.come(member, patient=patient)
    run.seated(B)
    run.come(A, "first", fault=TableError("column 'salary'"), patient=patient)
    assert str(run.wait("first")["first"]) == "column 'salary'"
    if not patient:
        for name, error in run.wait("C", "B").items():
            assert name == "first" or error.about == ("TableError", "A", "load")
        return
    for name in "CB":
        eventually(lambda name=name: "A left: TableError in load; waiting for it again" in run.said[name])
        assert "salary" not in str(run.said[name])
    run.come(A)
    assert_connected(run.wait("C", "B", "A"))


@pytest.mark.parametrize("error", [PolicyError, ApprovalError])
def test_a_meeting_ends_once_all_missing_parties_refuse_the_run(meet: Meet, error: type[PolicyError]) -> None:
    run = meet()
    hub: Any = run.come(C)
    run.come(A, "first", fault=error("policy.loss"))
    eventually(lambda: hub._departures)
    time.sleep(0.2)
    assert not run.met.keys() - {"first"}  # B is missing too, and may come
    run.come(B)
    for name, ended in run.wait("C", "B").items():
        assert name == "first" or isinstance(ended, PeerFailed), ended
        assert name == "first" or ended.about == (error.__name__, "A", "load")
    assert f"A left: {error.__name__} in load" in run.said["C"]  # and nobody waits for it again


def test_a_party_that_refused_and_comes_again_in_time_is_waited_for(meet: Meet) -> None:
    run = meet()
    hub: Any = run.come(C)
    run.come(A, "first", fault=PolicyError("policy.loss"))
    eventually(lambda: hub._departures)
    run.come(A)
    run.seated(A)
    run.come(B)
    assert_connected(run.wait("C", "B", "A"))


def test_a_coordinator_that_announces_the_end_too_early_is_ignored(meet: Meet) -> None:
    lies: list[int] = []

    class Lying(CoordinatorMeeting):
        def _hold_attempt(self) -> None:
            self._send_to_all(met=self._attempt_number)
            lies.append(self._attempt_number)
            time.sleep(0.2)

    run = meet()
    run.come(C, coordinator=Lying)
    run.come_all(A, B)
    eventually(lambda: len(lies) == 3)  # the first of which all have heard by then
    assert not run.met
    run.sides["C"].fail(PartyMissing("over", ("PartyMissing", "A", "connect")))
    assert set(run.classes().values()) == {"PartyMissing"}


def test_of_missing_parties_it_is_said_which_had_left_and_why(meet: Meet) -> None:
    run = meet()
    hub: Any = run.come(C)
    run.come(B, "first", fault=TableError("x"))
    eventually(lambda: hub._departures)
    with pytest.raises(
        PartyMissing, match=r"B \(target\), which left with TableError in load, and A "
    ) as missing:
        hub._wait_until(lambda: False, time.monotonic())
    assert missing.value.about == ("PartyMissing", "A", "connect")
    run.come_all(A, B)
    assert_connected(run.wait("C", "B", "A"))
    assert not hub._departures


def test_a_coordinator_that_cannot_take_part_tells_all(meet: Meet) -> None:
    run = meet()
    run.come_all(A, B)
    run.come(C, fault=TableError("x"))
    for name, error in run.wait().items():
        assert name == "C" or error.about == ("TableError", "C", "load")


def at_the_attempt(monkeypatch: pytest.MonkeyPatch, held: threading.Event) -> list[Attempt]:
    """Hold every party's first attempt before it connects to anyone; return these attempts."""
    begun: list[Attempt] = []
    connect = Attempt._connect

    def connect_late(self: Attempt) -> None:
        begun.append(self)
        held.wait(EVER)
        connect(self)

    monkeypatch.setattr(Attempt, "_connect", connect_late)
    return begun


@pytest.mark.parametrize("lost", [A, B], ids=str)
@pytest.mark.parametrize("ends", [True, False], ids=["its process ends", "its connection is cut"])
def test_a_party_that_is_lost_while_all_connect_is_waited_for_again(
    meet: Meet, monkeypatch: pytest.MonkeyPatch, lost: Party, ends: bool
) -> None:
    held = threading.Event()
    begun = at_the_attempt(monkeypatch, held)
    run = meet()
    for member in PARTIES:
        run.come(member, patient=not ends or member is not lost)
    eventually(lambda: len(begun) == 3)
    tokens = {one.token for one in begun}
    hub: Any = run.sides["C"]
    hub._seats[lost.number].control._connection.shutdown(socket.SHUT_RDWR)
    others = [member.name for member in PARTIES if member is not lost]
    line = f"{lost.name} left: PeerDied in connect; waiting for it again"
    eventually(lambda: all(line in run.said[name] for name in others))
    held.set()
    if ends:
        run.come(lost, "again")
    met = run.wait(*others, "again" if ends else lost.name)
    assert_connected({**met, lost.name: met["again"]} if ends else met)
    assert hub._attempt_number == 1
    assert len(tokens | {one.token for one in begun}) == 6  # those of the second attempt are new


def test_a_first_process_that_is_silent_is_replaced(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> None:
    run = meet()
    monkeypatch.setattr(control, "_ANSWER_SECONDS", 1.0)
    run.come_all(C, B)
    run.seated(B)
    raw = socket.create_connection((run.address.host, run.address.port), 20.0)
    own: Any = run.sides["B"]
    frozen = enter(raw, tls("A"), C, Greeting(Use.MEET))
    said = {"version": "1", "plan": own._settings.plan}
    frozen.sendall(json.dumps({"join": said}).encode() + b"\n")
    hub: Any = run.sides["C"]
    eventually(lambda: A.number in hub._seats)
    began = time.monotonic()
    run.come(A)
    assert_connected(run.wait())
    assert time.monotonic() - began > 0.9
    frozen.close()
    assert "A left: PeerTimeout in connect; waiting for it again" in run.said["B"]


def test_messages_of_an_earlier_round_are_dropped(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    begun = at_the_attempt(monkeypatch, held)
    run = meet()
    run.come_all()
    eventually(lambda: len(begun) == 3)
    hub: Any = run.sides["C"]
    seat = hub._seats[A.number]
    hub._on_message(seat.control, {"ready": 7})
    assert not seat.ready
    hub._on_message(seat.control, {"here": [7, Contact(None, bytes(16)).to_json()]})
    assert seat.attempt == 0
    side: Any = run.sides["A"]
    side._on_message(side._control, {"met": 7})
    side._on_message(side._control, {"attempt": 7, "all": {}})
    assert not side._met
    for place in (hub, side):
        stale, other = socket.socketpair()
        with stale, other, pytest.raises(Closed):
            place.take(B, Greeting(Use.SEND, token=bytes(16)), stale)
    held.set()
    assert_connected(run.wait())


@pytest.mark.parametrize(
    "mistaken", [{"plan": '{"reveal":"ranking"}'}, {"version": "2"}], ids=["plan", "version"]
)
def test_a_party_with_another_plan_ends_and_may_join_again(meet: Meet, mistaken: dict[str, str]) -> None:
    run = meet()
    run.come_all(C, B)
    run.seated(B)
    run.come(A, "mistaken", **mistaken)
    error = run.wait("mistaken")["mistaken"]
    expected = "PlanMismatch" if "plan" in mistaken else "HandshakeError"
    assert type(error).__name__ == expected
    if "plan" in mistaken:
        assert 'reveal: "ranking" here, absent there' in str(error)
    for name in "CB":
        eventually(lambda name=name: f"A left: {expected} in connect; waiting for it again" in run.said[name])
    run.come(A)
    assert_connected(run.wait("C", "B", "A"))


def test_a_second_process_that_comes_when_all_have_met_disturbs_nobody(meet: Meet) -> None:
    run = meet()
    run.come_all()
    assert_connected(run.wait())
    run.come(A, "second", join_timeout=0.5)
    assert type(run.wait()["second"]).__name__ == "PartyMissing"
