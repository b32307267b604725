"""The contract of a homomorphic encryption scheme. A ciphertext is bytes, as it travels.

The coordinator makes a :class:`SecretKey` and keeps it; source and target get its :class:`PublicKey`.

=========== ========================= ==================================================
step        differences               products
=========== ========================= ==================================================
source      ``PublicKey.encrypt``     ``PublicKey.encrypt_block``, ``PublicKey.residues``
target      ``PublicKey.subtract``    ``PublicKey.products``: ``add``, at the end ``export``
coordinator ``SecretKey.decrypt``     ``SecretKey.open_products``
=========== ========================= ==================================================

Who learns what: a ciphertext reveals nothing to the holder of the public key. The coordinator learns the
integers that it decrypts, and nothing about how they were computed (docs/homomorphic-encryption.md).

A party's own value beyond the agreed sizes raises `BoundError`. Bytes from the wire that are not a key or
ciphertext raise `ProtocolViolation`; the codec checks their length. No error's text contains a value.

Nothing that only the secret key shows raises an error (docs/security.md, "Nothing that is opened stops a
run"). Values that no honest run gives decrypt to ``IMPOSSIBLE``, or to another integer beyond its bound.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import HeSettings
from mpc_spearman.errors import BoundError

#: Stands for a value that no honest run gives; beyond every bound.
IMPOSSIBLE = -(2**63)

Integers = NDArray[np.int64]
#: For each result, which of the source's ciphertexts (None for none) and which of the target's integers.
Pairs = Sequence[tuple[int | None, int]]


@dataclass(frozen=True)
class Sizes:
    """The public numbers from which a key's layout follows; all parties know them.

    Encrypted vectors have `n` rows (if products are summed, all sources' vectors end to end); the source has
    `m_source` vectors (one if products are summed), the target `m_target`. In absolute value, the source's
    integers are at most `value_bound`, the target's `target_bound`, and those in one target vector add up to
    at most `target_sum`. Decrypted integers are at most `result_bound`, at differences encrypted ones too.
    The run has `keys` keys, one per source's session, which share the flooding's distance.
    """

    n: int
    m_source: int
    m_target: int
    value_bound: int
    target_bound: int
    target_sum: int
    result_bound: int
    keys: int = 1
    operation: Literal["products", "differences"] = "products"

    def __post_init__(self) -> None:
        if max(self.value_bound, self.target_bound, self.result_bound) >= 2**63:
            raise BoundError("the values or their inner products do not fit a signed 64-bit integer")


class StaysHere:
    """An object that must stay in its process: pickling and copying raise, and its repr shows nothing."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can be neither pickled nor copied")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def check(values: Integers, bound: int, what: str) -> None:
    """Refuse integers beyond a bound, without showing any of them."""
    if int(values.max()) > bound or int(values.min()) < -bound:
        raise BoundError(f"{what} is beyond the agreed bound")


class Products(ABC):
    """Inner products of the source's encrypted vectors with the target's integers, growing by blocks."""

    def __init__(self, key: PublicKey) -> None:
        self._key = key
        self._spent = np.zeros(key.sizes.m_target, dtype=object)  # of target_sum, in each column

    def add(self, block: Sequence[bytes], y: Integers) -> None:
        """Add the products of a block that `encrypt_block` encrypted with the target's integers of its rows.

        These are (m_target, rows).
        """
        check(y, self._key.sizes.target_bound, "a value of the target's")
        self._spent += np.abs(y).sum(axis=1)
        if self._spent.max() > self._key.sizes.target_sum:
            raise BoundError("the target's values add up to more than is agreed")
        self._add(block, y)

    @abstractmethod
    def _add(self, block: Sequence[bytes], y: Integers) -> None:
        """Add a block whose integers are within their bounds."""

    @abstractmethod
    def export(self, added: Sequence[int] = ()) -> list[bytes]:
        """Add residues, if any; return the sums, freshly randomised, as ``product_ciphertexts``."""


class PublicKey(StaysHere, ABC):
    """What source and target hold. No secret is in it.

    A ciphertext from the source has exactly `ciphertext_bytes`, one for the coordinator
    `result_ciphertext_bytes`. At differences one holds `slots` integers. At products a block has `rows` rows,
    the last one perhaps fewer, and `product_ciphertexts` hold all inner products, `product_residues` integers
    modulo `modulus`. A `caution` is a sentence for the result's warnings; `threads` is how many it may use.
    """

    sizes: Sizes
    caution: str | None
    ciphertext_bytes: int
    result_ciphertext_bytes: int
    slots: int
    rows: int
    product_ciphertexts: int
    product_residues: int
    modulus: int
    threads: int = 1

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of the key. Parties compare it: nothing in a single ciphertext names its key."""
        return hashlib.sha256(self.to_bytes()).digest()

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the key as it travels; its length follows from settings and sizes."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, raw: bytes, settings: HeSettings, sizes: Sizes) -> PublicKey:
        """Rebuild the coordinator's key; `ProtocolViolation` if it is visibly not a public key."""

    @abstractmethod
    def encrypt(self, chunks: Sequence[Integers]) -> list[bytes]:
        """Encrypt chunks of up to ``slots`` integers, each with fresh randomness."""

    @abstractmethod
    def subtract(
        self, ciphertexts: Sequence[bytes], integers: Sequence[Integers], pairs: Pairs, *, rerandomise: bool
    ) -> list[bytes]:
        """Encrypt chunks of the target's integers, subtract, and return the ciphertexts for the coordinator.

        A pair (i, j) gives ciphertexts[i] − integers[j], and (None, j) gives integers[j]. Without
        `rerandomise` a scheme may add no further randomness to that of integers[j], as in the paper.
        """

    @abstractmethod
    def encrypt_block(self, x: Integers) -> list[bytes]:
        """Encrypt one block, (m_source, up to ``rows``)."""

    @abstractmethod
    def ciphertexts_for(self, rows: int) -> int:
        """Return how many ciphertexts hold a block of that many rows."""

    @abstractmethod
    def residues(self, values: Integers) -> list[int]:
        """Encode integers of the form of the inner products, (m_source, m_target), as `product_residues`.

        Residues add up modulo `modulus` as the integers do, whatever the sums are on the way.
        """

    @abstractmethod
    def products(self) -> Products:
        """Begin inner products of ciphertexts under this key, at the target."""


class SecretKey(StaysHere, ABC):
    """What the coordinator holds. It has no serialiser, and nothing shows it."""

    public: PublicKey

    @classmethod
    @abstractmethod
    def generate(cls, settings: HeSettings, sizes: Sizes) -> SecretKey:
        """Make a key from the operating system's randomness.

        `PlanError` if the settings are invalid for the scheme, `BoundError` if the sizes do not fit such a
        key.
        """

    @abstractmethod
    def decrypt(self, raws: Sequence[bytes], counts: Sequence[int]) -> list[Integers]:
        """Decrypt the ciphertexts of :meth:`PublicKey.subtract`, which hold `counts` integers each."""

    @abstractmethod
    def open_products(self, raws: Sequence[bytes], added: Sequence[int] = ()) -> NDArray[np.object_]:
        """Decrypt the ciphertexts of :meth:`Products.export`, and add residues, if any.

        Returns Python int, (m_source, m_target).
        """
