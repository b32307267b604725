"""A CA and certificates for trials: what ``mpc-spearman certs`` makes.

A party's certificate carries the party's name, exactly, as the Common Name of its subject and in a URI of its
subjectAltName, and may be used at both ends of a connection. :mod:`mpc_spearman.wire.tls` asks for one name
and both uses, so certificates of an organisation's own PKI serve as well.

Keys are ECDSA on P-256, which every TLS 1.3 library takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mpc_spearman.config.fields import party_name
from mpc_spearman.errors import OutputError, PlanError
from mpc_spearman.files import create
from mpc_spearman.wire.tls import party_uri

#: A Common Name has room for this much (RFC 5280, ub-common-name; `cryptography` counts bytes).
MAX_NAME_BYTES = 64
CA_NAME = "mpc_spearman trial CA"
_CA_FILE = "ca"
_CLOCKS_APART = timedelta(hours=1)  # another host's clock may be behind this one's


@dataclass(frozen=True, repr=False)
class Issued:
    """A certificate and its key.

    Attributes
    ----------
    certificate : Certificate
    key : EllipticCurvePrivateKey
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def files(self) -> tuple[bytes, bytes]:
        """Return both as PEM: the certificate, then the key."""
        pem = Encoding.PEM
        return (
            self.certificate.public_bytes(pem),
            self.key.private_bytes(pem, PrivateFormat.PKCS8, NoEncryption()),
        )


def make_certificates(
    directory: str | Path, parties: Sequence[str], *, days: int = 365
) -> Mapping[str, tuple[Path, Path]]:
    """Make a CA, and a certificate and key for each party, all or none.

    Parameters
    ----------
    directory : str or Path
        Where they go; created, for its owner alone, where missing.
    parties : sequence of str
        The parties' names, as in the plan.
    days : int
        How long the certificates are valid.

    Returns
    -------
    mapping of str to (Path, Path)
        Certificate and key by party.

    Raises
    ------
    PlanError
        A name no party can have, or two that are the same.
    OutputError
        One of the files exists, or cannot be written. Then none is.
    """
    _check(parties, days)
    now = datetime.now(timezone.utc)
    start, end = now - _CLOCKS_APART, now + timedelta(days=days)
    ca = authority(start, end)
    folder = Path(directory)
    names = {name: (folder / f"{name}.pem", folder / f"{name}.key") for name in (_CA_FILE, *parties)}
    content: dict[Path, bytes] = {}
    for name, files in names.items():
        issued = ca if name == _CA_FILE else issue(ca, name, start, end)
        content.update(zip(files, issued.files(), strict=True))
    _write(folder, content)
    return {name: names[name] for name in parties}


def authority(start: datetime, end: datetime, name: str = CA_NAME) -> Issued:
    """Make a CA that can issue parties' certificates and no further CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = _usage(digital_signature=False, key_cert_sign=True)
    builder = (
        _builder(subject, subject, key, key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return Issued(builder.sign(key, SHA256()), key)


def issue(ca: Issued, party: str, start: datetime, end: datetime) -> Issued:
    """Make a party's key and have `ca` certify it, for both ends of a connection."""
    key = ec.generate_private_key(ec.SECP256R1())
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _builder(_name(party), ca.certificate.subject, key, ca.key, start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True, key_cert_sign=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(party_uri(party))]), False)
    )
    return Issued(builder.sign(ca.key, SHA256()), key)


def _check(parties: Sequence[str], days: int) -> None:
    if not parties:
        raise PlanError("certificates for whom? Name the parties, as in the plan")
    if not 1 <= days <= 36500:
        raise PlanError(f"certificates can be valid for 1 to 36500 days, not {days}")
    taken = {_CA_FILE: "the CA"}
    for name in parties:
        try:
            party_name(name)
        except ValueError as error:
            raise PlanError(f"party {name!r} {error}") from None
        size = len(name.encode())
        if size > MAX_NAME_BYTES:
            raise PlanError(
                f"party {name!r}: {size} bytes of UTF-8, and a certificate's name has room for "
                f"{MAX_NAME_BYTES}; use a shorter name"
            )
        # Not even by case alone: on some file systems that is one file.
        if name.casefold() in taken:
            raise PlanError(f"party {name!r} would share the files of {taken[name.casefold()]} (case aside)")
        taken[name.casefold()] = f"party {name!r}"


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, digital_signature: bool, key_cert_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    """Begin a certificate; the key identifiers are what strict verifiers ask for."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )


def _write(folder: Path, content: Mapping[Path, bytes]) -> None:
    """Write new files, keys for their owner alone; on any failure take away what was written."""
    made: list[Path] = []
    new = not folder.exists()
    try:
        if new:
            folder.mkdir(parents=True, mode=0o700)
        for path, data in content.items():
            mode = 0o600 if path.suffix == ".key" else 0o644
            create(path, data, mode)
            made.append(path)
    except BaseException as error:
        for path in made:
            path.unlink(missing_ok=True)
        if new:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, FileExistsError):
            raise OutputError(
                f"{error.filename or folder} exists and is not replaced; make the certificates of all "
                "parties at once, in a directory of their own"
            ) from None
        if isinstance(error, OSError):
            raise OutputError(f"cannot write certificates to {folder}: {error.strerror}") from None
        raise
