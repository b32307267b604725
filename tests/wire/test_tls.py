"""Mutual TLS over real sockets: what each fault is called at both ends, and what is agreed without one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from mpc_spearman.errors import CertificateExpired, PlaintextPeer, TlsError, UntrustedCertificate, WrongName
from mpc_spearman.wire import certificates
from mpc_spearman.wire.certificates import Issued, authority, issue
from mpc_spearman.wire.tls import (
    Credentials,
    check_name,
    check_own,
    client_context,
    explain,
    handshake,
    refused,
    server_context,
)

NOW = datetime.now(timezone.utc)
DAY = timedelta(days=1)
NOW_VALID = (NOW - DAY, NOW + DAY)
EXPIRED = (NOW - 2 * DAY, NOW - DAY)
NOT_YET = (NOW + DAY, NOW + 2 * DAY)

CA = authority(*NOW_VALID)
OTHER_CA = authority(*NOW_VALID, name="another CA")
NAMESAKE = authority(*NOW_VALID)  # the same name, another key


def credentials(folder: Path, own: Issued, trusted: Issued = CA) -> Credentials:
    folder.mkdir(exist_ok=True)
    files = Credentials(folder / "ca.pem", folder / "own.pem", folder / "own.key")
    files.ca.write_bytes(trusted.files()[0])
    for path, data in zip((files.certificate, files.key), own.files(), strict=True):
        path.write_bytes(data)
    return files


@pytest.fixture
def good(tmp_path: Path) -> dict[str, Credentials]:
    return {name: credentials(tmp_path / name, issue(CA, name, *NOW_VALID)) for name in ("A", "B")}


End = Callable[[socket.socket], object]


def secure(context: ssl.SSLContext, party: str, peer: str) -> End:
    """One party's end: shake hands, check the name, greet, and explain what fails."""

    def end(raw: socket.socket) -> object:
        try:
            with handshake(raw, context, f"party {peer}") as connection:
                check_name(connection, peer)
                connection.sendall(party.encode())
                heard = connection.recv(100)
                return heard.decode(), connection.version(), connection.cipher()
        except OSError as error:  # at the first read
            return refused(error, f"party {peer}") or error
        except TlsError as error:
            return error

    return end


def meet(server: End, client: End) -> tuple[object, object]:
    """Connect two ends over loopback; return what each returned."""
    results: dict[str, object] = {}

    def run(name: str, end: End, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            results[name] = end(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = socket.create_connection(listener.getsockname(), 10)
        accepted, _ = listener.accept()
    threads = [
        threading.Thread(target=run, args=("server", server, accepted)),
        threading.Thread(target=run, args=("client", client, made)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results["server"], results["client"]


def ends(server: Credentials, client: Credentials) -> tuple[object, object]:
    return meet(secure(server_context(server), "B", "A"), secure(client_context(client), "A", "B"))


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


# ---- a fault of one party's certificate: both ends say what it is, as far as TLS tells them


@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize(
    ("issuer", "validity", "here", "there"),
    [
        (CA, EXPIRED, CertificateExpired, CertificateExpired),
        # TLS has no alert for "not yet": the other end hears that its certificate is bad.
        (CA, NOT_YET, CertificateExpired, UntrustedCertificate),
        (OTHER_CA, NOW_VALID, UntrustedCertificate, UntrustedCertificate),
        (NAMESAKE, NOW_VALID, UntrustedCertificate, UntrustedCertificate),
    ],
    ids=["expired", "not yet valid", "another CA", "a CA of the same name"],
)
def test_a_bad_certificate_has_its_class_at_both_ends(
    role: str,
    issuer: Issued,
    validity: tuple[datetime, datetime],
    here: type[TlsError],
    there: type[TlsError],
    good: dict[str, Credentials],
    tmp_path: Path,
) -> None:
    name = {"server": "B", "client": "A"}[role]
    bad = credentials(tmp_path / "bad", issue(issuer, name, *validity))
    both = ends(**{"server": good["B"], "client": good["A"], role: bad})
    finder, bearer = both if role == "client" else both[::-1]
    assert type(finder) is here
    assert f"the certificate of party {name}" in str(finder)
    assert type(bearer) is there
    assert "refused this party's certificate" in str(bearer)


def test_a_ca_that_has_expired(tmp_path: Path) -> None:
    ca = authority(*EXPIRED)
    own = credentials(tmp_path / "own", issue(ca, "A", *NOW_VALID), trusted=ca)
    with pytest.raises(CertificateExpired, match="or its CA's, has expired"):
        check_own(own, "A")


def test_a_certificate_for_one_end_only(tmp_path: Path) -> None:
    key = issue(CA, "A", *NOW_VALID).key
    usage = x509.ExtendedKeyUsage([certificates.ExtendedKeyUsageOID.SERVER_AUTH])
    builder = certificates._builder(certificates._name("A"), CA.certificate.subject, key, CA.key, *NOW_VALID)
    own = Issued(builder.add_extension(usage, critical=False).sign(CA.key, certificates.SHA256()), key)
    with pytest.raises(UntrustedCertificate, match="purpose"):
        check_own(credentials(tmp_path / "own", own), "A")


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
    assert "is missing" in str(at_client)


@pytest.mark.parametrize("count", [0, 2])
def test_a_certificate_without_one_common_name(
    count: int, good: dict[str, Credentials], tmp_path: Path
) -> None:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "A")]
    names += [x509.NameAttribute(NameOID.COMMON_NAME, "A")] * count
    key = issue(CA, "A", *NOW_VALID).key
    builder = certificates._builder(x509.Name(names), CA.certificate.subject, key, CA.key, *NOW_VALID)
    own = Issued(builder.sign(CA.key, certificates.SHA256()), key)
    bad = credentials(tmp_path / "bad", own)
    at_server, _ = ends(good["B"], bad)
    assert type(at_server) is WrongName
    assert "one Common Name" in str(at_server)


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
    assert "does not speak TLS 1.3" in str(found[0 if role == "client" else 1])


def test_other_errors_are_explained_too() -> None:
    assert "party B did not answer" in str(explain(TimeoutError("timed out"), "party B"))
    assert str(explain(OSError(113, "No route to host"), "party B")).endswith("failed: No route to host")
    assert refused(ConnectionResetError(104, "Connection reset by peer"), "party B") is None
    odd = ssl.SSLError(1, "odd")
    assert type(explain(odd, "party B")) is TlsError
    reset = explain(ConnectionResetError(104, "Connection reset by peer"), "party B")
    assert type(reset) is TlsError
    assert "its own error says which" in str(reset)


# ---- this party's own files


def test_own_files_are_checked_before_anyone_connects(good: dict[str, Credentials], tmp_path: Path) -> None:
    check_own(good["A"], "A")
    with pytest.raises(WrongName, match=r"party B should be there.*'A'.*own\.pem"):
        check_own(good["A"], "B")
    for issuer, validity, error in (
        (CA, EXPIRED, CertificateExpired),
        (CA, NOT_YET, CertificateExpired),
        (OTHER_CA, NOW_VALID, UntrustedCertificate),
    ):
        with pytest.raises(error, match="party A's own certificate") as caught:
            check_own(credentials(tmp_path / "own", issue(issuer, "A", *validity)), "A")
        assert type(caught.value) is error


@pytest.mark.parametrize("what", ["ca", "certificate", "key"])
def test_a_file_that_is_missing_or_something_else_is_named(
    what: str, good: dict[str, Credentials], tmp_path: Path
) -> None:
    path = getattr(good["A"], what)
    path.write_text("not PEM")
    with pytest.raises(TlsError, match="in PEM") as caught:
        server_context(good["A"])
    assert str(path) in str(caught.value)
    path.unlink()
    with pytest.raises(TlsError, match="cannot be read") as caught:
        client_context(good["A"])
    assert str(path) in str(caught.value)
    assert "No such file" in str(caught.value)


def test_a_key_of_another_certificate(good: dict[str, Credentials]) -> None:
    good["A"].key.write_bytes(good["B"].key.read_bytes())
    with pytest.raises(TlsError, match="does not belong to the certificate"):
        server_context(good["A"])


def test_a_key_with_a_passphrase_is_refused_without_asking(good: dict[str, Credentials]) -> None:
    key = issue(CA, "A", *NOW_VALID).key
    locked = BestAvailableEncryption(b"secret")
    good["A"].key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    with pytest.raises(TlsError, match="protected by a passphrase"):
        server_context(good["A"])


def test_nothing_shows_more_than_paths(good: dict[str, Credentials]) -> None:
    assert "PRIVATE" not in repr(good["A"])
    assert repr(issue(CA, "A", *NOW_VALID)).startswith("<mpc_spearman.wire.certificates.Issued object")
