"""One attempt of the parties that meet to connect in pairs, from the first byte to confirmed keys.

Each attempt has a token, which distinguishes its connections from earlier ones. A pair has two connections,
one for each direction of bytes. Which party begins them, and whether the coordinator forwards them, follows
from the two parties' addresses:

- With the coordinator: the other party connects to it.
- Two data parties: the one with the higher number connects to the other if that one listens. Otherwise the
  other connects to it, if it listens. Otherwise both connect to the coordinator, which joins the two
  connections; inside, the party with the higher number is the TLS client.
"""

from __future__ import annotations

import hmac
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpc_spearman.errors import NetworkError, PeerTimeout, Unreachable
from mpc_spearman.network.addresses import Address, dial
from mpc_spearman.network.connections import Connection, Sockets, close_now
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import Answer, Greeting, Use, answer_call, greet, let_in
from mpc_spearman.network.tls import Closed, Tls
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.meter import FORWARDED

DIRECT = "direct"
# Seconds between two calls of a party that does not take a connection yet.
_RETRY = 0.2


@dataclass(frozen=True)
class Settings:
    """What a party brings to a meeting.

    All must have the same `plan`, as canonical JSON, and package `version`. Others dial a party at
    `advertise`, or else where it listens; it dials through `proxy`. A party is lost after `timeout` seconds
    without a sign of life; a `patient` party waits for it again. All must meet within `join_timeout`.

    `agree` agrees on keys with all peers, given the connections and how each pair is connected, or raises an
    error. It is called in every attempt; the last one counts.
    """

    roster: Roster
    tls: Tls
    plan: str
    version: str
    join_timeout: float
    timeout: float
    say: Callable[[str], None]
    agree: Callable[[Sockets, Mapping[tuple[str, str], str]], None]
    listen: Address | None = None
    advertise: Address | None = None
    proxy: Address | None = None
    patient: bool = True


def unreachable(caller: Party, peer: Party, address: object, reason: str = "") -> Unreachable:
    """Return the error for a party that cannot be reached, without blame: the network may be the cause."""
    why = f" ({reason})" if reason else ""
    cause = (
        "an earlier connection to it worked, so check what limits the number of connections"
        if peer.number == 0
        else f"a firewall blocks it, or `listen` or `advertise` of {peer.name} names an address that others "
        f"cannot reach; without either, the coordinator's host forwards {peer.name}'s connections"
    )
    about = (Unreachable.__name__, peer.name, "connect")
    return Unreachable(f"{caller} cannot reach {peer} at {address}{why}: {cause}", about)


class Attempt:
    """The connections of one party in one attempt; only the coordinator gives `forwarding`.

    `addresses` are where others dial each party, if anywhere. `on_end` is called once, with this object and
    the error or None, if the attempt ends before it is closed.
    """

    def __init__(
        self,
        settings: Settings,
        token: bytes,
        addresses: Mapping[Party, Address | None],
        on_end: Callable[[Attempt, Exception | None], None],
        forwarding: Forwarding | None = None,
    ) -> None:
        self._settings, self.token, self._addresses = settings, token, addresses
        self._on_end, self._forwarding = on_end, forwarding
        self._me, self._peers = settings.roster.me, settings.roster.peers
        # Which party of each pair begins its connections, and whether they are direct or forwarded.
        self._ways = {pair: self._way(*pair) for pair in settings.roster.pairs}
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._closed = False
        self._accepted: Counter[tuple[Party, Use, int]] = Counter()
        self._sending: dict[int, Connection] = {}
        self._receiving: dict[int, Connection] = {}

    def _way(self, low: Party, high: Party) -> tuple[Party, str]:
        if low == self._settings.roster.coordinator or self._addresses[low] is not None:
            return high, DIRECT
        return (high, FORWARDED) if self._addresses[high] is None else (low, DIRECT)

    def begin(self) -> None:
        """Connect to all peers and agree on keys with them, in a new thread."""
        threading.Thread(target=self._run, name="attempt", daemon=True).start()

    def close(self) -> None:
        """Abort the attempt: close its connections."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        close_now(*self._sending.values(), *self._receiving.values())
        if self._forwarding is not None:
            self._forwarding.close()

    def ways(self) -> dict[tuple[str, str], str]:
        """Return how each pair is connected, by the names of the two."""
        return {(low.name, high.name): how for (low, high), (_, how) in self._ways.items()}

    # --- connections that others begin

    def take(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Accept a party's connection of this attempt, once for each use, and twice to be forwarded.

        The caller's sending direction is this party's receiving direction.
        """
        let_in(connection, self._answer_to(caller, greeting))
        if greeting.use is Use.FORWARD:
            assert self._forwarding is not None
            self._forwarding.install(caller.number, greeting.to, connection)
        else:
            self._store(caller, connection, received=greeting.use is Use.SEND)

    def _answer_to(self, caller: Party, greeting: Greeting) -> Answer:
        forwarded = greeting.use is Use.FORWARD
        if self._closed or not hmac.compare_digest(greeting.token, self.token):
            return Answer.UNEXPECTED
        if forwarded and not self._forwards(caller.number, greeting.to):
            return Answer.UNEXPECTED
        connection = (caller, greeting.use, greeting.to if forwarded else 0)
        with self._changed:
            self._accepted[connection] += 1
            taken = self._accepted[connection] > (2 if forwarded else 1)
        return Answer.TAKEN if taken else Answer.WELCOME

    def _forwards(self, caller: int, to: int) -> bool:
        return self._forwarding is not None and any(
            how == FORWARDED and {low.number, high.number} == {caller, to}
            for (low, high), (_, how) in self._ways.items()
        )

    def _store(self, peer: Party, connection: Connection, *, received: bool) -> None:
        with self._changed:
            (self._receiving if received else self._sending)[peer.number] = connection
            if self._closed:
                connection.close()
            self._changed.notify_all()

    # --- connections that this party begins

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._connect()
            self._wait_for_peers()
            self._settings.agree(Sockets(self._sending, self._receiving, self._end), self.ways())
        except Exception as error:
            failure = error
        if not self._closed:
            self._on_end(self, failure)

    def _connect(self) -> None:
        """Begin the connections that this party has to begin."""
        ways = [
            (low if high == self._me else high, caller, how)
            for (low, high), (caller, how) in self._ways.items()
            if self._me in (low, high)
        ]
        # First the pairs that the other end begins, so that nobody waits for a party that waits itself.
        for peer, caller, how in sorted(ways, key=lambda entry: entry[1] == self._me):
            if caller == self._me:
                for use in (Use.SEND, Use.RECEIVE):
                    self._connect_to(peer, use, how)
            elif how == FORWARDED:
                for _ in range(2):
                    threading.Thread(target=self._await_forwarded, args=(peer,), daemon=True).start()

    def _wait_for_peers(self) -> None:
        def unconnected() -> list[Party]:
            connected = self._sending.keys() & self._receiving.keys()
            return [peer for peer in self._peers if peer.number not in connected]

        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._failure or not unconnected(), 1.5 * self._settings.timeout
            )
            if self._failure is not None:
                raise self._failure
        for peer in unconnected():
            raise PeerTimeout(
                f"{peer} has joined, but does not connect to {self._me}",
                (PeerTimeout.__name__, peer.name, "connect"),
            )

    def _connect_to(self, peer: Party, use: Use, how: str) -> None:
        greeting = Greeting(use, token=self.token)
        try:
            if how == FORWARDED:
                connection = greet(self._forwarded(peer), self._settings.tls, peer, greeting)
            else:
                connection = self._dial(peer, greeting)
        except Closed:
            raise NetworkError(
                f"the connection from {self._me} to {peer} broke at its beginning, and no party has said why"
            ) from None
        self._store(peer, connection, received=use is Use.RECEIVE)

    def _dial(self, peer: Party, greeting: Greeting) -> Connection:
        """Return a connection to a peer, which may have too many callers, or not expect it yet."""
        address, settings = self._addresses[peer], self._settings
        assert address is not None
        end = time.monotonic() + settings.timeout
        while True:
            try:
                raw = dial(address, max(0.05, end - time.monotonic()), settings.proxy)
            except OSError as error:
                raise unreachable(self._me, peer, address, str(error.strerror)) from None
            try:
                return greet(raw, settings.tls, peer, greeting, address.host)
            except Closed:
                if self._closed or time.monotonic() + _RETRY > end:
                    raise
                time.sleep(_RETRY)

    def _forwarded(self, peer: Party) -> ssl.SSLSocket:
        """Return a connection to the coordinator, which joins it with one of the peer's."""
        connection = self._dial(
            self._settings.roster.coordinator, Greeting(Use.FORWARD, peer.number, self.token)
        )
        assert isinstance(connection, ssl.SSLSocket)
        connection.settimeout(self._settings.timeout)
        return connection

    def _await_forwarded(self, peer: Party) -> None:
        try:
            answer_call(self._forwarded(peer), self._settings.tls, self.take, peer)
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
