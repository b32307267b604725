"""A double of the transport in memory: three parties in one process, and wires to tamper with."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.wire.keys import PairKey
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from support.harness import plan

C, B, A = MEMBERS = (
    Party("C", Role.COORDINATOR, 0),
    Party("B", Role.TARGET, 1),
    Party("A", Role.SOURCE, 2),
)
PLAN = plan().shared()
#: A message of each of a few kinds.
SHAPE = {"n": np.array([9]), "features": np.array([2])}
DIGEST = {"digest": bytes(32)}
HELLO: dict[str, Any] = {
    "version": "1",
    "party": "A",
    "role": "source",
    "number": np.array([2]),
    "plan": "{}",
    "public_key": bytes(32),
    "run": bytes(16),
}


class Wire:
    """Bytes from one party to another, in order; a send waits while too many are under way."""

    def __init__(self, capacity: int) -> None:
        self.log = bytearray()  # all that was ever sent
        self.largest_request = 0
        self.mute = False  # swallow what is sent
        self.flip: tuple[int, int] | None = None  # position in the stream and bits to change there
        self._buffer = bytearray()
        self._capacity = capacity
        self._closed = False
        self._changed = threading.Condition()

    def send(self, data: bytes) -> None:
        with self._changed:
            if self.mute:
                return
            self._changed.wait_for(lambda: self._closed or len(self._buffer) < self._capacity)
            if self._closed:
                raise ConnectionResetError("closed by the peer")
            if self.flip and len(self.log) <= self.flip[0] < len(self.log) + len(data):
                at = self.flip[0] - len(self.log)
                data = data[:at] + bytes([data[at] ^ self.flip[1]]) + data[at + 1 :]
            self.log += data
            self._buffer += data
            self._changed.notify_all()

    def receive(self, size: int, heard: Callable[[], None]) -> memoryview:
        with self._changed:
            self.largest_request = max(self.largest_request, size)
            self._changed.wait_for(lambda: self._closed or len(self._buffer) >= size)
            heard()
            if len(self._buffer) < size:
                raise ConnectionResetError("closed by the peer")
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._changed.notify_all()
            return memoryview(data)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Transport:
    """One party's end of all its wires."""

    def __init__(self, network: Network, rank: int) -> None:
        self._network, self._rank = network, rank

    def send(self, rank: int, header: bytes, payload: bytes) -> None:
        self._network.wires[self._rank, rank].send(header + payload)

    def receive(self, rank: int, size: int, heard: Callable[[], None]) -> memoryview:
        return self._network.wires[rank, self._rank].receive(size, heard)

    def close(self) -> None:
        pass


class Network:
    """Links of all three parties over wires in memory.

    Parameters
    ----------
    timeout : float
        ``network.timeout``.
    silent : tuple of Party
        Parties whose wires carry nothing out.
    secured : bool
        Whether each pair has its key already.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        silent: tuple[Party, ...] = (),
        secured: bool = True,
        capacity: int = 1 << 20,
    ) -> None:
        self.wires: defaultdict[tuple[int, int], Wire] = defaultdict(lambda: Wire(capacity))
        for sender in MEMBERS:
            for receiver in MEMBERS:
                self.wires[sender.number, receiver.number].mute = sender in silent
        self.meters = {member: Meter() for member in MEMBERS}
        self.links = {
            member: Links(
                PLAN, Roster(MEMBERS, member), Transport(self, member.number), self.meters[member], timeout
            )
            for member in MEMBERS
        }
        if secured:
            self.secure()

    def secure(self) -> None:
        mine = {member: X25519PrivateKey.generate() for member in MEMBERS}
        for me in MEMBERS:
            for peer in MEMBERS:
                if me != peer:
                    theirs = mine[peer].public_key().public_bytes_raw()
                    key = PairKey(mine[me], theirs, me, peer, bytes(16), bytes(32))
                    self.links[me].secure(peer, key)

    def wire(self, sender: Party, receiver: Party) -> Wire:
        return self.wires[sender.number, receiver.number]

    def cut(self, member: Party) -> None:
        """Close all wires from and to a party, as its end does."""
        for pair, wire in self.wires.items():
            if member.number in pair:
                wire.close()

    def close(self) -> None:
        for links in self.links.values():
            links._closing.set()
        for wire in self.wires.values():
            wire.close()


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)
