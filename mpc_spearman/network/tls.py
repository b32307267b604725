"""Mutual TLS 1.3 (RFC 8446) between parties that are known by their public keys, as with SSH and WireGuard.

A party that connects, and both ends of a forwarded connection, trust the one key that they expect. A party
that listens trusts the keys of all others, and never its own. `ssl` checks no bare keys, so certificates with
the keys are made in memory. They name keys, never parties. A party signs its leaf with its own key, and names
the issuer by the SHA-256 of that key. The peers make the issuer's certificate themselves, for the public key
in their plan. It is a trust anchor, so OpenSSL checks neither its signature nor its dates (RFC 5280, 6.1.1).
A peer that completes a handshake thus has the private key of an anchor, or a leaf signed with one. After the
handshake the leaf's public key is compared with the expected ones: the peer is the party with that key.

A client learns only when it first reads that its own key was refused (TLS 1.3): :meth:`Tls.refused_key`
recognises this error.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from inspect import signature
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mpc_spearman.errors import PlaintextPeer, TlsError, UnknownKey
from mpc_spearman.identity import Identity, identity_text
from mpc_spearman.network.connections import Connection, Nested, hang_up
from mpc_spearman.parties import Party

_LINGER_SECONDS = 1.0
_POLICY_ADVICE = "see the policy for cryptography, such as FIPS mode or `update-crypto-policies --show`"
_VALIDITY = datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59)


class Closed(OSError):
    """The other end closed the connection as it began, without saying why."""


class _TlsSocket(ssl.SSLSocket):
    """A TLS socket without two flaws of its base class.

    CPython's own sends and receives without TLS after a shutdown, and stays open if the peer has reset the
    connection before TLS begins.
    """

    def getpeername(self) -> Any:
        """Return the peer's address, by which `ssl` finds out whether the socket is still connected."""
        try:
            return super().getpeername()
        except OSError:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from None

    def shutdown(self, how: int) -> None:
        """Shut down the connection below, whatever another thread is doing with it."""
        super(ssl.SSLSocket, self).shutdown(how)


class Tls:
    """One party's end of all its connections: its identity, and its peers' public keys, no two alike.

    `server` is the context of connections that others make to a party that listens.
    """

    def __init__(self, identity: Identity, keys: Mapping[Party, bytes]) -> None:
        self._identity, self._keys = identity, dict(keys)
        key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._certificate = leaf(identity.key) + key
        self.server = self._context(ssl.PROTOCOL_TLS_SERVER, self._keys.values())

    def __repr__(self) -> str:
        return f"Tls({self._identity})"

    def call(self, raw: socket.socket, peer: Party, host: str = "") -> Connection:
        """Shake hands as the caller, with `peer` only.

        `raw` is connected, with a time-out that bounds each step, and is closed on failure. `host` is the
        server name to ask for (RFC 6066), by which routers choose without decrypting. Raises `TlsError` or a
        subclass if the other end is not the peer, or has no TLS in common; `Closed` or `TimeoutError` if it
        closes the connection or does not answer.
        """
        context = self._context(ssl.PROTOCOL_TLS_CLIENT, [self._keys[peer]])
        return self._handshake(raw, context, [peer], host)[0]

    def answer(self, raw: socket.socket, peer: Party | None = None) -> tuple[Connection, Party]:
        """Shake hands as the called party, with `peer` or any party; return the connection and the party."""
        if peer is None:
            return self._handshake(raw, self.server, list(self._keys))
        return self._handshake(raw, self._context(ssl.PROTOCOL_TLS_SERVER, [self._keys[peer]]), [peer])

    def check(self) -> None:
        """Do a handshake of this party with itself, in memory; `TlsError` if the machine forbids it."""
        public_keys = [self._identity.public]
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self._context(ssl.PROTOCOL_TLS_CLIENT, public_keys).wrap_bio(to_client, to_server)
        server = self._context(ssl.PROTOCOL_TLS_SERVER, public_keys).wrap_bio(
            to_server, to_client, server_side=True
        )
        try:
            for end in (client, server, client, server):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        except ssl.SSLError as error:
            raise self._not_allowed(error) from None

    @staticmethod
    def _not_allowed(error: ssl.SSLError) -> TlsError:
        problem = "this machine does not allow TLS 1.3 with Ed25519 keys"
        return TlsError(f"{problem} ({_reason_text(error)}): {_POLICY_ADVICE}")

    def _context(self, protocol: int, trusted: Iterable[bytes]) -> ssl.SSLContext:
        # Not ssl.create_default_context: it trusts the system's CAs, and logs keys if SSLKEYLOGFILE says so.
        context = ssl.SSLContext(protocol)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
        context.sslsocket_class = _TlsSocket
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=b"".join(map(anchor, trusted)))
        # ssl reads a key only from a file. This file is in memory, and is gone once it has been read.
        file = os.memfd_create("identity", os.MFD_CLOEXEC)
        try:
            os.write(file, self._certificate)
            context.load_cert_chain(f"/proc/self/fd/{file}")
        except ssl.SSLError as error:
            raise self._not_allowed(error) from None
        finally:
            os.close(file)
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # no session is resumed, so that every connection proves its key
        return context

    def _handshake(
        self, raw: socket.socket, context: ssl.SSLContext, expected: list[Party], host: str = ""
    ) -> tuple[Connection, Party]:
        server = context.protocol == ssl.PROTOCOL_TLS_SERVER
        connection: Connection
        if isinstance(raw, ssl.SSLSocket):
            connection = Nested(raw, context, server)
        else:
            connection = context.wrap_socket(
                raw, server_side=server, do_handshake_on_connect=False, server_hostname=host or None
            )
        peer = None if server and len(expected) > 1 else expected[0]
        try:
            connection.do_handshake()
        except TimeoutError:
            connection.close()
            raise
        except OSError as error:
            hang_up(connection, _LINGER_SECONDS)  # the alert says why
            connection.close()
            raise self._handshake_error(error, peer) from None
        except BaseException:
            connection.close()
            raise
        peers_key = public_key_of(connection.getpeercert(binary_form=True) or b"")
        for party in expected:
            if self._keys[party] == peers_key:
                return connection, party
        connection.close()
        raise self._unknown_key(peer)

    def _unknown_key(self, peer: Party | None) -> UnknownKey:
        if peer is None:
            return UnknownKey("a caller's key is not in this plan")
        return UnknownKey(
            f"what answers as {peer} does not have the key of this plan, {identity_text(self._keys[peer])}: "
            "it is a process of another run, or its plan has another identity, or a proxy decrypts TLS; a "
            "proxy must let these connections pass"
        )

    def _handshake_error(self, error: OSError, peer: Party | None) -> Exception:
        """Return the error for a failed handshake: what went wrong, and what to do."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._unknown_key(peer)
        who = "a caller" if peer is None else str(peer)
        refusal = self.refused_key(error, peer)
        if refusal is not None:
            return refusal
        reason, alert = _reason(error)
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return UnknownKey(f"{who} shows no key")
        if reason in _PLAINTEXT_REASONS:
            return PlaintextPeer(f"{who} does not speak TLS: is it another program?")
        if reason in _OTHER_TLS_REASONS or alert in ("PROTOCOL_VERSION", "HANDSHAKE_FAILURE"):
            common = f"{who} and this party have no TLS 1.3 with Ed25519 keys in common"
            return TlsError(f"{common}; on either machine {_POLICY_ADVICE}")
        if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)):
            return Closed(f"{who} closed the connection in the TLS handshake")
        return TlsError(f"TLS with {who} failed: {_reason_text(error)}")

    def refused_key(self, error: OSError, peer: Party | None) -> UnknownKey | None:
        """Return the error for a peer that refused this party's key; None for any other error.

        `error` is as `ssl` raised it, in the handshake or at a read later.
        """
        if _reason(error)[1] not in _REFUSING_ALERTS:
            return None
        who = "the caller" if peer is None else peer.name
        return UnknownKey(f"{who}'s plan lacks our key {self._identity}", heard=True)


#: OpenSSL's names for a peer that does not speak TLS, and for one that speaks another TLS.
_PLAINTEXT_REASONS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "BAD_RECORD_TYPE",
)
_OTHER_TLS_REASONS = (
    "UNSUPPORTED_PROTOCOL",
    "WRONG_SSL_VERSION",
    "NO_PROTOCOLS_AVAILABLE",
    "NO_SUITABLE_SIGNATURE_ALGORITHM",
    "NO_SHARED_SIGNATURE_ALGORITHMS",
)
#: Alerts by which a peer says that it does not take this party's key. What precedes ``_ALERT_`` in OpenSSL's
#: names is the version that introduced an alert, and has changed.
_REFUSING_ALERTS = (
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "DECRYPT_ERROR",
    "CERTIFICATE_UNKNOWN",
    "UNSUPPORTED_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REQUIRED",
)


def _reason(error: OSError) -> tuple[str, str]:
    """Return OpenSSL's name for an error, and for the peer's alert if the error is one, or ''."""
    reason = str(getattr(error, "reason", None) or "")  # an SSLError raised by Python code has none
    return reason, reason.partition("_ALERT_")[2]


def _reason_text(error: OSError) -> str:
    return _reason(error)[0].lower().replace("_", " ") or error.strerror or type(error).__name__


# --- certificates


def leaf(key: Ed25519PrivateKey) -> bytes:
    """Return the certificate that the owner of a private key shows, in PEM; it never expires."""
    issuer = _name_of(key.public_key())
    return _signed("mpc-spearman", issuer, key.public_key(), key, ca=False).public_bytes(Encoding.PEM)


def anchor(public: bytes) -> bytes:
    """Return the trust anchor for a public key of 32 bytes; DER."""
    key = Ed25519PublicKey.from_public_bytes(public)
    name = _name_of(key)
    # Nobody checks the signature of an anchor; it has one because its format does.
    return _signed(name, name, key, Ed25519PrivateKey.generate(), ca=True).public_bytes(Encoding.DER)


def public_key_of(certificate: bytes) -> bytes | None:
    """Return the Ed25519 public key in a certificate, in DER; None if it has none."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except Exception:  # of any kind: the peer chose these bytes
        return None
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None


def _name_of(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _signed(
    subject: str, issuer: str, public: Ed25519PublicKey, signer: Ed25519PrivateKey, *, ca: bool
) -> x509.Certificate:
    allowed_usage = "key_cert_sign" if ca else "digital_signature"
    usages = {usage: usage == allowed_usage for usage in signature(x509.KeyUsage).parameters}
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(subject))
        .issuer_name(_common_name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALIDITY[0])
        .not_valid_after(_VALIDITY[1])
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        .add_extension(x509.KeyUsage(**usages), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(signer, None)
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
