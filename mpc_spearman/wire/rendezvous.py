"""How the parties of a run find each other: through a store of torch.distributed.

Each party writes where it listens into the store, waits until all have, and connects to those of lower number
(:mod:`mpc_spearman.wire.handshake`). The store is a file on one machine, and a TCP service among several.
Nothing in it is secret, but for the tokens where it is a file that one user can read, and nothing in it is
trusted: TLS proves who a peer is. Whoever can write to it can keep a run from starting, and no more.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from mpc_spearman.errors import (
    HandshakeError,
    NetworkError,
    PartyMissing,
    PeerDied,
    PeerTimeout,
    PlanMismatch,
    ProtocolViolation,
    TlsError,
)
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire.aborts import from_notice, notice
from mpc_spearman.wire.addresses import is_loopback
from mpc_spearman.wire.handshake import TOKEN, Address, Listener
from mpc_spearman.wire.sockets import Sockets
from mpc_spearman.wire.tls import Credentials

# Seconds between two looks into the store, and between two lines about who is missing.
_LOOK, _SAY = 0.1, 10.0
# Seconds that the party with the store stays after a failure.
_LINGER = 2.0
# Longest name of a host.
_HOST = 255
_STOP = "stop"
# What reading JSON of other things than expected raises.
_NONSENSE = (ValueError, TypeError, LookupError, OverflowError, RecursionError)

#: Told of what is worth a sentence.
Say = Callable[[str], None]
_T = TypeVar("_T")


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


def file_store(path: Path, parties: int) -> Any:
    """Open the store for parties on one machine: a file in a folder that only this user can read."""
    return dist.FileStore(str(path.absolute()), parties)  # type: ignore[attr-defined]


def tcp_store(
    host: str,
    port: int,
    coordinator: Party,
    *,
    hosting: bool,
    join_timeout: float,
    timeout: float,
    say: Say,
) -> Any:
    """Open the store for parties on several hosts.

    Parameters
    ----------
    host, port
        Where the coordinator's host has it, or under torchrun its agent.
    coordinator : Party
    hosting : bool
        Whether this process is the one to provide it.
    join_timeout, timeout : float
        Seconds to wait until someone does; then for an answer.
    say : callable

    Raises
    ------
    PartyMissing
        Nobody provides it in time.
    PeerTimeout
        Who provides it does not answer.
    NetworkError
        This process cannot.
    """
    try:
        if hosting:
            # On a loopback address nothing listens on any other: torch by itself would listen on all.
            listen = host if is_loopback(host) else ""
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((listen, port), family=family)
            return _tcp(host if listen else "localhost", port, timeout, listener.detach())
        _wait_for_service(host, port, join_timeout, coordinator, say)
        return _answer(lambda: _tcp(host, port, timeout), timeout, coordinator)
    except (OSError, RuntimeError) as error:
        doing = "provide the meeting point at" if hosting else "use the meeting point at"
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise NetworkError(
            f"cannot {doing} {host} port {port}: {reason}; see network.address and network.port"
        ) from None


def _tcp(host: str, port: int, timeout: float, listener: int | None = None) -> Any:
    return dist.TCPStore(  # type: ignore[attr-defined]
        host,
        port,
        None,
        listener is not None,
        timeout=timedelta(seconds=timeout),
        wait_for_workers=False,
        master_listen_fd=listener,
    )


def _answer(question: Callable[[], _T], seconds: float, coordinator: Party) -> _T:
    """Ask the store something, with a deadline: torch waits for ever if its host is frozen or cut off."""
    answer: Future[_T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="meeting point", daemon=True).start()
    try:
        return answer.result(seconds)
    except NoAnswer:
        raise PeerTimeout(
            f"the meeting point, which {coordinator} provides, did not answer within {seconds:g} s",
            (PeerTimeout.__name__, coordinator.name, "connect"),
        ) from None


def _wait_for_service(host: str, port: int, seconds: float, coordinator: Party, say: Say) -> None:
    """Wait until someone listens; TCPStore's own retries print a stack trace each."""
    end, next_line = time.monotonic() + seconds, time.monotonic() + 1
    while True:
        try:
            left = end - time.monotonic()
            socket.create_connection((host, port), timeout=min(5.0, max(0.1, left))).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise PartyMissing(
                    f"nobody provides the meeting point at {host} port {port} ({error.strerror or error}) "
                    f"within {seconds:g} s: is {coordinator} running, its port open, network.address right?",
                    (PartyMissing.__name__, coordinator.name, "connect"),
                ) from None
        if time.monotonic() > next_line:
            say(f"waiting for {coordinator} at {host} port {port}")
            next_line += _SAY
        time.sleep(0.5)


def meet(
    store: Any,
    roster: Roster,
    terms: Terms,
    listen: tuple[str, int],
    credentials: Credentials | None,
    *,
    fault: TlsError | None,
    hosting: bool,
    join_timeout: float,
    timeout: float,
    say: Say,
) -> Sockets:
    """Find all other parties and connect to them.

    If this fails, the others are told through the store and stop too.

    Parameters
    ----------
    store : Store
        From :func:`file_store` or :func:`tcp_store`.
    roster : Roster
    terms : Terms
    listen : tuple
        Host and port to listen on; port 0 is any free one.
    credentials : Credentials or None
        For TLS.
    fault : TlsError or None
        What is wrong with them: it ends this party's run, and the others are told.
    hosting : bool
        Whether the store ends with this process: it then leaves last.
    join_timeout, timeout : float
        Seconds to wait for parties to join; then for their connections.
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
    table = _Table(store, roster, timeout)
    doors: Listener | None = None
    met = False
    try:
        if fault is not None:
            raise fault
        doors = Listener(roster, *listen, credentials)
        table.write(doors.address, terms)
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
        table.leave(hosting, end)
        met = True
        return doors.sockets()
    except RuntimeError as error:
        # torch's stores raise nothing else: the process that provides it is gone.
        raise PeerDied(
            f"the meeting point is gone ({str(error).splitlines()[0]})",
            (PeerDied.__name__, roster.coordinator.name, "connect"),
        ) from None
    except BaseException as error:
        table.stop(error)
        if hosting:
            time.sleep(_LINGER)  # so that all who still look can see why
        raise
    finally:
        if doors is not None:
            doors.close()
            if not met:
                doors.sockets().close()


class _Table:
    """What the parties write into the store."""

    def __init__(self, store: Any, roster: Roster, timeout: float) -> None:
        self._store, self._roster, self._timeout = store, roster, timeout

    def _ask(self, question: Callable[[], _T]) -> _T:
        return _answer(question, self._timeout, self._roster.coordinator)

    def _has(self, *keys: str) -> bool:
        return bool(self._ask(lambda: self._store.check(list(keys))))

    def _get(self, key: str) -> bytes:
        return bytes(self._ask(lambda: self._store.get(key)))

    def write(self, address: Address, terms: Terms) -> None:
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
        if self._ask(lambda: self._store.compare_set(_key(me), "", entry)) != entry.encode():
            raise HandshakeError(f"another process has already joined as {me} (number {me.number})")

    def wait(self, terms: Terms, seconds: float, say: Say) -> dict[Party, Address]:
        """Wait until all have written, and all agree on the terms."""
        addresses: dict[Party, Address] = {}
        start, next_line = time.monotonic(), time.monotonic() + _SAY / 5
        while len(addresses) < len(self._roster.peers):
            for peer in self._roster.peers:
                if peer not in addresses and self._has(_key(peer)):
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
            time.sleep(_LOOK)
        return addresses

    def leave(self, hosting: bool, end: float) -> None:
        """Say that this party is done with the store; if it ends with this process, wait for all."""
        self._ask(lambda: self._store.set(_done(self._roster.me), ""))
        while hosting and not self._has(*map(_done, self._roster.peers)):
            self.check()
            if time.monotonic() > end:
                return
            time.sleep(_LOOK / 5)

    def check(self) -> None:
        """Raise what another party has stopped with, if one has."""
        if not self._has(_STOP):
            return
        names = {party.name for party in self._roster.parties}
        try:
            name, party, phase = (str(part) for part in json.loads(self._get(_STOP)))
            error = from_notice(name, party, phase, told_by="another party", parties=names)
        except (*_NONSENSE, ProtocolViolation):
            raise HandshakeError("what is written at the meeting point makes no sense") from None
        raise error

    def stop(self, error: BaseException) -> None:
        """Tell all who still look, unless another was first."""
        words = json.dumps(notice(error, self._roster.me.name, "connect"))
        with suppress(RuntimeError, PeerTimeout):
            _answer(lambda: self._store.compare_set(_STOP, "", words), _LINGER, self._roster.coordinator)

    def _read(self, peer: Party, terms: Terms) -> Address:
        try:
            entry = json.loads(self._get(_key(peer)))
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


def _key(party: Party) -> str:
    return f"party/{party.number}"


def _done(party: Party) -> str:
    return f"done/{party.number}"
