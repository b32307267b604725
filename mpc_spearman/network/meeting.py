"""What both sides of a meeting have in common: the connections that are made, and what goes wrong.

Every party but the coordinator dials it and says on what terms it comes: how many parties it knows of, where
the others can dial it, if they can, and a token that they need for that. When all are there the coordinator
tells everyone's, and each pair connects (:mod:`mpc_spearman.network.pairs`).

A meeting has one outcome for all, and the coordinator tells it: that all are connected with all, or who has
stopped with what. A party that finds something wrong tells the coordinator so.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mpc_spearman.errors import MpcSpearmanError, NetworkError, PeerTimeout, Unreachable
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.handshake import TOKEN, Answer, Greeting, Listener, Use, admit, call, enter
from mpc_spearman.network.pairs import Contact, unreachable, way, ways
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Closed, Connection, Tls
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import from_notice, notice
from mpc_spearman.wire.meter import FORWARDED

#: Seconds between two lines about who is missing, and that a party that cannot take part tries to tell so.
SAY, TELL = 10.0, 5.0
# Seconds that a party whose connection failed waits to hear why; sentences about those turned away, at most.
_HEARD, _NOTES = 1.0, 5

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """A party's own settings for a meeting.

    Attributes
    ----------
    tls : Tls
        Its identity, and its peers' keys.
    listen : Address, optional
        Where others may dial it.
    advertise : Address, optional
        What they dial, where that is something else.
    proxy : Address, optional
        The HTTP proxy through which it dials.
    join_timeout, timeout : float
        Seconds to wait for parties to join; then for each connection.
    say : callable
        Told what is worth a sentence.
    """

    tls: Tls
    listen: Address | None
    advertise: Address | None
    proxy: Address | None
    join_timeout: float
    timeout: float
    say: Say


@dataclass(frozen=True)
class Connected:
    """What comes of a meeting.

    Attributes
    ----------
    sockets : Sockets
    ways : dict
        How each pair is connected, as far as this party knows: names in the order of numbers to ``direct`` or
        ``forwarded``.
    sentences : tuple of str
        What is worth telling: which pairs are not connected directly.
    """

    sockets: Sockets
    ways: Mapping[tuple[str, str], str]
    sentences: tuple[str, ...]


class Meeting:
    """What both sides do: the connections of this party's pairs, and what has gone wrong.

    Parameters
    ----------
    roster : Roster
    settings : Settings
    """

    def __init__(self, roster: Roster, settings: Settings) -> None:
        self._roster, self._settings = roster, settings
        self._token = secrets.token_bytes(TOKEN)
        self._changed = threading.Condition()
        self._failure: MpcSpearmanError | None = None
        self._met = False
        self._contacts: dict[int, Contact] = {}
        self._taken: set[tuple[int, Use]] = set()
        self._sending: dict[int, Connection] = {}
        self._receiving: dict[int, Connection] = {}
        self._listener: Listener | None = None
        self._notes: set[str] = set()

    # --- for who connects (an Acceptor)

    def reserve(self, caller: Party, greeting: Greeting) -> Answer:
        """Let a party in that has been given the token, once for each direction."""
        if greeting.use not in (Use.SEND, Use.RECEIVE) or not self._has_token(greeting):
            return Answer.UNEXPECTED
        key = caller.number, greeting.use
        with self._changed:
            if key in self._taken:
                return Answer.TAKEN
            self._taken.add(key)
        return Answer.WELCOME

    def _has_token(self, greeting: Greeting) -> bool:
        return hmac.compare_digest(greeting.token, self._token)

    def install(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Take a connection: what the caller sends is what this party receives."""
        self._keep(caller.number, connection, received=greeting.use is Use.SEND)

    def fail(self, error: MpcSpearmanError) -> None:
        """Stop, unless all have met or this party has stopped already."""
        with self._changed:
            if not self._met:
                self._failure = self._failure or error
            self._changed.notify_all()

    def _keep(self, number: int, connection: Connection, *, received: bool) -> None:
        with self._changed:
            (self._receiving if received else self._sending)[number] = connection
            if self._failure is not None:
                connection.close()
            self._changed.notify_all()

    # --- connecting

    def _connected(self) -> bool:
        return all(
            peer.number in self._sending and peer.number in self._receiving for peer in self._roster.peers
        )

    def _connect(self) -> None:
        """Make, in a thread of its own, the connections that are this party's to make."""
        try:
            mine = [(peer, *way(self._roster.me, peer, self._contacts)) for peer in self._roster.peers]
            # First where the other end begins, so that nobody waits for a party that itself waits.
            for peer, caller, how in sorted(mine, key=lambda one: one[1] == self._roster.me):
                if caller == self._roster.me:
                    for use in (Use.SEND, Use.RECEIVE):
                        self._call(peer, use, how)
                elif how == FORWARDED:
                    for _ in range(2):
                        threading.Thread(target=self._be_called, args=(peer,), daemon=True).start()
        except MpcSpearmanError as error:
            self._find(error)

    def _find(self, error: MpcSpearmanError) -> None:
        """Stop for a connection that failed: whoever has stopped before has told so, which says more."""
        if isinstance(error, NetworkError):
            with self._changed:
                self._changed.wait_for(lambda: self._failure is not None, _HEARD)
        self.fail(error)

    def _call(self, peer: Party, use: Use, how: str) -> None:
        roster, tls = self._roster, self._settings.tls
        greeting = Greeting(use, token=self._contacts[peer.number].token)
        try:
            if how == FORWARDED:
                connection = enter(self._forwarded(peer), tls, roster, peer, greeting)  # type: ignore[arg-type]
            else:
                connection = self._dial(peer, greeting)
        except Closed:
            raise NetworkError(
                f"the connection from {roster.me} to {peer} broke as it began; nobody has said why"
            ) from None
        self._keep(peer.number, connection, received=use is Use.RECEIVE)

    def _dial(self, peer: Party, greeting: Greeting) -> Connection:
        address = self._contacts[peer.number].address
        assert address is not None
        own = self._settings
        over = lambda: self._failure is not None  # noqa: E731
        try:
            return call(address, own.timeout, own.tls, self._roster, peer, greeting, own.proxy, over)
        except Closed:
            raise
        except OSError as error:
            raise unreachable(self._roster.me, peer, address, str(error.strerror)) from None

    def _forwarded(self, peer: Party) -> Connection:
        """Reach the coordinator, for it to join this connection with one of the peer's."""
        coordinator = self._roster.coordinator
        token = self._contacts[coordinator.number].token
        connection = self._dial(coordinator, Greeting(Use.FORWARD, peer.number, token))
        connection.settimeout(self._settings.timeout)
        return connection

    def _be_called(self, peer: Party) -> None:
        try:
            raw = self._forwarded(peer)
            admit(raw, self._settings.tls, self, lambda: True, peer)  # type: ignore[arg-type]
        except Closed:
            return  # who stopped, or failed, has told so
        except OSError:
            return
        except MpcSpearmanError as error:
            self._find(error)  # here it is no stranger's, but the coordinator's host's doing

    # --- waiting

    def _until(
        self, done: Callable[[], bool], seconds: float, late: Callable[[], MpcSpearmanError],
        waiting: Callable[[], Sequence[Party]] = tuple,
    ) -> None:  # fmt: skip
        """Wait; raise what has gone wrong, or `late` when the time is over; say now and then for whom."""
        start = time.monotonic()
        line = start + SAY / 5
        while True:
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                if done():
                    return
                self._changed.wait(0.5)
            now = time.monotonic()
            if now - start > seconds and not done():
                raise late()
            if now > line and waiting():
                self._settings.say(f"waiting for {', '.join(map(str, waiting()))} to join")
                line += SAY

    def _unconnected(self) -> MpcSpearmanError:
        peer = next(
            peer
            for peer in self._roster.peers
            if peer.number not in self._sending or peer.number not in self._receiving
        )
        return PeerTimeout(
            f"{peer} has joined, but does not connect to {self._roster.me}",
            (PeerTimeout.__name__, peer.name, "connect"),
        )

    def _turned_away(self, error: MpcSpearmanError) -> None:
        """Say once why a caller was not let in; nothing that it says is shown."""
        text = f"a connection was turned away: {error}"
        with self._changed:
            if text in self._notes or len(self._notes) >= _NOTES:
                return
            self._notes.add(text)
        self._settings.say(text)

    def _result(self, sockets: Sockets) -> Connected:
        connected, me = ways(self._roster, self._contacts), self._roster.me
        lines = []
        for pair in (pair for pair, how in connected.items() if how == FORWARDED):
            if me.number == 0 or me.name in pair:
                lines.append(
                    f"what passes between {' and '.join(pair)} is forwarded by the coordinator's host"
                )
        return Connected(sockets, connected, tuple(lines))

    def _sockets(self) -> Sockets:
        return Sockets(self._sending, self._receiving)  # type: ignore[arg-type]

    def _read_stop(self, said: Any, teller: Party) -> MpcSpearmanError:
        """Turn what a party said when it stopped into an error of this one."""
        error, name, phase, number = said
        parties = self._roster.parties
        finder = next((party for party in parties if party.name == name), None)
        if error == Unreachable.__name__ and number is not None and finder is not None:
            peer = parties[number]
            # Where the coordinator is dialled, it does not know itself.
            return unreachable(finder, peer, self._contacts[peer.number].address, "", heard=True)
        names = {party.name for party in parties}
        me = self._roster.me.name
        return from_notice(error, name, phase, told_by=str(teller), parties=names, me=me)

    def _stop_notice(self, error: BaseException, phase: str) -> list[Any]:
        about = notice(error, self._roster.me.name, phase)
        return [*about, error.number if isinstance(error, Unreachable) else None]
