"""How a connection begins, at both ends; and a listening socket that strangers cannot hold up.

A connection starts with the TLS handshake, if there is TLS, then

=====  ==============================================================================
bytes  from the party that connects
=====  ==============================================================================
8      ``MPCSPEAR``
1      version of this format, 2
1      what the connection is for: :class:`Purpose`
4      the caller's number, big-endian
4      the number of the party that it is for: with ``FORWARD`` that of a third
16     the token that this party was told for this run; zeros for ``MEET``
32     random
=====  ==============================================================================

Without TLS the two now show each other that they know the secret
(:class:`mpc_spearman.network.authentication.Secret`). It is answered by one byte, :class:`Answer`.
"""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Protocol

from mpc_spearman.errors import (
    HandshakeError,
    MpcSpearmanError,
    NetworkError,
    PeerTimeout,
    TlsError,
    UntrustedCertificate,
    WrongName,
)
from mpc_spearman.network.addresses import Address, dial, listening
from mpc_spearman.network.authentication import Authentication, Closed, Connection, exactly
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire import tls

_FORMAT = struct.Struct("!8sBBII16s32s")
_MAGIC, _VERSION = b"MPCSPEAR", 2
#: Bytes of a token.
TOKEN = 16
#: Seconds in which a caller must have shown who it is, and how many callers may be about to. When there are
#: more, the oldest of the network that has most of them is dropped, so that one that calls without end keeps
#: out nobody else's: a party whose caller is dropped tries again.
PATIENCE, MOST = 10.0, 64
_AGAIN = 0.2


class Purpose(IntEnum):
    """What a connection is for."""

    MEET = 0
    SEND = 1  # what the caller sends to the other party of a pair
    RECEIVE = 2  # what it receives
    FORWARD = 3  # one of these with a third party, by way of the coordinator


class Answer(IntEnum):
    """What the party that is connected to says."""

    WELCOME = 0
    TAKEN = 1
    NAME = 2
    UNKNOWN = 3
    PIN = 4


@dataclass(frozen=True)
class Greeting:
    """What a caller says first."""

    purpose: Purpose
    caller: int
    to: int
    token: bytes = field(default=bytes(TOKEN), repr=False)

    def pack(self) -> bytes:
        """Return its bytes; they differ each time."""
        nonce = secrets.token_bytes(32)
        return _FORMAT.pack(_MAGIC, _VERSION, self.purpose, self.caller, self.to, self.token, nonce)

    @classmethod
    def unpack(cls, said: bytes) -> Greeting | None:
        """Read it; None if that is not what it is."""
        magic, version, purpose, caller, to, token, _ = _FORMAT.unpack(said)
        if (magic, version) != (_MAGIC, _VERSION) or purpose not in tuple(Purpose):
            return None
        return cls(Purpose(purpose), caller, to, token)


class Acceptor(Protocol):
    """What becomes of those who have shown who they are."""

    def knows(self, greeting: Greeting) -> bool:
        """Tell whether the caller has been told this party's token."""

    def reserve(self, greeting: Greeting) -> Answer:
        """Say what to answer; after WELCOME `install` follows."""

    def install(self, greeting: Greeting, connection: Connection) -> None:
        """Take the connection; nobody else uses it any more."""

    def fail(self, error: MpcSpearmanError) -> None:
        """Stop: a party of this run is not who it says."""


def enter(
    raw: socket.socket,
    authentication: Authentication,
    roster: Roster,
    peer: Party,
    greeting: Greeting,
    host: str = "",
) -> Connection:
    """Begin a connection as the caller, and be let in; it is closed on failure.

    Parameters
    ----------
    raw : socket
        Connected, with a time-out.
    authentication : Authentication
    roster : Roster
    peer : Party
        Who must be at the other end.
    greeting : Greeting
    host : str
        The name by which it was dialled, if it was: also what a router of TLS connections goes by (RFC 6066,
        server name).

    Raises
    ------
    Closed
        It was closed: the other end may have had to make room, or is gone.
    PeerTimeout, TlsError, HandshakeError
        The other end does not answer, is another or does not let this party in.
    """
    connection: Connection = raw
    seconds = raw.gettimeout() or 0.0
    try:
        connection = authentication.call(raw, peer, host)
        said = greeting.pack()
        connection.sendall(said)
        authentication.prove(connection, said, peer)
        _understand(exactly(connection, 1), roster.me, peer)
        _settle(connection)
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError):
            about = (PeerTimeout.__name__, peer.name, "connect")
            raise PeerTimeout(f"{peer} did not answer within {seconds:g} s", about) from None
        if isinstance(error, OSError):
            refused = tls.refused(error, f"party {peer.name}")
            raise refused or Closed(str(error)) from None
        raise
    return connection


def call(
    address: Address,
    seconds: float,
    authentication: Authentication,
    roster: Roster,
    peer: Party,
    greeting: Greeting,
    proxy: Address | None = None,
    over: Callable[[], bool] = lambda: False,
) -> Connection:
    """Dial a party and enter; again if it had no room.

    Parameters
    ----------
    address, seconds, proxy
        As for :func:`mpc_spearman.network.addresses.dial`.
    authentication, roster, peer, greeting
        As for :func:`enter`.
    over : callable
        Whether there is no reason to try again.

    Raises
    ------
    OSError
        It cannot be reached; `Closed` if it never lets this party in.
    MpcSpearmanError
        As :func:`enter`.
    """
    end = time.monotonic() + seconds
    while True:
        raw = dial(address, max(0.05, end - time.monotonic()), proxy)
        try:
            return enter(raw, authentication, roster, peer, greeting, address.host)
        except Closed:
            if over() or time.monotonic() + _AGAIN > end:
                raise
            time.sleep(_AGAIN)


def admit(
    raw: socket.socket,
    authentication: Authentication,
    roster: Roster,
    acceptor: Acceptor,
    still: Callable[[], bool],
) -> None:
    """Begin a connection as the one that is connected to; it is closed on failure.

    Parameters
    ----------
    raw : socket
        Connected, with a time-out.
    authentication, roster, acceptor
    still : callable
        Called when the caller has shown who it is; whether it is still wanted.

    Raises
    ------
    MpcSpearmanError, OSError
        The caller has not shown that it is a party of this run.
    """
    connection: Connection = raw
    try:
        connection = authentication.answer(raw)
        said = exactly(connection, _FORMAT.size)
        greeting = Greeting.unpack(said)
        peer = None if greeting is None else _of_number(roster, greeting.caller)
        if greeting is None or peer is None:
            connection.sendall(bytes([Answer.UNKNOWN]))
            raise HandshakeError("who connected is no party of this run")
        try:
            authentication.check(connection, said, peer)
        except TlsError as error:
            # Who has another party's certificate, or has been told this party's token, takes part.
            others = {party.name for party in roster.parties} & set(authentication.named(connection))
            if acceptor.knows(greeting) or (isinstance(error, WrongName) and others):
                acceptor.fail(error)
            connection.sendall(bytes([Answer.NAME if isinstance(error, WrongName) else Answer.PIN]))
            raise
        if not still():
            raise Closed("too late")
        answer = acceptor.reserve(greeting)
        connection.sendall(bytes([answer]))
        if answer is not Answer.WELCOME:
            raise Closed("not let in")
        _settle(connection)
    except BaseException:
        connection.close()
        raise
    acceptor.install(greeting, connection)


class Listener:
    """A listening socket: whoever shows who it is gets in, all others hold nobody up.

    Parameters
    ----------
    where : Address
        Port 0 is any free one.
    authentication, roster, acceptor
    turned_away : callable
        Told why a caller was not let in.
    patience : float
        Seconds that a caller has.

    Raises
    ------
    NetworkError
        Nothing can listen there.
    """

    def __init__(
        self, where: Address, authentication: Authentication, roster: Roster, acceptor: Acceptor,
        turned_away: Callable[[MpcSpearmanError], None], patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self._authentication, self._roster, self._entrance = authentication, roster, acceptor
        self._turned_away, self._patience = turned_away, patience
        try:
            self._listener = listening(where)
        except OSError as error:
            raise NetworkError(
                f"{roster.me} cannot listen on {where.host or 'any address'} port {where.port}: "
                f"{error.strerror or error}; see `listen`, network.address and network.port"
            ) from None
        self.port: int = self._listener.getsockname()[1]
        self._listener.settimeout(1.0)
        # Each with the time at which it is dropped, and where it comes from; what is held is a second handle
        # of the connection, since TLS takes the first one away.
        self._knocking: dict[socket.socket, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name="listener", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and drop those who are not in yet."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._make_room(0)

    def _accept(self) -> None:
        while not self._closed:
            try:
                raw, origin = self._listener.accept()
                handle = raw.dup()
            except OSError:
                self._make_room(MOST)
                time.sleep(0.01)  # nobody has come, that caller is gone, or files are short
                continue
            self._make_room(MOST - 1)
            with self._lock:
                self._knocking[handle] = time.monotonic() + self._patience, network_of(origin[0])
            threading.Thread(target=self._admit, args=(raw, handle), name="caller", daemon=True).start()

    def _make_room(self, left: int) -> None:
        """Drop whose time is over, and then those of the largest crowd, until so many are left."""
        now = time.monotonic()
        with self._lock:
            late = [handle for handle, (end, _) in self._knocking.items() if now > end]
            while late or len(self._knocking) > left:
                handle = late.pop() if late else self._oldest_of_most()
                del self._knocking[handle]
                _drop(handle)

    def _oldest_of_most(self) -> socket.socket:
        ((most, _),) = Counter(origin for _, origin in self._knocking.values()).most_common(1)
        return next(handle for handle, (_, origin) in self._knocking.items() if origin == most)

    def _admit(self, raw: socket.socket, handle: socket.socket) -> None:
        def still() -> bool:
            with self._lock:
                return self._knocking.pop(handle, None) is not None

        try:
            raw.settimeout(self._patience)
            admit(raw, self._authentication, self._roster, self._entrance, still)
        except MpcSpearmanError as error:
            # Anyone can connect and show nothing: that must not stop the run.
            self._turned_away(error)
        except OSError:
            return
        finally:
            still()
            handle.close()


def network_of(host: str) -> str:
    """Return what one machine cannot change of its address: of IPv6 it has the last 64 bits to itself."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


def _drop(raw: socket.socket) -> None:
    with suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)


def _of_number(roster: Roster, number: int) -> Party | None:
    return next((peer for peer in roster.peers if peer.number == number), None)


def _understand(answer: bytes, me: Party, peer: Party) -> None:
    if answer == bytes([Answer.WELCOME]):
        return
    if answer == bytes([Answer.TAKEN]):
        raise HandshakeError(f"another process has already joined as {me} (number {me.number})")
    if answer == bytes([Answer.NAME]):
        raise WrongName(f"{peer} found another name than {me.name} in this party's certificate", heard=True)
    if answer == bytes([Answer.PIN]):
        raise UntrustedCertificate(
            f"{peer} has pinned another certificate of {me.name} than this party's (network.pins)", heard=True
        )
    raise HandshakeError(f"{peer} does not know {me} of number {me.number}: is it another run's process?")


def _settle(connection: Connection) -> None:
    """From now on waits have the deadlines of who uses it, and small messages leave at once."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
