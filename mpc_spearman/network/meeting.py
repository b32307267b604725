"""What both sides of a meeting have in common: messages and waiting.

Every other party connects to the coordinator, and first sends its version, shared plan and address. The
coordinator turns a party away if the first two differ from its own, or if another process of that party still
answers. When all parties have joined it begins an *attempt* (:mod:`mpc_spearman.network.attempt`): it sends
all of them the attempt's token and each other's addresses; each pair connects and agrees on a key, which
depends on the plan. When all are ready the coordinator says that all have met.

Until then, a party that is lost, leaves or makes a mistake ends only the attempt: all others learn which
party it was and why, and the coordinator waits for it again. The meeting ends if every missing party has
refused the run (`FINAL_ERRORS`). Messages about an attempt carry its token; those of an earlier one are
ignored.

The coordinator sends

``missing``   which parties have not joined, and which party has ``left``, if any; an earlier attempt is over
``connect``   the token of an attempt, and everybody's ``addresses``
``met``       the attempt's token: all have met
``refused``   the coordinator's version and plan, or null if another process has joined as this party
``stop``      an error's class, party and phase: the meeting is over for the receiver

and a data party ``join``, ``ready`` and ``broken`` with the attempt's token, and ``stop``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from mpc_spearman.errors import (
    ApprovalError,
    MpcSpearmanError,
    NetworkError,
    PartyMissing,
    PolicyError,
    TlsError,
)
from mpc_spearman.network.attempt import Attempt, Settings
from mpc_spearman.network.connections import Connection
from mpc_spearman.network.handshake import Answer, Greeting, let_in
from mpc_spearman.parties import Party
from mpc_spearman.wire.aborts import from_notice
from mpc_spearman.wire.meter import FORWARDED

#: Seconds between two lines about missing parties, and for which a party that fails tries to send its notice.
REPORT_INTERVAL, NOTICE_SECONDS = 10.0, 5.0
#: Seconds within which the party that broke a connection should be known.
CAUSE_SECONDS = 1.0
#: Why a running party may not have joined, and what to do.
JOIN_ADVICE = (
    "A party comes once it has read its table: if that takes longer, raise network.join_timeout in "
    "everybody's plan"
)
#: Errors of a party that refuses the run: it will not join again by itself.
FINAL_ERRORS = tuple(error.__name__ for error in (PolicyError, ApprovalError))
# The most sentences about callers that were turned away.
_MOST_NOTES = 5


class Meeting:
    """Messages and waiting of both sides."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._roster = settings, settings.roster
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._attempt: Attempt | None = None
        self._missing: Sequence[Party] = ()  # parties that have not joined
        self._departures: dict[Party, str] = {}  # for each party that left and is not back: why
        self._notes: set[str] = set()

    def fail(self, error: Exception) -> None:
        """Stop this party with an error; only the first one counts."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def take(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Accept a connection of the present attempt."""
        attempt = self._attempt
        if attempt is None:
            let_in(connection, Answer.UNEXPECTED)
        else:
            attempt.take(caller, greeting, connection)

    def _wait_until(self, done: Callable[[], bool], end: float) -> None:
        """Wait until `done`, reporting now and then who is missing; raise the error that ends the wait."""
        next_report = time.monotonic() + REPORT_INTERVAL / 5
        while True:
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                if done():
                    return
                self._changed.wait(0.5)
                now, missing, is_done = time.monotonic(), self._missing, done()
            if now > end and not is_done:
                raise self._missing_error(missing or self._roster.peers)
            if now > next_report and missing:
                self._settings.say(f"waiting for {', '.join(map(str, missing))} to join")
                next_report += REPORT_INTERVAL

    def _missing_error(self, missing: Sequence[Party]) -> PartyMissing:
        never_joined = [peer for peer in missing if peer not in self._departures]
        names = [
            f"{peer}, which left with {self._departures[peer]}," if peer in self._departures else str(peer)
            for peer in missing
        ]
        hint = f". {JOIN_ADVICE}" if never_joined else ""
        return PartyMissing(
            f"{' and '.join(names)} did not join within {self._settings.join_timeout:g} s{hint}",
            (PartyMissing.__name__, (never_joined or missing)[0].name, "connect"),
        )

    def _note_departure(self, peer: Party, error: str, phase: str) -> None:
        self._departures[peer] = f"{error} in {phase}"
        again = "; waiting for it again" if self._settings.patient and error not in FINAL_ERRORS else ""
        self._settings.say(f"{peer.name} left: {error} in {phase}{again}")

    def _turned_away(self, error: MpcSpearmanError) -> None:
        """Report once why a caller was not let in; nothing that it sent is shown."""
        text = f"a connection was turned away: {error}"
        with self._changed:
            if text in self._notes or len(self._notes) >= _MOST_NOTES:
                return
            self._notes.add(text)
        self._settings.say(text)

    def _is_for_coordinator(self, error: Exception) -> bool:
        """Return whether another party may be the cause of an error, so that the coordinator must find it."""
        if not isinstance(error, MpcSpearmanError) or isinstance(error, TlsError):
            return False
        return error.heard or isinstance(error, NetworkError)

    def _report_ways(self) -> None:
        """Report which pairs of this party are forwarded; the coordinator reports all pairs."""
        assert self._attempt is not None
        me = self._roster.me
        for pair, how in self._attempt.ways().items():
            if how == FORWARDED and (me == self._roster.coordinator or me.name in pair):
                names = " and ".join(pair)
                self._settings.say(f"what passes between {names} is forwarded by the coordinator's host")

    def _read_notice(self, notice: Any, sender: Party) -> MpcSpearmanError:
        """Return the error with which this party stops after another party's notice."""
        error, name, phase = notice
        return from_notice(error, name, phase, sender=str(sender), parties=self._roster.names)
