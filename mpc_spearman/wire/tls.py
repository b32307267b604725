"""Mutual TLS 1.3 between two parties: contexts, the peer's name, and what every failure means.

Both ends show a certificate of the parties' CA and check the other's. That a certificate was issued to the
right party is checked here, not by `ssl`: the Common Name of its subject must be that party's name, exactly,
and there must be one only. Host names play no part.

A client learns that its own certificate was refused only when it first reads (TLS 1.3): an `SSLError` there
is one for :func:`refused`.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpc_spearman.errors import CertificateExpired, PlaintextPeer, TlsError, UntrustedCertificate, WrongName

_LINGER_SECONDS = 1.0


@dataclass(frozen=True)
class Credentials:
    """The files of one party; PEM, the key without a passphrase.

    Attributes
    ----------
    ca : Path
        Certificates of the CA that issued the parties' certificates.
    certificate : Path
        This party's own, followed by intermediate ones if there are any.
    key : Path
        The key of `certificate`.
    """

    ca: Path
    certificate: Path
    key: Path


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """Return the context for connections this party accepts.

    Raises
    ------
    TlsError
        A file is missing, not what it should be, or they do not belong together.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, credentials)
    context.num_tickets = 0  # nothing is ever resumed: every connection shows its certificates
    return context


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """Return the context for connections this party makes; raises as :func:`server_context`."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, credentials)


def _context(protocol: int, credentials: Credentials) -> ssl.SSLContext:
    # Not ssl.create_default_context: it trusts the system's CAs, and logs keys if SSLKEYLOGFILE says so.
    context = ssl.SSLContext(protocol)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    for what, path in (
        ("CA", credentials.ca),
        ("certificate", credentials.certificate),
        ("key", credentials.key),
    ):
        try:
            path.read_bytes()  # ssl's own errors do not say which of its files they mean
        except OSError as error:
            raise TlsError(f"TLS: the {what} file {path} cannot be read: {error.strerror}") from None
    try:
        context.load_verify_locations(cafile=str(credentials.ca))
    except ssl.SSLError:
        raise TlsError(f"TLS: {credentials.ca} holds no CA certificate in PEM") from None

    def passphrase() -> str:
        # Without this OpenSSL would ask on the terminal, and wait.
        raise TlsError(
            f"TLS: the key file {credentials.key} is protected by a passphrase, which nobody is there to "
            "type; use one without (openssl pkey -in FILE -out NEW), readable by its owner alone"
        )

    try:
        context.load_cert_chain(credentials.certificate, credentials.key, passphrase)
    except ssl.SSLError as error:
        if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
            problem = (
                f"the key {credentials.key} does not belong to the certificate {credentials.certificate}"
            )
        else:
            problem = (
                f"{credentials.certificate} and {credentials.key} are not a certificate and a key in PEM"
            )
        raise TlsError(f"TLS: {problem}") from None
    return context


def handshake(raw: socket.socket, context: ssl.SSLContext, peer: str) -> ssl.SSLSocket:
    """Shake hands over a connection, in the role that `context` is for.

    Parameters
    ----------
    raw : socket
        Connected, blocking, with a time-out that bounds each step of the handshake. Closed on failure.
    context : SSLContext
        From :func:`server_context` or :func:`client_context`.
    peer : str
        Who should be at the other end, such as ``party B``.

    Returns
    -------
    SSLSocket
        Whose peer's name is still to be checked (:func:`check_name`).

    Raises
    ------
    TlsError
        As :func:`explain` says it. The peer is sent an alert.
    TimeoutError
        It does not answer.
    """
    server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    connection = context.wrap_socket(raw, server_side=server, do_handshake_on_connect=False)
    try:
        connection.do_handshake()
    except TimeoutError:
        connection.close()
        raise
    except OSError as error:
        _linger(connection)
        raise explain(error, peer) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _linger(connection: ssl.SSLSocket) -> None:
    """Close a connection that failed, without losing the alert that says why.

    Closing while something of the peer's is unread resets the connection, and a reset throws away what the
    peer has not read yet.
    """
    end = time.monotonic() + _LINGER_SECONDS
    with connection, suppress(OSError):
        connection.shutdown(socket.SHUT_WR)  # also ends TLS: from here on recv gives raw bytes
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(65536):
                return


def check_own(credentials: Credentials, party: str) -> None:
    """Find out before anyone connects whether peers would take this party's certificate.

    The party shakes hands with itself, in memory, so its certificate is judged by what will judge it later.

    Raises
    ------
    CertificateExpired, UntrustedCertificate, WrongName, TlsError
        As a peer would find, and for files as :func:`server_context`.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(credentials).wrap_bio(to_client, to_server)
    server = server_context(credentials).wrap_bio(to_server, to_client, server_side=True)
    try:
        while not (_advanced(client.do_handshake) & _advanced(server.do_handshake)):
            pass
    except ssl.SSLError as error:
        raise _explained(error, f"party {party}'s own certificate {credentials.certificate}") from None
    try:
        check_name(client, party)
    except WrongName as error:
        raise WrongName(f"{error} (its own certificate, {credentials.certificate})") from None


def _advanced(handshake: Callable[[], None]) -> bool:
    """Go on with a handshake; say whether it is done."""
    try:
        handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def peer_name(connection: ssl.SSLSocket | ssl.SSLObject) -> str:
    """Return the party's name in the certificate that the peer showed.

    Raises
    ------
    WrongName
        It has no Common Name, or several.
    """
    certificate: Mapping[str, Any] = connection.getpeercert() or {}
    subject = certificate.get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    if len(names) != 1:
        found = f"{len(names)} of them" if names else "none"
        raise WrongName(
            f"a peer's certificate should carry one Common Name, the party's name, but it has {found}"
        )
    return str(names[0])


def check_name(connection: ssl.SSLSocket | ssl.SSLObject, party: str) -> None:
    """See that the peer's certificate is that of `party`.

    Raises
    ------
    WrongName
        Naming both.
    """
    found = peer_name(connection)
    if found != party:
        raise WrongName(
            f"party {party} should be there, but the certificate is {found[:64]!r}'s: check the addresses of "
            "the plan, and which files each party uses"
        )


def explain(error: OSError, peer: str) -> TlsError:
    """Turn what went wrong in a TLS handshake into an error that says what it was and what to do.

    Parameters
    ----------
    error : SSLError or another OSError
        As the `ssl` module raised it.
    peer : str
        Who is at the other end, such as ``party B``.

    Returns
    -------
    TlsError
        Or one of its subclasses; to be raised.
    """
    return _explained(error, f"the certificate of {peer}", peer)


_EXPIRED, _NOT_YET = 10, 9  # X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID
_PLAINTEXT = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "BAD_RECORD_TYPE",
)
_OTHER_VERSION = ("UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION", "NO_PROTOCOLS_AVAILABLE")
#: Alerts by which a peer says what it thinks of this party's certificate. What precedes ``_ALERT_`` in
#: OpenSSL's names is the version that introduced an alert, and has changed.
_REFUSED: dict[str, tuple[type[TlsError], str]] = {
    "CERTIFICATE_EXPIRED": (CertificateExpired, "has expired, or its CA's has; get a new one"),
    "BAD_CERTIFICATE": (UntrustedCertificate, "is bad: not valid yet by its clock, or weaker than it allows"),
    "UNKNOWN_CA": (UntrustedCertificate, "is not from the CA it trusts: all parties need the same CA file"),
    "DECRYPT_ERROR": (UntrustedCertificate, "is not signed by the CA it trusts: all need the same CA file"),
    "CERTIFICATE_REQUIRED": (UntrustedCertificate, "is missing: it got none"),
    "CERTIFICATE_REVOKED": (UntrustedCertificate, "is revoked"),
    "CERTIFICATE_UNKNOWN": (UntrustedCertificate, "is not one it accepts"),
    "UNSUPPORTED_CERTIFICATE": (UntrustedCertificate, "is not made for this end of a connection"),
}


def refused(error: OSError, peer: str) -> TlsError | None:
    """Say why the peer refused this party's certificate; None if that is not what the error is.

    Parameters
    ----------
    error : OSError
        As the `ssl` module raised it, in the handshake or at a read later.
    peer : str
        Who is at the other end, such as ``party B``.
    """
    _, alert = _reason(error)
    if alert not in _REFUSED:
        return None
    kind, text = _REFUSED[alert]
    return kind(f"{peer} refused this party's certificate: it {text}")


def _reason(error: OSError) -> tuple[str, str]:
    """OpenSSL's name for an error, and if a peer's alert is what it is, that alert's."""
    reason = str(getattr(error, "reason", None) or "")  # an SSLError raised by Python code has none
    return reason, reason.partition("_ALERT_")[2]


def _explained(error: OSError, certificate: str, peer: str = "this party") -> TlsError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused_here(error, certificate)
    refusal = refused(error, peer)
    if refusal is not None:
        return refusal
    reason, alert = _reason(error)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return UntrustedCertificate(f"{peer} showed no certificate, and every party needs one of the same CA")
    if reason in _PLAINTEXT:
        return PlaintextPeer(f"{peer} does not speak TLS: all parties of a run use it, or none")
    if reason in _OTHER_VERSION or alert == "PROTOCOL_VERSION":
        return TlsError(f"{peer} does not speak TLS 1.3, and no earlier version is used")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)):
        return TlsError(
            f"{peer} closed the connection in the TLS handshake: it stopped, refused this party's "
            "certificate, or does not speak TLS; its own error says which"
        )
    if isinstance(error, TimeoutError):
        return TlsError(f"{peer} did not answer in the TLS handshake: it hangs, or does not speak TLS")
    what = reason.lower().replace("_", " ") or error.strerror or type(error).__name__
    return TlsError(f"TLS with {peer} failed: {what}")


def _refused_here(error: ssl.SSLCertVerificationError, certificate: str) -> TlsError:
    if error.verify_code == _EXPIRED:
        return CertificateExpired(f"{certificate}, or its CA's, has expired: get a new one")
    if error.verify_code == _NOT_YET:
        return CertificateExpired(f"{certificate}, or its CA's, is not valid yet: compare the hosts' clocks")
    return UntrustedCertificate(
        f"{certificate} is not one of the CA that this party trusts ({error.verify_message}): all parties "
        "need the same CA file and certificates of that CA"
    )
