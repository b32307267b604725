"""Certificates made in memory, which make Python's ``ssl`` trust one public key.

They name keys, never parties. A party signs its leaf certificate with its own key, and the leaf's issuer is
named by the SHA-256 of that key. The peers make the issuer's certificate themselves, for the public key that
their plan has for the party. It is a trust anchor, so OpenSSL checks neither its signature nor its dates (RFC
5280, 6.1.1). So whoever completes the handshake has the private key of an anchor, or a leaf signed with one.
Which party that is depends on the leaf's public key alone (:func:`public_key_of`), never on a name. Both
certificates are valid for ever, and pass ``VERIFY_X509_STRICT``.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

_ALWAYS = datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59)


def leaf(key: Ed25519PrivateKey) -> bytes:
    """Return the certificate that the owner of a key shows; PEM."""
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
    except Exception:  # of whatever kind: a peer has made it
        return None
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None


def _name_of(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _signed(
    subject: str, issuer: str, public: Ed25519PublicKey, signer: Ed25519PrivateKey, *, ca: bool
) -> x509.Certificate:
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign",
         "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(subject))
        .issuer_name(_common_name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_ALWAYS[0])
        .not_valid_after(_ALWAYS[1])
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=not ca, key_cert_sign=ca, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(signer, None)
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
