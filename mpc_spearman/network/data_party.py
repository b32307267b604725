"""A data party's side of the meeting: it dials the coordinator, and hears from it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from mpc_spearman.errors import MpcSpearmanError, NetworkError, PartyMissing, PeerTimeout
from mpc_spearman.network.addresses import Address
from mpc_spearman.network.control import Control, Message, nonsense
from mpc_spearman.network.handshake import Greeting, Listener, Use, call
from mpc_spearman.network.meeting import SAY, TELL, Connected, Meeting, Settings
from mpc_spearman.network.pairs import Contact
from mpc_spearman.network.tls import Closed
from mpc_spearman.parties import Party, Roster

# Seconds between two attempts to reach the coordinator, and that a party that failed waits until it knows.
_RETRY, _KNOWN = 0.5, 2.0


class DataPartyMeeting(Meeting):
    """A data party's side."""

    def __init__(self, roster: Roster, settings: Settings) -> None:
        super().__init__(roster, settings)
        self._missing: tuple[Party, ...] = ()
        self._where = Address("", 0)
        self._informed = False

    def attend(self, find: Callable[[float], Address], fault: Exception | None = None) -> Connected:
        """Meet the others.

        Parameters
        ----------
        find : callable
            Returns where the coordinator is; it may take so many seconds.
        fault : Exception, optional
            What this party has failed with before: it is raised, and the others are told.

        Raises
        ------
        MpcSpearmanError
            See :func:`mpc_spearman.launch.rendezvous.join`.
        """
        control: Control | None = None
        try:
            address = None
            if self._settings.listen is not None and fault is None:
                self._listener = Listener(
                    self._settings.listen, self._settings.tls, self._roster, self, self._turned_away
                )
                address = self._settings.advertise or Address(self._settings.listen.host, self._listener.port)
            start = time.monotonic()
            control = self._join(find, TELL if fault is not None else self._settings.join_timeout)
            if fault is not None:
                raise fault
            terms = {"parties": len(self._roster.parties), "contact": Contact(address, self._token).plain()}
            control.send(terms=terms)
            patience = self._settings.join_timeout - (time.monotonic() - start)
            self._until(lambda: bool(self._contacts), patience, self._nobody, lambda: self._missing)
            threading.Thread(target=self._connect, name="connecting", daemon=True).start()
            self._until(self._connected, 1.5 * self._settings.timeout, self._unconnected)
            control.send(connected=True)
            self._until(lambda: self._met, 2.5 * self._settings.timeout, self._silent)
        except BaseException as error:
            if control is not None and not self._informed:
                control.send(stop=self._stop_notice(error, "connect" if fault is None else "load"))
            self._leave(control, failed=True)
            raise
        self._leave(control, failed=False)
        return self._result(self._sockets())

    def _join(self, find: Callable[[float], Address], seconds: float) -> Control:
        """Reach the coordinator, as soon as it is there."""
        own, coordinator = self._settings, self._roster.coordinator
        end, line = time.monotonic() + seconds, time.monotonic() + 1
        self._where = where = find(seconds)
        greeting = Greeting(Use.MEET)
        while True:
            left = max(0.05, min(end - time.monotonic(), own.timeout))
            try:
                connection = call(where, left, own.tls, self._roster, coordinator, greeting, own.proxy)
                assert isinstance(connection, socket.socket)
                return Control(connection, coordinator, own.timeout, self._hear, self.fail)
            except OSError as error:
                why = "it closes the connection" if isinstance(error, Closed) else error.strerror
                if time.monotonic() + _RETRY > end:
                    raise PartyMissing(
                        f"{coordinator} cannot be met at {where} ({why}) within {own.join_timeout:g} s: is "
                        "it running, its port open, network.address right?",
                        (PartyMissing.__name__, coordinator.name, "connect"),
                    ) from None
            if time.monotonic() > line:
                own.say(f"waiting for {coordinator} at {where} ({why})")
                line += SAY
            time.sleep(_RETRY)

    def _hear(self, message: Message) -> None:
        coordinator = self._roster.coordinator
        if "missing" in message:
            self._missing = tuple(self._roster.parties[number] for number in message["missing"])
        elif "all" in message:
            contacts = {int(number): Contact.read(said) for number, said in message["all"].items()}
            if set(contacts) != {party.number for party in self._roster.parties}:
                raise nonsense(coordinator)
            contacts[coordinator.number] = Contact(self._where, contacts[coordinator.number].token)
            with self._changed:
                self._contacts = contacts
                self._changed.notify_all()
        elif "stop" in message:
            self._informed = True
            self.fail(self._read_stop(message["stop"], coordinator))
        elif "met" in message:
            with self._changed:
                self._met = self._failure is None
                self._changed.notify_all()
        else:
            raise nonsense(coordinator)

    def _nobody(self) -> MpcSpearmanError:
        lacking = self._missing or self._roster.peers
        return PartyMissing(
            f"{' and '.join(map(str, lacking))} did not join within {self._settings.join_timeout:g} s",
            (PartyMissing.__name__, lacking[0].name, "connect"),
        )

    def _silent(self) -> MpcSpearmanError:
        coordinator = self._roster.coordinator
        return PeerTimeout(
            f"{coordinator} does not say that all have met",
            (PeerTimeout.__name__, coordinator.name, "connect"),
        )

    def _leave(self, control: Control | None, *, failed: bool) -> None:
        if self._listener is not None:
            self._listener.close()
        if failed:
            self.fail(NetworkError("over"))  # what is still being made is closed
            self._sockets().close()
        if control is not None:
            control.finish(_KNOWN)
            if failed:
                control.join()
