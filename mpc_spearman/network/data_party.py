"""A data party's side of a meeting: it connects to the coordinator, which sends it the others' addresses."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from mpc_spearman.config import mismatch
from mpc_spearman.errors import (
    HandshakeError,
    MpcSpearmanError,
    NetworkError,
    PartyMissing,
    PeerTimeout,
    Unreachable,
)
from mpc_spearman.network.addresses import Address, dial
from mpc_spearman.network.attempt import Attempt, Settings, unreachable
from mpc_spearman.network.control import Control, Message, unparsable
from mpc_spearman.network.handshake import TOKEN, Greeting, Listener, Use, greet
from mpc_spearman.network.meeting import CAUSE_SECONDS, NOTICE_SECONDS, REPORT_INTERVAL, Meeting
from mpc_spearman.network.tls import Closed
from mpc_spearman.wire.aborts import notice

# Seconds between two attempts to reach the coordinator.
_RETRY = 0.5


class DataPartyMeeting(Meeting):
    """A data party's side."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._coordinator_address = Address("", 0)
        self._listener: Listener | None = None
        self._address: Address | None = None
        self._control: Control | None = None
        self._agreed: Attempt | None = None  # the attempt in which this party has agreed with all
        self._met = self._ending_known = False

    def attend(self, find: Callable[[], Address], fault: Exception | None) -> None:
        """Meet the others, as `CoordinatorMeeting.attend` does; `find` returns the coordinator's address."""
        settings = self._settings
        end = time.monotonic() + (settings.join_timeout if fault is None else NOTICE_SECONDS)
        try:
            if settings.listen is not None and fault is None:
                self._listener = Listener(settings.listen, settings.tls, self.take, self._turned_away)
                self._address = settings.advertise or Address(settings.listen.host, self._listener.port)
            while not self._met:
                self._coordinator_address = find()
                self._connect_to_coordinator(end, join=fault is None)
                if fault is not None:
                    raise fault
                self._wait_until(lambda: self._met or self._control is None, end)
        except BaseException as error:
            if self._control is not None and not self._ending_known:
                phase = "connect" if fault is None else "load"
                self._control.send(stop=notice(error, self._roster.me.name, phase))
            if self._attempt is not None:
                self._attempt.close()
            self._close()
            if self._control is not None:
                self._control.join()
            raise
        self._close()
        self._report_ways()

    def _connect_to_coordinator(self, end: float, *, join: bool) -> None:
        """Connect to the coordinator once it listens; with `join`, send this party's version and plan."""
        settings, coordinator, address = self._settings, self._roster.coordinator, self._coordinator_address
        next_report = time.monotonic() + 1
        while True:
            seconds = max(0.05, min(end - time.monotonic(), settings.timeout))
            try:
                raw = dial(address, seconds, settings.proxy)
                connection = greet(raw, settings.tls, coordinator, Greeting(Use.MEET), address.host)
                assert isinstance(connection, socket.socket)
                with self._changed:  # messages wait for this lock until `_control` is set
                    self._departures.pop(coordinator, None)
                    self._control = Control(
                        connection, coordinator, settings.timeout, self._on_message, self._on_lost
                    )
                    if join:
                        description = {"version": settings.version, "plan": settings.plan}
                        self._control.send(join={**description, "address": self._address})
                return
            except (OSError, PeerTimeout) as error:
                why = "it does not answer"
                if isinstance(error, OSError):
                    why = "it closes the connection" if isinstance(error, Closed) else str(error.strerror)
                if time.monotonic() + _RETRY > end:
                    raise PartyMissing(
                        f"{coordinator} cannot be reached at {address} ({why}) in "
                        f"{settings.join_timeout:g} s: is it running, is its port open, is network.address "
                        "right?",
                        (PartyMissing.__name__, coordinator.name, "connect"),
                    ) from None
            if time.monotonic() > next_report:
                settings.say(f"waiting for {coordinator} at {address} ({why})")
                next_report += REPORT_INTERVAL
            time.sleep(_RETRY)

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._control is not None:
            self._control.finish()

    # --- messages of the coordinator

    def _on_message(self, control: Control, message: Message) -> None:
        parties = self._roster.parties
        with self._changed:
            if control is not self._control:
                return
            if "missing" in message:
                self._missing = [parties[number] for number in message["missing"]]
                if message["left"] is not None:
                    number, name, phase = message["left"]
                    self._note_departure(parties[int(number)], str(name)[:150], str(phase)[:20])
                self._end_attempt()
            elif "connect" in message:
                self._end_attempt()
                self._attempt = self._read_attempt(message)
                self._attempt.begin()
            elif "met" in message:
                agreed = self._agreed if self._agreed is self._attempt else None
                self._met = agreed is not None and message["met"] == agreed.token.hex()
            elif "refused" in message:
                self._ending_known = True
                self.fail(self._refusal_error(message["refused"]))
            elif "stop" in message:
                self._ending_known = True
                self.fail(self._stop_error(message))
            else:
                raise unparsable(control.peer)
            self._changed.notify_all()

    def _end_attempt(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()

    def _read_attempt(self, message: Message) -> Attempt:
        token = bytes.fromhex(message["connect"])
        if len(token) != TOKEN:
            raise ValueError("no token")
        addresses = map(Address.from_json, message["addresses"])
        contacts = dict(zip(self._roster.parties, addresses, strict=True))
        contacts[self._roster.coordinator] = self._coordinator_address
        return Attempt(self._settings, token, contacts, self._on_attempt_end)

    def _refusal_error(self, refusal: Message | None) -> MpcSpearmanError:
        """Return the error for a refusal: the coordinator's version and plan, None for a second process."""
        me, coordinator, settings = self._roster.me, self._roster.coordinator, self._settings
        if refusal is None:
            return HandshakeError(f"another process joined as {me} earlier, and still answers; stop it first")
        coordinators = (str(refusal["version"]), str(refusal["plan"]))
        error = mismatch(me, (settings.version, settings.plan), coordinator, coordinators)
        return error or unparsable(coordinator)

    def _stop_error(self, message: Message) -> MpcSpearmanError:
        """Return the error with which the coordinator ended this party's meeting."""
        me, error = self._roster.me, self._read_notice(message["stop"], self._roster.coordinator)
        if isinstance(error, Unreachable) and "by" in message and message["stop"][1] == me.name:
            return unreachable(self._roster.parties[message["by"]], me, self._address)
        return error

    # --- what is lost, and what fails

    def _on_lost(self, control: Control, error: Exception) -> None:
        """Note that the connection to the coordinator is lost; `attend` connects to it again."""
        with self._changed:
            if control is not self._control or self._met or self._ending_known:
                return
            self._control, self._missing = None, ()
            self._changed.notify_all()
        if not self._settings.patient or not isinstance(error, NetworkError):
            self.fail(error)
            return
        self._note_departure(self._roster.coordinator, type(error).__name__, "connect")

    def _on_attempt_end(self, attempt: Attempt, error: Exception | None) -> None:
        """Report to the coordinator whether this party's connections of an attempt succeeded."""
        with self._changed:
            control, token = self._control, attempt.token.hex()
            if control is None or attempt is not self._attempt:
                return
            if error is None:
                self._agreed = attempt
                control.send(ready=token)
                return
        about = notice(error, self._roster.me.name, "connect")
        no_way_to_coordinator = about[:2] == (Unreachable.__name__, self._roster.coordinator.name)
        # The coordinator was reached before, so this party must correct its network. But a coordinator that
        # stops, and says why, accepts no connections either.
        if no_way_to_coordinator and self._is_for_coordinator(error):
            with self._changed:
                if self._changed.wait_for(
                    lambda: self._ending_known or self._control is not control, CAUSE_SECONDS
                ):
                    return
        if not self._is_for_coordinator(error) or (no_way_to_coordinator and control.answers()):
            self.fail(error)
        else:
            control.send(broken=[token, about])
