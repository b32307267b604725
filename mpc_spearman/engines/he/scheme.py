"""The contract of a homomorphic encryption scheme. A ciphertext is bytes, as it travels.

The coordinator makes a :class:`SecretKey` and keeps it; source and target get its :class:`PublicKey`.

=========== ======================== =====================================================
step        differences              inner products
=========== ======================== =====================================================
source      ``PublicKey.encrypt``    ``PublicKey.encrypt``, ``PublicKey.residues``
target      ``PublicKey.subtract``   ``PublicKey.multiply``, ``PublicKey.export``
coordinator ``SecretKey.decrypt``    ``SecretKey.decrypt_products``
=========== ======================== =====================================================

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import blocks
from mpc_spearman.config import HeSettings
from mpc_spearman.engines.computation import Bounds, Operation
from mpc_spearman.errors import BoundError

#: Stands for a value that no honest run gives; beyond every bound.
IMPOSSIBLE = -(2**63)
#: Bytes of a message of ciphertexts, about.
MESSAGE_BYTES = 1 << 22
# Ciphertexts of a block at differences, unless the source has more vectors. Few, so that the next role
# begins, and a lost peer is noticed, soon: each ciphertext takes 30 ms with full randomness.
_BLOCK = 64

Integers = NDArray[np.int64]
#: For each result, which of the source's vectors (None for none) and which of the target's.
Pairs = Sequence[tuple[int | None, int]]
#: Ciphertexts of a block of rows of the source's vectors, and the target's integers of these rows.
Block = tuple[Sequence[bytes], Integers]


@dataclass(frozen=True)
class Sizes:
    """The public numbers from which a key's layout follows; all parties know them.

    Vectors have `n` rows (if products are summed, all sources' vectors end to end); the source has `m_source`
    vectors, the target `m_target`. The run has `keys` keys, which share the flooding's distance.
    """

    n: int
    m_source: int
    m_target: int
    bounds: Bounds
    keys: int = 1
    operation: Operation = "inner_products"


class StaysHere:
    """An object that must stay in its process: pickling and copying raise, and its repr shows nothing."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can be neither pickled nor copied")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def check(values: Integers, bound: int, name: str) -> None:
    """Refuse integers beyond a bound, without showing any of them."""
    if int(values.max()) > bound or int(values.min()) < -bound:
        raise BoundError(f"{name} is beyond the agreed bound")


class PublicKey(StaysHere, ABC):
    """What source and target hold. No secret is in it.

    A ciphertext from the source has `ciphertext_bytes`, one for the coordinator `result_ciphertext_bytes`.
    Vectors are encrypted in blocks of `rows` rows, the last one perhaps shorter. At differences a ciphertext
    holds up to `slots` elements of one vector. `product_ciphertexts` hold all inner products, which are
    `product_residues` integers modulo `modulus`. A `caution` is a sentence for the result's warnings;
    `threads` is how many the key may use.
    """

    sizes: Sizes
    caution: str | None
    ciphertext_bytes: int
    result_ciphertext_bytes: int
    rows: int
    slots: int
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
    def encrypt(self, x: Integers) -> list[bytes]:
        """Encrypt a block of the source's vectors, (m_source, rows), with fresh randomness."""

    @abstractmethod
    def ciphertexts_for(self, rows: int) -> int:
        """Return how many ciphertexts hold a block of so many rows of the source's vectors."""

    @abstractmethod
    def subtract(self, ciphertexts: Sequence[bytes], y: Integers, pairs: Pairs) -> list[bytes]:
        """Encrypt a block of the target's vectors, (vectors, rows), and subtract it from the source's.

        A pair (p, q) gives the source's vector p less the target's q, and (None, q) the target's q. Returns
        the ciphertexts for the coordinator, pair by pair.
        """

    @abstractmethod
    def multiply(self, encrypted: Iterable[Block]) -> Sequence[Any]:
        """Return the sums of all blocks' products, under encryption, in the form that `export` takes.

        `BoundError` if the target's integers are beyond their bounds.
        """

    @abstractmethod
    def export(self, sums: Sequence[Any], added: Sequence[int]) -> list[bytes]:
        """Add residues to sums of products; return them freshly randomised, as `product_ciphertexts`."""

    @abstractmethod
    def residues(self, values: Integers) -> list[int]:
        """Encode integers, (m_source, m_target) as inner products, as `product_residues` residues.

        Residues add up modulo `modulus` as the integers do, whatever the sums are on the way.
        """

    def _rows_of_differences(self) -> int:
        """Return how many rows a block has when differences are computed."""
        ciphertexts = max(1, min(_BLOCK, MESSAGE_BYTES // self.ciphertext_bytes))
        return self.slots * max(1, ciphertexts // self.sizes.m_source)

    def chunks(self, vectors: Integers) -> list[Integers]:
        """Cut each vector into chunks, each of which one ciphertext holds when differences are computed."""
        return [vector[chunk] for vector in vectors for chunk in blocks(len(vector), self.slots)]

    def pairs_of_chunks(self, pairs: Pairs, rows: int) -> Iterator[tuple[int | None, int]]:
        """Yield, for each chunk of each pair of vectors of `rows`, the two places in `chunks`."""
        count = -(-rows // self.slots)
        for p, q in pairs:
            for chunk in range(count):
                yield None if p is None else p * count + chunk, q * count + chunk

    def checked(self, encrypted: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks, after checking that the target's integers are within their bounds (`BoundError`)."""
        bounds, spent = self.sizes.bounds, np.zeros(self.sizes.m_target, dtype=object)
        for ciphertexts, y in encrypted:
            check(y, bounds.target, "a value of the target's")
            spent += np.abs(y).sum(axis=1)
            if spent.max() > bounds.target_sum:
                raise BoundError("the target's values add up to more than is agreed")
            yield ciphertexts, y


class SecretKey(StaysHere, ABC):
    """What the coordinator holds. It has no serialiser, and nothing shows it."""

    public: PublicKey

    @classmethod
    @abstractmethod
    def generate(cls, settings: HeSettings, sizes: Sizes) -> SecretKey:
        """Make a key from the operating system's randomness; `BoundError` if the sizes do not fit it."""

    @abstractmethod
    def decrypt(self, raws: Sequence[bytes], vectors: int, rows: int) -> Integers:
        """Decrypt the ciphertexts of :meth:`PublicKey.subtract`, (vectors, rows)."""

    @abstractmethod
    def decrypt_products(self, raws: Sequence[bytes], added: Sequence[int]) -> NDArray[np.object_]:
        """Decrypt the ciphertexts of :meth:`PublicKey.export`, and add residues.

        Returns Python int, (m_source, m_target).
        """
