"""A data party's side of a meeting: it connects to the coordinator, which sends it the others' addresses."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from mpc_spearman.config import mismatch
from mpc_spearman.errors import (
    HandshakeError,
    MpcSpearmanError,
    NetworkError,
    PartyMissing,
    PeerTimeout,
    Unreachable,
)
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.attempt import Agree, Attempt, Contact, Settings, unreachable
from mpc_spearman.network.control import Control, Message, unparsable
from mpc_spearman.network.handshake import Greeting, Listener, Use, call
from mpc_spearman.network.meeting import CAUSE_SECONDS, NOTICE_SECONDS, REPORT_INTERVAL, Meeting
from mpc_spearman.network.tls import Closed
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import notice

# Seconds between two attempts to reach the coordinator, and for which a party that failed waits until the
# coordinator has its notice.
_RETRY, _NOTICE_WAIT = 0.5, 2.0


class DataPartyMeeting(Meeting):
    """A data party's side."""

    def __init__(self, roster: Roster, settings: Settings, agree: Agree) -> None:
        super().__init__(roster, settings, agree)
        self._missing_parties: tuple[Party, ...] = ()
        self._coordinator_address = Address("", 0)
        self._listener: Listener | None = None
        self._address: Address | None = None
        self._control: Control | None = None
        self._agreed: int | None = None  # the attempt in which this party has agreed with all
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
                self._connect_to_coordinator(end, fault is None)
                if fault is not None:
                    raise fault
                self._wait_until(lambda: self._met or self._control is None, end)
        except BaseException as error:
            if self._control is not None and not self._ending_known:
                phase = "connect" if fault is None else "load"
                self._control.send(stop=notice(error, self._roster.me.name, phase))
            self._close(failed=True)
            raise
        self._close(failed=False)
        self._report_ways()

    def _connect_to_coordinator(self, end: float, join: bool) -> None:
        """Connect to the coordinator once it listens; with `join`, send this party's version and plan."""
        settings, coordinator, address = self._settings, self._roster.coordinator, self._coordinator_address
        next_report = time.monotonic() + 1
        while True:
            seconds = max(0.05, min(end - time.monotonic(), settings.timeout))
            try:
                connection = call(
                    address, seconds, settings.tls, coordinator, Greeting(Use.MEET), settings.proxy
                )
                assert isinstance(connection, socket.socket)
                with self._changed:  # messages wait for this lock until `_control` is set
                    self._departures.pop(coordinator, None)
                    self._control = Control(
                        connection, coordinator, settings.timeout, self._on_message, self._on_lost, self.fail
                    )
                    if join:
                        self._control.send(join={"version": settings.version, "plan": settings.plan})
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

    def _missing(self) -> Sequence[Party]:
        return self._missing_parties

    # --- messages of the coordinator

    def _on_message(self, control: Control, message: Message) -> None:
        coordinator = self._roster.coordinator
        with self._changed:
            if control is not self._control:
                return
            if "missing" in message:
                self._missing_parties = tuple(self._roster.parties[number] for number in message["missing"])
            elif "all" in message:
                if message["attempt"] == self._attempt_number and self._attempt is not None:
                    self._attempt.begin(self._read_contacts(message["all"]))
            elif "again" in message:
                if message["left"] is not None:
                    number, name, phase = message["left"]
                    self._note_departure(self._roster.parties[int(number)], str(name)[:150], str(phase)[:20])
                self._prepare_attempt(control, int(message["again"]))
            elif "met" in message:
                self._met = message["met"] == self._attempt_number == self._agreed
            elif "refused" in message:
                self._ending_known = True
                self.fail(self._refusal_error(message["refused"]))
            elif "stop" in message:
                self._ending_known = True
                self.fail(self._stop_error(message))
            else:
                raise unparsable(coordinator)
            self._changed.notify_all()

    def _prepare_attempt(self, control: Control, number: int) -> None:
        """End an earlier attempt, and send this party's address for the next one."""
        before, self._attempt_number = self._attempt, number
        self._attempt = Attempt(self._roster, self._settings, self._agree, self._on_attempt_end)
        if before is not None:
            before.close()
        control.send(here=[number, Contact(self._address, self._attempt.token).to_json()])

    def _read_contacts(self, message: Message) -> dict[int, Contact]:
        coordinator = self._roster.coordinator
        contacts = {int(number): Contact.from_json(contact) for number, contact in message.items()}
        if set(contacts) != {party.number for party in self._roster.parties}:
            raise unparsable(coordinator)
        return {
            **contacts,
            coordinator.number: Contact(self._coordinator_address, contacts[coordinator.number].token),
        }

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

    def _on_lost(self, control: Control, error: MpcSpearmanError) -> None:
        """Note that the connection to the coordinator is lost; `attend` connects to it again."""
        with self._changed:
            if control is not self._control or self._met or self._ending_known:
                return
            self._control, self._missing_parties = None, ()
            self._changed.notify_all()
        if not self._settings.patient or not isinstance(error, NetworkError):
            self.fail(error)
            return
        self._note_departure(self._roster.coordinator, type(error).__name__, "connect")

    def _on_attempt_end(self, attempt: Attempt, error: Exception | None) -> None:
        """Report to the coordinator whether this party's connections of an attempt succeeded."""
        with self._changed:
            control, number = self._control, self._attempt_number
            if control is None or attempt is not self._attempt:
                return
            if error is None:
                self._agreed = number
        if error is None:
            control.send(ready=number)
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
            control.send(broken=[number, about])

    def _close(self, *, failed: bool) -> None:
        if self._listener is not None:
            self._listener.close()
        if failed and self._attempt is not None:
            self._attempt.close()
        if self._control is not None:
            self._control.finish(_NOTICE_WAIT)
            if failed:
                self._control.join()
