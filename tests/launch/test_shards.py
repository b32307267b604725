"""Workers of a party: with whom each meets, over TLS, and who does not get in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.config import Plan, load_plan
from mpc_spearman.errors import (
    HandshakeError,
    MpcSpearmanError,
    PartyMissing,
    PlanMismatch,
    TableError,
    TlsError,
)
from mpc_spearman.identity import Identity
from mpc_spearman.launch.rendezvous import MeetingPoint, Rendezvous, meeting_point
from mpc_spearman.network import control
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import Answer, Greeting, Use
from mpc_spearman.network.round import DIRECT, Contact, Round
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.parties import Roster, worker_name
from mpc_spearman.wire.meter import Meter
from support.plans import everyone, mapping, with_keys
from support.processes import EVER, eventually, free_port

K = 3


class Watcher:
    """In place of a supervisor: keeps what a worker says."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.note = self.said.append

    def joined(self) -> None:
        pass

    asks = check = joined


class Workers:
    """Workers in threads of this process, each of which does one thing; and what came of it."""

    def __init__(self, folder: Path) -> None:
        self._content = with_keys(mapping(shards=K), folder)
        self._content["network"] = {"address": "127.0.0.1{shard}", "port": free_port(), "join_timeout": 30.0}
        for party in everyone(self._content):
            party["workers"] = f"127.0.0.1:{free_port()}"
        self.sockets: dict[str, Sockets] = {}
        self.errors: dict[str, BaseException] = {}
        self.said: dict[str, list[str]] = {}
        self._threads: dict[str, threading.Thread] = {}

    def plan(self, *overrides: str) -> Plan:
        return load_plan(json.loads(json.dumps(self._content)), overrides)

    def start(
        self,
        party: str,
        shard: int,
        does: Callable[[Rendezvous, Roster, Callable[[Sockets], None]], None],
        *overrides: str,
        label: str = "",
        point: MeetingPoint | None = None,
    ) -> str:
        """Let a worker do something, under a plan with other settings; the label tells two of one apart."""
        plan, watcher = self.plan(*overrides), Watcher()
        label = label or worker_name(party, shard)
        self.said[label] = watcher.said
        point = point or meeting_point(plan, party, {}, shard=shard)
        roster, supervisor = Roster.of(plan, party, shard), watcher
        side = Rendezvous(plan, party, shard, point, None, supervisor)  # type: ignore[arg-type]
        side.ready(roster)

        def run() -> None:
            try:
                does(side, roster, lambda sockets: self.sockets.update({label: sockets}))
            except BaseException as error:
                self.errors[label] = error

        self._threads[label] = threading.Thread(target=run, daemon=True)
        self._threads[label].start()
        return label

    def wait(self, *labels: str) -> None:
        for label in labels or tuple(self._threads):
            self._threads[label].join(EVER)
            assert not self._threads[label].is_alive(), label

    def error(self, label: str) -> BaseException:
        self.wait(label)
        return self.errors[label]


def gather(side: Rendezvous, roster: Roster, take: Callable[[Sockets], None]) -> None:
    side.gather(roster.team(K), take)


def join(side: Rendezvous, roster: Roster, take: Callable[[Sockets], None]) -> None:
    side.join(roster, Meter(), take)


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr(control, "_SILENT", EVER)  # on a busy machine nobody counts as silent
    made = Workers(tmp_path)
    yield made
    made.wait()
    for label in sorted(made.sockets, key=lambda label: label[0] == "C"):  # which waits for the others
        made.sockets[label].close()


def assert_team(workers: Workers, party: str = "A") -> None:
    """See that the first worker is connected with each of the others, and they with nobody else."""
    lead = workers.sockets[party]
    for shard in range(1, K):
        own = workers.sockets[worker_name(party, shard)]
        for sender, to, receiver, by in ((lead, shard, own, 0), (own, 0, lead, shard)):
            sender.send(to, b"rows", bytes([shard]))
            assert bytes(receiver.receive(by, 5, lambda: None)) == b"rows" + bytes([shard])
        with pytest.raises(KeyError):
            own.send(K - shard, b"", b"")


def test_a_team_meets_and_then_each_of_its_workers_those_of_its_shard(workers: Workers) -> None:
    for shard in (2, 0, 1):
        for party in "ABC":
            workers.start(party, shard, gather)
    workers.wait()
    assert not workers.errors
    for party in "ABC":
        assert_team(workers, party)
    teams = workers.sockets.copy()
    for party in "ABC":
        for shard in range(K):
            workers.start(party, shard, join)
    workers.wait()
    assert not workers.errors
    for shard in range(K):
        a, b = (workers.sockets[worker_name(party, shard)] for party in "AB")
        a.send(1, b"shard", bytes([shard]))
        assert bytes(b.receive(2, 6, lambda: None)) == b"shard" + bytes([shard])
    for sockets in teams.values():
        sockets.close()


def test_a_first_worker_passes_nothing_on_between_two_others(workers: Workers) -> None:
    plan = workers.plan()
    team = Roster.of(plan, "A").team(K)
    own: Any = None
    one = Round(
        team, own, lambda sockets, ways: None, lambda own, error: None, Forwarding(lambda *what: None)
    )
    one._contacts = {worker.number: Contact(None, one.token) for worker in team.parties}
    assert one._answer(1, Greeting(Use.FORWARD, 2, one.token)) is Answer.UNEXPECTED
    assert set(one.ways().values()) == {DIRECT}


def test_a_process_without_the_partys_key_is_refused_as_its_worker(workers: Workers, tmp_path: Path) -> None:
    """Neither a worker of another party, nor one whose plan has another key, nor the party's own key."""
    own = workers.start("A", 0, gather)
    where = f"workers={workers.plan().party('A').workers}"
    other = workers.start("B", 1, gather, f"parties.target.{where}")
    stranger = Identity.new()
    stranger.write(tmp_path / "stranger.key")
    keys = (f"key={tmp_path / 'stranger.key'}", f"identity={stranger}")
    false = workers.start("A", 2, gather, *(f"parties.sources.A.{key}" for key in keys), label="false")
    lead = str(workers.plan().party("A").workers).split(":")
    point = MeetingPoint(lead[0], int(lead[1]), patient=True)
    party = workers.start("B", 0, join, label="party", point=point)
    for label in (other, false, party):
        assert isinstance(workers.error(label), TlsError), label
    eventually(lambda: any("a connection was turned away" in line for line in workers.said[own]))
    for shard in (1, 2):
        workers.start("A", shard, gather)
    workers.wait()
    assert_team(workers)


@pytest.mark.parametrize(
    ("shard", "meets", "said"), [(2, 1, "shard: 2 here, 1 there"), (0, 1, "shard: absent here, 1 there")]
)
def test_a_worker_of_another_shard_is_refused_by_name(
    workers: Workers, shard: int, meets: int, said: str
) -> None:
    workers.start("C", meets, join)
    point = meeting_point(workers.plan(), "A", {}, shard=meets)
    wrong = workers.start("A", shard, join, point=point)
    error = workers.error(wrong)
    assert isinstance(error, PlanMismatch)
    assert said in str(error)
    for party in "AB":
        workers.start(party, meets, join)
    workers.wait()
    assert set(workers.errors) == {wrong}


def test_a_worker_with_another_plan_is_refused_by_name_and_may_come_again(workers: Workers) -> None:
    for shard in (0, 1):
        workers.start("A", shard, gather)
    wrong = workers.start("A", 2, gather, "confidence=0.9", label="wrong")
    error = workers.error(wrong)
    assert isinstance(error, PlanMismatch)
    assert "confidence: 0.9 here, 0.95 there" in str(error)
    # Another worker hears it, too, if it is there by then (see test_lobby.py).
    eventually(lambda: "A/2 left: PlanMismatch in connect; waiting for it again" in workers.said["A"])
    workers.start("A", 2, gather)
    workers.wait("A", "A/1", "A/2")
    assert_team(workers)


def test_a_worker_that_never_comes_is_named_to_its_party_and_by_it_to_the_others(workers: Workers) -> None:
    def gather_and_decline(side: Rendezvous, roster: Roster, take: Callable[[Sockets], None]) -> None:
        try:
            gather(side, roster, take)
        except MpcSpearmanError as error:
            side.decline(roster, Meter(), error)
            raise

    for shard in (0, 2):
        workers.start("A", shard, gather_and_decline, "network.join_timeout=5")
    eventually(lambda: any("cannot take part" in line for line in workers.said["A"]))
    workers.start("C", 0, join, "network.join_timeout=5")
    about = ("PartyMissing", "A/1", "connect")
    for label in ("A", "A/2"):
        error = workers.error(label)
        assert isinstance(error, PartyMissing)
        assert error.about == about
    line = "A left: PartyMissing of A/1 in connect; waiting for it again"
    eventually(lambda: line in workers.said["C"])
    error = workers.error("C")
    assert isinstance(error, PartyMissing)
    assert error.about == about
    assert "A (source), without A/1, " in str(error)


def test_a_second_process_of_a_worker_is_refused(workers: Workers) -> None:
    for shard in (0, 1):
        workers.start("A", shard, gather)
    eventually(lambda: any("waiting for A/2" in line for line in workers.said["A/1"]))
    second = workers.error(workers.start("A", 1, gather, label="second"))
    assert type(second) is HandshakeError
    assert "another process joined as A/1" in str(second)
    workers.start("A", 2, gather)
    workers.wait()
    assert_team(workers)


def test_a_first_worker_that_cannot_take_part_tells_its_team_and_the_other_parties(workers: Workers) -> None:
    def decline(side: Rendezvous, roster: Roster, take: Callable[[Sockets], None]) -> None:
        side.decline(roster, Meter(), TableError("column 'salary'"))

    for shard in (1, 2):
        workers.start("A", shard, gather, "network.join_timeout=4")
    workers.start("C", 0, join, "network.join_timeout=4")
    workers.start("A", 0, decline, "network.join_timeout=4")
    for label in ("A/1", "A/2"):
        error = workers.error(label)
        assert isinstance(error, MpcSpearmanError)
        assert error.about == ("TableError", "A", "load")
        assert "salary" not in str(error)
    workers.wait("C")
    assert "A left: TableError in load; waiting for it again" in workers.said["C"]


def test_a_first_worker_that_never_comes_is_named_with_the_key_that_says_where(workers: Workers) -> None:
    error = workers.error(workers.start("A", 1, gather, "network.join_timeout=1"))
    assert isinstance(error, PartyMissing)
    assert error.about == ("PartyMissing", "A", "connect")
    assert "`workers` right?" in str(error)
