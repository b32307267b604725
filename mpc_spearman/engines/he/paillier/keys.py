"""The Paillier scheme: keys, packed ciphertexts, and inner products with plaintext integers.

*Differences.* A ciphertext holds ``slots`` integers (one, as in the paper, with ``he.form: literal``), and a
quotient of ciphertexts their differences.

*Products.* One ciphertext per row holds all of the source's vectors, one slot each (as many ciphertexts as
it takes), M_i = sum_p x_pi 2^(wp). The target computes prod_i Enc(M_i)^(y_qi), an encryption of
sum_p S_pq 2^(wp). Whatever the sums are on the way, the last one has |S_pq| <= result_bound in every slot,
which is all that :mod:`mpc_spearman.engines.he.paillier.packing` asks for.

Why what leaves the target is re-randomised, and what the range check finds: docs/homomorphic-encryption.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import gmpy2
import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import NDArray

from mpc_spearman.config import HeSettings
from mpc_spearman.engines.he.paillier import arithmetic
from mpc_spearman.engines.he.paillier.multiexp import Digits, power_product
from mpc_spearman.engines.he.paillier.packing import Slots
from mpc_spearman.engines.he.scheme import (
    IMPOSSIBLE,
    Integers,
    Pairs,
    Products,
    PublicKey,
    SecretKey,
    Sizes,
    check,
)
from mpc_spearman.errors import PlanError, ProtocolViolation

T = TypeVar("T")
R = TypeVar("R")

# Below the first of these sizes a key can be broken; below the second it gives 112 bits of security.
_LEAST_BITS, _FULL_BITS = 2048, 3072
# Ciphertexts of one block at products: enough for all threads, few enough that the target begins soon.
_BLOCK = 256
# Rows multiplied up at a time, unless their ciphertexts take more bytes: the buckets add 1/8 to the work.
_ROWS, _ROWS_BYTES = 4096, 1 << 27


class PaillierPublicKey(PublicKey):
    """n, and at short randomness h: see :mod:`mpc_spearman.engines.he.paillier.arithmetic`.

    On the wire both are big-endian in ``key_bits / 8`` bytes each, and a ciphertext in ``key_bits / 4``.
    """

    def __init__(self, numbers: arithmetic.PublicNumbers, settings: HeSettings, sizes: Sizes) -> None:
        self._numbers, self.sizes = numbers, sizes
        self.n, self.square = numbers.n, numbers.square
        bits = settings.key_bits
        self.layout = Slots.fit(sizes.result_bound, sizes.value_bound, bits, packed=settings.form == "packed")
        self.slots = self.layout.count
        #: Ciphertexts per row, at products.
        self.groups = -(-sizes.m_source // self.slots)
        self.rows = max(1, _BLOCK // self.groups)
        self.product_ciphertexts = self.product_residues = sizes.m_target * self.groups
        self.modulus = int(numbers.n)
        self.ciphertext_bytes = self.result_ciphertext_bytes = bits // 4
        self.caution = _caution(bits)

    def to_bytes(self) -> bytes:
        numbers = (self.n, self._numbers.h)
        return b"".join(_bytes(x, self.ciphertext_bytes // 2) for x in numbers if x is not None)

    @classmethod
    def from_bytes(cls, raw: bytes, settings: HeSettings, sizes: Sizes) -> PaillierPublicKey:
        _check_settings(settings)
        short, length = settings.randomness == "short", settings.key_bits // 8
        if len(raw) != (1 + short) * length:
            raise ProtocolViolation(f"a public key of {len(raw)} bytes, not {(1 + short) * length}")
        n, h = _integer(raw[:length]), _integer(raw[length:]) if short else None
        if not arithmetic.plausible_modulus(n, settings.key_bits):
            raise ProtocolViolation("a public key whose modulus is not the product of two large primes")
        if h is not None and not arithmetic.plausible_base(h, n):
            raise ProtocolViolation("a public key whose base of randomness is not -x² modulo its modulus")
        return cls(arithmetic.PublicNumbers(n, h), settings, sizes)

    def encrypt(self, chunks: Sequence[Integers]) -> list[bytes]:
        return [self.write(c) for c in self._encrypted(chunks, self.sizes.result_bound)]

    def subtract(
        self, ciphertexts: Sequence[bytes], integers: Sequence[Integers], pairs: Pairs, *, rerandomise: bool
    ) -> list[bytes]:
        """Subtract; without `rerandomise` the quotients alone, as in the paper."""
        left, right = self.read(ciphertexts), self._encrypted(integers, self.sizes.result_bound)
        values = [
            right[j] if i is None else left[i] * invert(right[j], self.square) % self.square for i, j in pairs
        ]
        return self.write_randomised(values) if rerandomise else [self.write(value) for value in values]

    def encrypt_block(self, x: Integers) -> list[bytes]:
        """Encrypt a block row by row, and within a row slots in the vectors' order."""
        chunks = [part for row in x.T for part in np.split(row, range(self.slots, len(row), self.slots))]
        return [self.write(c) for c in self._encrypted(chunks, self.sizes.value_bound)]

    def ciphertexts_for(self, rows: int) -> int:
        return rows * self.groups

    def residues(self, values: Integers) -> list[int]:
        """Pack each column's integers as its products are packed."""
        check(values, self.sizes.result_bound, "noise")
        starts = range(0, len(values), self.slots)
        packed = [self.layout.encode(column[at : at + self.slots]) for column in values.T for at in starts]
        return [int(plaintext % self.n) for plaintext in packed]

    def products(self) -> PaillierProducts:
        return PaillierProducts(self)

    def read(self, raws: Sequence[bytes]) -> list[mpz]:
        """Turn bytes into units modulo n²; raise ProtocolViolation for anything else."""
        numbers = [_integer(raw) for raw in raws]
        if not all(0 < c < self.square for c in numbers):
            raise ProtocolViolation("a ciphertext is not between 0 and n²")
        if not arithmetic.are_units(numbers, self.n):
            raise ProtocolViolation("a ciphertext shares a factor with n")
        return numbers

    def write(self, value: mpz) -> bytes:
        """Turn a unit modulo n² into bytes."""
        return _bytes(value, self.ciphertext_bytes)

    def write_randomised(self, values: Sequence[mpz]) -> list[bytes]:
        """Re-randomise units modulo n² and turn them into bytes."""
        _ = self._numbers.wide_residue  # make its table here: several threads would each make one
        return _spread(lambda value: self.write(self._numbers.rerandomise(value)), values, self.threads)

    def _encrypted(self, chunks: Sequence[Integers], bound: int) -> list[mpz]:
        for values in chunks:
            check(values, bound, "a value to encrypt")
        _ = self._numbers.residue  # make its table here: several threads would each make one
        return _spread(lambda values: self._numbers.encrypt(self.layout.encode(values)), chunks, self.threads)


class PaillierSecretKey(SecretKey):
    """The public key and its factors."""

    public: PaillierPublicKey

    def __init__(self, numbers: arithmetic.SecretNumbers, public: PaillierPublicKey) -> None:
        self._numbers, self.public = numbers, public

    @classmethod
    def generate(cls, settings: HeSettings, sizes: Sizes) -> PaillierSecretKey:
        _check_settings(settings)
        secret, public = arithmetic.generate(settings.key_bits, short=settings.randomness == "short")
        return cls(secret, PaillierPublicKey(public, settings, sizes))

    def decrypt(self, raws: Sequence[bytes], counts: Sequence[int]) -> list[Integers]:
        return self._decrypted(raws, counts, [0] * len(counts))

    def _decrypted(
        self, raws: Sequence[bytes], counts: Sequence[int], added: Sequence[int]
    ) -> list[Integers]:
        """Decrypt, add residues, and only then read the slots."""
        public = self.public

        def work(item: tuple[mpz, int, int]) -> Integers:
            ciphertext, count, residue = item
            plaintext = (self._numbers.decrypt(ciphertext) + residue) % public.n
            values = public.layout.decode(plaintext, public.n, count)
            return np.full(count, IMPOSSIBLE) if values is None else values

        return _spread(work, list(zip(public.read(raws), counts, added, strict=True)), public.threads)

    def open_products(self, raws: Sequence[bytes], added: Sequence[int] = ()) -> NDArray[np.object_]:
        sizes, slots = self.public.sizes, self.public.slots
        starts = range(0, sizes.m_source, slots)
        counts = [min(slots, sizes.m_source - start) for start in starts] * sizes.m_target
        columns = np.concatenate(self._decrypted(raws, counts, added or [0] * len(counts)))
        # One target column after the other; as Python's integers, for sums and products beyond 64 bits.
        return columns.reshape(sizes.m_target, sizes.m_source).T.astype(object)


class PaillierProducts(Products):
    """Powers of the source's ciphertexts, multiplied up some thousand rows at a time."""

    _key: PaillierPublicKey

    def __init__(self, key: PaillierPublicKey) -> None:
        super().__init__(key)
        self._most = min(_ROWS, max(1, _ROWS_BYTES // (key.groups * key.ciphertext_bytes)))
        self._digits = Digits.best(key.sizes.target_bound, min(key.sizes.n, self._most))
        self._rows: list[list[mpz]] = []  # of each waiting row the ciphertexts, one per group
        self._y: list[Integers] = []  # of each waiting block the target's integers
        # Product q, group g is above / below at q * groups + g.
        self._above = [mpz(1)] * key.product_ciphertexts
        self._below = [mpz(1)] * key.product_ciphertexts

    def _add(self, block: Sequence[bytes], y: Integers) -> None:
        """Keep the block; now and then multiply up all kept blocks."""
        values, groups = self._key.read(block), self._key.groups
        self._rows += [values[start : start + groups] for start in range(0, len(values), groups)]
        self._y.append(y)
        if len(self._rows) >= self._most:
            self._settle()

    def export(self, added: Sequence[int] = ()) -> list[bytes]:
        """Multiply by (1 + n)^residue, and re-randomise."""
        self._settle()
        key, square = self._key, self._key.square
        sums = [
            above * invert(below, square) * (1 + key.n * residue) % square
            for above, below, residue in zip(
                self._above, self._below, added or [0] * len(self._above), strict=True
            )
        ]
        return key.write_randomised(sums)

    def _settle(self) -> None:
        """Multiply up the kept rows."""
        if not self._rows:
            return
        bases, y = list(zip(*self._rows, strict=True)), np.concatenate(self._y, axis=1)
        square, groups = self._key.square, self._key.groups
        self._rows, self._y = [], []

        def work(product: int) -> tuple[mpz, mpz]:
            q, group = divmod(product, groups)
            return power_product(bases[group], y[q], self._digits, square)

        for product, (above, below) in enumerate(_spread(work, range(len(self._above)), self._key.threads)):
            self._above[product] = self._above[product] * above % square
            self._below[product] = self._below[product] * below % square


def _spread(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return the results of `work` on each item, computed in threads that release the interpreter's lock.

    Threads and not processes, because a process pool would pickle the secret key.
    """
    if threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    released = gmpy2.context(allow_release_gil=True)
    with ThreadPoolExecutor(threads, initializer=lambda: gmpy2.set_context(released.copy())) as pool:
        return list(pool.map(work, items))


def _check_settings(settings: HeSettings) -> None:
    bits = settings.key_bits
    if bits % 16 or bits < (64 if settings.insecure else _LEAST_BITS):
        raise PlanError(
            f"he.key_bits: {bits} is not a size for Paillier keys; use {_FULL_BITS} or {_LEAST_BITS} or, "
            "for tests with he.insecure: true, a smaller multiple of 16"
        )


def _caution(bits: int) -> str | None:
    if bits < _LEAST_BITS:
        return f"Paillier keys of {bits} bits can be broken (he.insecure): this run protected nothing."
    if bits < _FULL_BITS:
        return (
            f"Paillier keys of {bits} bits have about 112 bits of security; "
            f"he.key_bits: {_FULL_BITS} has 128, as advised for new uses."
        )
    return None


def _bytes(x: mpz, length: int) -> bytes:
    return bytes(x.to_bytes(length, "big"))


def _integer(raw: bytes) -> mpz:
    return mpz.from_bytes(raw, "big")
