"""Mutual TLS by keys alone: who gets in, what each fault is called at both ends, and what is agreed."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mpc_spearman.errors import PlaintextPeer, TlsError, UnknownKey
from mpc_spearman.identity import Identity
from mpc_spearman.network.connections import hang_up
from mpc_spearman.network.tls import Closed, Tls, anchor, leaf, public_key_of
from mpc_spearman.parties import Party
from support.meetings import KEYS, tls
from support.memory_network import A, B, C
from support.processes import held

End = Callable[[socket.socket], Any]


def answering(party: Tls, peer: Party | None = None) -> End:
    """Return an end that answers, sends hello, and returns the caller, its greeting and the connection."""

    def end(raw: socket.socket) -> Any:
        connection, caller = party.answer(raw, peer)
        with connection:
            connection.sendall(b"hello")
            return caller, connection.recv(10), connection

    return end


def calling(party: Tls, peer: Party) -> End:
    def end(raw: socket.socket) -> Any:
        with party.call(raw, peer) as connection:
            try:
                greeting = connection.recv(10)
            except OSError as error:  # at the first read
                raise party.refused_key(error, peer) or error from None
            connection.sendall(b"hello")
            return peer, greeting, connection

    return end


def meet(server: End, client: End) -> tuple[Any, Any]:
    """Connect two ends over loopback; return what each returned or raised."""

    def run(end: End, connection: socket.socket) -> Any:
        with connection:
            connection.settimeout(10)
            try:
                return end(connection)
            except Exception as error:
                return error

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname(), 10)
        accepted, _ = listener.accept()
    with ThreadPoolExecutor(1) as pool:
        at_server = pool.submit(run, server, accepted)
        at_client = run(client, dialled)
        return at_server.result(), at_client


@pytest.mark.parametrize("expected", [None, A], ids=["any party", "one party"])
def test_two_parties_connect_by_tls_1_3_and_know_each_other(expected: Party | None) -> None:
    at_server, at_client = meet(answering(tls("C"), expected), calling(tls("A"), C))
    assert at_server[:2] == (A, b"hello")
    assert at_client[:2] == (C, b"hello")
    for _, _, connection in (at_server, at_client):
        assert connection.context.minimum_version == connection.context.maximum_version
        assert connection.context.minimum_version == ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize("protocol", [ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT])
def test_contexts_have_no_way_around_the_checks(
    protocol: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    context = tls("A")._context(protocol, [KEYS["B"].public])
    assert not any("identity" in file for file in held()[0])  # the key's file is gone
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1  # not the system's
    assert context.keylog_filename is None
    assert protocol == ssl.PROTOCOL_TLS_CLIENT or context.num_tickets == 0


def test_certificates_name_keys_and_pass_strict_verification() -> None:
    """OpenSSL checks them leniently here, but may become stricter one day."""
    party = tls("A")
    strict = [
        party._context(kind, [KEYS["A"].public])
        for kind in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER)
    ]
    for context in strict:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    client, server = strict

    def shake(context: ssl.SSLContext, *, server_side: bool) -> End:
        def end(raw: socket.socket) -> Any:
            with context.wrap_socket(raw, server_side=server_side) as connection:
                connection.sendall(b"x")
                connection.recv(1)
                return connection.getpeercert(binary_form=True)

        return end

    for shown in meet(shake(server, server_side=True), shake(client, server_side=False)):
        certificate = x509.load_der_x509_certificate(shown)
        assert public_key_of(shown) == KEYS["A"].public
        (subject,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        (issuer,) = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert subject.value == "mpc-spearman"
        assert issuer.value == hashlib.sha256(KEYS["A"].public).hexdigest()
        assert certificate.not_valid_after_utc.year - certificate.not_valid_before_utc.year > 8000


def test_a_stranger_is_refused_at_both_ends_and_its_key_named() -> None:
    stranger = Identity.new()
    at_server, at_client = meet(answering(tls("C")), calling(tls("A", own=stranger), C))
    assert type(at_server) is type(at_client) is UnknownKey
    assert str(at_server) == "a caller's key is not in this plan"
    assert str(at_client) == f"C's plan lacks our key {stranger}"
    assert at_client.heard


@pytest.mark.parametrize("side", ["server", "client"])
def test_another_partys_key_is_refused(side: str) -> None:
    """B's key is only B's, at a host that was dialled, and inside a forwarded connection."""
    if side == "server":
        expected, (error, _) = A, meet(answering(tls("C"), A), calling(tls("B"), C))
    else:
        expected, (_, error) = C, meet(answering(tls("B")), calling(tls("A"), C))
    assert type(error) is UnknownKey
    problem = f"what answers as {expected} does not have the key of this plan, {KEYS[expected.name]}"
    assert problem in str(error)


def test_a_listener_does_not_take_its_own_key() -> None:
    at_server, _ = meet(answering(tls("C")), calling(tls("A", own=KEYS["C"]), C))
    assert str(at_server) == "a caller's key is not in this plan"


def forged(signer: Identity, shown: Identity) -> bytes:
    """Return a certificate for a key, signed by another one, in the name of A."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A")])
    issuer = x509.load_der_x509_certificate(anchor(signer.public)).subject
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(shown.key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(2100, 1, 1))
        .sign(signer.key, None)
        .public_bytes(Encoding.PEM)
    )


@pytest.mark.parametrize("expected", [None, B], ids=["any party", "one party"])
@pytest.mark.parametrize(("signer", "shown"), [("B", "B"), ("B", "D"), ("D", "B"), ("D", "D")])
def test_a_leaf_counts_only_with_a_partys_key_and_signature(
    expected: Party | None, signer: str, shown: str
) -> None:
    """Whatever name it has. OpenSSL takes D's key signed by B: B's anchor may sign for other keys."""
    caller, key = tls("B"), KEYS[shown].key
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    caller._certificate = forged(KEYS[signer], KEYS[shown]) + private
    at_server, _ = meet(answering(tls("C"), expected), calling(caller, C))
    if signer == shown == "B":
        assert at_server[0] == B
    else:
        assert type(at_server) is UnknownKey


def test_a_client_without_a_certificate_is_refused() -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE

    def end(raw: socket.socket) -> Any:
        with bare.wrap_socket(raw) as connection:
            return connection.recv(10)

    at_server, at_client = meet(answering(tls("C")), end)
    assert str(at_server) == "a caller shows no key"
    assert not isinstance(at_client, bytes) or at_client == b""


@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("data", [b"\x01" * 64, b"GET / HTTP/1.1\r\n\r\n", b"SPRM" + bytes(60), b""])
def test_a_peer_without_tls_or_that_closes_is_named_so(role: str, data: bytes) -> None:
    def plain(raw: socket.socket) -> None:
        raw.sendall(data)
        with suppress(OSError):
            while data and raw.recv(4096):
                pass

    ends = (answering(tls("C")), plain) if role == "server" else (plain, calling(tls("A"), C))
    assert type(meet(*ends)[role == "client"]) is (PlaintextPeer if data else Closed)


def test_sent_bytes_arrive_after_hanging_up_on_a_peer_without_tls() -> None:
    """Closing with unread bytes would be a reset, which discards what has not left."""
    sent_plainly, stuck = threading.Event(), threading.Event()

    def end(raw: socket.socket) -> int:
        connection, _ = tls("C").answer(raw)
        with connection:
            assert sent_plainly.wait(10)
            connection.setblocking(False)
            sent = 0
            with suppress(ssl.SSLWantWriteError):
                while True:
                    sent += connection.send(bytes(1 << 14))
            stuck.set()
            hang_up(connection, 10.0)
            return sent

    def peer(raw: socket.socket) -> int:
        with tls("A").call(raw, C) as connection:
            socket.SocketType.send(connection, bytes(100))
            sent_plainly.set()
            assert stuck.wait(10)
            time.sleep(0.1)
            return sum(map(len, iter(lambda: connection.recv(1 << 14), b"")))

    sent, received = meet(end, peer)
    assert received == sent


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_connection_that_the_peer_has_reset_is_closed(role: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        raw = socket.create_connection(listener.getsockname(), 10)
        accepted, _ = listener.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted.close()  # by a reset
    number = raw.fileno()
    with pytest.raises(ConnectionError):
        answering(tls("C"))(raw) if role == "server" else calling(tls("A"), C)(raw)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_connection_that_is_shut_down_is_still_read_in_tls() -> None:
    def end(raw: socket.socket) -> bytes:
        with tls("A").call(raw, C) as connection:
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(10)

    assert meet(answering(tls("C")), end)[1] == b"hello"


def earlier(party: Tls, protocol: int, trusted: list[bytes]) -> ssl.SSLContext:
    """Return a context of TLS 1.2 alone."""
    context = Tls._context(party, protocol, trusted)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_peer_with_tls_1_2_only_is_refused(role: str) -> None:
    old = tls("C" if role == "server" else "A")
    old._context = partial(earlier, old)  # type: ignore[method-assign]
    old.server = old._context(ssl.PROTOCOL_TLS_SERVER, [KEYS["A"].public])
    for error in meet(
        answering(old if role == "server" else tls("C")), calling(old if role == "client" else tls("A"), C)
    ):
        assert type(error) is TlsError
        assert "TLS 1.3 with Ed25519 keys in common; on either machine see the policy" in str(error)


def test_a_policy_that_forbids_our_keys_is_an_error_before_connecting(tmp_path: Path) -> None:
    """OpenSSL reads its policy as a process begins: here one that allows RSA alone."""
    policy = tmp_path / "openssl.cnf"
    policy.write_text(
        "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\n"
        "SignatureAlgorithms = RSA-PSS+SHA256\n"
    )
    body = "from support.meetings import tls\ntls('A').check()"
    ran = subprocess.run(
        [sys.executable, "-c", body],
        env={**os.environ, "OPENSSL_CONF": str(policy), "PYTHONPATH": "tests"},
        capture_output=True,
        text=True,
    )
    assert "TlsError: this machine does not allow TLS 1.3 with Ed25519 keys" in ran.stderr


def test_no_text_form_shows_a_key() -> None:
    private = KEYS["A"].key.private_bytes_raw()
    assert repr(tls("A")) == f"Tls({KEYS['A']})"
    assert private.hex() not in repr(KEYS["A"])
    assert public_key_of(b"no certificate") is None
    assert public_key_of(ssl.PEM_cert_to_DER_cert(leaf(KEYS["A"].key).decode())) == KEYS["A"].public
