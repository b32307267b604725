"""What both sides of a meeting have in common: messages and waiting.

Every other party connects to the coordinator, and first sends its version and shared plan. The coordinator
turns a party away if these differ from its own, or if another process of that party still answers. When all
parties are there it begins a *round* (:mod:`mpc_spearman.network.round`): it sends all of them each other's
addresses; each pair connects, compares plans again and agrees keys. When all are ready the coordinator
says that all have met.

Until then, a party that is lost, leaves or makes a mistake ends the round and not the meeting: all others
hear who it was and why, and the coordinator waits for that party again. Messages carry their round's number,
and those of an earlier round are dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from mpc_spearman.errors import MpcSpearmanError, NetworkError, PartyMissing, TlsError, Unreachable
from mpc_spearman.network.handshake import Greeting, Listener
from mpc_spearman.network.pairs import Contact, unreachable
from mpc_spearman.network.round import Agree, Round
from mpc_spearman.network.settings import Settings
from mpc_spearman.network.tls import Connection
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import from_notice, notice
from mpc_spearman.wire.meter import FORWARDED

#: Seconds between two lines about who is missing, and that a party that cannot take part tries to tell so.
SAY, TELL = 10.0, 5.0
#: Seconds in which whoever has caused that a connection broke is heard of.
HEARD = 1.0
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
        self._listener: Listener | None = None
        self._notes: set[str] = set()
        self._reasons: dict[int, str] = {}  # why parties have left, by number

    def fail(self, error: Exception) -> None:
        """Stop, if this party has not yet for another reason."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _begin(self, task: Callable[..., None], *given: Any) -> None:
        """Do something in a thread of its own; an error there ends this party's meeting."""

        def run() -> None:
            try:
                task(*given)
            except Exception as error:
                self.fail(error)

        threading.Thread(target=run, name=task.__name__, daemon=True).start()

    def _hand_on(self, caller: Party, greeting: Greeting, connection: Connection) -> None:
        own = self._round
        if own is None or own.token != greeting.token:  # that round has broken since the greeting
            connection.close()
        else:
            own.install(caller, greeting, connection)

    def _until(
        self, done: Callable[[], bool], end: float, late: Callable[[], MpcSpearmanError],
        waiting: Callable[[], Sequence[Party]] = tuple,
    ) -> None:  # fmt: skip
        """Wait; raise what has gone wrong, or `late` when the time is over; say now and then for whom."""
        line = time.monotonic() + SAY / 5
        while True:
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                if done():
                    return
                self._changed.wait(0.5)
            now = time.monotonic()
            if now > end and not done():
                raise late()
            if now > line and waiting():
                self._settings.say(f"waiting for {', '.join(map(str, waiting()))} to join")
                line += SAY

    def _absent(self, missing: Sequence[Party], seen: str = "") -> PartyMissing:
        """Say who has not joined in time, and what is known of it."""
        left = [peer for peer in missing if peer.number in self._reasons]
        hints = "".join(f". {peer.name} had left: {self._reasons[peer.number]}" for peer in left)
        return PartyMissing(
            f"{' and '.join(map(str, missing))} did not join within {self._settings.join_timeout:g} s"
            + (seen or hints),
            (PartyMissing.__name__, missing[0].name, "connect"),
        )

    def _has_left(self, peer: Party, error: str, phase: str) -> None:
        again = "; waiting for it again" if self._settings.patient else ""
        self._settings.say(f"{peer.name} left: {error} in {phase}{again}")

    def _turned_away(self, error: MpcSpearmanError) -> None:
        """Say once why a caller was not let in; nothing that it says is shown."""
        text = f"a connection was turned away: {error}"
        with self._changed:
            if text in self._notes or len(self._notes) >= _NOTES:
                return
            self._notes.add(text)
        self._settings.say(text)

    def _is_broken(self, error: Exception) -> bool:
        """Tell whether an error of a round is for the coordinator to look into, and not this party's own."""
        if not isinstance(error, MpcSpearmanError) or isinstance(error, TlsError):
            return False
        return error.heard or isinstance(error, NetworkError)

    def _tell_ways(self) -> None:
        """Say which of this party's pairs are not connected directly; the coordinator knows all."""
        assert self._round is not None
        me = self._roster.me
        for pair, how in self._round.ways().items():
            if how == FORWARDED and (me.number == 0 or me.name in pair):
                names = " and ".join(pair)
                self._settings.say(f"what passes between {names} is forwarded by the coordinator's host")

    def _read_notice(self, said: Any, teller: Party) -> MpcSpearmanError:
        """Turn what a party said when it stopped into an error of this one."""
        error, name, phase, number = said
        parties = self._roster.parties
        finder = next((party for party in parties if party.name == name), None)
        if error == Unreachable.__name__ and number is not None and finder is not None:
            peer = parties[number]
            contacts = {} if self._round is None else self._round.contacts
            # Where the coordinator is dialled, it does not know itself.
            where = contacts.get(peer.number, Contact(None, b"")).address
            return unreachable(finder, peer, where, "", heard=True)
        names = {party.name for party in parties}
        return from_notice(error, name, phase, told_by=str(teller), parties=names)

    def _notice(self, error: BaseException, phase: str) -> list[Any]:
        about = notice(error, self._roster.me.name, phase)
        return [*about, error.number if isinstance(error, Unreachable) else None]
