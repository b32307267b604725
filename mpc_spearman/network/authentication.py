"""Who is at the other end of a connection: shown by mutual TLS, or by knowing a secret.

Both do the same at the same moments of a connection's beginning (:mod:`mpc_spearman.network.handshake`):
first `call` or `answer`, before a byte is sent; then, once the caller has said who it is, `prove` and
`check`.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from mpc_spearman.errors import HandshakeError, PlaintextPeer, TlsError, UntrustedCertificate, WrongName
from mpc_spearman.parties import Party
from mpc_spearman.wire import tls
from mpc_spearman.wire.nested import Nested

#: A connection that a party uses: plain, TLS, or TLS inside TLS.
Connection = socket.socket | Nested
# What the answer of a party that knows people by a secret starts with, and its two parts' bytes.
_SECRET, _NONCE, _MAC = b"S", 32, 32
# What a record of TLS that holds an alert starts with (RFC 8446, 5.1).
_ALERT = b"\x15"


class Closed(OSError):
    """The other end closed the connection as it began, without a word why."""


class Authentication(ABC):
    """What both ends of every connection do to know each other.

    Attributes
    ----------
    ends : bool
        Whether it protects two parties from whoever forwards their bytes.
    """

    ends: bool

    @abstractmethod
    def call(self, raw: socket.socket, peer: Party, host: str) -> Connection:
        """Begin as the party that connects; `host` is the peer's name on the network, if it has one."""

    @abstractmethod
    def answer(self, raw: socket.socket) -> Connection:
        """Begin as the party that is connected to."""

    @abstractmethod
    def prove(self, connection: Connection, said: bytes, peer: Party) -> None:
        """Show, as who connects and has said `said`, that this is so, and see the same of the other end."""

    @abstractmethod
    def check(self, connection: Connection, said: bytes, peer: Party) -> None:
        """See, as who is connected to, that it is `peer` who said `said`, and show the same.

        Raises
        ------
        NetworkError, HandshakeError
            It is not.
        """

    @abstractmethod
    def named(self, connection: Connection) -> Sequence[str]:
        """Return the names that the other end has shown to be its own."""

    @abstractmethod
    def shown(self, connection: Connection) -> str | None:
        """Return what people can compare: the fingerprint of the other end's certificate."""


class Tls(Authentication):
    """Mutual TLS 1.3 (RFC 8446): certificates of one CA, with the party's exact name.

    Parameters
    ----------
    credentials : Credentials
    pins : mapping of str to str
        Fingerprints of certificates by party, of those that may show no other.

    Raises
    ------
    TlsError
        The credentials cannot be used.
    """

    ends = True

    def __init__(self, credentials: tls.Credentials, pins: Mapping[str, str]) -> None:
        self._server, self._client = tls.server_context(credentials), tls.client_context(credentials)
        self._pins = pins

    def call(self, raw: socket.socket, peer: Party, host: str) -> Connection:
        """Shake hands, and see that the peer has its certificate."""
        try:
            connection = tls.handshake(raw, self._client, f"party {peer.name}", host)
        except UntrustedCertificate as error:
            if error.heard:
                raise
            raise UntrustedCertificate(
                f"{error}. If a proxy on the way opens TLS to look inside, it has to let this pass unopened"
            ) from None
        except TlsError as error:
            raise _closed(error) from None
        try:
            self.check(connection, b"", peer)
        except TlsError:
            connection.close()
            raise
        return connection

    def answer(self, raw: socket.socket) -> Connection:
        """Shake hands with whoever has a certificate of the CA."""
        try:
            return tls.handshake(raw, self._server, "a party that connects")
        except TlsError as error:
            raise _closed(error) from None

    def prove(self, connection: Connection, said: bytes, peer: Party) -> None:
        """Do nothing: the certificate has."""

    def check(self, connection: Connection, said: bytes, peer: Party) -> None:
        """See that the certificate is the peer's."""
        tls.check_peer(_secured(connection), peer.name, self._pins.get(peer.name))

    def named(self, connection: Connection) -> Sequence[str]:
        """Return the names in the certificate."""
        return tls.party_names(_secured(connection))

    def shown(self, connection: Connection) -> str | None:
        """Return the certificate's fingerprint."""
        return tls.fingerprint(_secured(connection).getpeercert(binary_form=True) or b"")


def _closed(error: TlsError) -> TlsError | Closed:
    """Return `Closed` for an error that says no more than that."""
    return Closed(str(error)) if type(error) is TlsError and error.heard else error


def _secured(connection: Connection) -> ssl.SSLSocket:
    assert isinstance(connection, (ssl.SSLSocket, Nested))
    return connection  # type: ignore[return-value]


class Secret(Authentication):
    """A secret that all parties know: each end answers the other's challenge with an HMAC under it.

    Three passes, as in ISO/IEC 9798-4, 5.2.2 (mutual authentication), with HMAC-SHA256 (RFC 2104): the
    caller says who it is and for what it connects, with 32 fresh random bytes; the other end sends fresh
    bytes of its own and an HMAC over all of that; the caller sends one, under another label. It proves that
    both know the secret, once. It hides nothing, and does not keep who is in between from changing what
    follows: the links are under keys that the secret is part of (:mod:`mpc_spearman.wire.keys`).

    Parameters
    ----------
    secret : bytes
        32 random bytes. The repr does not show them.
    """

    ends = False

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def call(self, raw: socket.socket, peer: Party, host: str) -> Connection:
        """Leave it as it is."""
        return raw

    def answer(self, raw: socket.socket) -> Connection:
        """Leave it as it is."""
        return raw

    def prove(self, connection: Connection, said: bytes, peer: Party) -> None:
        """Check the other end's HMAC, and send one."""
        first = exactly(connection, 1)
        if first == _ALERT:
            raise PlaintextPeer(f"{peer} speaks TLS, and this party's plan does not: `network.tls` differs")
        if first != _SECRET:
            raise HandshakeError(f"{peer} does not take this for a party of its run: do the plans differ?")
        nonce, found = exactly(connection, _NONCE), exactly(connection, _MAC)
        if not hmac.compare_digest(found, self._mac(b"answer", said, nonce)):
            raise HandshakeError(
                f"{peer} does not know this party's `network.secret`: all need the same file"
            )
        connection.sendall(self._mac(b"call", said, nonce))

    def check(self, connection: Connection, said: bytes, peer: Party) -> None:
        """Send an HMAC, and check the other end's."""
        nonce = secrets.token_bytes(_NONCE)
        connection.sendall(_SECRET + nonce + self._mac(b"answer", said, nonce))
        if not hmac.compare_digest(exactly(connection, _MAC), self._mac(b"call", said, nonce)):
            raise HandshakeError("who connected does not know `network.secret`: all need the same file")

    def named(self, connection: Connection) -> Sequence[str]:
        """Return nothing: the secret is everyone's."""
        return ()

    def shown(self, connection: Connection) -> str | None:
        """Return nothing: there is no certificate."""
        return None

    def _mac(self, direction: bytes, said: bytes, nonce: bytes) -> bytes:
        # All parts have a fixed length but the first, which differs in its first byte.
        return hmac.digest(self._secret, b"mpc_spearman connection 1 " + direction + said + nonce, "sha256")


def exactly(connection: Connection, size: int) -> bytes:
    """Receive so many bytes; raise `Closed` if they do not come."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise Closed("closed by the other end")
        data += part
    return data


__all__ = ["Authentication", "Closed", "Connection", "Secret", "Tls", "WrongName", "exactly"]
