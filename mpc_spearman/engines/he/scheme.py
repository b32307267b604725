"""What the protocol needs of a homomorphic encryption scheme, and nothing of how one works.

The coordinator makes a :class:`SecretKey` and keeps it; source and target get its :class:`PublicKey`.

========================= ======================================== ====================================
step                      differences                              products
========================= ======================================== ====================================
source, to the target     ``encrypt_many``, ``dump``               ``encrypt_block``, ``dump``
target                    ``load_many``, ``encrypt_many``,         ``load_many``, ``Products.add``
                          ``subtract_many``
target, to the coordinator ``export_many``                          ``Products.export``
coordinator               ``SecretKey.decrypt_many``               ``SecretKey.open_products``
========================= ======================================== ====================================

Who learns what: whoever holds the public key alone learns nothing from a ciphertext, and the coordinator
learns from what it decrypts the integers in it and nothing of how they came about. Every ciphertext on
the wire has a length that follows from the plan's ``he`` section and :class:`Sizes`, which all parties know.

Two kinds of wrong input are told apart: what this party's own code passes in raises ``BoundError`` (a
value beyond the agreed sizes) or ``ValueError`` (anything else); what came over the wire raises
``ProtocolViolation``. No error's text holds a value.

Nothing that only the secret key shows raises anything: whether a run stops is seen by all, and a source that
prepares its ciphertexts could read from it what the target's integers did to them. What decrypts to nothing
an honest run gives is ``IMPOSSIBLE``, or any other integer beyond its bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NoReturn, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import HeSettings as HeSettings  # the schemes take it from here
from mpc_spearman.errors import BoundError

T = TypeVar("T")
R = TypeVar("R")

#: What a key is made for: its layout follows from it.
Operation = Literal["differences", "products"]

#: Stands for what was decrypted where that is no result of honest parties; beyond every bound.
IMPOSSIBLE = -(2**63)

#: Told now and then, from the calling thread, how many ciphertexts of this call are done. What it raises
#: ends the call.
Tick = Callable[[int], None]


def silent(done: int) -> None:
    """Tell nobody: the default ``tick``."""


@dataclass(frozen=True)
class Sizes:
    """The public numbers from which a key's layout follows; all parties know them.

    Attributes
    ----------
    n : int
        Rows of the vectors that are encrypted: those of a vector; where products are summed those of every
        source, put end to end.
    m_source, m_target : int
        Vectors of the source (one where products are summed) and of the target.
    value_bound : int
        |x| <= value_bound for everything the source encrypts.
    target_bound, target_sum : int
        |y| <= target_bound for the target's integers, and those of one of its vectors add up, without their
        signs, to no more than target_sum.
    result_bound : int
        Largest absolute value the coordinator may find: of a - b at differences, where it also bounds
        whatever is encrypted; of an inner product at products. Below 2^63.
    keys : int
        Key pairs of these settings in the run, one per source's session. What is to hold for the whole run,
        not for one key, is divided among them.
    """

    n: int
    m_source: int
    m_target: int
    value_bound: int
    target_bound: int
    target_sum: int
    result_bound: int
    keys: int = 1

    def __post_init__(self) -> None:
        bounds = (self.value_bound, self.target_bound, self.result_bound)
        if min(self.n, self.m_source, self.m_target, self.keys, self.target_sum, *bounds) < 1:
            raise ValueError("sizes are positive")
        if max(bounds) >= 2**63:
            raise BoundError("the values or their inner products do not fit a signed 64-bit integer")


class StaysHere:
    """Something no code may copy out of its process: pickling and copying raise, and its repr is bare."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} can be neither pickled nor copied")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Ciphertext:
    """One ciphertext in memory. What is in it is the scheme's business."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Products(ABC):
    """Inner products of the source's encrypted vectors with the target's integers, growing by blocks."""

    @abstractmethod
    def add(
        self, block: Sequence[Ciphertext], y: NDArray[np.int64], *, workers: int = 1, tick: Tick = silent
    ) -> None:
        """Add one block of rows.

        Parameters
        ----------
        block : sequence of Ciphertext
            What :meth:`PublicKey.encrypt_block` made of these rows.
        y : ndarray of int64, shape (m_target, rows)
            The target's own integers, |y| <= target_bound.

        Raises
        ------
        BoundError
        """

    @abstractmethod
    def export(self, *, workers: int = 1, tick: Tick = silent) -> list[bytes]:
        """Return what the coordinator gets: ``product_ciphertexts`` of ``result_ciphertext_bytes`` each.

        They show the inner products and nothing else to the coordinator, whatever it knows of the
        ciphertexts they were made from: see the scheme. May be called once.
        """


class PublicKey(StaysHere, ABC):
    """What source and target hold. No secret is in it.

    Attributes
    ----------
    name : str
        The scheme's.
    fingerprint : bytes
        SHA-256 of ``to_bytes()``. Parties compare it: nothing in a single ciphertext names its key.
    caution : str or None
        A sentence for the result's warnings.
    ciphertext_bytes, result_ciphertext_bytes : int
        Exact length of a ciphertext from the source, and of one for the coordinator.
    slots : int
        Signed integers one ciphertext holds, at differences.
    rows : int
        Rows of one block, at products; the last block may have fewer.
    block_ciphertexts : int
        Ciphertexts of a full block; see :meth:`ciphertexts_for`.
    product_ciphertexts : int
        Ciphertexts :meth:`Products.export` gives.
    """

    name: ClassVar[str]
    fingerprint: bytes
    caution: str | None
    ciphertext_bytes: int
    result_ciphertext_bytes: int
    slots: int
    rows: int
    block_ciphertexts: int
    product_ciphertexts: int

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the key as the wire carries it; its length follows from settings and sizes."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, raw: bytes, settings: HeSettings, sizes: Sizes, operation: Operation) -> PublicKey:
        """Rebuild the coordinator's key, checking all that can be checked without the secret.

        Raises
        ------
        ProtocolViolation
        """

    @abstractmethod
    def encrypt(self, values: NDArray[np.int64]) -> Ciphertext:
        """Encrypt up to ``slots`` integers, |v| <= result_bound, with fresh randomness.

        Raises
        ------
        BoundError
        """

    @abstractmethod
    def subtract(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """Return the encryption of a - b, slot by slot. Its randomness is not fresh.

        Raises
        ------
        BoundError
            If a slot could overflow.
        """

    @abstractmethod
    def export(self, a: Ciphertext, *, rerandomise: bool = True) -> bytes:
        """Return what may go to the coordinator: ``result_ciphertext_bytes`` that show only the plaintext.

        Parameters
        ----------
        a : Ciphertext
        rerandomise : bool
            False asks to leave out fresh randomness where an encryption this party made itself is already
            part of `a`, as the paper has it. A scheme in which that is not enough adds it all the same; one
            in which it is enough refuses where it is not the case.
        """

    @abstractmethod
    def dump(self, a: Ciphertext) -> bytes:
        """Return a fresh encryption of one's own as it goes to the target: ``ciphertext_bytes``.

        Raises
        ------
        ValueError
            For anything but a fresh encryption of this party's.
        """

    @abstractmethod
    def load(self, raw: bytes) -> Ciphertext:
        """Take a ciphertext from the wire.

        Raises
        ------
        ProtocolViolation
            If it is not one of this key's; a ciphertext of another key may look like one.
        """

    @abstractmethod
    def encrypt_block(
        self, x: NDArray[np.int64], *, workers: int = 1, tick: Tick = silent
    ) -> list[Ciphertext]:
        """Encrypt one block of rows, |x| <= value_bound.

        Parameters
        ----------
        x : ndarray of int64, shape (m_source, rows)

        Raises
        ------
        BoundError
        """

    def ciphertexts_for(self, rows: int) -> int:
        """Ciphertexts of a block of that many rows: ``block_ciphertexts``, unless the scheme says less."""
        return self.block_ciphertexts

    def encrypt_many(
        self, chunks: Sequence[NDArray[np.int64]], *, workers: int = 1, tick: Tick = silent
    ) -> list[Ciphertext]:
        """Encrypt chunk by chunk: see :meth:`encrypt`. The plaintexts do not depend on `workers`."""
        return _one_by_one(self.encrypt, chunks, tick)

    def load_many(self, raws: Sequence[bytes]) -> list[Ciphertext]:
        """Take ciphertexts from the wire: see :meth:`load`."""
        return [self.load(raw) for raw in raws]

    def subtract_many(self, a: Sequence[Ciphertext], b: Sequence[Ciphertext]) -> list[Ciphertext]:
        """Subtract one by one: see :meth:`subtract`."""
        return [self.subtract(left, right) for left, right in zip(a, b, strict=True)]

    def export_many(
        self,
        ciphertexts: Sequence[Ciphertext],
        *,
        rerandomise: bool = True,
        workers: int = 1,
        tick: Tick = silent,
    ) -> list[bytes]:
        """Make ciphertexts ready for the coordinator: see :meth:`export`."""
        return _one_by_one(lambda a: self.export(a, rerandomise=rerandomise), ciphertexts, tick)


class SecretKey(StaysHere, ABC):
    """What the coordinator holds. It has no serialiser, and nothing shows it.

    Attributes
    ----------
    public : PublicKey
    """

    public: PublicKey

    @classmethod
    @abstractmethod
    def generate(cls, settings: HeSettings, sizes: Sizes, operation: Operation) -> SecretKey:
        """Make a key from the operating system's randomness.

        Raises
        ------
        PlanError
            If the settings ask for a key this scheme does not make.
        BoundError
            If the sizes do not fit such a key.
        """

    @abstractmethod
    def decrypt(self, raw: bytes, count: int) -> NDArray[np.int64]:
        """Decrypt what :meth:`PublicKey.export` gave.

        Parameters
        ----------
        raw : bytes
        count : int
            How many integers are in it.

        Returns
        -------
        ndarray of int64, shape (count,)
            Beyond result_bound, or ``IMPOSSIBLE``, where no honest party's ciphertext was sent.

        Raises
        ------
        ProtocolViolation
            If it has not the form of a ciphertext.
        """

    @abstractmethod
    def open_products(
        self, raws: Sequence[bytes], *, workers: int = 1, tick: Tick = silent
    ) -> NDArray[np.object_]:
        """Decrypt what :meth:`Products.export` gave.

        Returns
        -------
        ndarray of int (Python's), shape (m_source, m_target)
            As :meth:`decrypt`.

        Raises
        ------
        ProtocolViolation
            As :meth:`decrypt`.
        """

    def decrypt_many(
        self, raws: Sequence[bytes], counts: Sequence[int], *, workers: int = 1, tick: Tick = silent
    ) -> list[NDArray[np.int64]]:
        """Decrypt one by one: see :meth:`decrypt`."""
        pairs = list(zip(raws, counts, strict=True))
        return _one_by_one(lambda pair: self.decrypt(*pair), pairs, tick)


def _one_by_one(work: Callable[[T], R], items: Sequence[T], tick: Tick) -> list[R]:
    results = []
    for item in items:
        results.append(work(item))
        tick(len(results))
    return results
