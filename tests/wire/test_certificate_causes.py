"""What is wrong with a certificate, by its cause: told to its owner at once, and at both ends.

The owner is told the cause. A peer knows less: OpenSSL gives it a verdict, and TLS an alert.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from mpc_spearman.errors import CertificateExpired, TlsError, UntrustedCertificate
from mpc_spearman.wire.certificates import issue
from mpc_spearman.wire.credentials import Credentials
from mpc_spearman.wire.tls import check_own, client_context, server_context
from support.tls_ends import (
    BOTH,
    CA,
    DAY,
    EXPIRED,
    NAMESAKE,
    NOT_YET,
    NOW,
    NOW_VALID,
    OTHER_CA,
    credentials,
    good_ones,
    lax,
    made,
    meet,
    secure,
    signed_with_sha1,
)

SERVER_AUTH, CLIENT_AUTH = BOTH
ROOT = made("the root", None, ca=True)
MIDDLE = made("a middle", ROOT, ca=True)
WEAK_ROOT = made("a weak root", None, ca=True, key=rsa.generate_private_key(65537, 1024))
CRITICAL = (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"), True)
NO_SIGNATURES = (x509.KeyUsage(False, False, True, *[False] * 6), True)
TODAY = f"{NOW:%Y-%m-%d}"


def one(trusted: Any = CA, *behind: Any, **how: Any) -> Callable[[str, Path], Credentials]:
    """A party's files: a certificate made so, with those behind it, and the CA file."""
    return lambda name, folder: credentials(folder, made(name, **how), trusted, *behind)


def sha1(name: str, folder: Path) -> Credentials:
    return credentials(folder, signed_with_sha1(name, CA, folder / "signed"))


@dataclass(frozen=True)
class Cause:
    """A party's files, and what is said of them.

    Attributes
    ----------
    files : callable
        Writes them: name, folder.
    own : tuple of str
        Words of the party's own check.
    found, refused : str
        Words of a peer that refuses the certificate, and of the party whose it is, in a handshake.
    kind, refused_kind : type
        Classes of the errors: of the own check and the peer; of the party that is refused.
    roles : tuple of str
        In which role the party is refused.
    trusted : Issued
        What the peer trusts.
    """

    files: Callable[[str, Path], Credentials]
    own: tuple[str, ...]
    found: str
    refused: str
    kind: type[TlsError] = UntrustedCertificate
    refused_kind: type[TlsError] = UntrustedCertificate
    roles: tuple[str, ...] = ("server", "client")
    trusted: Any = CA


CAUSES = {
    "expired": Cause(
        one(validity=EXPIRED),
        (
            f"it has expired: it is valid from {EXPIRED[0]:%Y-%m-%d %H:%M} UTC to "
            f"{EXPIRED[1]:%Y-%m-%d %H:%M} UTC",
            f"by this host's clock it is {TODAY}",
            "compare the hosts' clocks",
        ),
        f"has expired; by this host's clock it is {TODAY}",
        "by its clock it, or its CA's, has expired; by this host's clock it is",
        CertificateExpired,
        CertificateExpired,
    ),
    "a clock two years ahead": Cause(
        one(validity=(NOW - 830 * DAY, NOW - 465 * DAY)),
        ("has expired: it is valid from", "compare the hosts' clocks, and if this one is right get a new"),
        "compare the hosts' clocks",
        "compare the hosts' clocks",
        CertificateExpired,
        CertificateExpired,
    ),
    "not valid yet": Cause(
        one(validity=NOT_YET),
        ("it is not valid yet: it is valid from", "compare the hosts' clocks"),
        "is not valid yet; by this host's clock it is",
        "by its clock it is not valid yet",  # TLS has no alert for it
        CertificateExpired,
    ),
    "another CA": Cause(
        one(issuer=OTHER_CA),
        ("it was issued by 'another CA', which is neither in", "(it holds 'mpc_spearman trial CA')"),
        "was issued by none that this party trusts: it is another CA's, or lacks",
        "it does not know the CA that issued it",
    ),
    "another CA, in the file": Cause(
        one(CA, OTHER_CA, issuer=OTHER_CA),
        (
            "its CA 'another CA' is signed by itself, and is not a CA of",
            "which holds 'mpc_spearman trial CA'",
        ),
        "was issued by none that this party trusts",
        "it does not know the CA that issued it",
    ),
    "signed by itself": Cause(
        one(issuer=None),
        ("it is signed by itself, and is not a CA of",),
        "was issued by none that this party trusts",
        "it does not know the CA that issued it",
    ),
    "another CA of the same name": Cause(
        one(issuer=NAMESAKE),
        ("it was not signed by the CA of", "two CAs of one name"),
        "is not signed by the CA of that name that this party trusts",
        "it is not signed by the CA that party trusts",
    ),
    "an intermediate CA missing": Cause(
        one(ROOT, issuer=MIDDLE),
        (
            "it was issued by 'a middle', which is neither in",
            "(it holds 'the root') nor follows in",
            "If 'a middle' is an intermediate CA, append its certificate there",
        ),
        "or lacks the certificate of an intermediate CA behind it",
        "an intermediate CA's certificate is missing behind this party's own",
        trusted=ROOT,
    ),
    "serverAuth only": Cause(
        one(uses=[SERVER_AUTH]),
        ("it lacks clientAuth (for connections that it makes) in its extended key usage",),
        "lacks clientAuth in its extended key usage",
        "in its extended key usage a party needs serverAuth and clientAuth",
        roles=("client",),
    ),
    "clientAuth only": Cause(
        one(uses=[CLIENT_AUTH]),
        ("it lacks serverAuth (for connections that the party accepts) in its extended key usage",),
        "lacks serverAuth in its extended key usage",
        "in its extended key usage a party needs serverAuth and clientAuth",
        roles=("server",),
    ),
    "for e-mail only": Cause(
        one(uses=[x509.ObjectIdentifier("1.3.6.1.5.5.7.3.4")]),
        ("it lacks serverAuth", "and clientAuth"),
        "in its extended key usage",
        "in its extended key usage a party needs serverAuth and clientAuth",
    ),
    "not for signatures": Cause(
        one(also=[NO_SIGNATURES]),
        ("it lacks digitalSignature in its key usage",),
        "or digitalSignature in its key usage",
        "it is not made for this end of a connection",
        roles=("client",),
    ),
    "an unknown critical extension": Cause(
        one(also=[CRITICAL]),
        ("it has an extension that is marked critical and that OpenSSL does not know (1.3.6.1.4.1.99999.1)",),
        "has an extension that is marked critical and not known to OpenSSL",
        "it has an extension marked critical that is not known there",
    ),
    "a key of 1024 bits": Cause(
        one(key=rsa.generate_private_key(65537, 1024)),
        ("it has a key of 1024 bits; 2048 are the least",),
        "is too weak, or its CA's is (EE certificate key too weak)",
        "or it is weaker than that party allows",
    ),
    "a CA's key of 1024 bits": Cause(
        one(WEAK_ROOT, issuer=WEAK_ROOT),
        ("its CA 'a weak root' has a key of 1024 bits",),
        "is too weak, or its CA's is (CA certificate key too weak)",
        "or it is weaker than that party allows",
        roles=("server",),  # a peer that accepts stops at its own, of the same CA
        trusted=WEAK_ROOT,
    ),
    "signed with SHA-1": Cause(
        sha1,
        ("it is signed with SHA1, which can be forged",),
        "is too weak, or its CA's is (CA signature digest algorithm too weak)",
        "or it is weaker than that party allows",
    ),
    "a curve that TLS 1.3 has no signatures for": Cause(
        one(key=ec.generate_private_key(ec.SECP256K1())),
        ("its key is of curve secp256k1, which TLS 1.3 has no signatures for: use P-256",),
        "showed no certificate, or has one whose key TLS 1.3 cannot use",
        "it got none: there is none, or its key is one that TLS 1.3 cannot use",
        roles=("client",),
    ),
}


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES.keys())
def test_the_owner_is_told_the_cause(cause: Cause, tmp_path: Path) -> None:
    files = cause.files("A", tmp_path / "A")
    with pytest.raises(TlsError) as caught:
        check_own(files, "A")
    assert type(caught.value) is cause.kind
    assert f"own certificate {files.certificate}: " in str(caught.value)
    assert "peer" not in str(caught.value)
    for words in cause.own:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("cause", "role"),
    [
        pytest.param(cause, role, id=f"{name}, {role}")
        for name, cause in CAUSES.items()
        for role in cause.roles
    ],
)
def test_both_ends_of_a_connection_say_it(cause: Cause, role: str, tmp_path: Path) -> None:
    """The party shows its certificate as a program may that does not look at it."""
    name, peer = {"server": ("B", "A"), "client": ("A", "B")}[role]
    bad = cause.files(name, tmp_path / "bad")
    other = credentials(tmp_path / "other", made(peer, cause.trusted, key=None), cause.trusted)
    protocols = {"server": ssl.PROTOCOL_TLS_SERVER, "client": ssl.PROTOCOL_TLS_CLIENT}
    contexts = {"server": server_context(other), "client": client_context(other)}
    contexts[role] = lax(protocols[role], bad)
    both = meet(secure(contexts["server"], "B", "A"), secure(contexts["client"], "A", "B"))
    bearer, finder = both if role == "server" else both[::-1]
    assert type(finder) is cause.kind
    assert f"party {name}" in str(finder)
    assert cause.found in str(finder)
    assert type(bearer) is cause.refused_kind
    assert f"party {peer} refused this party's certificate: " in str(bearer)
    assert cause.refused in str(bearer)


def test_a_server_whose_key_tls_1_3_cannot_use(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256K1())
    bad, other = credentials(tmp_path / "bad", made("B", key=key)), good_ones(tmp_path)["A"]
    server, client = meet(
        secure(lax(ssl.PROTOCOL_TLS_SERVER, bad), "B", "A"), secure(client_context(other), "A", "B")
    )
    for error, peer in ((server, "A"), (client, "B")):
        assert type(error) is TlsError
        assert f"party {peer} has no TLS 1.3 in common with this party" in str(error)
    assert "a certificate whose key TLS 1.3 cannot use; its own error says which" in str(client)


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(),
        ed448.Ed448PrivateKey.generate(),
        rsa.generate_private_key(65537, 2048),
    ],
    ids=["P-384", "P-521", "Ed25519", "Ed448", "RSA"],
)
def test_every_kind_of_key_that_is_named_can_be_used(key: Any, tmp_path: Path) -> None:
    check_own(credentials(tmp_path / "A", made("A", key=key)), "A")


def test_a_chain_of_two_cas(tmp_path: Path) -> None:
    check_own(credentials(tmp_path / "A", made("A", MIDDLE), ROOT, MIDDLE), "A")


# ---- files that cannot be loaded


def test_a_chain_with_the_leaf_last(tmp_path: Path) -> None:
    own = made("A", MIDDLE)
    files = credentials(tmp_path / "A", own, ROOT)
    files.certificate.write_bytes(MIDDLE.files()[0] + own.files()[0])
    with pytest.raises(TlsError, match="begins with the certificate of 'a middle'") as caught:
        check_own(files, "A")
    assert "belongs to number 2 in it: the party's own certificate comes first" in str(caught.value)


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    good = good_ones(tmp_path)
    good["A"].key.write_bytes(good["B"].key.read_bytes())
    with pytest.raises(TlsError, match=r"the key .* does not belong to the certificate"):
        server_context(good["A"])
    rsa_key = made("A", key=rsa.generate_private_key(65537, 2048))
    good["A"].key.write_bytes(rsa_key.files()[1])
    with pytest.raises(TlsError, match=r"the key .* does not belong to the certificate"):
        client_context(good["A"])


def test_a_key_with_a_passphrase_is_refused_without_asking(tmp_path: Path) -> None:
    good = good_ones(tmp_path)
    locked = BestAvailableEncryption(b"secret")
    key = issue(CA, "A", *NOW_VALID).key
    good["A"].key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    with pytest.raises(TlsError, match="protected by a passphrase"):
        server_context(good["A"])


@pytest.mark.parametrize("what", ["ca", "certificate", "key"])
@pytest.mark.parametrize("content", [b"not PEM", b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_that_is_something_else_is_named(what: str, content: bytes, tmp_path: Path) -> None:
    files = good_ones(tmp_path)["A"]
    path = getattr(files, what)
    path.write_bytes(content)
    with pytest.raises(TlsError, match=f"{path} holds no .* in PEM"):
        server_context(files)


@pytest.mark.parametrize("what", ["ca", "certificate", "key"])
def test_a_file_that_is_missing_is_named(what: str, tmp_path: Path) -> None:
    files = good_ones(tmp_path)["A"]
    getattr(files, what).unlink()
    said = f"network.tls.{what}: .*{getattr(files, what)} cannot be read: No such file"
    with pytest.raises(TlsError, match=said):
        client_context(files)
