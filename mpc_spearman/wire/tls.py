"""Mutual TLS 1.3 between two parties: contexts, the peer's name, and what every failure means.

Both ends show a certificate of the parties' CA and check the other's. That a certificate was issued to the
right party is checked here, not by `ssl`: the party's name must be in it, exactly, as a Common Name of the
subject or as a subjectAltName, a DNS name or the URI of :func:`party_uri` (RFC 5280, 4.2.1.6). What host it
is on plays no part.

A client learns that its own certificate was refused only when it first reads (TLS 1.3): an `SSLError` there
is one for :func:`refused`.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from mpc_spearman.errors import CertificateExpired, PlaintextPeer, TlsError, UntrustedCertificate, WrongName
from mpc_spearman.wire import certificate_faults as faults
from mpc_spearman.wire.credentials import Credentials as Credentials
from mpc_spearman.wire.credentials import words
from mpc_spearman.wire.nested import Nested

_LINGER_SECONDS = 1.0
_URI = "urn:mpc-spearman:party:"


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """Return the context for connections this party accepts.

    Raises
    ------
    TlsError
        As :meth:`Credentials.load` does.
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
    credentials.load(context)
    return context


def handshake(
    raw: socket.socket, context: ssl.SSLContext, peer: str, host: str = ""
) -> ssl.SSLSocket | Nested:
    """Shake hands over a connection, in the role that `context` is for.

    Parameters
    ----------
    raw : socket
        Connected, blocking, with a time-out that bounds each step of the handshake. Closed on failure.
    context : SSLContext
        From :func:`server_context` or :func:`client_context`.
    peer : str
        Who should be at the other end, such as ``party B``.
    host : str
        As who connects, the host's name to ask for, if it has one (server name indication, RFC 6066): what
        routes TLS connections without opening them goes by it. Nothing here does.

    Returns
    -------
    SSLSocket, or Nested where `raw` has TLS already
        Whose peer's name is still to be checked (:func:`check_name`).

    Raises
    ------
    TlsError
        As :func:`explain` says it. The peer is sent an alert.
    TimeoutError
        It does not answer.
    """
    server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    connection: ssl.SSLSocket | Nested
    if isinstance(raw, ssl.SSLSocket):
        connection = Nested(raw, context, server)
    else:
        connection = context.wrap_socket(
            raw, server_side=server, do_handshake_on_connect=False, server_hostname=host or None
        )
    try:
        connection.do_handshake()
    except TimeoutError:
        connection.close()
        raise
    except OSError as error:
        _linger(connection)
        raise explain(error, peer, accepted=server) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _linger(connection: ssl.SSLSocket | Nested) -> None:
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

    The party shakes hands with itself, in memory, so its certificate is judged by what will judge it later,
    at both ends of a connection.

    Raises
    ------
    CertificateExpired, UntrustedCertificate, WrongName, TlsError
        As a peer would find, with the cause, and for files as :func:`server_context`.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(credentials).wrap_bio(to_client, to_server)
    server = server_context(credentials).wrap_bio(to_server, to_client, server_side=True)
    try:
        while not (_advanced(client.do_handshake) & _advanced(server.do_handshake)):
            pass
    except ssl.SSLError as error:
        raise credentials.refused(error, party) from None
    names = party_names(client)
    if party not in names:
        raise WrongName(
            f"party {party}'s own certificate {credentials.certificate} {_listed(names)}: "
            f"its Common Name, or a DNS name or the URI {party_uri(party)} in its subjectAltName, must be "
            "the party's name"
        )


def _advanced(handshake: Callable[[], None]) -> bool:
    """Go on with a handshake; say whether it is done."""
    try:
        handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def party_uri(party: str) -> str:
    """Return the URI by which a subjectAltName can name a party: any name, percent-encoded."""
    return _URI + quote(party, safe="")


def party_names(connection: ssl.SSLSocket | ssl.SSLObject) -> list[str]:
    """Return the party's names that the peer's certificate carries; usually one, maybe several times."""
    try:
        certificate: Mapping[str, Any] = connection.getpeercert() or {}
    except ValueError:  # a name that is not the text it says it is
        return []
    alternatives = certificate.get("subjectAltName", ())
    uris = [unquote(value[len(_URI) :]) for key, value in alternatives if key == "URI"]
    return [
        *(value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"),
        *(value for key, value in alternatives if key == "DNS"),
        *(party for party in uris if ("URI", party_uri(party)) in alternatives),
    ]


def check_name(connection: ssl.SSLSocket | ssl.SSLObject, party: str) -> None:
    """See that the peer's certificate is that of `party`.

    Raises
    ------
    WrongName
        Naming both.
    """
    names = party_names(connection)
    if party not in names:
        raise WrongName(
            f"party {party} should be there, but the certificate {_listed(names)}: check the addresses of "
            "the plan, and which files each party uses"
        )


def check_peer(connection: ssl.SSLSocket | ssl.SSLObject, party: str, pin: str | None) -> None:
    """See that the peer's certificate is that of `party`, and if there is a pin the very one.

    Parameters
    ----------
    connection : SSLSocket or SSLObject
        After the handshake.
    party : str
    pin : str, optional
        What :func:`fingerprint` returns for that party's certificate.

    Raises
    ------
    WrongName
        As :func:`check_name`.
    UntrustedCertificate
        It is another certificate than the pinned one.
    """
    check_name(connection, party)
    found = fingerprint(connection.getpeercert(binary_form=True) or b"")
    if pin is not None and found != pin:
        raise UntrustedCertificate(
            f"the certificate of party {party} is {found}, and this party's network.pins has {pin}: another "
            f"certificate of that name is in use. Ask party {party}, not over this connection, for the "
            "fingerprint of its own, and change the pin only if it is the one found"
        )


def fingerprint(der: bytes) -> str:
    """Return the fingerprint of a certificate, in DER: ``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def _listed(names: list[str]) -> str:
    """Say which names were found, at a length that a peer cannot choose."""
    shown = ", ".join(dict.fromkeys(repr(name[:64]) for name in names[:4]))
    return f"names {shown}" if names else "names no party"


def explain(error: OSError, peer: str, *, accepted: bool | None = None) -> TlsError:
    """Turn what went wrong in a TLS handshake into an error that says what it was and what to do.

    Parameters
    ----------
    error : SSLError or another OSError
        As the `ssl` module raised it.
    peer : str
        Who is at the other end, such as ``party B``.
    accepted : bool, optional
        Whether the peer made the connection, where that is known.

    Returns
    -------
    TlsError
        Or one of its subclasses; to be raised.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused_here(error, f"the certificate of {peer}", accepted)
    refusal = refused(error, peer)
    if refusal is not None:
        return refusal
    reason, alert = _reason(error)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return UntrustedCertificate(
            f"{peer} showed no certificate, or has one whose key TLS 1.3 cannot use; its own error says which"
        )
    if reason in _PLAINTEXT:
        return PlaintextPeer(f"{peer} does not speak TLS: all parties of a run use it, or none")
    if reason in _OTHER_VERSION or alert in ("PROTOCOL_VERSION", "HANDSHAKE_FAILURE"):
        return TlsError(
            f"{peer} has no TLS 1.3 in common with this party, and no earlier version is used: it speaks "
            "an earlier one only, or has a certificate whose key TLS 1.3 cannot use; its own error says which"
        )
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)):
        return TlsError(
            f"{peer} closed the connection in the TLS handshake: it stopped, refused this party's "
            "certificate, or does not speak TLS; its own error says which",
            heard=True,
        )
    if isinstance(error, TimeoutError):
        return TlsError(f"{peer} did not answer in the TLS handshake: it hangs, or does not speak TLS")
    return TlsError(f"TLS with {peer} failed: {words(error)}")


_PLAINTEXT = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "BAD_RECORD_TYPE",
)
_OTHER_VERSION = (
    "UNSUPPORTED_PROTOCOL",
    "WRONG_SSL_VERSION",
    "NO_PROTOCOLS_AVAILABLE",
    "NO_SUITABLE_SIGNATURE_ALGORITHM",
    "NO_SHARED_SIGNATURE_ALGORITHMS",
)
_CA = "all parties need the same CA file and certificates of that CA"
#: Alerts by which a peer says what it thinks of this party's certificate. What precedes ``_ALERT_`` in
#: OpenSSL's names is the version that introduced an alert, and has changed.
_REFUSED: dict[str, tuple[type[TlsError], str]] = {
    "CERTIFICATE_EXPIRED": (
        CertificateExpired,
        "by its clock it, or its CA's, has expired; {clock}, and if they agree get a new one",
    ),
    "BAD_CERTIFICATE": (
        UntrustedCertificate,
        "by its clock it is not valid yet ({clock}), or it is weaker than that party allows",
    ),
    "UNKNOWN_CA": (
        UntrustedCertificate,
        "it does not know the CA that issued it: that party's CA file is another's, or an intermediate CA's "
        f"certificate is missing behind this party's own; {_CA}",
    ),
    "DECRYPT_ERROR": (UntrustedCertificate, f"it is not signed by the CA that party trusts; {_CA}"),
    "CERTIFICATE_REQUIRED": (
        UntrustedCertificate,
        "it got none: there is none, or its key is one that TLS 1.3 cannot use",
    ),
    "CERTIFICATE_REVOKED": (UntrustedCertificate, "it is revoked"),
    "CERTIFICATE_UNKNOWN": (
        UntrustedCertificate,
        "it has an extension marked critical that is not known there, or is not acceptable in another way",
    ),
    "UNSUPPORTED_CERTIFICATE": (
        UntrustedCertificate,
        "it is not made for this end of a connection: in its extended key usage a party needs "
        "serverAuth and clientAuth",
    ),
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
    return kind(f"{peer} refused this party's certificate: {text.format(clock=faults.clock())}", heard=True)


def _reason(error: OSError) -> tuple[str, str]:
    """OpenSSL's name for an error, and if a peer's alert is what it is, that alert's."""
    reason = str(getattr(error, "reason", None) or "")  # an SSLError raised by Python code has none
    return reason, reason.partition("_ALERT_")[2]


def _refused_here(error: ssl.SSLCertVerificationError, certificate: str, accepted: bool | None) -> TlsError:
    """Say why OpenSSL does not take a peer's certificate, of which it shows nothing."""
    code, said = error.verify_code, error.verify_message
    if code == faults.EXPIRED:
        return CertificateExpired(
            f"{certificate}, or its CA's, has expired; {faults.clock()}, and if they agree it needs a new one"
        )
    if code == faults.NOT_YET:
        return CertificateExpired(f"{certificate}, or its CA's, is not valid yet; {faults.clock()}")
    if code == faults.PURPOSE:
        use = {True: "clientAuth", False: "serverAuth", None: "serverAuth or clientAuth"}[accepted]
        why = f"lacks {use} in its extended key usage (or digitalSignature in its key usage)"
    elif code == faults.CRITICAL:
        why = "has an extension that is marked critical and not known to OpenSSL: it needs one without"
    elif code in faults.WEAK:
        why = f"is too weak, or its CA's is ({said}): RSA needs 2048 bits, a signature SHA-256 or better"
    elif code in faults.NO_ISSUER:
        why = (
            "was issued by none that this party trusts: it is another CA's, or lacks the certificate of an "
            f"intermediate CA behind it ({said}); {_CA}"
        )
    elif code in faults.BAD_SIGNATURE:
        why = f"is not signed by the CA of that name that this party trusts ({said}); {_CA}"
    else:
        why = f"is not one that this party can trust: {said}"
    return UntrustedCertificate(f"{certificate} {why}")
