"""Which way each pair of parties is connected; all parties derive the same from each one's address.

- With the coordinator: the other party connects to it.
- Two data parties: the one with the higher number connects to the other if that one listens. Otherwise the
  other connects to it, if it listens. Otherwise both connect to the coordinator, which joins the two
  connections; inside, the party with the higher number is the TLS client.

A pair has two connections, one for each direction of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from mpc_spearman.errors import Unreachable
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.handshake import TOKEN
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.meter import FORWARDED

DIRECT = "direct"
# Longest name of a host.
_HOST = 255


@dataclass(frozen=True)
class Contact:
    """What a party tells all others: where to dial it, if anywhere, and the token to show there."""

    address: Address | None
    token: bytes = field(repr=False)

    def plain(self) -> list[Any]:
        """Return it as JSON can have it."""
        where = None if self.address is None else [self.address.host, self.address.port]
        return [where, self.token.hex()]

    @classmethod
    def read(cls, said: Any) -> Contact:
        """Read what `plain` returned; raises ValueError, TypeError or LookupError if it is not that."""
        where, token = said
        address = None
        if where is not None:
            host, port = where
            address = Address(host, port)
            if not isinstance(host, str) or not 0 < len(host) <= _HOST or not host.isprintable():
                raise ValueError("no host")
            if type(port) is not int or not 0 < port < 1 << 16:
                raise ValueError("no port")
        read = cls(address, bytes.fromhex(token))
        if len(read.token) != TOKEN:
            raise ValueError("no token")
        return read


def way(one: Party, other: Party, contacts: Mapping[int, Contact]) -> tuple[Party, str]:
    """Return which party of a pair begins its connections, and whether they are direct or forwarded."""
    low, high = sorted((one, other), key=lambda party: party.number)
    if low.number == 0 or contacts[low.number].address is not None:
        return high, DIRECT
    if contacts[high.number].address is not None:
        return low, DIRECT
    return high, FORWARDED


def ways(roster: Roster, contacts: Mapping[int, Contact]) -> dict[tuple[str, str], str]:
    """Return how each pair is connected."""
    return {
        (one.name, other.name): way(one, other, contacts)[1] for one, other in combinations(roster.parties, 2)
    }


def unreachable(
    finder: Party, peer: Party, address: Address | None, reason: str, *, heard: bool = False
) -> Unreachable:
    """Say that a party cannot be reached, and blame nobody: what is between the two may be why."""
    where = "" if address is None else f" at {address}"
    why = f" ({reason})" if reason else ""
    cause = (
        "an earlier connection to it worked, so check what limits the number of connections"
        if peer.number == 0
        else f"a firewall blocks it, or `listen` or `advertise` of {peer.name} names an address that others "
        f"cannot reach; without either, the coordinator's host forwards {peer.name}'s connections"
    )
    error = Unreachable(
        f"{finder} cannot reach {peer}{where}{why}: {cause}",
        (Unreachable.__name__, finder.name, "connect"),
        heard=heard,
    )
    error.number = peer.number
    return error
