"""How the parties of a run find each other: through a store that all of them can write to.

Each party writes where it listens into the store, waits until all have, and connects to those of lower number
(:mod:`mpc_spearman.wire.handshake`). The store is a folder on one machine, and a TCP service among several.
Nothing in it is secret, but for the tokens where it is a folder that one user can read, and nothing in it is
trusted: TLS proves who a peer is. Whoever can write to it can keep a run from starting, and no more.

A meeting has one outcome for all. It is written once, by whoever is first: a party that stops writes why, and
one that sees that all are connected with all writes that they have met. Nobody goes on or stops, however late
it looks, but by what is written, as long as the store is there; so the party that it ends with stays until
all who have joined have read it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mpc_spearman.errors import (
    HandshakeError,
    NetworkError,
    PartyMissing,
    PeerTimeout,
    PlanMismatch,
    ProtocolViolation,
)
from mpc_spearman.files import write_whole
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import from_notice, lost_party, notice
from mpc_spearman.wire.handshake import TOKEN, Address, Listener
from mpc_spearman.wire.sockets import Sockets
from mpc_spearman.wire.tls import Credentials

# Seconds between two looks into the store, at most, and between two lines about who is missing.
_LOOK, _SAY = 0.1, 10.0
# Seconds that the party with the store stays after a failure for those who have not joined yet.
_LINGER = 2.0
# Longest name of a host.
_HOST = 255
_OUTCOME = "outcome"
_MET = "met"
# What reading JSON of other things than expected raises.
_NONSENSE = (ValueError, TypeError, LookupError, OverflowError, RecursionError)

#: Told of what is worth a sentence.
Say = Callable[[str], None]


class Store(Protocol):
    """Where parties write for each other to read, each key once."""

    def has(self, *keys: str) -> bool:
        """Tell whether all of these are written."""

    def read(self, key: str) -> bytes:
        """Read what is written."""

    def write(self, key: str, text: str) -> bytes:
        """Write, unless it is written already; return what is then."""


class FolderStore:
    """A store for parties on one machine: a folder that only this user can read, a file for each key."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder

    def has(self, *keys: str) -> bool:
        """Tell whether all of these are written."""
        return all((self._folder / key).exists() for key in keys)

    def read(self, key: str) -> bytes:
        """Read what is written."""
        return (self._folder / key).read_bytes()

    def write(self, key: str, text: str) -> bytes:
        """Write, unless it is written already; return what is then."""
        with suppress(FileExistsError):
            write_whole(self._folder / key, text.encode(), replace=False)
        return self.read(key)


@dataclass(frozen=True)
class Terms:
    """What parties must agree on to be able to connect at all; the rest is compared over the links.

    Attributes
    ----------
    parties : int
        How many take part.
    tls : str
        ``mutual``, ``insecure``, or empty where all run on one machine without TLS.
    """

    parties: int
    tls: str


def meet(
    store: Store,
    roster: Roster,
    terms: Terms,
    listen: tuple[str, int],
    credentials: Credentials | None,
    *,
    fault: Exception | None = None,
    last: bool,
    join_timeout: float,
    timeout: float,
    say: Say,
) -> Sockets:
    """Find all other parties and connect to them. All parties call it.

    If this fails, the others are told through the store and stop too.

    Parameters
    ----------
    store : Store
    roster : Roster
    terms : Terms
    listen : tuple
        Host and port to listen on; port 0 is any free one.
    credentials : Credentials or None
        For TLS.
    fault : Exception or None
        What this party failed with before it came: it is raised, and the others are told.
    last : bool
        Whether the store ends with this process: it then leaves last.
    join_timeout, timeout : float
        Seconds to wait for parties to join; then for their connections, and until they have left.
    say : callable
        Told who is missing, from time to time.

    Raises
    ------
    PartyMissing
        Not all joined in time.
    PeerTimeout
        The store does not answer, or a party that has joined does not connect.
    HandshakeError
        A second process has joined as this party; the terms differ (`PlanMismatch`).
    NetworkError
        A party cannot be reached; `TlsError` and its kinds.
    """
    table = _Table(store, roster)
    doors: Listener | None = None
    failure: BaseException | None = None
    try:
        if fault is not None:
            raise fault
        doors = Listener(roster, *listen, credentials)
        table.join(doors.address, terms)
        addresses = table.wait(terms, join_timeout, say)
        for peer in roster.peers:
            if peer.number < roster.me.number:
                try:
                    doors.connect(peer, addresses[peer], timeout)
                except PeerTimeout:
                    raise
                except NetworkError:
                    table.check()  # who has stopped and said why: that says more than that it is gone
                    raise
        end = time.monotonic() + timeout
        while not doors.wait(_LOOK):
            table.check()
            if time.monotonic() > end:
                raise doors.give_up()
        table.conclude(timeout)
        return doors.sockets()
    except BaseException as error:
        failure = error
        table.stop(error, "connect" if fault is None else "load")
        raise
    finally:
        if doors is not None:
            doors.close()
            if failure is not None:
                doors.sockets().close()
        table.leave(failure, last, timeout)


class _Table:
    """What the parties write into the store."""

    def __init__(self, store: Store, roster: Roster) -> None:
        self._store, self._roster = store, roster
        self._joined = False

    def join(self, address: Address, terms: Terms) -> None:
        """Say where this party listens."""
        me = self._roster.me
        entry = json.dumps(
            {
                "host": address.host,
                "port": address.port,
                "token": address.token.hex(),
                "parties": terms.parties,
                "tls": terms.tls,
            }
        )
        if self._store.write(_key("party", me), entry) != entry.encode():
            raise HandshakeError(f"another process has already joined as {me} (number {me.number})")
        self._joined = True

    def wait(self, terms: Terms, seconds: float, say: Say) -> dict[Party, Address]:
        """Wait until all have written, and all agree on the terms."""
        addresses: dict[Party, Address] = {}
        start, next_line = time.monotonic(), time.monotonic() + _SAY / 5
        while len(addresses) < len(self._roster.peers):
            for peer in self._roster.peers:
                if peer not in addresses and self._store.has(_key("party", peer)):
                    addresses[peer] = self._read(peer, terms)
            self.check()  # after reading: who finds itself what is wrong can say more of it
            missing = [peer for peer in self._roster.peers if peer not in addresses]
            if not missing:
                break
            if time.monotonic() - start > seconds:
                raise PartyMissing(
                    f"{' and '.join(map(str, missing))} did not join within {seconds:g} s",
                    (PartyMissing.__name__, missing[0].name, "connect"),
                )
            if time.monotonic() > next_line:
                say(f"waiting for {', '.join(map(str, missing))} to join")
                next_line += _SAY
            _pause(start)
        return addresses

    def conclude(self, timeout: float) -> None:
        """Wait until all are connected with all: then all have met."""
        self._store.write(_key("connected", self._roster.me), "yes")
        start = time.monotonic()
        while not self.check():
            if self._has_all("connected"):
                self._judge(self._store.write(_OUTCOME, _MET))
                return
            # Longer than for connections: who misses one says so, and that says more.
            if time.monotonic() - start > 2 * timeout:
                late = next(
                    peer for peer in self._roster.peers if not self._store.has(_key("connected", peer))
                )
                raise PeerTimeout(
                    f"{late} has joined, but is not connected with all within {2 * timeout:g} s",
                    (PeerTimeout.__name__, late.name, "connect"),
                )
            _pause(start)

    def check(self) -> bool:
        """Tell whether all have met; raise what a party has stopped with, if one has."""
        return self._store.has(_OUTCOME) and self._judge(self._store.read(_OUTCOME))

    def _judge(self, outcome: bytes) -> bool:
        if outcome == _MET.encode():
            return True
        names = {party.name for party in self._roster.parties}
        try:
            name, party, phase = (str(part) for part in json.loads(outcome))
            error = from_notice(name, party, phase, told_by="another party", parties=names)
        except (*_NONSENSE, ProtocolViolation):
            raise HandshakeError("what is written at the meeting point makes no sense") from None
        raise error

    def stop(self, error: BaseException, phase: str) -> None:
        """Tell all others, unless one was first."""
        coordinator = self._roster.coordinator
        if isinstance(error, PeerTimeout) and lost_party(error) == coordinator.name:
            return  # it would have to answer
        with suppress(NetworkError):
            self._store.write(_OUTCOME, json.dumps(notice(error, self._roster.me.name, phase)))

    def leave(self, failure: BaseException | None, last: bool, timeout: float) -> None:
        """Say that this party knows the outcome; if the store ends with it, wait until all others do.

        Not for one that is lost, and for those who have not joined only a moment.
        """
        lost = None if failure is None else lost_party(failure)
        if lost == self._roster.coordinator.name and not last:
            return  # it would have to answer
        start = time.monotonic()
        with suppress(NetworkError):
            if self._joined:
                self._store.write(_key("left", self._roster.me), "yes")
            while last and time.monotonic() - start < timeout:
                moment = time.monotonic() - start < _LINGER
                staying = [
                    peer
                    for peer in self._roster.peers
                    if peer.name != lost
                    and not self._store.has(_key("left", peer))
                    and (moment or self._store.has(_key("party", peer)))
                ]
                if not staying:
                    return
                _pause(start)

    def _has_all(self, what: str) -> bool:
        return self._store.has(*(_key(what, party) for party in self._roster.parties))

    def _read(self, peer: Party, terms: Terms) -> Address:
        try:
            entry = json.loads(self._store.read(_key("party", peer)))
            address = Address(str(entry["host"]), int(entry["port"]), bytes.fromhex(entry["token"]))
            theirs = Terms(int(entry["parties"]), str(entry["tls"]))
            ports = range(1, 1 << 16)
            if len(address.token) != TOKEN or address.port not in ports or theirs.parties not in ports:
                raise ValueError
            if len(address.host) > _HOST:
                raise ValueError
        except _NONSENSE:
            raise HandshakeError(f"what {peer} wrote at the meeting point makes no sense") from None
        me = self._roster.me
        differing = [
            f"{what}: {here} here, {there} there"
            for what, here, there in (
                ("number of parties", terms.parties, theirs.parties),
                ("network.tls", terms.tls or "none", (theirs.tls or "none")[:20]),
            )
            if here != there
        ]
        if differing:
            raise PlanMismatch(f"the plans of {me} (here) and {peer} (there) differ: " + "; ".join(differing))
        return address


def _key(what: str, party: Party) -> str:
    return f"{what}-{party.number}"


def _pause(start: float) -> None:
    """Wait before another look: a moment at first, longer later."""
    time.sleep(min(_LOOK, 0.01 + (time.monotonic() - start) / 10))
