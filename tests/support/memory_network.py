"""Wires in memory, which tests can read and change, and links of three parties over them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from support.plans import plan


class Wire:
    """Bytes from one party to another, in order; a send waits while too many are under way."""

    def __init__(self, capacity: int) -> None:
        self.log = bytearray()  # all that was ever sent
        self.largest_request = 0
        self.mute = False  # swallow what is sent, as a network does where nobody is left to receive it
        self._buffer = bytearray()
        self._capacity = capacity
        self._closed = False
        self._changed = threading.Condition()

    def send(self, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.mute or self._closed or len(self._buffer) < self._capacity)
            if self._closed:  # also if it is mute: otherwise the sender would send keep-alives for ever
                raise ConnectionResetError("closed by the peer")
            if self.mute:
                return
            self.log += data
            self._buffer += data
            self._changed.notify_all()

    def receive(self, size: int, on_arrival: Callable[[], None]) -> memoryview:
        with self._changed:
            self.largest_request = max(self.largest_request, size)
            self._changed.wait_for(lambda: self._closed or len(self._buffer) >= size)
            on_arrival()
            if len(self._buffer) < size:
                raise ConnectionResetError("closed by the peer")
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._changed.notify_all()
            return memoryview(data)

    def end(self, *, closed: bool) -> None:
        """Close the wire once all sent bytes have been read; if not `closed`, carry no more bytes."""
        with self._changed:
            self._closed, self.mute = self._closed or closed, self.mute or not closed
            self._changed.notify_all()


class Wires(dict[tuple[int, int], Wire]):
    """The wires of a run, by the numbers of the sender and the receiver."""

    def __init__(self, parties: int, capacity: int = 1 << 20) -> None:
        super().__init__({ends: Wire(capacity) for ends in permutations(range(parties), 2)})

    def end(self, number: int) -> Transport:
        return Transport(self, number)

    def cut(self, number: int) -> None:
        """End a party's wires, as the end of its process does."""
        for (sender, receiver), wire in self.items():
            if number in (sender, receiver):
                wire.end(closed=sender == number)


class Transport:
    """One party's end of all its wires."""

    def __init__(self, wires: Wires, number: int) -> None:
        self._wires, self._number = wires, number

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        self._wires[self._number, number].send(header + payload)

    def receive(self, number: int, size: int, on_arrival: Callable[[], None]) -> memoryview:
        return self._wires[number, self._number].receive(size, on_arrival)

    def set_send_timeout(self, seconds: float) -> None:
        self.hurried = seconds

    def close(self) -> None:
        pass


C, B, A = PARTIES = (Party("C", Role.COORDINATOR, 0), Party("B", Role.TARGET, 1), Party("A", Role.SOURCE, 2))
PLAN = plan().terms
#: A message of each of a few kinds.
SHAPE = {"n": np.array([9]), "features": np.array([2])}
DIGEST = {"digest": bytes(32)}
HELLO: dict[str, Any] = dict.fromkeys(("public_key", "nonce"), bytes(32))


class Network:
    """Links of all three parties over wires in memory.

    A party that has nothing to send for `keepalive` seconds sends a keep-alive. Wires carry nothing from
    `silent` parties; `capacity` is how many bytes a wire holds before a send waits.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        keepalive: float = 5.0,
        silent: tuple[Party, ...] = (),
        capacity: int = 1 << 20,
        abort_seconds: float = 2.0,
    ) -> None:
        self.wires = Wires(len(PARTIES), capacity)
        for (sender, _), wire in self.wires.items():
            wire.mute = sender in {party.number for party in silent}
        self.meters = {party: Meter() for party in PARTIES}
        self.links = {}
        for party, meter in self.meters.items():
            meter.current = "connect"  # as when links are made
            self.links[party] = Links(
                partial(VIEW.fields, PLAN),
                Roster(PARTIES, party),
                self.wires.end(party.number),
                meter,
                4 * keepalive,  # of which it sends four
                abort_seconds,
            )
            self.links[party]._timeout = timeout

    def wire(self, sender: Party, receiver: Party) -> Wire:
        return self.wires[sender.number, receiver.number]

    def cut(self, party: Party) -> None:
        self.wires.cut(party.number)

    def close(self) -> None:
        for wire in self.wires.values():
            wire.end(closed=True)


#: Makes networks that are closed when the test ends.
Make = Callable[..., Network]
