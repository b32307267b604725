"""Keys that two parties share for one run, and the streams made from them.

Ephemeral X25519 alone is secure against eavesdroppers only; the public keys travel inside TLS. Keys, subkeys
and their confirmation: docs/protocol.md, "Keys".
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mpc_spearman.errors import ProtocolViolation
from mpc_spearman.parties import Party

_LABEL = b"mpc_spearman/1"
_ZEROS = memoryview(bytes(1 << 16))


class Purpose(Enum):
    """What a subkey is used for; the keys of two purposes are independent."""

    MASK = "mask"
    ZERO = "zero"
    DIGEST = "digest"
    SHUFFLE = "shuffle"
    COMPARE = "compare"
    CONVERT = "convert"
    CONFIRM = "confirm"
    PROOF = "proof"
    COINS = "coins"
    WEIGHTS = "weights"


class PairKey:
    """The key that a party shares with one peer in one run. Its repr shows no key.

    `private` is this party's private key for this run, `peers_public` the peer's public key, 32 bytes, from
    its HELLO; `run` is the run id, and `agreement` a hash of the version and the shared plan, each of 32
    bytes. `ProtocolViolation` for a key of small order (RFC 7748, section 6.1).
    """

    def __init__(
        self,
        private: X25519PrivateKey,
        peers_public: bytes,
        me: Party,
        peer: Party,
        run: bytes,
        agreement: bytes,
    ) -> None:
        try:
            self._secret = private.exchange(X25519PublicKey.from_public_bytes(peers_public))
        except ValueError:
            raise ProtocolViolation(f"{peer} sent a public key that is invalid for X25519") from None
        ends = sorted(
            [
                (me.number, me.name, private.public_key().public_bytes_raw()),
                (peer.number, peer.name, peers_public),
            ]
        )
        self._context = list_hash(
            _LABEL,
            run,
            agreement,
            *(part for number, name, key in ends for part in (str(number).encode(), name.encode(), key)),
        )
        self._issued: set[tuple[Purpose, str]] = set()

    def subkey(self, purpose: Purpose, session: str) -> bytes:
        """Derive the 32-byte key of one purpose in one session, once, so that no stream is used twice.

        A session is named after the source whose columns it is about; a confirmation's after its sender.
        """
        if (purpose, session) in self._issued:
            raise RuntimeError(f"the {purpose.value} key of session {session!r} is already in use")
        self._issued.add((purpose, session))
        info = list_hash(self._context, purpose.value.encode(), session.encode())
        return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(self._secret)

    def confirmation(self, sender: Party, receiver: Party, hellos: tuple[bytes, bytes]) -> bytes:
        """Return `sender`'s proof to `receiver` that it has this key, for this run.

        It is an HMAC-SHA256 over the direction and both parties' HELLOs, the sender's first: key confirmation
        as in NIST SP 800-56A, revision 3, section 5.9.
        """
        content = list_hash(str(sender.number).encode(), str(receiver.number).encode(), *hellos)
        return hmac.digest(self.subkey(Purpose.CONFIRM, sender.name), content, "sha256")


class Stream:
    """A one-time stream of uniform bits: AES-256 in counter mode from block zero under a key of its own.

    Both holders of the key read the same values in the same order.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def ring(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw uniform elements of Z_2^64, as int64 of the given shape, row by row."""
        return self._draw(int(np.prod(shape, dtype=np.int64)) * 8).view(np.int64).reshape(shape)

    def permutation(self, n: int) -> np.ndarray:
        """Draw a uniform permutation of n rows, int64: the order of 64-bit keys, drawn until all differ."""
        while True:
            keys = self.ring((n,))
            order = np.argsort(keys)
            if n < 2 or (np.diff(keys[order]) != 0).all():
                return order

    def uniform(self, n: int) -> np.ndarray:
        """Draw n float64, uniform on the multiples of 2^-53 in [0, 1)."""
        return (self.ring((n,)).view(np.uint64) >> np.uint64(11)) * 2.0**-53

    def _draw(self, size: int) -> np.ndarray:
        # The keystream is the encryption of zeros; update_into needs 15 more bytes in its buffer.
        out = np.empty(size + 15, dtype=np.uint8)
        view = out.data
        for start in range(0, size, len(_ZEROS)):
            self._cipher.update_into(_ZEROS[: size - start], view[start:])
        return out[:size]


def list_hash(*parts: bytes) -> bytes:
    """Return a hash of a list of byte strings that differs for different lists."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
