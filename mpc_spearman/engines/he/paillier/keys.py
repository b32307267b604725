"""The Paillier scheme: keys, packed ciphertexts, and inner products with plaintext integers.

*Differences.* A ciphertext holds ``slots`` integers (one, as in the paper, with ``he.form: literal``), and a
quotient of ciphertexts their differences.

*Products.* One ciphertext per row holds all of the source's vectors, one slot each (as many ciphertexts as
it takes), M_i = sum_p x_pi 2^(wp). The target computes prod_i Enc(M_i)^(y_qi), an encryption of
sum_p S_pq 2^(wp). Whatever the sums are on the way, the last one has |S_pq| <= R in every slot,
which is all that :mod:`mpc_spearman.engines.he.paillier.packing` asks for.

Why what leaves the target is re-randomised, and what the range check finds: docs/homomorphic-encryption.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import gmpy2
import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import NDArray

from mpc_spearman.arrays import blocks
from mpc_spearman.config import HeSettings
from mpc_spearman.engines.he.paillier import arithmetic
from mpc_spearman.engines.he.paillier.multiexp import best_width, power_product
from mpc_spearman.engines.he.paillier.packing import Slots
from mpc_spearman.engines.he.scheme import (
    IMPOSSIBLE,
    Block,
    Integers,
    Pairs,
    PublicKey,
    SecretKey,
    Sizes,
    check,
)
from mpc_spearman.errors import ProtocolViolation

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
        self.n, self.square, self.modulus = numbers.n, numbers.square, int(numbers.n)
        self._literal, bits = settings.form == "literal", settings.key_bits
        self.layout = Slots.fit(sizes.bounds.result, sizes.bounds.value, bits, packed=not self._literal)
        self.slots = self.layout.count
        self.ciphertext_bytes = self.result_ciphertext_bytes = bits // 4
        #: Ciphertexts per row, at products.
        self.groups = -(-sizes.m_source // self.slots)
        self.product_ciphertexts = self.product_residues = sizes.m_target * self.groups
        products = sizes.operation == "inner_products"
        self.rows = max(1, _BLOCK // self.groups) if products else self._rows_of_differences()
        self.caution = _caution(bits)

    def to_bytes(self) -> bytes:
        numbers = (self.n, self._numbers.h)
        return b"".join(x.to_bytes(self.ciphertext_bytes // 2, "big") for x in numbers if x is not None)

    @classmethod
    def from_bytes(cls, raw: bytes, settings: HeSettings, sizes: Sizes) -> PaillierPublicKey:
        short, length = settings.randomness == "short", settings.key_bits // 8
        if len(raw) != (1 + short) * length:
            raise ProtocolViolation(f"a public key of {len(raw)} bytes, not {(1 + short) * length}")
        n, h = mpz.from_bytes(raw[:length], "big"), mpz.from_bytes(raw[length:], "big") if short else None
        if not arithmetic.plausible_modulus(n, settings.key_bits):
            raise ProtocolViolation("a public key whose modulus is not the product of two large primes")
        if h is not None and not arithmetic.plausible_base(h, n):
            raise ProtocolViolation("a public key whose base of randomness is not -x² modulo its modulus")
        return cls(arithmetic.PublicNumbers(n, h), settings, sizes)

    def encrypt(self, x: Integers) -> list[bytes]:
        """Encrypt a block: for products, a row at a time, with the row's slots in the vectors' order."""
        check(x, self.sizes.bounds.value, "a value to encrypt")
        chunks = self.chunks(x if self.sizes.operation == "differences" else x.T)
        return [self.write(c) for c in self._encrypted(chunks)]

    def ciphertexts_for(self, rows: int) -> int:
        if self.sizes.operation == "differences":
            return self.sizes.m_source * -(-rows // self.slots)
        return rows * self.groups

    def subtract(self, ciphertexts: Sequence[bytes], y: Integers, pairs: Pairs) -> list[bytes]:
        """Subtract; with ``he.form: literal`` the quotients alone leave, as in the paper."""
        check(y, self.sizes.bounds.result, "a value to encrypt")
        sources, targets, square = self.read(ciphertexts), self._encrypted(self.chunks(y)), self.square
        values = [
            targets[j] if i is None else sources[i] * invert(targets[j], square) % square
            for i, j in self.pairs_of_chunks(pairs, y.shape[1])
        ]
        return [self.write(value) for value in values] if self._literal else self._write_randomised(values)

    def multiply(self, encrypted: Iterable[Block]) -> list[mpz]:
        """Multiply powers of the source's ciphertexts together, some thousand rows at a time.

        The product of target vector q and group g of the source's vectors is at q * groups + g.
        """
        rows = min(_ROWS, max(1, _ROWS_BYTES // (self.groups * self.ciphertext_bytes)))
        width = best_width(self.sizes.bounds.target, min(self.sizes.n, rows))
        sums = [mpz(1)] * self.product_ciphertexts
        for bases, y in self._join_blocks(encrypted, rows):
            powers = self._power_products(bases, y, width)
            sums = [c * power % self.square for c, power in zip(sums, powers, strict=True)]
        return sums

    def export(self, sums: Sequence[mpz], added: Sequence[int]) -> list[bytes]:
        """Multiply by (1 + n)^residue, and re-randomise."""
        pairs = zip(sums, added, strict=True)
        return self._write_randomised([c * (1 + self.n * residue) % self.square for c, residue in pairs])

    def residues(self, values: Integers) -> list[int]:
        """Pack each target column's integers in the layout of that column's products."""
        check(values, self.sizes.bounds.result, "noise")
        return [int(self.layout.encode(chunk) % self.n) for chunk in self.chunks(values.T)]

    def read(self, raws: Sequence[bytes]) -> list[mpz]:
        """Turn bytes into units modulo n²; raise ProtocolViolation for anything else."""
        numbers = [mpz.from_bytes(raw, "big") for raw in raws]
        if not all(0 < c < self.square for c in numbers):
            raise ProtocolViolation("a ciphertext is not between 0 and n²")
        if not arithmetic.are_units(numbers, self.n):
            raise ProtocolViolation("a ciphertext shares a factor with n")
        return numbers

    def write(self, value: mpz) -> bytes:
        """Turn a unit modulo n² into bytes."""
        return bytes(value.to_bytes(self.ciphertext_bytes, "big"))

    def _write_randomised(self, values: Sequence[mpz]) -> list[bytes]:
        """Re-randomise units modulo n² and turn them into bytes."""
        _ = self._numbers.wide_residue  # make its table here: several threads would each make one
        return _run_in_threads(
            lambda value: self.write(self._numbers.rerandomise(value)), values, self.threads
        )

    def _encrypted(self, chunks: Sequence[Integers]) -> list[mpz]:
        _ = self._numbers.residue  # make its table here: several threads would each make one
        return _run_in_threads(
            lambda values: self._numbers.encrypt(self.layout.encode(values)), chunks, self.threads
        )

    def _power_products(self, bases: Sequence[mpz], y: Integers, width: int) -> list[mpz]:
        def work(product: int) -> mpz:
            q, group = divmod(product, self.groups)
            return power_product(bases[group :: self.groups], y[q], width, self.square)

        return _run_in_threads(work, range(self.product_ciphertexts), self.threads)

    def _join_blocks(self, encrypted: Iterable[Block], rows: int) -> Iterator[tuple[list[mpz], Integers]]:
        """Yield the blocks joined into larger ones, of at least `rows` rows but for the last."""
        bases: list[mpz] = []
        waiting: list[Integers] = []
        for ciphertexts, y in self.checked(encrypted):
            bases += self.read(ciphertexts)
            waiting.append(y)
            if len(bases) >= rows * self.groups:
                yield bases, np.concatenate(waiting, axis=1)
                bases, waiting = [], []
        if waiting:
            yield bases, np.concatenate(waiting, axis=1)


class PaillierSecretKey(SecretKey):
    """The public key and its factors."""

    public: PaillierPublicKey

    def __init__(self, numbers: arithmetic.SecretNumbers, public: PaillierPublicKey) -> None:
        self._numbers, self.public = numbers, public

    @classmethod
    def generate(cls, settings: HeSettings, sizes: Sizes) -> PaillierSecretKey:
        secret, public = arithmetic.generate(settings.key_bits, short=settings.randomness == "short")
        return cls(secret, PaillierPublicKey(public, settings, sizes))

    def decrypt(self, raws: Sequence[bytes], vectors: int, rows: int) -> Integers:
        return self._decrypt_slots(raws, vectors, rows, [0] * len(raws))

    def decrypt_products(self, raws: Sequence[bytes], added: Sequence[int]) -> NDArray[np.object_]:
        sizes = self.public.sizes
        # One target column after the other; as Python's integers, for sums and products beyond 64 bits.
        return self._decrypt_slots(raws, sizes.m_target, sizes.m_source, added).T.astype(object)

    def _decrypt_slots(
        self, raws: Sequence[bytes], vectors: int, length: int, added: Sequence[int]
    ) -> Integers:
        """Decrypt packed vectors of integers, add residues, and only then read the slots."""
        public = self.public
        counts = [chunk.stop - chunk.start for chunk in blocks(length, public.slots)] * vectors

        def work(item: tuple[mpz, int, int]) -> Integers:
            ciphertext, count, residue = item
            plaintext = (self._numbers.decrypt(ciphertext) + residue) % public.n
            values = public.layout.decode(plaintext, public.n, count)
            return np.full(count, IMPOSSIBLE) if values is None else values

        items = list(zip(public.read(raws), counts, added, strict=True))
        return np.concatenate(_run_in_threads(work, items, public.threads)).reshape(vectors, length)


def _run_in_threads(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return the results of `work` on each item, computed in threads that release the interpreter's lock.

    Threads and not processes, because a process pool would pickle the secret key.
    """
    if threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    released = gmpy2.context(allow_release_gil=True)
    with ThreadPoolExecutor(threads, initializer=lambda: gmpy2.set_context(released.copy())) as pool:
        return list(pool.map(work, items))


def _caution(bits: int) -> str | None:
    if bits < _LEAST_BITS:
        return f"Paillier keys of {bits} bits can be broken (he.insecure): this run protected nothing."
    if bits < _FULL_BITS:
        return (
            f"Paillier keys of {bits} bits have about 112 bits of security; "
            f"he.key_bits: {_FULL_BITS} has 128, as advised for new uses."
        )
    return None
