"""Two ends of a TLS connection over loopback, and certificates with one thing or another wrong with them."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mpc_spearman.errors import TlsError
from mpc_spearman.wire.certificates import Issued, authority, issue
from mpc_spearman.wire.credentials import Credentials
from mpc_spearman.wire.tls import check_name, client_context, handshake, refused, server_context

NOW = datetime.now(timezone.utc)
DAY = timedelta(days=1)
NOW_VALID = (NOW - DAY, NOW + DAY)
EXPIRED = (NOW - 2 * DAY, NOW - DAY)
NOT_YET = (NOW + DAY, NOW + 2 * DAY)

CA = authority(*NOW_VALID)
OTHER_CA = authority(*NOW_VALID, name="another CA")
NAMESAKE = authority(*NOW_VALID)  # the same name, another key

BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def credentials(folder: Path, own: Issued, trusted: Issued = CA, *behind: Issued) -> Credentials:
    """Write one party's files; `behind` are certificates of intermediate CAs."""
    folder.mkdir(exist_ok=True)
    files = Credentials(folder / "ca.pem", folder / "own.pem", folder / "own.key")
    files.ca.write_bytes(trusted.files()[0])
    files.certificate.write_bytes(b"".join(each.files()[0] for each in (own, *behind)))
    files.key.write_bytes(own.files()[1])
    return files


def good_ones(folder: Path) -> dict[str, Credentials]:
    """Write the files of parties A and B."""
    return {name: credentials(folder / name, issue(CA, name, *NOW_VALID)) for name in ("A", "B")}


def made(
    name: str | x509.Name,
    issuer: Issued | None = CA,
    *,
    key: Any = None,
    ca: bool = False,
    uses: Sequence[x509.ObjectIdentifier] = BOTH,
    validity: tuple[datetime, datetime] = NOW_VALID,
    also: Sequence[tuple[x509.ExtensionType, bool]] = (),
) -> Issued:
    """Make a certificate as a PKI may; without an issuer it is signed by itself. `also`: and if critical."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    if isinstance(name, str):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity[0])
        .not_valid_after(validity[1])
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if uses and not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    for extension, critical in also:
        builder = builder.add_extension(extension, critical)
    return Issued(builder.sign(issuer.key if issuer else key, SHA256()), key)


def signed_with_sha1(name: str, issuer: Issued, folder: Path) -> Issued:
    """Have the openssl command sign, since `cryptography` refuses to."""
    own = made(name, None)  # what openssl is to sign must be signed by itself
    folder.mkdir(parents=True)
    for path, data in zip(("own.pem", "own.key"), own.files(), strict=True):
        (folder / path).write_bytes(data)
    for path, data in zip(("ca.pem", "ca.key"), issuer.files(), strict=True):
        (folder / path).write_bytes(data)
    command = "openssl x509 -in own.pem -sha1 -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 -out sha1.pem"
    try:
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("there is no openssl command here that signs with SHA-1")
    return Issued(x509.load_pem_x509_certificate((folder / "sha1.pem").read_bytes()), own.key)


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
        dialled = socket.create_connection(listener.getsockname(), 10)
        accepted, _ = listener.accept()
    threads = [
        threading.Thread(target=run, args=("server", server, accepted)),
        threading.Thread(target=run, args=("client", client, dialled)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results["server"], results["client"]


def ends(server: Credentials, client: Credentials) -> tuple[object, object]:
    """Let party B accept party A."""
    return meet(secure(server_context(server), "B", "A"), secure(client_context(client), "A", "B"))


def lax(protocol: int, files: Credentials) -> ssl.SSLContext:
    """A context as one of another program may be: it shows weak certificates."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files.ca)
    context.load_cert_chain(files.certificate, files.key)
    return context
