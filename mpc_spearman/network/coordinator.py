"""The coordinator's side of the meeting: it listens, all others dial it.

It tells all what each has said of itself, joins the connections of pairs that cannot reach each other
(:mod:`mpc_spearman.network.forwarding`), and tells everyone the one outcome.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from mpc_spearman.errors import (
    HandshakeError,
    MpcSpearmanError,
    PartyMissing,
    PeerTimeout,
    PlanMismatch,
    Unreachable,
)
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.control import Control, Message, nonsense
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import Answer, Greeting, Listener, Use
from mpc_spearman.network.meeting import TELL, Connected, Meeting, Settings
from mpc_spearman.network.pairs import DIRECT, Contact, way
from mpc_spearman.network.sockets import Sockets
from mpc_spearman.network.tls import Connection
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import lost_party

# Seconds that the coordinator stays after a failure for those who have not come yet, and that it takes to
# find out whether a party that another cannot reach is there.
_LINGER, _LOOK = 2.0, 1.0


class CoordinatorMeeting(Meeting):
    """The coordinator's side.

    Parameters
    ----------
    roster : Roster
    settings : Settings
    carried : callable
        Told of which two parties, by number, how many bytes have been passed on.
    """

    def __init__(self, roster: Roster, settings: Settings, carried: Callable[[int, int, int], None]) -> None:
        super().__init__(roster, settings)
        self._forwarding = Forwarding(carried)
        self._admitted: set[int] = set()
        self._controls: dict[int, Control] = {}
        self._ready: set[int] = set()
        self._stopped: set[int] = set()
        self._outcome: dict[str, Any] | None = None
        self._hints: list[str] = []

    def attend(
        self, where: Address, announce: Callable[[Address], None], fault: Exception | None = None
    ) -> Connected:
        """Meet the others.

        Parameters
        ----------
        where : Address
            Where to listen.
        announce : callable
            Called with where that is, its port at least.
        fault : Exception, optional
            What this party has failed with before: it is raised, and the others are told.

        Raises
        ------
        MpcSpearmanError
            See :func:`mpc_spearman.launch.rendezvous.join`.
        """
        listener = Listener(where, self._settings.tls, self._roster, self, self._turned_away)
        try:
            announce(Address(where.host, listener.port))
            if fault is not None:
                raise fault
            threading.Thread(target=self._tell_missing, name="missing", daemon=True).start()
            self._until(lambda: not self._missing(), self._settings.join_timeout, self._nobody, self._missing)
            me = self._roster.me.number
            with self._changed:
                self._contacts[me] = Contact(None, self._token)
            self._tell({"all": {str(number): contact.plain() for number, contact in self._contacts.items()}})
            done = lambda: self._connected() and len(self._ready) == len(self._roster.peers)  # noqa: E731
            self._until(done, 2 * self._settings.timeout, self._unready)
        except BaseException as error:
            self._stop(error, listener, "connect" if fault is None else "load")
            raise
        with self._changed:
            # Whoever stops from here on says so over the links.
            self._met, self._outcome = self._failure is None, {"met": True}
        if not self._met:
            assert self._failure is not None
            self._outcome = None
            self._stop(self._failure, listener, "connect")
            raise self._failure
        listener.close()
        self._tell(self._outcome)
        for control in self._controls.values():
            control.finish()
        return self._result(_Sockets(self._sending, self._receiving, self._end))

    # --- for who connects

    def reserve(self, caller: Party, greeting: Greeting) -> Answer:
        """Let in one process of each party, and connections that have been given the token."""
        if greeting.use is Use.MEET:
            with self._changed:
                second = caller.number in self._admitted
                self._admitted.add(caller.number)
            if second:
                self.fail(HandshakeError(f"two processes have joined as {caller}"))
                return Answer.TAKEN
            return Answer.WELCOME
        if greeting.use is Use.FORWARD:
            if not self._has_token(greeting) or not self._forwards(caller.number, greeting.to):
                return Answer.UNEXPECTED
            return Answer.WELCOME if self._forwarding.reserve(caller.number, greeting.to) else Answer.TAKEN
        return super().reserve(caller, greeting)

    def install(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Begin a control connection, join connections, or keep this party's own."""
        if greeting.use is Use.FORWARD:
            self._forwarding.install(caller.number, greeting.to, connection)
        elif greeting.use is Use.MEET:
            assert isinstance(connection, socket.socket)
            with self._changed:  # what it says is not heeded before it is among the controls
                control = self._controls[caller.number] = Control(
                    connection,
                    caller,
                    self._settings.timeout,
                    lambda message: self._hear(caller, message),
                    lambda error: self._lose(caller, error),
                )
                outcome = self._outcome
            if outcome is not None:
                control.send(**outcome)
        else:
            super().install(caller, greeting, connection)

    def _forwards(self, caller: int, to: int) -> bool:
        numbers = {caller, to}
        if len(numbers) < 2 or not numbers <= {peer.number for peer in self._roster.peers}:
            return False
        one, other = (self._roster.parties[number] for number in numbers)
        return way(one, other, self._contacts)[1] != DIRECT

    # --- what the others say

    def _hear(self, peer: Party, message: Message) -> None:
        if "terms" in message:
            terms = message["terms"]
            contact, parties = Contact.read(terms["contact"]), int(terms["parties"])
            if parties != len(self._roster.parties):
                raise PlanMismatch(
                    f"the plans of {self._roster.me} (here) and {peer} (there) differ: number of parties: "
                    f"{len(self._roster.parties)} here, {parties} there"
                )
            with self._changed:
                self._contacts.setdefault(peer.number, contact)
                self._changed.notify_all()
        elif "connected" in message:
            with self._changed:
                self._ready.add(peer.number)
                self._changed.notify_all()
        elif "stop" in message:
            self._stopped.add(peer.number)
            error = self._read_stop(message["stop"], peer)
            if isinstance(error, Unreachable) and error.number is not None:
                threading.Thread(target=self._look, args=(error,), daemon=True).start()
            else:
                self.fail(error)
        else:
            raise nonsense(peer)

    def _lose(self, peer: Party, error: MpcSpearmanError) -> None:
        if peer.number not in self._stopped:  # who has is not lost, though it goes
            self.fail(error)

    def _look(self, error: Unreachable) -> None:
        """See first whether the party that cannot be reached is gone: then that is what happened."""
        control = self._controls.get(error.number or 0)
        now, end = time.monotonic(), time.monotonic() + _LOOK
        if control is not None:
            control.probe()
            while control.last < now and time.monotonic() < end and self._failure is None:
                time.sleep(0.02)
        self.fail(error)

    # --- waiting, and telling

    def _missing(self) -> tuple[Party, ...]:
        return tuple(peer for peer in self._roster.peers if peer.number not in self._contacts)

    def _tell_missing(self) -> None:
        """Tell those who are there, now and then, who is not."""
        while self._outcome is None and (missing := self._missing()):
            for control in list(self._controls.values()):
                control.send(missing=[party.number for party in missing])
            time.sleep(1.0)

    def _tell(self, message: dict[str, Any]) -> None:
        for control in list(self._controls.values()):
            control.send(**message)

    def _turned_away(self, error: MpcSpearmanError) -> None:
        super()._turned_away(error)
        self._hints = [str(error)]

    def _nobody(self) -> MpcSpearmanError:
        missing = self._missing()
        hint = f". A connection was turned away: {self._hints[0]}" if self._hints else ""
        return PartyMissing(
            f"{' and '.join(map(str, missing))} did not join within {self._settings.join_timeout:g} s{hint}",
            (PartyMissing.__name__, missing[0].name, "connect"),
        )

    def _unready(self) -> MpcSpearmanError:
        late = next((peer for peer in self._roster.peers if peer.number not in self._ready), None)
        if late is None:
            return self._unconnected()
        return PeerTimeout(
            f"{late} has joined, but is not connected with all within {2 * self._settings.timeout:.3g} s",
            (PeerTimeout.__name__, late.name, "connect"),
        )

    def _stop(self, error: BaseException, listener: Listener, phase: str) -> None:
        """Tell all who are there, and those who come in a moment, with what this meeting ends."""
        lost = lost_party(error)
        with self._changed:
            self._outcome = {"stop": self._stop_notice(error, phase)}
            told = list(self._controls.values())
        for control in told:
            control.send(**self._outcome)
        end = time.monotonic() + (TELL if phase == "load" else _LINGER)
        expected = [peer for peer in self._roster.peers if peer.name != lost]
        while time.monotonic() < end and any(peer.number not in self._controls for peer in expected):
            time.sleep(0.05)
        listener.close()
        self._sockets().close()
        self._forwarding.close()
        for control in self._controls.values():
            control.finish()
        for control in self._controls.values():
            control.join()

    def _end(self) -> None:
        self._forwarding.close(self._settings.timeout)


class _Sockets(Sockets):
    """The coordinator's connections, which end when those that it forwards have."""

    def __init__(self, sending: Any, receiving: Any, end: Callable[[], None]) -> None:
        super().__init__(sending, receiving)
        self._end = end

    def close(self) -> None:
        """Close all connections, once the other parties have closed those between them."""
        super().close()
        self._end()
