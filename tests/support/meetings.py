"""Parties in threads of this process that meet over loopback, and strangers."""

from __future__ import annotations

import json
import queue
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mpc_spearman.identity import Identity
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import Settings
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Tls
from mpc_spearman.parties import Party, Roster
from support.memory_network import A, B, C
from support.processes import EVER, eventually

PARTIES = (C, B, A)
ANYWHERE = Address("127.0.0.1", 0)
#: Where each party listens by default: the target does, so that its link with the source is direct.
LISTEN = MappingProxyType({B: ANYWHERE})
#: The keys of all parties of a meeting, and of more.
KEYS = {name: Identity.new() for name in ("C", "B", "A", "A2", "A3", "D")}


def tls(
    me: str, parties: tuple[Party, ...] = PARTIES, own: Identity | None = None, **others: Identity
) -> Tls:
    """Return a party's end of its connections; with another key than it should have, or others expected."""
    keys = {**KEYS, **others}
    return Tls(own or KEYS[me], {peer: keys[peer.name].public for peer in parties if peer.name != me})


@dataclass(frozen=True)
class Connected:
    sockets: Sockets
    ways: Mapping[tuple[str, str], str]


class Meeting:
    """Three parties in threads of this process; `listen` is where others than the coordinator are dialled."""

    def __init__(self, timeout: float = 30.0, listen: Mapping[Party, Address] = LISTEN) -> None:
        self._timeout, self._listen = timeout, listen
        self.met: dict[str, Connected | BaseException] = {}
        #: What each party was told, and what was forwarded of each pair.
        self.said: dict[str, list[str]] = {}
        self.carried: Counter[tuple[int, int]] = Counter()
        self.sides: dict[str, CoordinatorMeeting | DataPartyMeeting] = {}
        self._address: queue.Queue[Address] = queue.Queue()
        self._threads: dict[str, threading.Thread] = {}

    @property
    def address(self) -> Address:
        """Where the coordinator is, once it has come."""
        found = self._address.get(timeout=EVER)
        self._address.put(found)
        return found

    def come(
        self,
        member: Party,
        label: str = "",
        *,
        parties: tuple[Party, ...] = PARTIES,
        where: Address | None = None,
        fault: Exception | None = None,
        coordinator: type[CoordinatorMeeting] = CoordinatorMeeting,
        **own: Any,
    ) -> CoordinatorMeeting | DataPartyMeeting:
        """Let a party come; `label` tells two processes of one apart, `where` is where the coordinator is."""
        label = label or member.name
        settings = {
            "tls": tls(member.name, parties),
            "plan": json.dumps({"parties": len(parties)}, separators=(",", ":")),
            "version": "1",
            "listen": self._listen.get(member),
            "join_timeout": 30.0,
            "timeout": self._timeout,
            "say": self.said.setdefault(label, []).append,
            **own,
        }
        roster = Roster(parties, member)
        side: CoordinatorMeeting | DataPartyMeeting

        rounds: list[Connected] = []

        def agree(sockets: Sockets, ways: Mapping[tuple[str, str], str]) -> None:
            rounds.append(Connected(sockets, ways))

        if member == C:
            side = coordinator(roster, Settings(**settings), agree, self._carry)
            arguments = (where or ANYWHERE, self._address.put, fault)
        else:
            side = DataPartyMeeting(roster, Settings(**settings), agree)
            arguments = (lambda: where or self.address, fault)
        self.sides[label] = side

        def meet() -> None:
            try:
                side.attend(*arguments)  # type: ignore[arg-type]
                self.met[label] = rounds[-1]
            except BaseException as error:
                self.met[label] = error

        self._threads[label] = threading.Thread(target=meet)
        self._threads[label].start()
        return side

    def come_all(self, *members: Party) -> None:
        for member in members or PARTIES:
            self.come(member)

    def seated(self, member: Party) -> None:
        """Wait until a party has its place: who comes later hears only who is missing then."""
        hub: Any = self.sides["C"]
        eventually(lambda: member.number in hub._seats)

    def wait(self, *labels: str) -> dict[str, Any]:
        """Wait for these, or all; return what came of it: what was met, or the error."""
        for label in labels or tuple(self._threads):
            self._threads[label].join(EVER)
            assert not self._threads[label].is_alive(), label
        return dict(self.met)

    def classes(self, *labels: str) -> dict[str, str]:
        """Wait, and return the classes of what came of it."""
        return {label: type(met).__name__ for label, met in self.wait(*labels).items()}

    def close(self) -> None:
        for label in self._threads:
            self.wait(label)
        # The coordinator's wait until the others' are closed.
        for label in sorted(self.met, key=lambda label: label == "C"):
            met = self.met[label]
            if isinstance(met, Connected):
                met.sockets.close()

    def _carry(self, low: int, high: int, size: int) -> None:
        self.carried[low, high] += size


def assert_connected(met: Mapping[str, Any], parties: tuple[Party, ...] = PARTIES) -> None:
    for me in parties:
        for peer in parties:
            if me is not peer:
                sender, receiver = met[me.name], met[peer.name]
                assert isinstance(sender, Connected), sender
                assert isinstance(receiver, Connected), receiver
                sender.sockets.send(peer.number, b"from", me.name.encode())
                size = 4 + len(me.name)
                found = receiver.sockets.receive(me.number, size, lambda: None)
                assert bytes(found) == b"from" + me.name.encode()
