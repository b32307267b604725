"""Meetings over loopback of parties that are threads of this process."""

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
from mpc_spearman.network.connections import Sockets
from mpc_spearman.network.coordinator import CoordinatorMeeting
from mpc_spearman.network.data_party import DataPartyMeeting
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
    """A meeting of parties in threads of this process; `listen` is where each of them listens."""

    def __init__(self, timeout: float = 30.0, listen: Mapping[Party, Address] = LISTEN) -> None:
        self._timeout, self._listen = timeout, listen
        #: By label, each process's connections, or the error that it stopped with.
        self.met: dict[str, Connected | BaseException] = {}
        #: By label, the lines that a process printed.
        self.lines: dict[str, list[str]] = {}
        #: How many bytes of each pair were forwarded.
        self.forwarded: Counter[tuple[int, int]] = Counter()
        self.sides: dict[str, CoordinatorMeeting | DataPartyMeeting] = {}
        self._address: queue.Queue[Address] = queue.Queue()
        self._threads: dict[str, threading.Thread] = {}

    @property
    def address(self) -> Address:
        """Where the coordinator listens, once it does."""
        address = self._address.get(timeout=EVER)
        self._address.put(address)
        return address

    def come(
        self,
        member: Party,
        label: str = "",
        *,
        parties: tuple[Party, ...] = PARTIES,
        where: Address | None = None,
        fault: Exception | None = None,
        coordinator: type[CoordinatorMeeting] = CoordinatorMeeting,
        **settings: Any,
    ) -> CoordinatorMeeting | DataPartyMeeting:
        """Start a process of a party, with a `label` if it has several; `where` is the coordinator."""
        label = label or member.name
        connected: list[Connected] = []
        plan = json.dumps({"parties": len(parties)}, separators=(",", ":"))
        own_settings = {
            "roster": Roster(parties, member),
            "tls": tls(member.name, parties),
            "plan": plan,
            "version": "1",
            "listen": self._listen.get(member),
            "join_timeout": 30.0,
            "timeout": self._timeout,
            "say": self.lines.setdefault(label, []).append,
            "agree": lambda sockets, ways: connected.append(Connected(sockets, ways)),
            **settings,
        }
        side: CoordinatorMeeting | DataPartyMeeting
        if member == C:
            side = coordinator(Settings(**own_settings), self._count_forwarded)
            arguments = (where or ANYWHERE, self._address.put, fault)
        else:
            side = DataPartyMeeting(Settings(**own_settings))
            arguments = (lambda: where or self.address, fault)
        self.sides[label] = side

        def attend() -> None:
            try:
                side.attend(*arguments)  # type: ignore[arg-type]
                self.met[label] = connected[-1]
            except BaseException as error:
                self.met[label] = error

        self._threads[label] = threading.Thread(target=attend)
        self._threads[label].start()
        return side

    def come_all(self, *members: Party, **settings: Any) -> None:
        for member in members or PARTIES:
            self.come(member, **settings)

    def wait_until_joined(self, member: Party) -> None:
        """Wait until a party has joined, and thus gets all later messages."""
        hub: Any = self.sides["C"]
        eventually(lambda: member in hub._joined)

    def wait(self, *labels: str) -> dict[str, Any]:
        """Wait for these processes, or all; return the connections or the error of each."""
        for label in labels or tuple(self._threads):
            self._threads[label].join(EVER)
            assert not self._threads[label].is_alive(), label
        return dict(self.met)

    def error(self, label: str) -> Any:
        """Wait for a process, and return its error."""
        return self.wait(label)[label]

    def assert_all_connect(self, *members: Party) -> None:
        """Start these parties; all three connect."""
        for member in members:
            self.come(member)
        assert_connected(self.wait("C", "B", "A"))

    def assert_printed(self, line: str, *labels: str) -> None:
        """Wait until each of these processes has printed a line."""
        eventually(lambda: all(line in self.lines[label] for label in labels))

    def close(self) -> None:
        self.wait()
        # The coordinator's wait until the others' are closed.
        for label in sorted(self.met, key=lambda label: label == "C"):
            met = self.met[label]
            if isinstance(met, Connected):
                met.sockets.close()

    def _count_forwarded(self, low: int, high: int, size: int) -> None:
        self.forwarded[low, high] += size


def assert_connected(met: Mapping[str, Any], parties: tuple[Party, ...] = PARTIES) -> None:
    for me in parties:
        for peer in parties:
            if me is not peer:
                sender, receiver = met[me.name], met[peer.name]
                assert isinstance(sender, Connected), sender
                assert isinstance(receiver, Connected), receiver
                sender.sockets.send(peer.number, b"from", me.name.encode())
                received = receiver.sockets.receive(me.number, 4 + len(me.name), lambda: None)
                assert bytes(received) == b"from" + me.name.encode()
