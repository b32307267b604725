"""The contract of a homomorphic encryption scheme.

The coordinator makes a :class:`SecretKey` and keeps it; source and target get its :class:`PublicKey`.

========================= ======================================== ====================================
step                      differences                              products
========================= ======================================== ====================================
source, to the target     ``encrypt``, ``dump``                    ``encrypt_block``, ``dump``
target                    ``load``, ``encrypt``, ``subtract``      ``load``, ``Products.add``
target, to the coordinator ``export``                               ``Products.export``
coordinator               ``SecretKey.decrypt``                    ``SecretKey.open_products``
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
from typing import ClassVar, Literal, NamedTuple, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import HeSettings as HeSettings  # the schemes take it from here
from mpc_spearman.errors import BoundError

#: What a key is made for: its layout follows from it.
Operation = Literal["differences", "products"]

#: Stands for what was decrypted where that is no result of honest parties; beyond every bound.
IMPOSSIBLE = -(2**63)

#: Told how many ciphertexts are done.
Tick = Callable[[int], None]


class Effort(NamedTuple):
    """How many threads a call may use, and who is told how far it is.

    `tick` is told now and then, from the calling thread; what it raises ends the call.
    """

    workers: int = 1
    tick: Tick = lambda done: None


#: In the calling thread alone, and nobody is told.
ALONE = Effort()


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
    def add(self, block: Sequence[Ciphertext], y: NDArray[np.int64], effort: Effort = ALONE) -> None:
        """Add one block of rows: what `encrypt_block` made of them, and the target's own integers.

        `y` is (m_target, rows), |y| <= target_bound; else `BoundError`.
        """

    @abstractmethod
    def export(self, effort: Effort = ALONE) -> list[bytes]:
        """Return what the coordinator gets: ``product_ciphertexts`` of ``result_ciphertext_bytes`` each.

        They show the coordinator the inner products and nothing else, whatever it knows of the ciphertexts
        they were made from: see the scheme. Called once.
        """


class PublicKey(StaysHere, ABC):
    """What source and target hold. No secret is in it.

    Attributes
    ----------
    name : str
        The scheme's.
    operation : {'differences', 'products'}
        What the key is made for.
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
    product_ciphertexts : int
        Ciphertexts :meth:`Products.export` gives.
    """

    name: ClassVar[str]
    operation: Operation
    fingerprint: bytes
    caution: str | None
    ciphertext_bytes: int
    result_ciphertext_bytes: int
    slots: int
    rows: int
    product_ciphertexts: int

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the key as the wire carries it; its length follows from settings and sizes."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, raw: bytes, settings: HeSettings, sizes: Sizes, operation: Operation) -> PublicKey:
        """Rebuild the coordinator's key; `ProtocolViolation` for what shows without the secret to be none."""

    @abstractmethod
    def encrypt(self, chunks: Sequence[NDArray[np.int64]], effort: Effort = ALONE) -> list[Ciphertext]:
        """Encrypt chunks of up to ``slots`` integers, |v| <= result_bound, each with fresh randomness.

        Raises `BoundError` for larger ones. The plaintexts do not depend on `effort`.
        """

    @abstractmethod
    def subtract(self, a: Sequence[Ciphertext], b: Sequence[Ciphertext]) -> list[Ciphertext]:
        """Return encryptions of a - b, slot by slot. Their randomness is not fresh.

        Raises `BoundError` if a slot could overflow.
        """

    @abstractmethod
    def export(
        self, ciphertexts: Sequence[Ciphertext], effort: Effort = ALONE, *, rerandomise: bool = True
    ) -> list[bytes]:
        """Return what may go to the coordinator: ``result_ciphertext_bytes`` that show only the plaintext.

        Parameters
        ----------
        rerandomise : bool
            False asks to leave out fresh randomness where an encryption this party made itself is already
            part of a ciphertext, as the paper has it. A scheme in which that is not enough adds it all the
            same; one in which it is enough refuses where it is not the case.
        """

    @abstractmethod
    def dump(self, a: Ciphertext) -> bytes:
        """Return a fresh encryption of one's own as it goes to the target; `ValueError` for any other."""

    @abstractmethod
    def load(self, raws: Sequence[bytes]) -> list[Ciphertext]:
        """Take ciphertexts from the wire; `ProtocolViolation` for what cannot be one of this key's.

        A ciphertext of another key may look like one.
        """

    @abstractmethod
    def encrypt_block(self, x: NDArray[np.int64], effort: Effort = ALONE) -> list[Ciphertext]:
        """Encrypt one block, (m_source, rows), |x| <= value_bound; else `BoundError`."""

    @abstractmethod
    def ciphertexts_for(self, rows: int) -> int:
        """Return how many ciphertexts hold a block of that many rows."""

    def only(self, operation: Operation) -> None:
        """Refuse what this key was not made for: its layout and bounds are for something else."""
        if operation != self.operation:
            raise ValueError(f"a key for {self.operation} was used for {operation}")


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
    def decrypt(
        self, raws: Sequence[bytes], counts: Sequence[int], effort: Effort = ALONE
    ) -> list[NDArray[np.int64]]:
        """Decrypt what :meth:`PublicKey.export` gave, with so many integers in each.

        They are beyond result_bound, or ``IMPOSSIBLE``, where no honest party's ciphertext was sent.
        `ProtocolViolation` is for what has not the form of a ciphertext.
        """

    @abstractmethod
    def open_products(self, raws: Sequence[bytes], effort: Effort = ALONE) -> NDArray[np.object_]:
        """Decrypt what :meth:`Products.export` gave: Python int, (m_source, m_target). As :meth:`decrypt`."""
