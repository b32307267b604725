"""What both sides of a meeting have in common: messages and waiting.

Every other party connects to the coordinator, and first sends its version and shared plan. The coordinator
turns a party away if these differ from its own, or if another process of that party still answers. When all
parties are there it begins a *round* (:mod:`mpc_spearman.network.round`): it sends all of them each other's
addresses; each pair connects and agrees on a key, which depends on the plan. When all are ready the
coordinator says that all have met.

Until then, a party that is lost, leaves or makes a mistake ends only the round: all others are told who it
was and why, and the coordinator waits for that party again. It ends the meeting if all who are missing do not
allow the run (`FOR_GOOD`). Messages carry their round's number; messages of earlier rounds are dropped.

The coordinator sends

``missing``   who is not there
``again``     the number of the round to make ready for, and who has ``left``, if anyone
``all``       everybody's `Contact`: connect
``met``       all have met
``refused``   the version and plan that differ, or that another process has the place
``stop``      an error's class, party and phase: the meeting is over for the receiver

and a data party ``join``, ``here`` (its `Contact` for a round), ``ready``, ``broken`` and ``stop``.
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
from mpc_spearman.network.handshake import Answer, Greeting, let_in
from mpc_spearman.network.round import Agree, Round, Settings
from mpc_spearman.network.tls import Connection
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import from_notice
from mpc_spearman.wire.meter import FORWARDED

#: Seconds between two lines about who is missing, and for which a party that must stop tries to say so.
SAY, TELL = 10.0, 5.0
#: Seconds within which the party that broke a connection should be known.
HEARD = 1.0
#: Why a party that runs may not have come, and what to do.
LATE = (
    "A party comes once it has read its table: if that takes longer, raise network.join_timeout in "
    "everybody's plan"
)
#: Errors of a party that does not allow the run: it will not come again by itself.
FOR_GOOD = tuple(error.__name__ for error in (PolicyError, ApprovalError))
# Sentences about those turned away, at most.
_NOTES = 5


class Meeting:
    """What both sides do. `agree` is called in every round, which may not be the last."""

    def __init__(self, roster: Roster, settings: Settings, agree: Agree) -> None:
        self._roster, self._settings, self._agree = roster, settings, agree
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._number = 0
        self._round: Round | None = None
        self._notes: set[str] = set()
        self._gone: dict[Party, str] = {}  # why parties left that have not come again

    def fail(self, error: Exception) -> None:
        """Stop, unless this party has stopped for another reason."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _begin(self, task: Callable[..., None], *given: Any) -> None:
        """Run something in its own thread; an error there ends this party's meeting."""

        def run() -> None:
            try:
                task(*given)
            except Exception as error:
                self.fail(error)

        threading.Thread(target=run, name=task.__name__, daemon=True).start()

    def take(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        """Take a connection of the present round."""
        own = self._round
        if own is None:
            let_in(connection, Answer.UNEXPECTED)
        else:
            own.take(caller, greeting, connection)

    def _missing(self) -> Sequence[Party]:
        """Return the parties known to be missing."""
        raise NotImplementedError

    def _until(self, done: Callable[[], bool], end: float) -> None:
        """Wait, reporting now and then who is missing; raise what went wrong, or who never came."""
        line = time.monotonic() + SAY / 5
        while True:
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                if done():
                    return
                self._changed.wait(0.5)
            now, missing = time.monotonic(), self._missing()
            if now > end and not done():
                missing, seconds = missing or self._roster.peers, self._settings.join_timeout
                never = [peer for peer in missing if peer not in self._gone]
                who = [
                    f"{peer}, which left with {self._gone[peer]}," if peer in self._gone else str(peer)
                    for peer in missing
                ]
                hint = f". {LATE}" if never else ""
                raise PartyMissing(
                    f"{' and '.join(who)} did not join within {seconds:g} s{hint}",
                    (PartyMissing.__name__, (never or missing)[0].name, "connect"),
                )
            if now > line and missing:
                self._settings.say(f"waiting for {', '.join(map(str, missing))} to join")
                line += SAY

    def _has_left(self, peer: Party, error: str, phase: str) -> None:
        self._gone[peer] = f"{error} in {phase}"
        again = "; waiting for it again" if self._settings.patient and error not in FOR_GOOD else ""
        self._settings.say(f"{peer.name} left: {error} in {phase}{again}")

    def _turned_away(self, error: MpcSpearmanError) -> None:
        """Report once why a caller was not let in; nothing that it sent is shown."""
        text = f"a connection was turned away: {error}"
        with self._changed:
            if text in self._notes or len(self._notes) >= _NOTES:
                return
            self._notes.add(text)
        self._settings.say(text)

    def _is_broken(self, error: Exception) -> bool:
        """Return whether the coordinator should investigate a round's error, rather than this party."""
        if not isinstance(error, MpcSpearmanError) or isinstance(error, TlsError):
            return False
        return error.heard or isinstance(error, NetworkError)

    def _tell_ways(self) -> None:
        """Report which of this party's pairs are forwarded; the coordinator reports all."""
        assert self._round is not None
        me = self._roster.me
        for pair, how in self._round.ways().items():
            if how == FORWARDED and (me.number == 0 or me.name in pair):
                names = " and ".join(pair)
                self._settings.say(f"what passes between {names} is forwarded by the coordinator's host")

    def _read_notice(self, said: Any, teller: Party) -> MpcSpearmanError:
        """Turn the notice of a party that stopped into an error of this party."""
        error, name, phase = said
        return from_notice(error, name, phase, told_by=str(teller), parties=self._roster.names)
