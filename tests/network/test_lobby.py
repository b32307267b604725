"""The lobby: parties meet in any order, may leave and come again, and all learn who left and why."""

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
    PeerDied,
    PeerFailed,
    PolicyError,
    TableError,
)
from mpc_spearman.network import control
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import DIRECT, FORWARDED, Attempt
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.handshake import Greeting, Use, greet
from mpc_spearman.network.tls import Closed
from mpc_spearman.parties import Party, Role
from support import meetings
from support.meetings import ANYWHERE, PARTIES, assert_connected, tls
from support.memory_network import A, B, C
from support.processes import EVER, eventually

Meet = Callable[..., meetings.Meeting]
#: A meeting, the attempts that its parties have begun, and the event that lets these go on.
Held = tuple[meetings.Meeting, list[Attempt], threading.Event]


@pytest.mark.parametrize(
    ("order", "listen"),
    [
        ((C, B, A), {}),
        ((A, B, C), {B: ANYWHERE}),
        ((B, C, A), {A: ANYWHERE}),
        ((C, A, B), {A: ANYWHERE, B: ANYWHERE}),
    ],
    ids=str,
)
def test_parties_come_in_any_order_and_a_pair_without_listener_is_forwarded(
    meet: Meet, order: tuple[Party, ...], listen: dict[Party, Address]
) -> None:
    run = meet(listen=listen)
    run.come_all(*order)
    met = run.wait()
    assert_connected(met)
    way = DIRECT if listen else FORWARDED
    assert {tuple(end.ways.items()) for end in met.values()} == {
        ((("C", "B"), DIRECT), (("C", "A"), DIRECT), (("B", "A"), way))
    }
    eventually(lambda: (run.forwarded[1, 2] > 0) == (not listen))
    line = "what passes between B and A is forwarded by the coordinator's host"
    assert {line in run.lines[name] for name in met} == {not listen}


def test_many_sources_meet_each_as_it_can(meet: Meet) -> None:
    parties = (*PARTIES, Party("A2", Role.SOURCE, 3), Party("A3", Role.SOURCE, 4))
    run = meet(listen={parties[3]: ANYWHERE})
    run.come_all(*reversed(parties), parties=parties)
    met = run.wait()
    assert_connected(met, parties)
    forwarded = {pair for pair, way in met["C"].ways.items() if way == FORWARDED}
    assert forwarded == {("B", "A"), ("B", "A3"), ("A", "A3")}


@pytest.mark.parametrize("patient", [True, False], ids=["between hosts", "started by one"])
def test_all_learn_why_a_party_cannot_take_part_and_wait_for_it(meet: Meet, patient: bool) -> None:
    run = meet()
    run.come_all(C, B, patient=patient)
    run.wait_until_joined(B)
    run.come(A, "first", fault=TableError("column 'salary'"), patient=patient)
    assert str(run.error("first")) == "column 'salary'"
    if not patient:
        assert {run.error(name).about for name in "CB"} == {("TableError", "A", "load")}
        return
    run.assert_printed("A left: TableError in load; waiting for it again", "C", "B")
    assert "salary" not in str(run.lines["C"] + run.lines["B"])
    run.assert_all_connect(A)


@pytest.mark.parametrize("error", [PolicyError, ApprovalError])
def test_a_meeting_ends_once_all_missing_parties_refuse_the_run(meet: Meet, error: type[PolicyError]) -> None:
    run = meet()
    hub: Any = run.come(C)
    run.come(A, "first", fault=error("policy.loss"))
    eventually(lambda: hub._departures)
    time.sleep(0.2)
    assert not run.met.keys() - {"first"}  # B is missing too, and may come
    run.come(B)
    for name in "CB":
        assert isinstance(run.error(name), PeerFailed)
        assert run.error(name).about == (error.__name__, "A", "load")
    assert f"A left: {error.__name__} in load" in run.lines["C"]  # and nobody waits for it again


def test_a_party_that_refused_and_comes_again_in_time_is_waited_for(meet: Meet) -> None:
    run = meet()
    hub: Any = run.come(C)
    run.come(A, "first", fault=PolicyError("policy.loss"))
    eventually(lambda: hub._departures)
    run.come(A)
    run.wait_until_joined(A)
    run.assert_all_connect(B)


def test_a_coordinator_that_announces_the_end_too_early_is_ignored(meet: Meet) -> None:
    tokens: list[str] = []

    class Lying(CoordinatorMeeting):
        def _hold_attempt(self) -> None:
            tokens.append(bytes(16).hex())
            if len(tokens) == 1:  # an attempt to which nobody can connect
                self._send_to_all(connect=tokens[0], addresses=[None] * 3)
            self._send_to_all(met=tokens[0])
            time.sleep(0.2)

    run = meet()
    run.come(C, coordinator=Lying)
    run.come_all(A, B)
    eventually(lambda: len(tokens) == 3)  # by then all have received the first
    assert not run.met
    run.sides["C"].fail(PartyMissing("over", ("PartyMissing", "A", "connect")))
    assert {type(error).__name__ for error in run.wait().values()} == {"PartyMissing"}


def test_the_error_for_missing_parties_says_which_had_left_and_why(meet: Meet) -> None:
    run = meet()
    hub: Any = run.come(C)
    run.come(B, "first", fault=TableError("x"))
    eventually(lambda: hub._departures)
    with pytest.raises(
        PartyMissing, match=r"B \(target\), which left with TableError in load, and A "
    ) as missing:
        hub._wait_until(lambda: False, time.monotonic())
    assert missing.value.about == ("PartyMissing", "A", "connect")
    run.assert_all_connect(A, B)
    assert not hub._departures


def test_a_coordinator_that_cannot_take_part_tells_all(meet: Meet) -> None:
    run = meet()
    run.come_all(A, B)
    run.come(C, fault=TableError("x"))
    assert {run.error(name).about for name in "AB"} == {("TableError", "C", "load")}


def hold_attempts(monkeypatch: pytest.MonkeyPatch, until: threading.Event) -> list[Attempt]:
    """Hold every party's attempts before it connects to anyone; return the attempts so far."""
    begun: list[Attempt] = []
    connect = Attempt._connect

    def connect_late(self: Attempt) -> None:
        begun.append(self)
        until.wait(EVER)
        connect(self)

    monkeypatch.setattr(Attempt, "_connect", connect_late)
    return begun


@pytest.mark.parametrize("lost", [A, B], ids=str)
@pytest.mark.parametrize("ends", [True, False], ids=["its process ends", "its connection is cut"])
def test_a_party_that_is_lost_while_all_connect_is_waited_for_again(
    meet: Meet, monkeypatch: pytest.MonkeyPatch, lost: Party, ends: bool
) -> None:
    go_on = threading.Event()
    begun = hold_attempts(monkeypatch, go_on)
    run = meet()
    for member in PARTIES:
        run.come(member, patient=not ends or member is not lost)
    eventually(lambda: len(begun) == 3)
    hub: Any = run.sides["C"]
    hub._joined[lost]._connection.shutdown(socket.SHUT_RDWR)
    remaining = [member.name for member in PARTIES if member is not lost]
    run.assert_printed(f"{lost.name} left: PeerDied in connect; waiting for it again", *remaining)
    go_on.set()
    if ends:
        run.come(lost, "again")
    met = run.wait(*remaining, "again" if ends else lost.name)
    assert_connected({**met, lost.name: met["again"]} if ends else met)
    assert [len({attempt.token for attempt in attempts}) for attempts in (begun[:3], begun)] == [1, 2]


@pytest.fixture
def held(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> Held:
    """Let all parties join, but connect with each other only once the event is set."""
    go_on = threading.Event()
    begun = hold_attempts(monkeypatch, go_on)
    run = meet()
    run.come_all()
    eventually(lambda: len(begun) == 3)
    return run, begun, go_on


def test_all_have_not_met_if_one_leaves_just_before_the_last_is_ready(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _, go_on = held
    hub: Any = run.sides["C"]

    def note_late(*departure: object) -> None:
        hub._on_message(hub._joined[B], {"ready": hub._attempt.token.hex()})
        time.sleep(0.2)

    monkeypatch.setattr(hub, "_note_departure", note_late)
    hub._ready |= {A, C}
    hub._part_with(hub._joined[A], PeerDied("gone"))
    assert hub._outcome is None
    go_on.set()
    assert_connected(run.wait())


def test_a_first_process_that_is_silent_is_replaced(meet: Meet, monkeypatch: pytest.MonkeyPatch) -> None:
    run = meet()
    monkeypatch.setattr(control, "_ANSWER_SECONDS", 1.0)
    run.come_all(C, B)
    run.wait_until_joined(B)
    raw = socket.create_connection(run.address, 20.0)
    b: Any = run.sides["B"]
    frozen = greet(raw, tls("A"), C, Greeting(Use.MEET))
    description = {"version": "1", "plan": b._settings.plan, "address": None}
    frozen.sendall(json.dumps({"join": description}).encode() + b"\n")
    run.wait_until_joined(A)
    start = time.monotonic()
    run.assert_all_connect(A)
    assert time.monotonic() - start > 0.9
    frozen.close()
    assert "A left: PeerTimeout in connect; waiting for it again" in run.lines["B"]


def test_messages_and_connections_of_an_earlier_attempt_are_ignored(
    held: Held,
) -> None:
    run, begun, go_on = held
    earlier = bytes(16).hex()
    hub: Any = run.sides["C"]
    hub._on_message(hub._joined[A], {"ready": earlier})
    hub._on_message(hub._joined[A], {"broken": [earlier, ["PeerDied", "B", "connect"]]})
    assert not hub._ready
    side: Any = run.sides["A"]
    side._on_message(side._control, {"met": earlier})
    assert not side._met
    for end in (hub, side):
        stale, peers_end = socket.socketpair()
        with stale, peers_end, pytest.raises(Closed):
            end.take(B, Greeting(Use.SEND, token=bytes(16)), stale)
    go_on.set()
    assert_connected(run.wait())
    assert len(begun) == 3


@pytest.mark.parametrize(
    "mistaken", [{"plan": '{"reveal":"ranking"}'}, {"version": "2"}], ids=["plan", "version"]
)
def test_a_party_with_another_plan_ends_and_may_join_again(meet: Meet, mistaken: dict[str, str]) -> None:
    run = meet()
    run.come_all(C, B)
    run.wait_until_joined(B)
    run.come(A, "mistaken", **mistaken)
    error = run.error("mistaken")
    expected = "PlanMismatch" if "plan" in mistaken else "HandshakeError"
    assert type(error).__name__ == expected
    if "plan" in mistaken:
        assert 'reveal: "ranking" here, absent there' in str(error)
    run.assert_printed(f"A left: {expected} in connect; waiting for it again", "C", "B")
    run.assert_all_connect(A)


def test_a_second_process_that_comes_when_all_have_met_disturbs_nobody(meet: Meet) -> None:
    run = meet()
    run.assert_all_connect(C, B, A)
    run.come(A, "second", join_timeout=0.5)
    assert type(run.error("second")).__name__ == "PartyMissing"
