"""Links of three parties in one process, over wires in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mpc_spearman.levels.view import VIEW
from mpc_spearman.parties import Party, Role, Roster
from mpc_spearman.wire.links import Links
from mpc_spearman.wire.meter import Meter
from support.plans import plan
from support.wires import Wire, Wires

C, B, A = PARTIES = (Party("C", Role.COORDINATOR, 0), Party("B", Role.TARGET, 1), Party("A", Role.SOURCE, 2))
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
    "nonce": bytes(32),
}


class Network:
    """Links of all three parties over wires in memory.

    Who has had nothing to send for `keepalive` seconds says that it is there. Of parties that are `silent`
    wires carry nothing; `capacity` is how many bytes one holds before a send waits.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        keepalive: float = 5.0,
        silent: tuple[Party, ...] = (),
        capacity: int = 1 << 20,
        last_words: float = 2.0,
    ) -> None:
        self.wires = Wires(len(PARTIES), capacity)
        for (sender, _), wire in self.wires.items():
            wire.mute = sender in {party.number for party in silent}
        self.meters = {party: Meter() for party in PARTIES}
        for meter in self.meters.values():
            meter.current = "connect"  # as when links are made
        self.links = {
            party: Links(
                partial(VIEW.fields, PLAN),
                Roster(PARTIES, party),
                self.wires.end(party.number),
                self.meters[party],
                4 * keepalive,  # of which it sends four
                last_words,
            )
            for party in PARTIES
        }
        for links in self.links.values():
            links._timeout = timeout

    def wire(self, sender: Party, receiver: Party) -> Wire:
        return self.wires[sender.number, receiver.number]

    def cut(self, party: Party) -> None:
        """Close all wires from and to a party, as its end does."""
        self.wires.cut(party.number)

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


#: Makes networks that are closed when the test ends.
Make = Callable[..., Network]
