"""The contract of a homomorphic encryption scheme. A ciphertext is bytes, as it travels.

The coordinator makes a :class:`SecretKey` and keeps it; source and target get its :class:`PublicKey`.

=========== ========================= ==================================================
step        differences               products
=========== ========================= ==================================================
source      ``PublicKey.encrypt``     ``PublicKey.encrypt_block``
target      ``PublicKey.subtract``    ``PublicKey.products``: ``add``, at the end ``export``
coordinator ``SecretKey.decrypt``     ``SecretKey.open_products``
=========== ========================= ==================================================

Products can be computed in parts: each worker of the target hands its `Products.partial` to the first, which
takes them by `Products.add_partial` and exports their sum.

Who learns what: a ciphertext tells the holder of the public key nothing. The coordinator learns the integers
that it decrypts, and nothing of how they came about (docs/homomorphic-encryption.md).

A value of this party's own beyond the agreed sizes raises `BoundError`. What came over the wire, and is no
key or ciphertext, raises `ProtocolViolation`; the codec checks its length. No error's text holds a value.

Nothing that only the secret key shows raises: all parties see whether a run stops, so a source could craft
ciphertexts and read from that what the target's integers did to them. What no honest run gives decrypts to
``IMPOSSIBLE``, or to any other integer beyond its bound.
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
from mpc_spearman.errors import BoundError, ProtocolViolation

#: Stands for what no honest run gives; beyond every bound.
IMPOSSIBLE = -(2**63)

# Bytes in which a worker of the target tells what a column used of target_sum.
_SPENT = 16

Integers = NDArray[np.int64]
#: Of each result, the ciphertext of the source's (None for none) and the own vector to be subtracted from it.
Pairs = Sequence[tuple[int | None, int]]


@dataclass(frozen=True)
class Sizes:
    """The public numbers from which a key's layout follows; all parties know them.

    There are `n` rows in the encrypted vectors (where products are summed, of all sources' vectors end to
    end), `m_source` vectors of the source (one where products are summed) and `m_target` of the target. No
    integer of the source's is larger in size than `value_bound`, none of the target's than `target_bound`;
    the sizes in one of the target's vectors add up to at most `target_sum`. The coordinator finds nothing
    larger than `result_bound`, which at differences bounds whatever is encrypted too. The run has so many
    `keys` of these settings, one per source's session, which share the flooding's distance. The target
    multiplies in so many `parts` under one key: workers whose products are added before any leave.
    """

    n: int
    m_source: int
    m_target: int
    value_bound: int
    target_bound: int
    target_sum: int
    result_bound: int
    keys: int = 1
    parts: int = 1
    operation: Literal["products", "differences"] = "products"

    def __post_init__(self) -> None:
        if max(self.value_bound, self.target_bound, self.result_bound) >= 2**63:
            raise BoundError("the values or their inner products do not fit a signed 64-bit integer")


class StaysHere:
    """What no code may copy out of its process: pickling and copying raise, and its repr shows nothing."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can be neither pickled nor copied")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def check(values: Integers, bound: int, what: str) -> None:
    """Refuse integers beyond a bound, without showing any of them."""
    if int(values.max()) > bound or int(values.min()) < -bound:
        raise BoundError(f"{what} is beyond the agreed bound")


class Products(ABC):
    """Inner products of the source's encrypted vectors with the target's integers, growing by blocks.

    At the end they go once: by `export` to the coordinator, or by `partial` to the target's first worker.
    """

    def __init__(self, key: PublicKey) -> None:
        self._key = key
        self._spent = np.zeros(key.sizes.m_target, dtype=object)  # of target_sum, in each column

    def add(self, block: Sequence[bytes], y: Integers) -> None:
        """Add what `encrypt_block` made of a block of rows, times the target's integers, (m_target, rows)."""
        check(y, self._key.sizes.target_bound, "a value of the target's")
        self._spend(np.abs(y).sum(axis=1))
        self._add(block, y)

    def partial(self) -> bytes:
        """Return what has been added, zero if nothing, after what each column used of target_sum.

        It must not leave the target: without fresh randomness it shows the source the target's integers.
        """
        return b"".join([*(int(spent).to_bytes(_SPENT, "big") for spent in self._spent), *self._write()])

    def add_partial(self, raw: bytes) -> None:
        """Add another worker's `partial`, under the same key; `ProtocolViolation` for what is none."""
        key, size, head = self._key, self._key.ciphertext_bytes, _SPENT * len(self._spent)
        if len(raw) != head + key.product_ciphertexts * size:
            raise ProtocolViolation("inner products of a worker have the wrong length")
        self._spend([int.from_bytes(raw[at : at + _SPENT], "big") for at in range(0, head, _SPENT)])
        self._read([raw[at : at + size] for at in range(head, len(raw), size)])

    def _spend(self, sums: Sequence[int] | Integers) -> None:
        self._spent += sums
        if self._spent.max() > self._key.sizes.target_sum:
            raise BoundError("the target's values add up to more than is agreed")

    @abstractmethod
    def _add(self, block: Sequence[bytes], y: Integers) -> None:
        """Add a block whose integers are within their bounds."""

    @abstractmethod
    def _write(self) -> list[bytes]:
        """Write the sums as they are."""

    @abstractmethod
    def _read(self, raws: Sequence[bytes]) -> None:
        """Add what another worker's `_write` gave."""

    @abstractmethod
    def export(self) -> list[bytes]:
        """Return ``product_ciphertexts``, with fresh randomness, that show the inner products alone."""


class PublicKey(StaysHere, ABC):
    """What source and target hold. No secret is in it.

    A ciphertext from the source has exactly `ciphertext_bytes`, one for the coordinator
    `result_ciphertext_bytes`. At differences one holds `slots` integers. At products a block has `rows` rows,
    the last one perhaps fewer, and `product_ciphertexts` hold all inner products. A `caution` is a sentence
    for the result's warnings, and its owner lets it use so many `threads`.
    """

    sizes: Sizes
    caution: str | None
    ciphertext_bytes: int
    result_ciphertext_bytes: int
    slots: int
    rows: int
    product_ciphertexts: int
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
        """Rebuild the coordinator's key; `ProtocolViolation` for what shows without the secret to be none."""

    @abstractmethod
    def encrypt(self, chunks: Sequence[Integers]) -> list[bytes]:
        """Encrypt chunks of up to ``slots`` integers, each with fresh randomness."""

    @abstractmethod
    def subtract(
        self, theirs: Sequence[bytes], own: Sequence[Integers], pairs: Pairs, *, rerandomise: bool
    ) -> list[bytes]:
        """Encrypt one's own chunks, subtract, and return what may go to the coordinator.

        For each pair (i, j) that is theirs[i] − own[j], for (None, j) own[j] itself. Without `rerandomise` a
        scheme may leave out fresh randomness where the encryption of own[j] suffices, as in the paper.
        """

    @abstractmethod
    def encrypt_block(self, x: Integers) -> list[bytes]:
        """Encrypt one block, (m_source, up to ``rows``)."""

    @abstractmethod
    def ciphertexts_for(self, rows: int) -> int:
        """Return how many ciphertexts hold a block of that many rows."""

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

        `PlanError` if the scheme makes no key of these settings, `BoundError` if the sizes do not fit such a
        key.
        """

    @abstractmethod
    def decrypt(self, raws: Sequence[bytes], counts: Sequence[int]) -> list[Integers]:
        """Decrypt what :meth:`PublicKey.subtract` gave, with so many integers in each."""

    @abstractmethod
    def open_products(self, raws: Sequence[bytes]) -> NDArray[np.object_]:
        """Decrypt what :meth:`Products.export` gave: Python int, (m_source, m_target)."""


def keys_of(scheme: str) -> tuple[type[SecretKey], type[PublicKey]]:
    """Import a scheme's keys: only what it needs has to be installed."""
    if scheme == "bfv":
        from mpc_spearman.engines.he.bfv.keys import BfvPublicKey, BfvSecretKey

        return BfvSecretKey, BfvPublicKey
    from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey, PaillierSecretKey

    return PaillierSecretKey, PaillierPublicKey
