"""Why OpenSSL refuses a party's own certificate: its verdict fits several causes, the files say which.

Each function takes the files and returns what is wrong with them, or None where it finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

# What OpenSSL finds: X509_V_ERR_... in its x509_vfy.h.
NOT_YET, EXPIRED = 9, 10
PURPOSE, CRITICAL = 26, 34
#: The issuer is not known, or the chain ends in a certificate that is signed by itself.
NO_ISSUER = (2, 18, 19, 20, 21)
#: The issuer is known by name, but the signature is not by its key.
BAD_SIGNATURE = (7, 30)
WEAK = (66, 67, 68)
#: The same, as OpenSSL calls it when it loads a certificate.
WEAK_FILES = ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK")

#: What `cryptography` raises at certificates and keys that it cannot read, though OpenSSL may.
UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension)

# What TLS 1.3 has signatures for, beside Ed25519, Ed448 and RSA (RFC 8446, 4.2.3).
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
# At OpenSSL's level of security 2, which Python sets: 112 bits.
_RSA_BITS = 2048
_WEAK_HASHES = ("md5", "sha1")
_PURPOSES = {
    ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth (for connections that the party accepts)",
    ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth (for connections that it makes)",
}
# Extensions that OpenSSL follows where they are critical.
_FOLLOWED = {
    ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.CERTIFICATE_POLICIES,
    ExtensionOID.CRL_DISTRIBUTION_POINTS,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.INHIBIT_ANY_POLICY,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.NAME_CONSTRAINTS,
    ExtensionOID.POLICY_CONSTRAINTS,
    ExtensionOID.POLICY_MAPPINGS,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.SUBJECT_KEY_IDENTIFIER,
}
_Extension = TypeVar("_Extension", bound=x509.ExtensionType)


@dataclass(frozen=True)
class Files:
    """What is in the files of one party.

    Attributes
    ----------
    certificate, ca : Path
    chain : sequence of Certificate
        In `certificate`: the party's own, then those of intermediate CAs.
    trusted : sequence of Certificate
        In `ca`.
    """

    certificate: Path
    ca: Path
    chain: Sequence[x509.Certificate]
    trusted: Sequence[x509.Certificate]

    @classmethod
    def read(cls, certificate: Path, ca: Path) -> Files:
        """Read both; raises one of `UNREADABLE`."""
        return cls(certificate, ca, certificates(certificate), certificates(ca))

    def whose(self, certificate: x509.Certificate) -> str:
        """Say which one is meant, after "the party's own certificate:"."""
        return "it" if certificate is self.chain[0] else f"its CA {name(certificate.subject)}"


def certificates(path: Path) -> list[x509.Certificate]:
    """Read the certificates in a PEM file; raises one of `UNREADABLE`."""
    return x509.load_pem_x509_certificates(path.read_bytes())


def name(subject: x509.Name) -> str:
    """Return the Common Name of a subject, or all of it."""
    common = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return repr((str(common[0].value) if common else subject.rfc4514_string())[:64])


def clock() -> str:
    """Say what time it is here: where a date is at issue, it may be the clock that is wrong."""
    return f"by this host's clock it is {_date(datetime.now(timezone.utc))}: compare the hosts' clocks"


def out_of_date(files: Files) -> str | None:
    """Find one that has expired or is not valid yet."""
    now = datetime.now(timezone.utc)
    for each in (*files.chain, *files.trusted):
        start, end = each.not_valid_before_utc, each.not_valid_after_utc
        if not start <= now <= end:
            how = "has expired" if now > end else "is not valid yet"
            return (
                f"{files.whose(each)} {how}: it is valid from {_date(start)} to {_date(end)}, and "
                f"{clock()}, and if this one is right get a new certificate"
            )
    return None


def purpose(files: Files) -> str | None:
    """Find what a certificate must not be used for."""
    for each in files.chain:
        allowed = _extension(each, x509.ExtendedKeyUsage)
        if allowed is not None and not set(_PURPOSES) <= set(allowed):
            missing = " and ".join(text for use, text in _PURPOSES.items() if use not in allowed)
            return (
                f"{files.whose(each)} lacks {missing} in its extended key usage: a party needs serverAuth "
                "and clientAuth, or no extended key usage at all"
            )
    usage = _extension(files.chain[0], x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        return "it lacks digitalSignature in its key usage, by which TLS 1.3 proves who is there"
    return None


def critical(files: Files) -> str | None:
    """Find extensions that must be followed and cannot."""
    for each in (*files.chain, *files.trusted):
        unknown = [
            extension.oid.dotted_string
            for extension in each.extensions
            if extension.critical and extension.oid not in _FOLLOWED
        ]
        if unknown:
            return (
                f"{files.whose(each)} has an extension that is marked critical and that OpenSSL does not "
                f"know ({', '.join(unknown)}), so nobody may accept it: get one without"
            )
    return None


def issuer(files: Files) -> str | None:
    """Find where the chain from the party's own to the CA breaks."""
    last, above = files.chain[0], {each.subject: each for each in files.chain[1:]}
    while last.issuer != last.subject and last.issuer in above:
        last = above.pop(last.issuer)
    holds = ", ".join(sorted({name(each.subject) for each in files.trusted}))
    if last.issuer == last.subject:
        return f"{files.whose(last)} is signed by itself, and is not a CA of {files.ca}, which holds {holds}"
    return (
        f"{files.whose(last)} was issued by {name(last.issuer)}, which is neither in {files.ca} (it holds "
        f"{holds}) nor follows in {files.certificate}. If {name(last.issuer)} is an intermediate CA, append "
        "its certificate there; otherwise this certificate is not from the CA that this party trusts"
    )


def namesake(files: Files) -> str | None:
    """Say that a CA of the right name did not sign it."""
    return (
        f"it was not signed by the CA of {files.ca} that has its issuer's name, "
        f"{name(files.chain[0].issuer)}: that are two CAs of one name, or two keys of one CA; it is not from "
        "the CA that this party trusts"
    )


def weak(files: Files) -> str | None:
    """Find a short key or a hash that can be forged."""
    for each in (*files.chain, *files.trusted):
        key, hashed = each.public_key(), each.signature_hash_algorithm
        if isinstance(key, (rsa.RSAPublicKey, dsa.DSAPublicKey)) and key.key_size < _RSA_BITS:
            return f"{files.whose(each)} has a key of {key.key_size} bits; {_RSA_BITS} are the least"
        # What a root says of itself is not trusted for its signature.
        if each.issuer != each.subject and hashed is not None and hashed.name in _WEAK_HASHES:
            return (
                f"{files.whose(each)} is signed with {hashed.name.upper()}, which can be forged: get one "
                "that is signed with SHA-256 or better"
            )
    return None


def key_kind(files: Files) -> str | None:
    """Find a key that TLS 1.3 cannot sign with."""
    key = files.chain[0].public_key()
    if isinstance(key, (rsa.RSAPublicKey, ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)):
        return None
    kind = type(key).__name__.removesuffix("PublicKey").lstrip("_")
    if isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name in _CURVES:
            return None
        kind = f"curve {key.curve.name}"
    return (
        f"its key is of {kind}, which TLS 1.3 has no signatures for: use P-256, P-384, P-521, Ed25519, "
        f"Ed448, or RSA of {_RSA_BITS} bits or more"
    )


#: Where to look for the cause of a verdict; None is a handshake that failed without one.
CAUSES: dict[int | None, Callable[[Files], str | None]] = {
    None: key_kind,
    NOT_YET: out_of_date,
    EXPIRED: out_of_date,
    PURPOSE: purpose,
    CRITICAL: critical,
    **dict.fromkeys(NO_ISSUER, issuer),
    **dict.fromkeys(BAD_SIGNATURE, namesake),
    **dict.fromkeys(WEAK, weak),
}


def _extension(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _date(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"
