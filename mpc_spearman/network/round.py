"""One round of a meeting: the connections of one party's pairs, from the first byte to confirmed keys.

Each party has a token for the round, which tells its connections from those of an earlier round. A round ends
in one of three ways: all of this party's pairs are connected and have agreed; something failed, here or at
another party; or the coordinator begins another round, and this one is closed.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from mpc_spearman.errors import NetworkError, PeerTimeout
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import TOKEN, Answer, Greeting, Use, admit, call, enter
from mpc_spearman.network.pairs import DIRECT, Contact, unreachable, way, ways
from mpc_spearman.network.settings import Settings
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Closed, Connection
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.meter import FORWARDED

#: Agrees with all peers over a round's connections; is told how each pair is connected, raises what is wrong.
Agree = Callable[[Sockets, Mapping[tuple[str, str], str]], None]


class Round:
    """A party's part in one round; `forwarding` is the coordinator's.

    `over` is called once, with this and what went wrong or None, if it ends before it is closed.
    """

    def __init__(
        self,
        roster: Roster,
        settings: Settings,
        agree: Agree,
        over: Callable[[Round, Exception | None], None],
        forwarding: Forwarding | None = None,
    ) -> None:
        self._roster, self._settings = roster, settings
        self._agree, self._over, self._forwarding = agree, over, forwarding
        self.token = secrets.token_bytes(TOKEN)
        self.contacts: dict[int, Contact] = {}
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._closed = False
        self._taken: set[tuple[int, Use]] = set()
        self._sending: dict[int, Connection] = {}
        self._receiving: dict[int, Connection] = {}

    def begin(self, contacts: Mapping[int, Contact]) -> None:
        """Connect and agree, in a thread of its own."""
        self.contacts = dict(contacts)
        threading.Thread(target=self._run, name="round", daemon=True).start()

    def close(self) -> None:
        """Break it off: nothing of it is used any more, and nothing of it is heard."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._hang_up()

    def ways(self) -> dict[tuple[str, str], str]:
        """Return how each pair is connected."""
        return ways(self._roster, self.contacts)

    # --- for who connects

    def reserve(self, caller: Party, greeting: Greeting) -> Answer:
        """Let a party in that has been given the token, once for each direction, or for what is forwarded."""
        if self._closed or not hmac.compare_digest(greeting.token, self.token):
            return Answer.UNEXPECTED
        if greeting.use is Use.FORWARD:
            if self._forwarding is None or not self._forwards(caller.number, greeting.to):
                return Answer.UNEXPECTED
            return Answer.WELCOME if self._forwarding.reserve(caller.number, greeting.to) else Answer.TAKEN
        with self._changed:
            if (caller.number, greeting.use) in self._taken:
                return Answer.TAKEN
            self._taken.add((caller.number, greeting.use))
        return Answer.WELCOME

    def install(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Take a connection: what the caller sends is what this party receives."""
        if greeting.use is Use.FORWARD:
            assert self._forwarding is not None
            self._forwarding.install(caller.number, greeting.to, connection)
        else:
            self._keep(caller.number, connection, received=greeting.use is Use.SEND)

    def _forwards(self, caller: int, to: int) -> bool:
        numbers = {caller, to}
        if len(numbers) < 2 or not numbers <= {peer.number for peer in self._roster.peers}:
            return False
        one, other = (self._roster.parties[number] for number in numbers)
        return way(one, other, self.contacts)[1] != DIRECT

    def _keep(self, number: int, connection: Connection, *, received: bool) -> None:
        with self._changed:
            (self._receiving if received else self._sending)[number] = connection
            if self._closed:
                connection.close()
            self._changed.notify_all()

    # --- connecting

    def _run(self) -> None:
        try:
            self._connect()
            self._wait()
            # A Nested is no socket, and has all that is used of one; so in `_call` and `_be_called`.
            sockets = Sockets(self._sending, self._receiving, self._end)  # type: ignore[arg-type]
            self._agree(sockets, self.ways())
        except Exception as error:
            if not self._closed:
                self._over(self, error)
        else:
            if not self._closed:
                self._over(self, None)

    def _connect(self) -> None:
        """Make the connections that are this party's to make."""
        mine = [(peer, *way(self._roster.me, peer, self.contacts)) for peer in self._roster.peers]
        # First where the other end begins, so that nobody waits for a party that itself waits.
        for peer, caller, how in sorted(mine, key=lambda one: one[1] == self._roster.me):
            if caller == self._roster.me:
                for use in (Use.SEND, Use.RECEIVE):
                    self._call(peer, use, how)
            elif how == FORWARDED:
                for _ in range(2):
                    threading.Thread(target=self._be_called, args=(peer,), daemon=True).start()

    def _wait(self) -> None:
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

    def _call(self, peer: Party, use: Use, how: str) -> None:
        roster, tls = self._roster, self._settings.tls
        greeting = Greeting(use, token=self.contacts[peer.number].token)
        try:
            if how == FORWARDED:
                connection = enter(self._forwarded(peer), tls, roster, peer, greeting)  # type: ignore[arg-type]
            else:
                connection = self._dial(peer, greeting)
        except Closed:
            raise NetworkError(
                f"the connection from {roster.me} to {peer} broke at its beginning, and no party has said why"
            ) from None
        self._keep(peer.number, connection, received=use is Use.RECEIVE)

    def _dial(self, peer: Party, greeting: Greeting) -> Connection:
        address, own = self.contacts[peer.number].address, self._settings
        assert address is not None
        try:
            return call(
                address, own.timeout, own.tls, self._roster, peer, greeting, own.proxy, lambda: self._closed
            )
        except Closed:
            raise
        except OSError as error:
            raise unreachable(self._roster.me, peer, address, str(error.strerror)) from None

    def _forwarded(self, peer: Party) -> Connection:
        """Reach the coordinator, for it to join this connection with one of the peer's."""
        coordinator = self._roster.coordinator
        token = self.contacts[coordinator.number].token
        connection = self._dial(coordinator, Greeting(Use.FORWARD, peer.number, token))
        connection.settimeout(self._settings.timeout)
        return connection

    def _be_called(self, peer: Party) -> None:
        try:
            raw = self._forwarded(peer)
            admit(raw, self._settings.tls, self, lambda: True, peer)  # type: ignore[arg-type]
        except OSError:
            return  # who stopped, or failed, has told so
        except Exception as error:
            with self._changed:  # here it is no stranger's, but the coordinator's host's doing
                self._failure = self._failure or error
                self._changed.notify_all()

    def _hang_up(self) -> None:
        connections = (*self._sending.values(), *self._receiving.values())
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(2)
            connection.close()
        if self._forwarding is not None:
            self._forwarding.close()

    def _end(self) -> None:
        """Wait until the parties have ended what is forwarded, once this one's run is over."""
        if self._forwarding is not None:
            self._forwarding.close(self._settings.timeout)
