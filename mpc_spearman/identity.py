"""A party's identity: an Ed25519 key pair (RFC 8032), whose public half is in the shared plan.

The private key is a file that only its party may read: PEM, PKCS#8, without a passphrase. The public key is
one line of the plan, ``identity: ed25519:`` and 32 bytes in base64 (RFC 4648, section 4). A key signs TLS
handshakes, and texts. Each text is signed together with its purpose, so a signature for one purpose is
invalid for another. The signed bytes begin with a prefix that TLS handshakes and certificates do not have, so
none is valid as theirs.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from mpc_spearman.errors import PlanError
from mpc_spearman.files import create_once, read_private

_PREFIX = "ed25519:"
_SIGNATURE_PREFIX = b"mpc_spearman signature 1\0"
# More bytes than a file with one key has.
_LONGEST_FILE = 1 << 16

# The curve -x² + y² = 1 + d·x²·y² over the integers modulo p, and the y of its points of order 1, 2, 4, 8.
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_ORDER_8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_SMALL_ORDER = {0, 1, _P - 1, _ORDER_8, _P - _ORDER_8}


class Identity:
    """A private key; its repr shows the public half only."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self.key = key

    @classmethod
    def new(cls) -> Identity:
        """Return a new random key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path, setting: str, made_by: str = "init --party NAME") -> Identity:
        """Read a key file; `setting` is the option that names it, `made_by` the command that makes one.

        `PlanError` if the file cannot be read, others may read it, or it holds no Ed25519 key.
        """
        try:
            data = read_private(path, _LONGEST_FILE, setting)
        except OSError as error:
            advice = f"`mpc-spearman {made_by}` makes such a key"
            raise PlanError(f"{setting}: {path} cannot be read: {error.strerror}. {advice}") from None
        try:
            key = load_pem_private_key(data, None)
        except TypeError:
            advice = "`openssl pkey -in FILE -out NEW` writes it without one"
            raise PlanError(f"{setting}: {path} is protected by a passphrase: {advice}") from None
        except (ValueError, UnsupportedAlgorithm):
            raise PlanError(f"{setting}: {path} holds no private key in PEM") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise PlanError(f"{setting}: {path} holds a key of another kind; identities are Ed25519 keys")
        return cls(key)

    def write(self, path: Path) -> None:
        """Write a new key file for its owner alone; `OutputError` if it exists or cannot be written."""
        text = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        create_once(path, text, durable=True)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self.key.public_key().public_bytes_raw()

    def sign(self, purpose: str, message: bytes) -> bytes:
        """Sign a message for a purpose; 64 bytes."""
        return self.key.sign(_signed(purpose, message))

    def __str__(self) -> str:
        return identity_text(self.public)

    def __repr__(self) -> str:
        return f"Identity({self})"


@dataclass(frozen=True)
class Signer:
    """The keys with which a party signs a run's record and verifies the others' signatures.

    `identities` are everyone's public keys by party, as in a plan; in a `rehearsal` all keys were made for
    this run, and belong to nobody.
    """

    identity: Identity
    identities: Mapping[str, str]
    rehearsal: bool


def verify(public: bytes, purpose: str, message: bytes, signature: bytes) -> bool:
    """Return whether the private key of `public` signed this message for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _signed(purpose, message))
    except (InvalidSignature, ValueError):
        return False
    return True


def _signed(purpose: str, message: bytes) -> bytes:
    if "\0" in purpose:
        raise ValueError("a purpose has no NUL")
    return _SIGNATURE_PREFIX + purpose.encode() + b"\0" + message


def identity_text(public: bytes) -> str:
    """Return a public key as the text that plans contain: ``ed25519:`` and base64."""
    return _PREFIX + b64encode(public).decode()


def public_key(text: str) -> bytes:
    """Return the 32 bytes of a public key whose text `identity_text` returned.

    `ValueError` if the text differs from what `identity_text` returns, or if anybody can sign for the key: a
    point of small order, which RFC 8032, section 5.1.7, does not exclude.
    """
    try:
        public = b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        public = b""
    if len(public) != 32 or text != identity_text(public):
        raise ValueError("is not ed25519: and 32 bytes in base64; copy all that `mpc-spearman init` printed")
    y = int.from_bytes(public, "little") & (1 << 255) - 1
    # x² = (y² - 1) / (d·y² + 1) has a root where this is a square, or zero: Euler's criterion.
    if y >= _P or pow((y * y - 1) * (_D * y * y + 1), (_P - 1) // 2, _P) == _P - 1:
        raise ValueError("is not a public key: is it mistyped? Copy what `mpc-spearman init` printed")
    if y in _SMALL_ORDER:
        raise ValueError("is a key that anybody can sign for (a point of small order): it identifies nobody")
    return public
