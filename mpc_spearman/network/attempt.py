"""One attempt of the parties that meet to connect in pairs, from the first byte to confirmed keys.

Each party has a token for the attempt, which distinguishes its connections from those of an earlier one. An
attempt ends in one of three ways: all of this party's pairs are connected and have agreed on keys; something
failed, here or at another party; or the coordinator begins another attempt, and this one is closed.

A pair has two connections, one for each direction of bytes. Which party begins them, and whether the
coordinator forwards them, follows from the two parties' addresses:

- With the coordinator: the other party connects to it.
- Two data parties: the one with the higher number connects to the other if that one listens. Otherwise the
  other connects to it, if it listens. Otherwise both connect to the coordinator, which joins the two
  connections; inside, the party with the higher number is the TLS client.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mpc_spearman.errors import NetworkError, PeerTimeout, Unreachable
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import TOKEN, Answer, Greeting, Use, admit, call, enter, let_in
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Closed, Connection, Tls
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.meter import FORWARDED

DIRECT = "direct"
# Longest name of a host.
_LONGEST_HOST = 255

#: Agrees on keys with all peers, given the connections and how each pair is connected; raises an error if it
#: cannot.
Agree = Callable[[Sockets, Mapping[tuple[str, str], str]], None]


@dataclass(frozen=True)
class Settings:
    """What a party brings to a meeting.

    All must have the same `plan`, as canonical JSON, and package `version`. Others dial a party at
    `advertise`, or else where it listens; it dials through `proxy`. A party is lost after `timeout` seconds
    without a sign of life; a `patient` party waits for it again. All must meet within `join_timeout`.
    """

    tls: Tls
    plan: str
    version: str
    join_timeout: float
    timeout: float
    say: Callable[[str], None]
    listen: Address | None = None
    advertise: Address | None = None
    proxy: Address | None = None
    patient: bool = True


@dataclass(frozen=True)
class Contact:
    """Where the others dial a party, if anywhere, and the token that they must show there."""

    address: Address | None
    token: bytes = field(repr=False)

    def to_json(self) -> list[Any]:
        """Return the contact as a value for JSON."""
        where = None if self.address is None else [self.address.host, self.address.port]
        return [where, self.token.hex()]

    @classmethod
    def from_json(cls, value: Any) -> Contact:
        """Return the contact that `to_json` wrote; ValueError, TypeError or LookupError for anything else."""
        where, token = value
        address = None
        if where is not None:
            host, port = where
            address = Address(host, port)
            if not isinstance(host, str) or not 0 < len(host) <= _LONGEST_HOST or not host.isprintable():
                raise ValueError("no host")
            if type(port) is not int or not 0 < port < 1 << 16:
                raise ValueError("no port")
        contact = cls(address, bytes.fromhex(token))
        if len(contact.token) != TOKEN:
            raise ValueError("no token")
        return contact


def way(one: Party, other: Party, contacts: Mapping[int, Contact]) -> tuple[Party, str]:
    """Return which party of a pair begins its connections, and whether they are direct or forwarded."""
    low, high = sorted((one, other), key=lambda party: party.number)
    if low.number == 0 or contacts[low.number].address is not None:
        return high, DIRECT
    if contacts[high.number].address is not None:
        return low, DIRECT
    return high, FORWARDED


def unreachable(caller_name: object, peer: Party, address: object, reason: str = "") -> Unreachable:
    """Return the error for a party that cannot be reached, without blame: the network may be the cause."""
    why = f" ({reason})" if reason else ""
    cause = (
        "an earlier connection to it worked, so check what limits the number of connections"
        if peer.number == 0
        else f"a firewall blocks it, or `listen` or `advertise` of {peer.name} names an address that others "
        f"cannot reach; without either, the coordinator's host forwards {peer.name}'s connections"
    )
    about = (Unreachable.__name__, peer.name, "connect")
    return Unreachable(f"{caller_name} cannot reach {peer} at {address}{why}: {cause}", about)


class Attempt:
    """The connections of one party in one attempt; only the coordinator gives `forwarding`.

    `on_end` is called once, with this object and the error or None, if the attempt ends before it is closed.
    """

    def __init__(
        self,
        roster: Roster,
        settings: Settings,
        agree: Agree,
        on_end: Callable[[Attempt, Exception | None], None],
        forwarding: Forwarding | None = None,
    ) -> None:
        self._roster, self._settings = roster, settings
        self._agree, self._on_end, self._forwarding = agree, on_end, forwarding
        self.token = secrets.token_bytes(TOKEN)
        self._contacts: dict[int, Contact] = {}
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._closed = False
        self._used: set[tuple[int, Use]] = set()
        self._sending: dict[int, Connection] = {}
        self._receiving: dict[int, Connection] = {}

    def begin(self, contacts: Mapping[int, Contact]) -> None:
        """Connect to all peers and agree on keys with them, in a new thread."""
        self._contacts = dict(contacts)
        threading.Thread(target=self._run, name="attempt", daemon=True).start()

    def close(self) -> None:
        """Abort the attempt: close its connections."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for connection in (*self._sending.values(), *self._receiving.values()):
            with suppress(OSError):
                connection.shutdown(2)
            connection.close()
        if self._forwarding is not None:
            self._forwarding.close()

    def ways(self) -> dict[tuple[str, str], str]:
        """Return how each pair is connected."""
        pairs = self._roster.pairs
        return {(one.name, other.name): way(one, other, self._contacts)[1] for one, other in pairs}

    # --- connections that others begin

    def take(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Accept a connection of a party that has the token, once for each direction or forwarded connection.

        The caller's sending direction is this party's receiving direction.
        """
        let_in(connection, self._answer_to(caller.number, greeting))
        if greeting.use is Use.FORWARD:
            assert self._forwarding is not None
            self._forwarding.install(caller.number, greeting.to, connection)
        else:
            self._store(caller.number, connection, received=greeting.use is Use.SEND)

    def _answer_to(self, caller: int, greeting: Greeting) -> Answer:
        if self._closed or not hmac.compare_digest(greeting.token, self.token):
            return Answer.UNEXPECTED
        if greeting.use is Use.FORWARD:
            if self._forwarding is None or not self._forwards(caller, greeting.to):
                return Answer.UNEXPECTED
            return Answer.WELCOME if self._forwarding.reserve(caller, greeting.to) else Answer.TAKEN
        with self._changed:
            if (caller, greeting.use) in self._used:
                return Answer.TAKEN
            self._used.add((caller, greeting.use))
        return Answer.WELCOME

    def _forwards(self, caller: int, to: int) -> bool:
        numbers = (min(caller, to), max(caller, to))
        pairs = (pair for pair in self._roster.pairs if (pair[0].number, pair[1].number) == numbers)
        return any(way(one, other, self._contacts)[1] != DIRECT for one, other in pairs)

    def _store(self, number: int, connection: Connection, *, received: bool) -> None:
        with self._changed:
            (self._receiving if received else self._sending)[number] = connection
            if self._closed:
                connection.close()
            self._changed.notify_all()

    # --- connections that this party begins

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._connect()
            self._wait_for_peers()
            # A Nested is no socket, but has the methods that this class uses.
            sockets = Sockets(self._sending, self._receiving, self._end)  # type: ignore[arg-type]
            self._agree(sockets, self.ways())
        except Exception as error:
            failure = error
        if not self._closed:
            self._on_end(self, failure)

    def _connect(self) -> None:
        """Begin the connections that this party has to begin, by `way`."""
        ways = [(peer, *way(self._roster.me, peer, self._contacts)) for peer in self._roster.peers]
        # First the pairs that the other end begins, so that nobody waits for a party that waits itself.
        for peer, caller, how in sorted(ways, key=lambda entry: entry[1] == self._roster.me):
            if caller == self._roster.me:
                for use in (Use.SEND, Use.RECEIVE):
                    self._connect_to(peer, use, how)
            elif how == FORWARDED:
                for _ in range(2):
                    threading.Thread(target=self._await_forwarded, args=(peer,), daemon=True).start()

    def _wait_for_peers(self) -> None:
        def connected(peer: Party) -> bool:
            return peer.number in self._sending and peer.number in self._receiving

        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._failure or all(map(connected, self._roster.peers)),
                1.5 * self._settings.timeout,
            )
            if self._failure is not None:
                raise self._failure
        for peer in self._roster.peers:
            if not connected(peer):
                raise PeerTimeout(
                    f"{peer} has joined, but does not connect to {self._roster.me}",
                    (PeerTimeout.__name__, peer.name, "connect"),
                )

    def _connect_to(self, peer: Party, use: Use, how: str) -> None:
        greeting = Greeting(use, token=self._contacts[peer.number].token)
        try:
            if how == FORWARDED:
                connection = enter(self._forwarded(peer), self._settings.tls, peer, greeting)  # type: ignore[arg-type]
            else:
                connection = self._dial(peer, greeting)
        except Closed:
            raise NetworkError(
                f"the connection from {self._roster.me} to {peer} broke at its beginning, and no party has "
                "said why"
            ) from None
        self._store(peer.number, connection, received=use is Use.RECEIVE)

    def _dial(self, peer: Party, greeting: Greeting) -> Connection:
        address, settings = self._contacts[peer.number].address, self._settings
        assert address is not None
        try:
            return call(
                address, settings.timeout, settings.tls, peer, greeting, settings.proxy, lambda: self._closed
            )
        except Closed:
            raise
        except OSError as error:
            raise unreachable(self._roster.me, peer, address, str(error.strerror)) from None

    def _forwarded(self, peer: Party) -> Connection:
        """Return a connection to the coordinator, which joins it with one of the peer's."""
        coordinator = self._roster.coordinator
        token = self._contacts[coordinator.number].token
        connection = self._dial(coordinator, Greeting(Use.FORWARD, peer.number, token))
        connection.settimeout(self._settings.timeout)
        return connection

    def _await_forwarded(self, peer: Party) -> None:
        try:
            admit(self._forwarded(peer), self._settings.tls, self.take, peer)  # type: ignore[arg-type]
        except OSError:
            return  # the party that stopped or failed has said so
        except Exception as error:
            with self._changed:  # here the coordinator's host caused it, not a stranger
                self._failure = self._failure or error
                self._changed.notify_all()

    def _end(self) -> None:
        """At the end of the run, wait until the other parties have ended their forwarded connections."""
        if self._forwarding is not None:
            self._forwarding.close(self._settings.timeout)
