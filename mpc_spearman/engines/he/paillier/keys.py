"""The Paillier scheme: keys, packed ciphertexts, and inner products with plaintext integers.

*Differences.* A ciphertext holds ``slots`` integers (one, as in the paper, with ``he.form: literal``), and a
quotient of ciphertexts their differences.

*Products.* One ciphertext per row holds all of the source's vectors, one slot each (as many ciphertexts as
it takes), M_i = sum_p x_pi 2^(wp). The target multiplies up prod_i Enc(M_i)^(y_qi), an encryption of
sum_i y_qi M_i = sum_p S_pq 2^(wp). Whatever the sums are on the way, the last one has |S_pq| <= result_bound
in every slot, which is all that :mod:`mpc_spearman.engines.he.paillier.packing` asks for.

*What a ciphertext gives away.* To whoever knows p and q, also the n-th residue that is its randomness. So
what the target sends to the coordinator must carry randomness of the target's own, independent of the data,
or the source, who knows the rest of the randomness, could read the target's integers off the wire. ``export``
multiplies it in; of differences it says when it is there already.

*What the checks see.* A ciphertext of another key, or one changed on the way, decrypts to noise, which the
coordinator's range check finds (the odds are in ``packing``). But multiplying a ciphertext by (1 + n)^d adds
d, unseen while the result is in range: only the links' authenticated encryption protects against that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import NDArray

from mpc_spearman.engines.he.paillier import arithmetic
from mpc_spearman.engines.he.paillier.multiexp import magnitude
from mpc_spearman.engines.he.paillier.packing import Slots
from mpc_spearman.engines.he.scheme import (
    ALONE,
    IMPOSSIBLE,
    Ciphertext,
    Effort,
    HeSettings,
    Operation,
    PublicKey,
    SecretKey,
    Sizes,
)
from mpc_spearman.engines.he.threads import spread
from mpc_spearman.errors import BoundError, PlanError, ProtocolViolation

# Below the first of these sizes a key can be broken; below the second it gives 112 bits of security.
_LEAST_BITS, _FULL_BITS = 2048, 3072
# Ciphertexts of one block at products: enough for all threads, few enough that the target begins soon.
_BLOCK = 256

Origin = Literal["made", "received", "mixed", "other"]


class PaillierCiphertext(Ciphertext):
    """A unit modulo n².

    Attributes
    ----------
    key : PaillierPublicKey
    value : mpz
    bound : int
        No slot's absolute value is larger.
    origin : {"made", "received", "mixed", "other"}
        An encryption by this party; one from the wire; the difference of one of each; of anything else.
    """

    __slots__ = ("bound", "key", "origin", "value")

    def __init__(self, key: PaillierPublicKey, value: mpz, bound: int, origin: Origin) -> None:
        self.key, self.value, self.bound, self.origin = key, value, bound, origin


class PaillierPublicKey(PublicKey):
    """n, and at short randomness h: see :mod:`mpc_spearman.engines.he.paillier.arithmetic`.

    On the wire: n, then h if there is one, each big-endian in ``key_bits / 8`` bytes. A ciphertext is
    big-endian in ``key_bits / 4`` bytes.
    """

    name: ClassVar[str] = "paillier"

    def __init__(
        self, numbers: arithmetic.PublicNumbers, settings: HeSettings, sizes: Sizes, operation: Operation
    ) -> None:
        self._numbers, self._settings, self.operation = numbers, settings, operation
        self.n, self.square, self.sizes = numbers.n, numbers.square, sizes
        bits = settings.key_bits
        self.layout = Slots.fit(sizes.result_bound, sizes.value_bound, bits, packed=settings.form == "packed")
        self.slots = self.layout.count
        #: Ciphertexts per row, at products.
        self.groups = -(-sizes.m_source // self.slots)
        self.rows = max(1, _BLOCK // self.groups)
        self.product_ciphertexts = sizes.m_target * self.groups
        self.ciphertext_bytes = self.result_ciphertext_bytes = bits // 4
        self.fingerprint = hashlib.sha256(self.to_bytes()).digest()
        self.caution = _caution(bits)

    def to_bytes(self) -> bytes:
        """See :class:`PaillierPublicKey`."""
        numbers = (self.n, self._numbers.h)
        return b"".join(_bytes(x, self._settings.key_bits // 8) for x in numbers if x is not None)

    @classmethod
    def from_bytes(
        cls, raw: bytes, settings: HeSettings, sizes: Sizes, operation: Operation
    ) -> PaillierPublicKey:
        """See :meth:`PublicKey.from_bytes`."""
        _check_settings(settings)
        short, length = settings.randomness == "short", settings.key_bits // 8
        if len(raw) != (1 + short) * length:
            raise ProtocolViolation(f"a public key of {len(raw)} bytes, not {(1 + short) * length}")
        n, h = _integer(raw[:length]), _integer(raw[length:]) if short else None
        if not arithmetic.plausible_modulus(n, settings.key_bits):
            raise ProtocolViolation("a public key whose modulus is not the product of two large primes")
        if h is not None and not arithmetic.plausible_base(h, n):
            raise ProtocolViolation("a public key whose base of randomness is not -x² modulo its modulus")
        return cls(arithmetic.PublicNumbers(n, h), settings, sizes, operation)

    # --- differences

    def encrypt(self, chunks: Sequence[NDArray[np.int64]], effort: Effort = ALONE) -> list[Ciphertext]:
        """See :meth:`PublicKey.encrypt`."""
        self.only("differences")
        return self._encrypt(chunks, self.sizes.result_bound, effort)

    def subtract(self, a: Sequence[Ciphertext], b: Sequence[Ciphertext]) -> list[Ciphertext]:
        """See :meth:`PublicKey.subtract`."""
        self.only("differences")
        return [self._difference(self.own(x), self.own(y)) for x, y in zip(a, b, strict=True)]

    def _difference(self, left: PaillierCiphertext, right: PaillierCiphertext) -> PaillierCiphertext:
        bound = left.bound + right.bound
        if bound > self.layout.capacity:
            raise BoundError("the difference of two ciphertexts could overflow its slots")
        value = left.value * invert(right.value, self.square) % self.square
        mixed = {left.origin, right.origin} == {"made", "received"}
        return PaillierCiphertext(self, value, bound, "mixed" if mixed else "other")

    def export(
        self, ciphertexts: Sequence[Ciphertext], effort: Effort = ALONE, *, rerandomise: bool = True
    ) -> list[bytes]:
        """Return what may go to the coordinator.

        Without `rerandomise`, each must contain an encryption this party made itself: it is one, or the
        difference of one from the wire and one b of its own, or there is a `ValueError`. Then new randomness
        would add nothing, even where one b serves for several differences, as in the paper,
        D_pq = Enc(a_p) / Enc(b_q) for all p:

        - to the source, who may know all about Enc(a_p), whatever leaves is computed from Enc(a_p) and
          Enc(b_q), and Enc(b_q), made with randomness of the target's own, tells it nothing about b_q;
        - to the coordinator, who decrypts a_p - b_q and then has the randomness ρ_p / σ_q of each D_pq: it
          never saw Enc(a_p) or Enc(b_q), and the ρ_p and σ_q were drawn without regard to the data. It
          could have drawn them itself and made all D_pq from the differences it is meant to learn.
        """
        self.only("differences")
        owned = [self.own(a) for a in ciphertexts]
        if rerandomise:
            return self.write_anew([a.value for a in owned], effort)
        if not all(a.origin in ("made", "mixed") for a in owned):
            raise ValueError("a ciphertext without this party's randomness has to be re-randomised")
        effort.tick(len(owned))
        return [self._write(a.value) for a in owned]

    # --- products

    def ciphertexts_for(self, rows: int) -> int:
        """See :meth:`PublicKey.ciphertexts_for`."""
        return rows * self.groups

    def encrypt_block(self, x: NDArray[np.int64], effort: Effort = ALONE) -> list[Ciphertext]:
        """See :meth:`PublicKey.encrypt_block`; row by row, and within a row slots in the vectors' order."""
        self.only("products")
        if x.ndim != 2 or len(x) != self.sizes.m_source or not 1 <= x.shape[1] <= self.rows:
            raise ValueError(f"a block has {self.sizes.m_source} vectors and up to {self.rows} rows")
        chunks = [part for row in x.T for part in np.split(row, range(self.slots, len(row), self.slots))]
        return self._encrypt(chunks, self.sizes.value_bound, effort)

    # --- shared

    def dump(self, a: Ciphertext) -> bytes:
        """See :meth:`PublicKey.dump`."""
        owned = self.own(a)
        if owned.origin != "made":
            raise ValueError("only what this party encrypted itself goes to the target")
        return self._write(owned.value)

    def load(self, raws: Sequence[bytes]) -> list[Ciphertext]:
        """See :meth:`PublicKey.load`; one gcd for all of them."""
        bound = self.sizes.value_bound
        return [PaillierCiphertext(self, c, bound, "received") for c in self.read(raws)]

    def read(self, raws: Sequence[bytes]) -> list[mpz]:
        """Turn bytes into units modulo n²; raise ProtocolViolation for anything else."""
        if any(len(raw) != self.ciphertext_bytes for raw in raws):
            raise ProtocolViolation(f"a ciphertext has {self.ciphertext_bytes} bytes, not what was sent")
        numbers = [_integer(raw) for raw in raws]
        if not all(0 < c < self.square for c in numbers):
            raise ProtocolViolation("a ciphertext is not between 0 and n²")
        if not arithmetic.are_units(numbers, self.n):
            raise ProtocolViolation("a ciphertext shares a factor with n")
        return numbers

    def _encrypt(self, chunks: Sequence[NDArray[np.int64]], bound: int, effort: Effort) -> list[Ciphertext]:
        for values in chunks:
            if values.ndim != 1 or not 1 <= len(values) <= self.slots or values.dtype != np.int64:
                raise ValueError(f"a ciphertext holds 1 to {self.slots} values of int64")

        def work(values: NDArray[np.int64]) -> Ciphertext:
            largest = magnitude(values)
            if largest > bound:
                raise BoundError("a value to be encrypted is beyond the agreed bound")
            value = self._numbers.encrypt(self.layout.encode(values))
            return PaillierCiphertext(self, value, largest, "made")

        self._numbers.prepare()
        return spread(work, chunks, effort)

    def write_anew(self, values: Sequence[mpz], effort: Effort) -> list[bytes]:
        """Re-randomise units modulo n² and turn them into bytes."""

        def work(value: mpz) -> bytes:
            return self._write(self._numbers.rerandomise(value))

        self._numbers.prepare()
        return spread(work, values, effort)

    def _write(self, value: mpz) -> bytes:
        return _bytes(value, self.ciphertext_bytes)

    def own(self, a: Ciphertext) -> PaillierCiphertext:
        """Return a ciphertext that is this key's; raise ValueError otherwise."""
        if not isinstance(a, PaillierCiphertext) or a.key is not self:
            raise ValueError("a ciphertext of another key")
        return a


class PaillierSecretKey(SecretKey):
    """p and q, out of reach in :class:`mpc_spearman.engines.he.paillier.arithmetic.SecretNumbers`."""

    public: PaillierPublicKey

    def __init__(self, numbers: arithmetic.SecretNumbers, public: PaillierPublicKey) -> None:
        self._numbers, self.public = numbers, public

    @classmethod
    def generate(cls, settings: HeSettings, sizes: Sizes, operation: Operation) -> PaillierSecretKey:
        """See :meth:`SecretKey.generate`."""
        _check_settings(settings)
        secret, public = arithmetic.generate(settings.key_bits, short=settings.randomness == "short")
        return cls(secret, PaillierPublicKey(public, settings, sizes, operation))

    def decrypt(
        self, raws: Sequence[bytes], counts: Sequence[int], effort: Effort = ALONE
    ) -> list[NDArray[np.int64]]:
        """See :meth:`SecretKey.decrypt`."""
        public = self.public
        if not all(1 <= count <= public.slots for count in counts):
            raise ValueError(f"a ciphertext holds 1 to {public.slots} values")

        def work(pair: tuple[mpz, int]) -> NDArray[np.int64]:
            values = public.layout.decode(self._numbers.decrypt(pair[0]), public.n, pair[1])
            return np.full(pair[1], IMPOSSIBLE) if values is None else values

        pairs = list(zip(public.read(raws), counts, strict=True))
        return spread(work, pairs, effort)

    def open_products(self, raws: Sequence[bytes], effort: Effort = ALONE) -> NDArray[np.object_]:
        """See :meth:`SecretKey.open_products`."""
        sizes, public = self.public.sizes, self.public
        if len(raws) != public.product_ciphertexts:
            raise ProtocolViolation(f"{len(raws)} ciphertexts, not {public.product_ciphertexts}")
        starts = range(0, sizes.m_source, public.slots)
        counts = [min(public.slots, sizes.m_source - start) for start in starts] * sizes.m_target
        columns = np.concatenate(self.decrypt(raws, counts, effort))
        # One target column after the other; as Python's integers, for sums and products beyond 64 bits.
        return columns.reshape(sizes.m_target, sizes.m_source).T.astype(object)


def _check_settings(settings: HeSettings) -> None:
    bits = settings.key_bits
    if bits % 16 or bits < (64 if settings.insecure else _LEAST_BITS):
        raise PlanError(
            f"he.key_bits: {bits} is not a size for Paillier keys; {_FULL_BITS} is, {_LEAST_BITS} too, and "
            "with he.insecure: true, for tests, smaller multiples of 16"
        )


def _caution(bits: int) -> str | None:
    if bits < _LEAST_BITS:
        return f"Paillier keys of {bits} bits can be broken (he.insecure): this run protected nothing."
    if bits < _FULL_BITS:
        return (
            f"Paillier keys of {bits} bits have about 112 bits of security; "
            f"he.key_bits: {_FULL_BITS} has 128, as is advised for new uses."
        )
    return None


def _bytes(x: mpz, length: int) -> bytes:
    return bytes(x.to_bytes(length, "big"))


def _integer(raw: bytes) -> mpz:
    return mpz.from_bytes(raw, "big")
