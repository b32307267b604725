"""The files with which a party proves who it is."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from mpc_spearman.errors import CertificateExpired, TlsError, UntrustedCertificate
from mpc_spearman.wire import certificate_faults as faults


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

    def load(self, context: ssl.SSLContext) -> None:
        """Have a context trust the CA and show the certificate.

        Raises
        ------
        UntrustedCertificate
            The certificate is weaker than OpenSSL allows.
        TlsError
            A file is missing, not what it should be, or they do not belong together.
        """
        for what, path in (("CA", self.ca), ("certificate", self.certificate), ("key", self.key)):
            try:
                path.read_bytes()  # ssl's own errors do not say which of its files they mean
            except OSError as error:
                raise TlsError(
                    f"network.tls.{what.lower()}: the {what} file {path} cannot be read: {error.strerror}. "
                    "Name the file that is meant; mpc-spearman certs makes some for trials"
                ) from None
        try:
            context.load_verify_locations(cafile=str(self.ca))
        except ssl.SSLError:
            raise TlsError(f"TLS: {self.ca} holds no CA certificate in PEM") from None
        try:
            context.load_cert_chain(self.certificate, self.key, self._passphrase)
        except ssl.SSLError as error:
            raise self._unusable(error) from None

    def refused(self, error: ssl.SSLError, party: str) -> TlsError:
        """Say why this party could not shake hands with itself.

        Parameters
        ----------
        error : SSLError
            As either end of the handshake raised it.
        party : str
            Whose files these are.

        Returns
        -------
        TlsError
            To be raised.
        """
        code, said = None, words(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            code, said = error.verify_code, error.verify_message
        own = f"party {party}'s own certificate {self.certificate}"
        cause = self._cause(faults.weak if error.reason in faults.WEAK_FILES else faults.CAUSES.get(code))
        if code in (faults.EXPIRED, faults.NOT_YET):
            return CertificateExpired(f"{own}: {cause or f'{said}; {faults.clock()}'}")
        if cause is None and code is None:
            return TlsError(f"TLS: {own} and its key cannot be used: {said}")
        return UntrustedCertificate(f"{own}: {cause or f'it is refused: {said}'}")

    def _unusable(self, error: ssl.SSLError) -> TlsError:
        """Say why the certificate and the key could not be loaded."""
        if error.reason in faults.WEAK_FILES:
            cause = self._cause(faults.weak) or f"it is too weak: {words(error)}"
            return UntrustedCertificate(f"this party's own certificate {self.certificate}: {cause}")
        try:
            chain = faults.certificates(self.certificate)
        except faults.UNREADABLE:
            return TlsError(f"TLS: {self.certificate} holds no certificate in PEM")
        try:
            key = _bytes(load_pem_private_key(self.key.read_bytes(), None).public_key())
            places = [place for place, each in enumerate(chain, 1) if _bytes(each.public_key()) == key]
        except faults.UNREADABLE:
            return TlsError(f"TLS: {self.key} holds no private key in PEM")
        if not places:
            return TlsError(f"TLS: the key {self.key} does not belong to the certificate {self.certificate}")
        if places[0] > 1:
            return TlsError(
                f"TLS: {self.certificate} begins with the certificate of {faults.name(chain[0].subject)}, "
                f"and the key {self.key} belongs to number {places[0]} in it: the party's own certificate "
                "comes first, those of intermediate CAs follow"
            )
        return TlsError(f"TLS: {self.certificate} and {self.key} cannot be used: {words(error)}")

    def _cause(self, find: Callable[[faults.Files], str | None] | None) -> str | None:
        try:
            return None if find is None else find(faults.Files.read(self.certificate, self.ca))
        except faults.UNREADABLE:
            return None

    def _passphrase(self) -> str:
        # Without this OpenSSL would ask on the terminal, and wait.
        raise TlsError(
            f"TLS: the key file {self.key} is protected by a passphrase, which nobody is there to "
            "type; use one without (openssl pkey -in FILE -out NEW), readable by its owner alone"
        )


def words(error: OSError) -> str:
    """Return what OpenSSL, or the system, says of an error."""
    reason = str(getattr(error, "reason", None) or "")  # an SSLError raised by Python code has none
    return reason.lower().replace("_", " ") or error.strerror or type(error).__name__


def _bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
