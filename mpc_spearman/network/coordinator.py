"""The coordinator's side of a meeting: all others connect to it, and it says when all have met."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mpc_spearman.config import mismatch
from mpc_spearman.errors import MpcSpearmanError, PeerDied, PeerTimeout, Unreachable
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.control import Control, Message, nonsense
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import Answer, Greeting, Listener, Use, let_in
from mpc_spearman.network.meeting import FOR_GOOD, HEARD, TELL, Meeting
from mpc_spearman.network.round import Agree, Contact, Round, Settings
from mpc_spearman.network.tls import Connection
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import lost_party, notice

# Seconds that the coordinator waits after a failure for parties that have not arrived yet, and between rounds
# that failed without a known cause.
_LINGER, _AGAIN = 2.0, 1.0
# Connections of one party that do not have its place yet.
_PENDING = 2


@dataclass
class _Seat:
    """A party's place: the process that has it, its round, and whether it is connected with all."""

    control: Control
    round: int = -1
    contact: Contact | None = None
    ready: bool = False


class CoordinatorMeeting(Meeting):
    """The coordinator's side; `carried` is called with two parties and the bytes passed on between them."""

    def __init__(
        self, roster: Roster, settings: Settings, agree: Agree, carried: Callable[[int, int, int], None]
    ) -> None:
        super().__init__(roster, settings, agree)
        self._carried = carried
        self._seats: dict[int, _Seat] = {}
        self._controls: list[Control] = []
        #: Why parties left that do not allow the run.
        self._refusals: dict[Party, MpcSpearmanError] = {}
        self._ready = self._met = False
        self._outcome: dict[str, Any] | None = None

    def attend(
        self, where: Address, announce: Callable[[Address], None], fault: Exception | None = None
    ) -> None:
        """Meet the others; raises as :func:`mpc_spearman.launch.rendezvous.Rendezvous.join`.

        `announce` is called with the address, at least the port, where this party listens. A `fault` is an
        earlier error of this party: it is raised, and the others are told.
        """
        end = time.monotonic() + self._settings.join_timeout
        listener = Listener(where, self._settings.tls, self.take, self._turned_away)
        try:
            announce(Address(where.host, listener.port))
            if fault is not None:
                raise fault
            while not self._met:
                self._until(lambda: not self._missing(), end)
                self._hold_round()
        except BaseException as error:
            self._stop(error, listener, "connect" if fault is None else "load")
            raise
        listener.close()
        for control in self._controls:
            control.finish()
        self._tell_ways()

    def _hold_round(self) -> None:
        """Have all connect; return once all have met, or the round is broken."""
        with self._changed:
            if self._missing():
                return
            number, self._ready = self._number, False
            forwarding = Forwarding(self._carried)
            self._round = own = Round(self._roster, self._settings, self._agree, self._is_over, forwarding)
            contacts = {peer: seat.contact for peer, seat in self._seats.items() if seat.contact}
            contacts[self._roster.me.number] = Contact(None, own.token)
            plain = {str(peer): contact.plain() for peer, contact in contacts.items()}
            self._tell_all(round=number, all=plain)
            own.begin(contacts)
            self._changed.wait_for(
                lambda: self._failure or self._number != number or self._all_ready(),
                2 * self._settings.timeout + HEARD,
            )
            if self._failure is not None:
                raise self._failure
            if self._number != number:
                return
            if self._all_ready():
                self._met, self._outcome = True, {"met": number}
                self._tell_all(met=number)
                return
            slow = next((peer for peer in self._roster.peers if not self._seats[peer.number].ready), None)
        about = slow or self._roster.peers[0]
        error = PeerTimeout(
            f"{about} has joined, but did not connect with all within {2 * self._settings.timeout:g} s",
            (PeerTimeout.__name__, about.name, "connect"),
        )
        self._send_away(about, error, self._roster.me)

    def _send_away(self, peer: Party, error: MpcSpearmanError, by: Party) -> None:
        """Make a party stop with an error that another party found and that this one must correct."""
        seat = self._seats.get(peer.number)
        if seat is not None:
            seat.control.send(stop=error.about, by=by.number)
            seat.control.finish()
            self._leave(seat.control, error)

    def _all_ready(self) -> bool:
        return self._ready and not self._missing() and all(seat.ready for seat in self._seats.values())

    # --- for who connects

    def take(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Take any party's control connection, and connections of the present round."""
        if greeting.use is not Use.MEET:
            super().take(caller, greeting, connection)
            return
        with self._changed:
            self._controls = [control for control in self._controls if not control.over]
            pending = [
                control
                for control in self._controls
                if control.peer == caller and self._seat(control) is None
            ]
        let_in(connection, Answer.TAKEN if len(pending) >= _PENDING else Answer.WELCOME)
        assert isinstance(connection, socket.socket)
        with self._changed:  # what it says is not heeded before it is known
            control = Control(connection, caller, self._settings.timeout, self._hear, self._lose, self.fail)
            self._controls.append(control)
            if self._outcome is not None:
                control.send(**self._outcome)

    # --- what the others say

    def _hear(self, control: Control, message: Message) -> None:
        peer = control.peer
        if "join" in message:
            self._join(control, str(message["join"]["version"]), str(message["join"]["plan"]))
        elif "here" in message:
            number, contact = message["here"]
            with self._changed:
                seat = self._seat(control)
                if seat is not None and number == self._number:
                    seat.round, seat.contact = number, Contact.read(contact)
                self._changed.notify_all()
        elif "ready" in message:
            with self._changed:
                seat = self._seat(control)
                if seat is not None and message["ready"] == self._number == seat.round:
                    seat.ready = True
                self._changed.notify_all()
        elif "broken" in message:
            number, said = message["broken"]
            error = self._read_notice(said, peer)
            self._begin(self._look_into, number, peer, error)
        elif "stop" in message:
            control.finish()
            self._leave(control, self._read_notice(message["stop"], peer))
        else:
            raise nonsense(peer)

    def _join(self, control: Control, version: str, plan: str) -> None:
        """Give a party its place, or turn it away."""
        settings, peer = self._settings, control.peer
        if error := mismatch(self._roster.me, (settings.version, settings.plan), peer, (version, plan)):
            control.send(refused={"version": settings.version, "plan": settings.plan})
            control.finish()
            settings.say(str(error))
            self._leave(control, error)
            return
        first = self._seats.get(peer.number)
        if first is not None and not first.control.answers():
            self._leave(first.control, PeerTimeout(f"{peer} was silent, and another process took its place"))
            first.control.finish(0.0)
        with self._changed:
            if peer.number in self._seats:
                control.send(refused=None)
                control.finish()
                settings.say(
                    f"a second process of {peer} was turned away, because the first one still answers"
                )
                return
            self._seats[peer.number] = _Seat(control)
            self._gone.pop(peer, None)
            self._refusals.pop(peer, None)
            control.send(again=self._number, left=None)
            self._tell_missing()

    def _seat(self, control: Control) -> _Seat | None:
        seat = self._seats.get(control.peer.number)
        return seat if seat is not None and seat.control is control else None

    def _lose(self, control: Control, error: MpcSpearmanError) -> None:
        if self._seat(control) is not None:  # nobody waited in vain for a process without a place
            self._leave(control, error)

    def _leave(self, control: Control, error: MpcSpearmanError) -> None:
        """Empty a party's place if this process had it, break the round, and tell all who left and why."""
        peer = control.peer
        with self._changed:
            if self._outcome is not None or control.left:  # it may be found out twice
                return
            control.left = True
            if self._seat(control) is not None:
                del self._seats[peer.number]
            elif peer.number in self._seats:
                return
        if not self._settings.patient:
            self.fail(error)
            return
        name, whose, phase = notice(error, peer.name, "connect")
        if whose != peer.name:
            name = f"{name} of {whose}"
        self._has_left(peer, name, phase)
        if name in FOR_GOOD:
            self._refusals[peer] = error
        self._again([peer.number, name, phase])

    def _again(self, left: list[Any] | None) -> None:
        """Begin to wait again: messages of the broken round no longer count."""
        with self._changed:
            broken, self._round = self._round, None
            self._number += 1
            for seat in self._seats.values():
                seat.ready = False
            self._tell_all(again=self._number, left=left)
            self._tell_missing()
        if broken is not None:
            broken.close()

    # --- a round that breaks

    def _is_over(self, own: Round, error: Exception | None) -> None:
        """Note how this party's own part in a round ended."""
        with self._changed:
            if own is not self._round:
                return
            number = self._number
            self._ready = error is None
            self._changed.notify_all()
        if isinstance(error, MpcSpearmanError) and self._is_broken(error):
            self._look_into(number, self._roster.me, error)
        elif error is not None:
            self.fail(error)

    def _look_into(self, number: int, finder: Party, error: MpcSpearmanError) -> None:
        """Find out which party caused a connection to break, unless it reports so itself."""

        def over() -> bool:
            return self._number != number or self._outcome is not None or self._failure is not None

        with self._changed:
            if self._changed.wait_for(over, HEARD):
                return
        # A party that cannot be reached at its stated address must correct that.
        unreached = isinstance(error, Unreachable)
        named = error.about[1] if unreached and error.about is not None else lost_party(error)
        about = next((peer for peer in self._roster.peers if peer.name == named), None)
        seat = None if about is None else self._seats.get(about.number)
        if seat is not None and not seat.control.answers():
            self._leave(seat.control, PeerDied(f"{about} is gone"))
        elif not self._settings.patient:
            self.fail(error)
        elif about is not None and unreached:
            self._send_away(about, error, finder)
        else:
            time.sleep(_AGAIN)
            if not over():
                self._again(None)

    # --- telling

    def _missing(self) -> Sequence[Party]:
        seats = {peer: self._seats.get(peer.number) for peer in self._roster.peers}
        return [peer for peer, seat in seats.items() if seat is None or seat.round != self._number]

    def _tell_all(self, **message: Any) -> None:
        for seat in self._seats.values():
            seat.control.send(**message)

    def _tell_missing(self) -> None:
        missing = [peer for peer in self._roster.peers if peer.number not in self._seats]
        self._tell_all(missing=[peer.number for peer in missing])
        self._changed.notify_all()
        if missing and self._refusals.keys() >= {*missing}:
            self.fail(self._refusals[missing[0]])

    def _stop(self, error: BaseException, listener: Listener, phase: str) -> None:
        """Tell all present parties, and those that arrive within a moment, why this meeting ends."""
        lost = lost_party(error)
        with self._changed:
            self._outcome = {"stop": notice(error, self._roster.me.name, phase)}
            told = list(self._controls)
        for control in told:
            control.send(**self._outcome)
        end = time.monotonic() + (TELL if phase == "load" else _LINGER)
        expected = [peer for peer in self._roster.peers if peer.name != lost]
        while time.monotonic() < end and any(peer.number not in self._seats for peer in expected):
            time.sleep(0.05)
        listener.close()
        if self._round is not None:
            self._round.close()
        for control in self._controls:
            control.finish()
        for control in self._controls:
            control.join()
