"""A data party's side of a meeting: it connects to the coordinator, which tells it about the others."""

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
from mpc_spearman.network.control import Control, Message, nonsense
from mpc_spearman.network.handshake import Greeting, Listener, Use, call
from mpc_spearman.network.meeting import HEARD, SAY, TELL, Meeting
from mpc_spearman.network.round import Agree, Contact, Round, Settings, unreachable
from mpc_spearman.network.tls import Closed
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import notice

# Seconds between two attempts to reach the coordinator, and that a party that failed waits until it knows.
_RETRY, _KNOWN = 0.5, 2.0


class DataPartyMeeting(Meeting):
    """A data party's side."""

    def __init__(self, roster: Roster, settings: Settings, agree: Agree) -> None:
        super().__init__(roster, settings, agree)
        self._not_there: tuple[Party, ...] = ()
        self._where = Address("", 0)
        self._listener: Listener | None = None
        self._address: Address | None = None
        self._control: Control | None = None
        self._agreed: int | None = None  # the round in which this party has agreed with all
        self._met = self._informed = False

    def attend(self, find: Callable[[], Address], fault: Exception | None = None) -> None:
        """Meet the others; `find` returns where the coordinator is. Else as `CoordinatorMeeting.attend`."""
        own, patience = self._settings, TELL if fault is not None else self._settings.join_timeout
        end = time.monotonic() + patience
        try:
            if own.listen is not None and fault is None:
                self._listener = Listener(own.listen, own.tls, self.take, self._turned_away)
                self._address = own.advertise or Address(own.listen.host, self._listener.port)
            while not self._met:
                self._where = find()
                self._reach(end, fault is None)
                if fault is not None:
                    raise fault
                self._until(lambda: self._met or self._control is None, end)
        except BaseException as error:
            if self._control is not None and not self._informed:
                phase = "connect" if fault is None else "load"
                self._control.send(stop=notice(error, self._roster.me.name, phase))
            self._leave(failed=True)
            raise
        self._leave(failed=False)
        self._tell_ways()

    def _reach(self, end: float, joins: bool) -> None:
        """Reach the coordinator as soon as it listens, and send this party's version and plan."""
        own, coordinator, where = self._settings, self._roster.coordinator, self._where
        line = time.monotonic() + 1
        while True:
            left = max(0.05, min(end - time.monotonic(), own.timeout))
            try:
                connection = call(where, left, own.tls, coordinator, Greeting(Use.MEET), own.proxy)
                assert isinstance(connection, socket.socket)
                with self._changed:  # what is heard is not heeded before
                    self._gone.pop(coordinator, None)
                    self._control = Control(
                        connection, coordinator, own.timeout, self._hear, self._lose, self.fail
                    )
                    if joins:
                        self._control.send(join={"version": own.version, "plan": own.plan})
                return
            except (OSError, PeerTimeout) as error:
                why = "it does not answer"
                if isinstance(error, OSError):
                    why = "it closes the connection" if isinstance(error, Closed) else str(error.strerror)
                if time.monotonic() + _RETRY > end:
                    raise PartyMissing(
                        f"{coordinator} cannot be reached at {where} ({why}) in {own.join_timeout:g} s: is "
                        f"it running, is its port open, is network.address right?",
                        (PartyMissing.__name__, coordinator.name, "connect"),
                    ) from None
            if time.monotonic() > line:
                own.say(f"waiting for {coordinator} at {where} ({why})")
                line += SAY
            time.sleep(_RETRY)

    def _missing(self) -> Sequence[Party]:
        return self._not_there

    # --- what the coordinator says

    def _hear(self, control: Control, message: Message) -> None:
        coordinator = self._roster.coordinator
        with self._changed:
            if control is not self._control:
                return
            if "missing" in message:
                self._not_there = tuple(self._roster.parties[number] for number in message["missing"])
            elif "all" in message:
                if message["round"] == self._number and self._round is not None:
                    self._round.begin(self._contacts(message["all"]))
            elif "again" in message:
                if message["left"] is not None:
                    number, name, phase = message["left"]
                    self._has_left(self._roster.parties[int(number)], str(name)[:150], str(phase)[:20])
                self._make_ready(control, int(message["again"]))
            elif "met" in message:
                self._met = message["met"] == self._number == self._agreed
            elif "refused" in message:
                self._informed = True
                self.fail(self._refusal(message["refused"]))
            elif "stop" in message:
                self._informed = True
                self.fail(self._stopped(message))
            else:
                raise nonsense(coordinator)
            self._changed.notify_all()

    def _make_ready(self, control: Control, number: int) -> None:
        """Give up an earlier round, and send this party's address for the next one."""
        before, self._number = self._round, number
        self._round = Round(self._roster, self._settings, self._agree, self._is_over)
        if before is not None:
            before.close()
        control.send(here=[number, Contact(self._address, self._round.token).plain()])

    def _contacts(self, said: Message) -> dict[int, Contact]:
        coordinator = self._roster.coordinator
        contacts = {int(number): Contact.read(contact) for number, contact in said.items()}
        if set(contacts) != {party.number for party in self._roster.parties}:
            raise nonsense(coordinator)
        return {**contacts, coordinator.number: Contact(self._where, contacts[coordinator.number].token)}

    def _refusal(self, theirs: Message | None) -> MpcSpearmanError:
        me, coordinator, own = self._roster.me, self._roster.coordinator, self._settings
        if theirs is None:
            return HandshakeError(f"another process joined as {me} earlier, and still answers; stop it first")
        said = (str(theirs["version"]), str(theirs["plan"]))
        error = mismatch(me, (own.version, own.plan), coordinator, said)
        return error or nonsense(coordinator)

    def _stopped(self, message: Message) -> MpcSpearmanError:
        """Say why the coordinator ends this party's meeting."""
        me, error = self._roster.me, self._read_notice(message["stop"], self._roster.coordinator)
        if isinstance(error, Unreachable) and "by" in message and message["stop"][1] == me.name:
            return unreachable(self._roster.parties[message["by"]], me, self._address)
        return error

    def _lose(self, control: Control, error: MpcSpearmanError) -> None:
        """Dial a lost coordinator again."""
        with self._changed:
            if control is not self._control or self._met or self._informed:
                return
            self._control, self._not_there = None, ()
            self._changed.notify_all()
        if not self._settings.patient or not isinstance(error, NetworkError):
            self.fail(error)
            return
        self._has_left(self._roster.coordinator, type(error).__name__, "connect")

    def _is_over(self, own: Round, error: Exception | None) -> None:
        """Tell the coordinator how this party's part in a round ended."""
        with self._changed:
            control, number = self._control, self._number
            if control is None or own is not self._round:
                return
            if error is None:
                self._agreed = number
        if error is None:
            control.send(ready=number)
            return
        about = notice(error, self._roster.me.name, "connect")
        unreached = about[:2] == (Unreachable.__name__, self._roster.coordinator.name)
        # The coordinator was reached before, so this party must correct its network. But a coordinator that
        # stops, and says why, accepts no connections either.
        if unreached and self._is_broken(error):
            with self._changed:
                if self._changed.wait_for(lambda: self._informed or self._control is not control, HEARD):
                    return
        if not self._is_broken(error) or (unreached and control.answers()):
            self.fail(error)
        else:
            control.send(broken=[number, about])

    def _leave(self, *, failed: bool) -> None:
        if self._listener is not None:
            self._listener.close()
        if failed and self._round is not None:
            self._round.close()
        if self._control is not None:
            self._control.finish(_KNOWN)
            if failed:
                self._control.join()
