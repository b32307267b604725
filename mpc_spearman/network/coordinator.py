"""The coordinator's side of a meeting: all others connect to it, and it says when all have met."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from mpc_spearman.config import mismatch
from mpc_spearman.errors import MpcSpearmanError, PeerDied, PeerTimeout, Unreachable
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import Attempt, Settings
from mpc_spearman.network.connections import Connection
from mpc_spearman.network.control import Control, Message, unparsable
from mpc_spearman.network.forwarding import Forwarding
from mpc_spearman.network.handshake import TOKEN, Answer, Greeting, Listener, Use, let_in
from mpc_spearman.network.meeting import CAUSE_SECONDS, FINAL_ERRORS, NOTICE_SECONDS, Meeting
from mpc_spearman.parties import Party
from mpc_spearman.wire.aborts import lost_party, notice

# Seconds that the coordinator waits after a failure for parties that have not arrived yet, and between
# attempts that failed without a known cause.
_LATE_ARRIVALS, _RETRY = 2.0, 1.0
# The most connections that a party may have before one of them has joined.
_MOST_PENDING = 2


class CoordinatorMeeting(Meeting):
    """The coordinator's side; `count_forwarded` gets two parties' numbers and a count of forwarded bytes."""

    def __init__(self, settings: Settings, count_forwarded: Callable[[int, int, int], None]) -> None:
        super().__init__(settings)
        self._count_forwarded = count_forwarded
        self._missing = self._roster.peers
        self._controls: list[Control] = []
        #: The connection of each party that has joined, and where others dial it.
        self._joined: dict[Party, Control] = {}
        self._addresses: dict[Party, Address | None] = {self._roster.me: None}
        #: The parties that are connected with all others in the present attempt.
        self._ready: set[Party] = set()
        #: For each party that has refused the run: its error.
        self._refusals: dict[Party, MpcSpearmanError] = {}
        #: The last message to every party: how the meeting ended.
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
            while self._outcome is None:
                self._wait_until(lambda: not self._missing, end)
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
        settings, parties = self._settings, self._roster.parties
        with self._changed:
            if self._missing:
                return
            self._ready.clear()
            self._attempt = attempt = Attempt(
                settings,
                secrets.token_bytes(TOKEN),
                dict(self._addresses),
                self._on_attempt_end,
                Forwarding(self._count_forwarded),
            )
            addresses = [self._addresses[party] for party in parties]
            self._send_to_all(connect=attempt.token.hex(), addresses=addresses)
            attempt.begin()
            self._changed.wait_for(
                lambda: self._failure or self._attempt is not attempt or self._ready == {*parties},
                2 * settings.timeout + CAUSE_SECONDS,
            )
            if self._failure is not None:
                raise self._failure
            if self._attempt is not attempt:
                return
            if self._ready == {*parties}:
                self._outcome = {"met": attempt.token.hex()}
                self._send_to_all(**self._outcome)
                return
            slow = next((peer for peer in self._roster.peers if peer not in self._ready), parties[1])
        error = PeerTimeout(
            f"{slow} has joined, but did not connect with all within {2 * settings.timeout:g} s",
            (PeerTimeout.__name__, slow.name, "connect"),
        )
        self._send_away(slow, error, self._roster.me)

    def _send_away(self, peer: Party, error: MpcSpearmanError, by: Party) -> None:
        """Make `peer` stop with an error that party `by` reported, and that `peer` has to correct."""
        control = self._joined.get(peer)
        if control is not None:
            self._part_with(control, error, stop=error.about, by=by.number)

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
                if control.peer == caller and self._joined.get(caller) is not control
            ]
        let_in(connection, Answer.TAKEN if len(pending) >= _MOST_PENDING else Answer.WELCOME)
        assert isinstance(connection, socket.socket)
        with self._changed:  # its messages wait for this lock until the connection is in the list
            control = Control(connection, caller, self._settings.timeout, self._on_message, self._on_lost)
            self._controls.append(control)
            if self._outcome is not None:
                control.send(**self._outcome)

    # --- messages of the other parties

    def _on_message(self, control: Control, message: Message) -> None:
        peer = control.peer
        if "join" in message:
            self._join(control, message["join"])
        elif "ready" in message:
            with self._changed:
                if self._joined.get(peer) is control and self._present_attempt(message["ready"]):
                    self._ready.add(peer)
                    self._changed.notify_all()
        elif "broken" in message:
            token, error_notice = message["broken"]
            error, attempt = self._read_notice(error_notice, peer), self._present_attempt(token)
            if attempt is not None:  # in a thread of its own, so that the peer's messages are still handled
                search = threading.Thread(target=self._search, args=(attempt, peer, error), daemon=True)
                search.start()
        elif "stop" in message:
            self._part_with(control, self._read_notice(message["stop"], peer))
        else:
            raise unparsable(peer)

    def _present_attempt(self, token: object) -> Attempt | None:
        """Return the present attempt if it has this token."""
        attempt = self._attempt
        return attempt if attempt is not None and attempt.token.hex() == token else None

    def _join(self, control: Control, message: Message) -> None:
        """Let a party join; turn it away if its plan differs or another process of it still answers."""
        settings, peer = self._settings, control.peer
        versions = str(message["version"]), str(message["plan"])
        address = Address.from_json(message["address"])
        if error := mismatch(self._roster.me, (settings.version, settings.plan), peer, versions):
            settings.say(str(error))
            self._part_with(control, error, refused={"version": settings.version, "plan": settings.plan})
            return
        first = self._joined.get(peer)
        if first is not None and not first.answers():
            self._part_with(first, PeerTimeout(f"{peer} was silent, and another process took its place"))
        with self._changed:
            if peer in self._joined:
                control.send(refused=None)
                control.finish()
                settings.say(
                    f"a second process of {peer} was turned away, because the first one still answers"
                )
                return
            self._joined[peer], self._addresses[peer] = control, address
            self._departures.pop(peer, None)
            self._refusals.pop(peer, None)
            self._announce_missing()

    def _on_lost(self, control: Control, error: Exception) -> None:
        if not isinstance(error, MpcSpearmanError):
            self.fail(error)
        elif self._joined.get(control.peer) is control:  # nobody waits for a process that has not joined
            self._part_with(control, error)

    def _part_with(self, control: Control, error: MpcSpearmanError, **message: Any) -> None:
        """Send a process a last message, if any; end its connection and the attempt; announce who left."""
        peer = control.peer
        with self._changed:
            if self._outcome is not None or control.finishing:  # a departure may be noticed twice
                return
            if message:
                control.send(**message)
            control.finish()
            if self._joined.get(peer, control) is not control:
                return  # another process has joined as this party
            self._joined.pop(peer, None)
            self._ready.discard(peer)
        if not self._settings.patient:
            self.fail(error)
            return
        name, failed_party, phase = notice(error, peer.name, "connect")
        if failed_party != peer.name:
            name = f"{name} of {failed_party}"
        self._note_departure(peer, name, phase)
        if name in FINAL_ERRORS:
            self._refusals[peer] = error
        self._end_attempt([peer.number, name, phase])

    def _end_attempt(self, departure: list[Any] | None) -> None:
        """End the attempt that is under way, if any, at all parties; `departure` is who left and why."""
        with self._changed:
            attempt, self._attempt = self._attempt, None
            self._announce_missing(departure)
        if attempt is not None:
            attempt.close()

    # --- an attempt that fails

    def _on_attempt_end(self, attempt: Attempt, error: Exception | None) -> None:
        """Note whether the coordinator's own connections of an attempt succeeded."""
        with self._changed:
            if attempt is not self._attempt:
                return
            if error is None:
                self._ready.add(self._roster.me)
                self._changed.notify_all()
                return
        if isinstance(error, MpcSpearmanError) and self._is_for_coordinator(error):
            self._find_cause(attempt, self._roster.me, error)
        else:
            self.fail(error)

    def _search(self, attempt: Attempt, reporter: Party, error: MpcSpearmanError) -> None:
        """Find the cause in a thread of its own; any error there ends the meeting."""
        try:
            self._find_cause(attempt, reporter, error)
        except Exception as fault:  # of any kind: otherwise all would wait for the attempt's time-out
            self.fail(fault)

    def _find_cause(self, attempt: Attempt, reporter: Party, error: MpcSpearmanError) -> None:
        """Find the party that caused a failed connection, unless it reports this itself within a second."""

        def over() -> bool:
            return self._attempt is not attempt or self._outcome is not None or self._failure is not None

        with self._changed:
            if self._changed.wait_for(over, CAUSE_SECONDS):
                return
        # A party that cannot be reached at its stated address must correct that.
        unreachable = isinstance(error, Unreachable)
        name = error.about[1] if unreachable and error.about is not None else lost_party(error)
        cause = next((peer for peer in self._roster.peers if peer.name == name), None)
        control = None if cause is None else self._joined.get(cause)
        if control is not None and not control.answers():
            self._part_with(control, PeerDied(f"{cause} is gone"))
        elif not self._settings.patient:
            self.fail(error)
        elif cause is not None and unreachable:
            self._send_away(cause, error, reporter)
        else:
            time.sleep(_RETRY)
            if not over():
                self._end_attempt(None)

    # --- messages to the other parties

    def _send_to_all(self, **message: Any) -> None:
        for control in self._joined.values():
            control.send(**message)

    def _announce_missing(self, departure: list[Any] | None = None) -> None:
        """Send all who is missing and who left; end the meeting if all who are missing refuse the run."""
        self._missing = missing = [peer for peer in self._roster.peers if peer not in self._joined]
        self._send_to_all(missing=[peer.number for peer in missing], left=departure)
        self._changed.notify_all()
        if missing and self._refusals.keys() >= {*missing}:
            self.fail(self._refusals[missing[0]])

    def _stop(self, error: BaseException, listener: Listener, phase: str) -> None:
        """Send why this meeting ends to all parties that have joined, or join within some seconds."""
        stop = notice(error, self._roster.me.name, phase)
        with self._changed:
            self._outcome = {"stop": stop}
            controls = list(self._controls)
        for control in controls:
            control.send(**self._outcome)
        end = time.monotonic() + (NOTICE_SECONDS if phase == "load" else _LATE_ARRIVALS)
        # Not the party that is lost or has failed, which the notice names.
        expected = {peer for peer in self._roster.peers if peer.name != stop[1]}
        while time.monotonic() < end and not expected <= self._joined.keys():
            time.sleep(0.05)
        listener.close()
        if self._attempt is not None:
            self._attempt.close()
        for control in self._controls:
            control.finish()
        for control in self._controls:
            control.join()
