"""How two parties' connections begin: who connects to whom, and who is accepted.

The party of the higher number connects to the other, twice: once for each direction of bytes. So a source
needs no open port as long as it is the last one, and the coordinator never has to reach anybody.

A connection starts with the TLS handshake, if there is one, then

=====  ==============================================================================
bytes  from the party that connects
=====  ==============================================================================
8      ``MPCSPEAR``
1      version of this format, 1
1      0 if its own messages will travel here, 1 if the other's will
4      its number, big-endian
16     the token that the other has published for this run
=====  ==============================================================================

and is answered by one byte: 0, or why it is refused.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum

from mpc_spearman.errors import (
    HandshakeError,
    MpcSpearmanError,
    NetworkError,
    PeerDied,
    PeerTimeout,
    PlaintextPeer,
    TlsError,
    WrongName,
)
from mpc_spearman.parties import Party, Roster
from mpc_spearman.wire import tls
from mpc_spearman.wire.sockets import Sockets

_FORMAT = struct.Struct("!8sBBI16s")
_MAGIC, _VERSION = b"MPCSPEAR", 1
#: Bytes of a token.
TOKEN = 16
#: Seconds that one handshake may take: a stranger that connects and says nothing holds no one up.
PATIENCE = 10.0
#: Connections that may be shaking hands at the same time.
MOST = 64


class _Answer(IntEnum):
    WELCOME = 0
    TAKEN = 1
    NAME = 2
    UNKNOWN = 3


@dataclass(frozen=True)
class Address:
    """Where a party listens, and the token that shows a caller was told so."""

    host: str
    port: int
    token: bytes


class Listener:
    """One party's listening socket and the connections made so far.

    Parameters
    ----------
    roster : Roster
    host, port
        Where to listen; port 0 is any free one.
    credentials : Credentials or None
        None for connections without TLS.
    patience : float
        Seconds that one handshake of those who connect may take.

    Raises
    ------
    NetworkError
        Nothing can listen there.
    TlsError
        The credentials cannot be used.
    """

    def __init__(
        self,
        roster: Roster,
        host: str,
        port: int,
        credentials: tls.Credentials | None,
        patience: float = PATIENCE,
    ) -> None:
        self._roster, self._patience = roster, patience
        self._server = None if credentials is None else tls.server_context(credentials)
        self._client = None if credentials is None else tls.client_context(credentials)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._listener = socket.create_server((host, port), family=family, backlog=MOST)
        except OSError as error:
            raise NetworkError(
                f"{roster.me} cannot listen on {host} port {port}: {error.strerror or error}; "
                "choose another `listen` for this party"
            ) from None
        self.address = Address(host, self._listener.getsockname()[1], secrets.token_bytes(TOKEN))
        self._sending: dict[int, socket.socket] = {}
        self._receiving: dict[int, socket.socket] = {}
        self._changed = threading.Condition()
        self._taken: set[tuple[int, int]] = set()
        self._wrong: MpcSpearmanError | None = None
        self._turned_away: MpcSpearmanError | None = None
        self._closed = False
        self._room = threading.BoundedSemaphore(MOST)
        threading.Thread(target=self._accept, name="doors", daemon=True).start()

    def connect(self, peer: Party, address: Address, seconds: float) -> None:
        """Make both connections to a party of lower number.

        Raises
        ------
        NetworkError
            It cannot be reached, or does not let this party in; `TlsError` and its kinds if that is why.
        """
        for theirs, connections in ((False, self._sending), (True, self._receiving)):
            try:
                raw = socket.create_connection((address.host, address.port), timeout=seconds)
            except (OSError, ValueError) as error:  # ValueError: no host can have such a name
                reason = getattr(error, "strerror", None) or error
                # It has listened there before it told the address: who refuses now has gone.
                kind = PeerDied if isinstance(error, ConnectionRefusedError) else NetworkError
                raise kind(
                    f"{self._roster.me} cannot reach {peer} at {address.host} port {address.port} "
                    f"({reason}): it is gone, a firewall is between, or `listen` of {peer.name} names an "
                    "address that only it can use",
                    (kind.__name__, peer.name, "connect"),
                ) from None
            connection = self._enter(raw, peer, theirs, address.token, seconds)
            with self._changed:
                connections[peer.number] = connection

    def _enter(
        self, raw: socket.socket, peer: Party, theirs: bool, token: bytes, seconds: float
    ) -> socket.socket:
        """Announce this party over a new connection, and be accepted; closed on failure."""
        connection = raw
        try:
            if self._client is not None:
                connection = tls.handshake(raw, self._client, f"party {peer.name}")
                tls.check_name(connection, peer.name)
            connection.sendall(_FORMAT.pack(_MAGIC, _VERSION, theirs, self._roster.me.number, token))
            self._understand(connection.recv(1), peer)
            _settle(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise PeerTimeout(
                    f"{peer} did not answer within {seconds:g} s",
                    (PeerTimeout.__name__, peer.name, "connect"),
                ) from None
            if isinstance(error, OSError):
                raise self._explain(error, peer) from None
            raise
        return connection

    def wait(self, seconds: float) -> bool:
        """Wait a moment for the others to connect; tell whether all have.

        Raises
        ------
        MpcSpearmanError
            One that proved to be of this run is not who it should be.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._wrong or not self.missing(), seconds)
            if self._wrong:
                raise self._wrong
            return not self.missing()

    def missing(self) -> tuple[Party, ...]:
        """Peers to which not both connections are made."""
        return tuple(
            peer
            for peer in self._roster.peers
            if peer.number not in self._sending or peer.number not in self._receiving
        )

    def give_up(self) -> MpcSpearmanError:
        """Say why not all have connected; what was wrong with a connection tells more than who is missing."""
        if self._turned_away is not None:
            return self._turned_away
        peer = self.missing()[0]
        return PeerTimeout(
            f"{peer} has joined, but does not connect to {self._roster.me} at {self.address.host} port "
            f"{self.address.port}",
            (PeerTimeout.__name__, peer.name, "connect"),
        )

    def sockets(self) -> Sockets:
        """Return the connections."""
        return Sockets(self._sending, self._receiving)

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while self._room.acquire():  # further callers wait until a handshake ends
            try:
                raw, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                self._room.release()  # that caller is gone, or files are short: the next may be accepted
                time.sleep(0.01)
                continue
            threading.Thread(target=self._admit, args=(raw,), name="door", daemon=True).start()

    def _admit(self, raw: socket.socket) -> None:
        connection = raw
        try:
            raw.settimeout(self._patience)
            if self._server is not None:
                connection = tls.handshake(raw, self._server, "a party that connects")
            self._greet(connection)
        except MpcSpearmanError as error:
            # Anyone can connect and fail to prove anything: that must not stop the run. A party that is
            # refused has an error of its own, and tells the others.
            self._turned_away = error
            connection.close()
        except OSError:
            connection.close()
        finally:
            self._room.release()

    def _greet(self, connection: socket.socket) -> None:
        magic, version, theirs, number, token = _FORMAT.unpack(
            _exactly(connection, _FORMAT.size, self._patience)
        )
        peer = next((peer for peer in self._roster.peers if peer.number == number), None)
        answer = _Answer.WELCOME
        wrong: MpcSpearmanError | None = None
        if (
            (magic, version) != (_MAGIC, _VERSION)
            or peer is None
            or number < self._roster.me.number
            or theirs > 1
            or not hmac.compare_digest(token, self.address.token)
        ):
            answer = _Answer.UNKNOWN
        elif self._server is not None:
            try:
                tls.check_name(connection, peer.name)  # type: ignore[arg-type]
            except WrongName as error:
                answer, wrong = _Answer.NAME, error
        if peer is not None and answer is _Answer.WELCOME:
            with self._changed:
                if (number, theirs) in self._taken:
                    answer = _Answer.TAKEN
                    wrong = HandshakeError(f"two processes have connected as {peer} (number {number})")
                self._taken.add((number, theirs))
        connection.sendall(bytes([answer]))
        if answer is not _Answer.WELCOME or peer is None:
            with self._changed:
                self._wrong = self._wrong or wrong
                self._changed.notify_all()
            connection.close()
            return
        _settle(connection)
        with self._changed:
            # What the caller sends is what this party receives.
            (self._sending if theirs else self._receiving)[number] = connection
            self._changed.notify_all()

    def _understand(self, answer: bytes, peer: Party) -> None:
        me = self._roster.me
        if answer == bytes([_Answer.WELCOME]):
            return
        if answer == bytes([_Answer.TAKEN]):
            raise HandshakeError(
                f"{peer} is connected to another process that is {me} (number {me.number}) already"
            )
        if answer == bytes([_Answer.NAME]):
            raise WrongName(f"{peer} found another name than {me.name} in this party's certificate")
        if answer == bytes([_Answer.UNKNOWN]):
            raise HandshakeError(
                f"{peer} does not know {me} of number {me.number}: is it another run's process?"
            )
        if self._client is None and answer:
            raise PlaintextPeer(f"{peer} speaks TLS, and this party's plan does not: `network.tls` differs")
        if self._client is not None:
            raise TlsError(f"{peer} closed the connection; its own error says why")
        raise NetworkError(
            f"{peer} closed the connection: it has stopped, or speaks TLS where this party's plan has none"
        )

    def _explain(self, error: OSError, peer: Party) -> MpcSpearmanError:
        refused = tls.refused(error, f"party {peer.name}")
        return refused or NetworkError(
            f"the connection to {peer} broke as it began ({error.strerror or type(error).__name__})",
            (NetworkError.__name__, peer.name, "connect"),
        )


def _exactly(connection: socket.socket, size: int, patience: float) -> bytes:
    end, data = time.monotonic() + patience, b""
    while len(data) < size:
        connection.settimeout(max(0.01, end - time.monotonic()))
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("closed by the peer")
        data += part
    return data


def _settle(connection: socket.socket) -> None:
    """From now on waits have the links' deadlines, and small messages leave at once."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
