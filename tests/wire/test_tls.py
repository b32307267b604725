"""Mutual TLS over real sockets: what each fault is called at both ends, and what is agreed without one."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from mpc_spearman.errors import PlaintextPeer, TlsError, UntrustedCertificate, WrongName
from mpc_spearman.wire.certificates import Issued, issue
from mpc_spearman.wire.credentials import Credentials
from mpc_spearman.wire.tls import (
    check_own,
    check_peer,
    client_context,
    explain,
    fingerprint,
    handshake,
    refused,
    server_context,
)
from support.tls_ends import CA, NOW_VALID, credentials, ends, good_ones, made, meet, secure


@pytest.fixture
def good(tmp_path: Path) -> dict[str, Credentials]:
    return good_ones(tmp_path)


# ---- without a fault


def test_two_parties_meet_under_tls_1_3_with_an_aead_cipher(good: dict[str, Credentials]) -> None:
    at_server, at_client = ends(good["B"], good["A"])
    assert isinstance(at_server, tuple)
    assert isinstance(at_client, tuple)
    assert (at_server[0], at_client[0]) == ("A", "B")
    for _, version, cipher in (at_server, at_client):
        assert version == "TLSv1.3"
        assert cipher[0] in {
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_AES_128_GCM_SHA256",
        }


def test_contexts_have_no_way_around_the_checks(
    good: dict[str, Credentials], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    for context in (server_context(good["A"]), client_context(good["A"])):
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3
        assert len(context.get_ca_certs()) == 1  # not the system's
        assert context.keylog_filename is None
    assert server_context(good["A"]).num_tickets == 0


@pytest.mark.parametrize("name", ["A", "St. Mary's, Ward 3", "München 2", "日本の病院", "x" * 64, "CN, O"])
def test_any_party_name_comes_back_exactly(name: str, tmp_path: Path) -> None:
    own = credentials(tmp_path / "own", issue(CA, name, *NOW_VALID))
    check_own(own, name)
    for other in (name + " ", name.swapcase() + "x", name[:-1]):
        with pytest.raises(WrongName):
            check_own(own, other)


# ---- names


@pytest.mark.parametrize("role", ["server", "client"])
def test_another_partys_certificate(role: str, good: dict[str, Credentials], tmp_path: Path) -> None:
    bad = credentials(tmp_path / "bad", issue(CA, "D", *NOW_VALID))
    at_server, at_client = ends(**{"server": good["B"], "client": good["A"], role: bad})
    finder = at_server if role == "client" else at_client
    assert type(finder) is WrongName
    assert f"party {'A' if role == 'client' else 'B'} should be there" in str(finder)
    assert "'D'" in str(finder)


def test_a_client_without_a_certificate(good: dict[str, Credentials]) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(good["A"].ca)
    at_server, at_client = meet(secure(server_context(good["B"]), "B", "A"), secure(bare, "A", "B"))
    assert type(at_server) is UntrustedCertificate
    assert "party A showed no certificate" in str(at_server)
    assert type(at_client) is UntrustedCertificate
    assert "it got none" in str(at_client)


def name_of(*alternatives: x509.GeneralName, common: tuple[str, ...] = ()) -> Issued:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common]
    subject = x509.Name(parts or [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "A")])
    return made(subject, also=[(x509.SubjectAlternativeName(alternatives), False)] if alternatives else [])


URI, DNS = x509.UniformResourceIdentifier, x509.DNSName
NAMES = {
    "a common name": ("A", name_of(common=("A",))),
    "a DNS name": ("clinic.example.org", name_of(DNS("clinic.example.org"), common=("x",))),
    "a URI": ("Ward 3, München", name_of(URI("urn:mpc-spearman:party:Ward%203%2C%20M%C3%BCnchen"))),
    "one of several": ("A", name_of(DNS("x"), DNS("A"), URI("https://example.org"), common=("y",))),
}


@pytest.mark.parametrize(("party", "own"), NAMES.values(), ids=NAMES.keys())
def test_a_party_is_named_in_any_of_three_places(party: str, own: Issued, tmp_path: Path) -> None:
    bad = credentials(tmp_path / "own", own)
    check_own(bad, party)
    for other in (party.swapcase(), party + " ", party[:-1] + "X", f"{party}.example.org"):
        with pytest.raises(WrongName, match=r"own certificate .*own\.pem names '"):
            check_own(bad, other)


NOT_NAMES = {
    "none": name_of(),
    "another case": name_of(DNS("a"), URI("urn:mpc-spearman:party:a"), common=("a",)),
    "another URI": name_of(URI("A"), URI("urn:party:A"), URI("URN:mpc-spearman:party:A")),
    "a URI written otherwise": name_of(URI("urn:mpc-spearman:party:%41")),
    "a wildcard": name_of(DNS("*")),
    "an address": name_of(x509.RFC822Name("A@example.org")),
    "an organisation": name_of(common=("an A",)),
}


@pytest.mark.parametrize("own", NOT_NAMES.values(), ids=NOT_NAMES.keys())
def test_what_does_not_name_a_party(own: Issued, good: dict[str, Credentials], tmp_path: Path) -> None:
    bad = credentials(tmp_path / "bad", own)
    with pytest.raises(WrongName, match="party A's own certificate"):
        check_own(bad, "A")
    at_server, _ = ends(good["B"], bad)
    assert type(at_server) is WrongName
    assert "party A should be there" in str(at_server)


# ---- pins


def test_a_pin_takes_that_certificate_and_no_other_of_the_name(
    good: dict[str, Credentials], tmp_path: Path
) -> None:
    def pinned(pin: str | None) -> Callable[[socket.socket], object]:
        def end(raw: socket.socket) -> object:
            with handshake(raw, server_context(good["B"]), "party A") as connection:
                try:
                    check_peer(connection, "A", pin)
                except TlsError as error:
                    return error
            return None

        return end

    def fingerprint_of(files: Credentials) -> str:
        return fingerprint(ssl.PEM_cert_to_DER_cert(files.certificate.read_text()))

    client = secure(client_context(good["A"]), "A", "B")
    again = credentials(tmp_path / "again", issue(CA, "A", *NOW_VALID))
    pin, other = fingerprint_of(good["A"]), fingerprint_of(again)
    assert re.fullmatch("sha256:[0-9a-f]{64}", pin)
    assert meet(pinned(pin), client)[0] is None
    assert meet(pinned(None), client)[0] is None
    refusal = meet(pinned(other), client)[0]
    assert type(refusal) is UntrustedCertificate
    assert f"the certificate of party A is {pin}, and this party's network.pins has {other}" in str(refusal)
    as_b = meet(pinned(pin), secure(client_context(good["B"]), "A", "B"))[0]
    assert type(as_b) is WrongName


# ---- a peer that speaks something else


@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("said", [b"\x01" * 64, b"GET / HTTP/1.1\r\n\r\n", b"SPRM" + bytes(60)])
def test_a_peer_in_plaintext(role: str, said: bytes, good: dict[str, Credentials]) -> None:
    def plain(raw: socket.socket) -> object:
        raw.sendall(said)
        with suppress(OSError):
            while raw.recv(4096):
                pass
        return None

    if role == "server":
        found, _ = meet(secure(server_context(good["B"]), "B", "A"), plain)
    else:
        _, found = meet(plain, secure(client_context(good["A"]), "A", "B"))
    assert type(found) is PlaintextPeer
    assert f"party {'A' if role == 'server' else 'B'} does not speak TLS" in str(found)


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_peer_that_closes_in_the_handshake(role: str, good: dict[str, Credentials]) -> None:
    def gone(raw: socket.socket) -> object:
        return raw.close()

    if role == "server":
        found, _ = meet(secure(server_context(good["B"]), "B", "A"), gone)
    else:
        _, found = meet(gone, secure(client_context(good["A"]), "A", "B"))
    assert type(found) is TlsError
    assert "closed the connection in the TLS handshake" in str(found)


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_peer_of_tls_1_2_only(role: str, good: dict[str, Credentials]) -> None:
    contexts = {"server": server_context(good["B"]), "client": client_context(good["A"])}
    old = contexts[role]
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    found = meet(secure(contexts["server"], "B", "A"), secure(contexts["client"], "A", "B"))
    for error in found:
        assert type(error) is TlsError
    assert "has no TLS 1.3 in common with this party" in str(found[0 if role == "client" else 1])


def test_other_errors_are_explained_too() -> None:
    assert "party B did not answer" in str(explain(TimeoutError("timed out"), "party B"))
    assert str(explain(OSError(113, "No route to host"), "party B")).endswith("failed: No route to host")
    assert refused(ConnectionResetError(104, "Connection reset by peer"), "party B") is None
    odd = ssl.SSLError(1, "odd")
    assert type(explain(odd, "party B")) is TlsError
    reset = explain(ConnectionResetError(104, "Connection reset by peer"), "party B")
    assert type(reset) is TlsError
    assert "its own error says which" in str(reset)


def test_nothing_shows_more_than_paths(good: dict[str, Credentials]) -> None:
    assert "PRIVATE" not in repr(good["A"])
    assert repr(issue(CA, "A", *NOW_VALID)).startswith("<mpc_spearman.wire.certificates.Issued object")
