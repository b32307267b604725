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
from mpc_spearman.network.attempt import Agree, Attempt, Contact, Settings
from mpc_spearman.network.control import Control, Message, unparsable
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import Answer, Greeting, Listener, Use, let_in
from mpc_spearman.network.meeting import CAUSE_SECONDS, FINAL_ERRORS, NOTICE_SECONDS, Meeting
from mpc_spearman.network.tls import Connection
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import lost_party, notice

# Seconds that the coordinator waits after a failure for parties that have not arrived yet, and between
# attempts that failed without a known cause.
_LATE_ARRIVALS, _RETRY = 2.0, 1.0
# The most connections that one party may have before one of them gets its seat.
_MOST_PENDING = 2


@dataclass
class _Seat:
    """A party that has joined: its connection, its attempt, and whether it is connected with all."""

    control: Control
    attempt: int = -1
    contact: Contact | None = None
    ready: bool = False


class CoordinatorMeeting(Meeting):
    """The coordinator's side; `count_forwarded` gets two parties' numbers and a count of forwarded bytes."""

    def __init__(
        self,
        roster: Roster,
        settings: Settings,
        agree: Agree,
        count_forwarded: Callable[[int, int, int], None],
    ) -> None:
        super().__init__(roster, settings, agree)
        self._count_forwarded = count_forwarded
        self._seats: dict[int, _Seat] = {}
        self._controls: list[Control] = []
        #: For each party that has refused the run: its error.
        self._refusals: dict[Party, MpcSpearmanError] = {}
        self._ready = self._met = False
        self._outcome: dict[str, Any] | None = None

    def attend(
        self, where: Address, announce: Callable[[Address], None], fault: Exception | None = None
    ) -> None:
        """Meet the others; raises as :func:`mpc_spearman.launch.rendezvous.Rendezvous.join`.

        `announce` is called with the address, at least the port, where this party listens. A `fault` is an
        earlier error of this party: it is raised, and the others get its notice.
        """
        end = time.monotonic() + self._settings.join_timeout
        listener = Listener(where, self._settings.tls, self.take, self._turned_away)
        try:
            announce(Address(where.host, listener.port))
            if fault is not None:
                raise fault
            while not self._met:
                self._wait_until(lambda: not self._missing(), end)
                self._hold_attempt()
        except BaseException as error:
            self._stop(error, listener, "connect" if fault is None else "load")
            raise
        listener.close()
        for control in self._controls:
            control.finish()
        self._report_ways()

    def _hold_attempt(self) -> None:
        """Begin an attempt at all parties; return once all are connected, or the attempt has failed."""
        with self._changed:
            if self._missing():
                return
            number, self._ready = self._attempt_number, False
            forwarding = Forwarding(self._count_forwarded)
            self._attempt = attempt = Attempt(
                self._roster, self._settings, self._agree, self._on_attempt_end, forwarding
            )
            contacts = {peer: seat.contact for peer, seat in self._seats.items() if seat.contact}
            contacts[self._roster.me.number] = Contact(None, attempt.token)
            addresses = {str(peer): contact.to_json() for peer, contact in contacts.items()}
            self._send_to_all(attempt=number, all=addresses)
            attempt.begin(contacts)
            self._changed.wait_for(
                lambda: self._failure or self._attempt_number != number or self._all_ready(),
                2 * self._settings.timeout + CAUSE_SECONDS,
            )
            if self._failure is not None:
                raise self._failure
            if self._attempt_number != number:
                return
            if self._all_ready():
                self._met, self._outcome = True, {"met": number}
                self._send_to_all(met=number)
                return
            slow = next((peer for peer in self._roster.peers if not self._seats[peer.number].ready), None)
        about = slow or self._roster.peers[0]
        error = PeerTimeout(
            f"{about} has joined, but did not connect with all within {2 * self._settings.timeout:g} s",
            (PeerTimeout.__name__, about.name, "connect"),
        )
        self._send_away(about, error, self._roster.me)

    def _send_away(self, peer: Party, error: MpcSpearmanError, by: Party) -> None:
        """Make `peer` stop with an error that party `by` reported, and that `peer` has to correct."""
        seat = self._seats.get(peer.number)
        if seat is not None:
            seat.control.send(stop=error.about, by=by.number)
            seat.control.finish()
            self._vacate(seat.control, error)

    def _all_ready(self) -> bool:
        return self._ready and not self._missing() and all(seat.ready for seat in self._seats.values())

    # --- connections that others begin

    def take(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Accept a party's connection for the meeting, or a connection of the present attempt."""
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
        let_in(connection, Answer.TAKEN if len(pending) >= _MOST_PENDING else Answer.WELCOME)
        assert isinstance(connection, socket.socket)
        with self._changed:  # its messages wait for this lock until the connection is in the list
            control = Control(
                connection, caller, self._settings.timeout, self._on_message, self._on_lost, self.fail
            )
            self._controls.append(control)
            if self._outcome is not None:
                control.send(**self._outcome)

    # --- messages of the other parties

    def _on_message(self, control: Control, message: Message) -> None:
        peer = control.peer
        if "join" in message:
            self._join(control, str(message["join"]["version"]), str(message["join"]["plan"]))
        elif "here" in message:
            number, contact = message["here"]
            with self._changed:
                seat = self._seat(control)
                if seat is not None and number == self._attempt_number:
                    seat.attempt, seat.contact = number, Contact.from_json(contact)
                self._changed.notify_all()
        elif "ready" in message:
            with self._changed:
                seat = self._seat(control)
                if seat is not None and message["ready"] == self._attempt_number == seat.attempt:
                    seat.ready = True
                self._changed.notify_all()
        elif "broken" in message:
            number, error_notice = message["broken"]
            error = self._read_notice(error_notice, peer)
            self._start_thread(self._find_cause, number, peer, error)
        elif "stop" in message:
            control.finish()
            self._vacate(control, self._read_notice(message["stop"], peer))
        else:
            raise unparsable(peer)

    def _join(self, control: Control, version: str, plan: str) -> None:
        """Give a party its seat; turn it away if its plan differs or another process of it still answers."""
        settings, peer = self._settings, control.peer
        if error := mismatch(self._roster.me, (settings.version, settings.plan), peer, (version, plan)):
            control.send(refused={"version": settings.version, "plan": settings.plan})
            control.finish()
            settings.say(str(error))
            self._vacate(control, error)
            return
        first = self._seats.get(peer.number)
        if first is not None and not first.control.answers():
            self._vacate(first.control, PeerTimeout(f"{peer} was silent, and another process took its place"))
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
            self._departures.pop(peer, None)
            self._refusals.pop(peer, None)
            control.send(again=self._attempt_number, left=None)
            self._announce_missing()

    def _seat(self, control: Control) -> _Seat | None:
        seat = self._seats.get(control.peer.number)
        return seat if seat is not None and seat.control is control else None

    def _on_lost(self, control: Control, error: MpcSpearmanError) -> None:
        if self._seat(control) is not None:  # nobody waits for a process without a seat
            self._vacate(control, error)

    def _vacate(self, control: Control, error: MpcSpearmanError) -> None:
        """Free the seat of a process that left, end the attempt, and announce who left and why."""
        peer = control.peer
        with self._changed:
            if self._outcome is not None or control.departure_announced:  # a departure may be noticed twice
                return
            control.departure_announced = True
            if self._seat(control) is not None:
                del self._seats[peer.number]
            elif peer.number in self._seats:
                return
        if not self._settings.patient:
            self.fail(error)
            return
        name, failed_party, phase = notice(error, peer.name, "connect")
        if failed_party != peer.name:
            name = f"{name} of {failed_party}"
        self._note_departure(peer, name, phase)
        if name in FINAL_ERRORS:
            self._refusals[peer] = error
        self._start_over([peer.number, name, phase])

    def _start_over(self, left: list[Any] | None) -> None:
        """Wait for all parties again, under a new attempt number; messages with the old one are ignored."""
        with self._changed:
            ended, self._attempt = self._attempt, None
            self._attempt_number += 1
            for seat in self._seats.values():
                seat.ready = False
            self._send_to_all(again=self._attempt_number, left=left)
            self._announce_missing()
        if ended is not None:
            ended.close()

    # --- an attempt that fails

    def _on_attempt_end(self, attempt: Attempt, error: Exception | None) -> None:
        """Note whether the coordinator's own connections of an attempt succeeded."""
        with self._changed:
            if attempt is not self._attempt:
                return
            number = self._attempt_number
            self._ready = error is None
            self._changed.notify_all()
        if isinstance(error, MpcSpearmanError) and self._is_for_coordinator(error):
            self._find_cause(number, self._roster.me, error)
        elif error is not None:
            self.fail(error)

    def _find_cause(self, number: int, reporter: Party, error: MpcSpearmanError) -> None:
        """Find the party that caused a failed connection, unless it reports this itself within a second."""

        def over() -> bool:
            return self._attempt_number != number or self._outcome is not None or self._failure is not None

        with self._changed:
            if self._changed.wait_for(over, CAUSE_SECONDS):
                return
        # A party that cannot be reached at its stated address must correct that.
        unreachable = isinstance(error, Unreachable)
        name = error.about[1] if unreachable and error.about is not None else lost_party(error)
        cause = next((peer for peer in self._roster.peers if peer.name == name), None)
        seat = None if cause is None else self._seats.get(cause.number)
        if seat is not None and not seat.control.answers():
            self._vacate(seat.control, PeerDied(f"{cause} is gone"))
        elif not self._settings.patient:
            self.fail(error)
        elif cause is not None and unreachable:
            self._send_away(cause, error, reporter)
        else:
            time.sleep(_RETRY)
            if not over():
                self._start_over(None)

    # --- messages to the other parties

    def _missing(self) -> Sequence[Party]:
        seats = {peer: self._seats.get(peer.number) for peer in self._roster.peers}
        return [peer for peer, seat in seats.items() if seat is None or seat.attempt != self._attempt_number]

    def _send_to_all(self, **message: Any) -> None:
        for seat in self._seats.values():
            seat.control.send(**message)

    def _announce_missing(self) -> None:
        missing = [peer for peer in self._roster.peers if peer.number not in self._seats]
        self._send_to_all(missing=[peer.number for peer in missing])
        self._changed.notify_all()
        if missing and self._refusals.keys() >= {*missing}:
            self.fail(self._refusals[missing[0]])

    def _stop(self, error: BaseException, listener: Listener, phase: str) -> None:
        """Send why this meeting ends to all parties that are here, or arrive within some seconds."""
        lost = lost_party(error)
        with self._changed:
            self._outcome = {"stop": notice(error, self._roster.me.name, phase)}
            controls = list(self._controls)
        for control in controls:
            control.send(**self._outcome)
        end = time.monotonic() + (NOTICE_SECONDS if phase == "load" else _LATE_ARRIVALS)
        expected = [peer for peer in self._roster.peers if peer.name != lost]
        while time.monotonic() < end and any(peer.number not in self._seats for peer in expected):
            time.sleep(0.05)
        listener.close()
        if self._attempt is not None:
            self._attempt.close()
        for control in self._controls:
            control.finish()
        for control in self._controls:
            control.join()
