"""BFV: thousands of ranks in one lattice ciphertext, on Microsoft SEAL (through TenSEAL).

*Differences.* A ciphertext holds N integers, one per slot; a - b is one subtraction. The plaintext modulus t
is more than twice the largest difference that two encrypted values can have, so nothing wraps.

*Products.* Vectors lie in coefficients rather than slots. A block of r rows of k of the source's columns is
X(z) = sum_p sum_i x_pi z^(pr+i), with k r <= N; the target's column is Y(z) = sum_i y_i z^(r-1-i). In X Y the
coefficient of z^(pr+r-1) is sum_i x_pi y_i, column p's inner product: other terms could meet it only with
indices that differ by a multiple of r (each index is below r), and what leaves the ring at z^N = -1 comes
back below z^(r-1). So one ciphertext per target column and k source columns gives the k inner products over
all blocks, without rotation keys or relinearisation, and with noise that grows with the ranks and not with t.

docs/homomorphic-encryption.md says what the target does before it sends a ciphertext, and what the
coordinator's check of the noise finds. Masks and floods come from AES-256 under a fresh key from the
operating system for each ciphertext. Encryption's randomness is SEAL's (`mpc_spearman.engines.he.bfv.seal`).
SEAL holds the interpreter's lock, so more threads would change nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import HeSettings
from mpc_spearman.engines.he.bfv import seal
from mpc_spearman.engines.he.bfv.parameters import Parameters, choose
from mpc_spearman.engines.he.bfv.seal import Coefficients, Ring, sealapi
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
from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.wire.keys import Stream


class BfvPublicKey(PublicKey):
    """One SEAL public key per plaintext modulus. It travels as its coefficients, as ciphertexts do."""

    caution = None

    def __init__(
        self, parameters: Parameters, sizes: Sizes, rings: Sequence[Ring], keys: Sequence[Coefficients]
    ) -> None:
        self.parameters, self.sizes, self.rings = parameters, sizes, rings
        self.encoder = sealapi.BatchEncoder(rings[0].context)
        self._encryptors = [ring.encryptor(key) for ring, key in zip(rings, keys, strict=True)]
        primes = (*parameters.data, parameters.special)
        self._raw = b"".join(seal.pack(key, primes) for key in keys)
        self._exported = 0
        layout = parameters.layout
        self.ciphertext_bytes = 1 + seal.packed_bytes(parameters.data, layout.degree)
        self.result_ciphertext_bytes = 1 + seal.packed_bytes(parameters.kept, layout.degree)
        self.slots = layout.degree
        products = sizes.operation == "inner_products"
        self.rows = layout.rows if products else self._rows_of_differences()
        #: Of each ciphertext with products: its plaintext modulus, target vector, and group of the source's.
        self.order = [*product(range(layout.moduli), range(sizes.m_target), range(layout.groups))]
        self.product_ciphertexts = len(self.order)
        self.product_residues, self.modulus = sizes.m_source * sizes.m_target, math.prod(parameters.plain)

    def to_bytes(self) -> bytes:
        return self._raw

    @classmethod
    def from_bytes(cls, raw: bytes, settings: HeSettings, sizes: Sizes) -> BfvPublicKey:
        parameters = choose(sizes)
        primes, degree = (*parameters.data, parameters.special), parameters.layout.degree
        size = seal.packed_bytes(primes, degree)
        if len(raw) != size * len(parameters.plain):
            raise ProtocolViolation(
                f"a BFV public key of {len(raw)} bytes, {size * len(parameters.plain)} expected"
            )
        keys = [seal.unpack(raw[start : start + size], primes, degree) for start in range(0, len(raw), size)]
        if not all(key[1].any(axis=-1).all() for key in keys):
            raise ProtocolViolation("a BFV public key that hides nothing")
        rings = [Ring(parameters, index) for index in range(len(keys))]
        return cls(parameters, sizes, rings, keys)

    def encrypt(self, x: Integers) -> list[bytes]:
        """Encrypt a block: at products, for each plaintext modulus, one ciphertext per group of vectors."""
        check(x, self.sizes.bounds.value, "a value to encrypt")
        if self.sizes.operation == "differences":
            return [self._encrypted(self._in_slots(chunk), 0) for chunk in self.chunks(x)]
        cells = np.zeros((len(x), self.rows), dtype=np.int64)
        cells[:, : x.shape[1]] = x
        starts = range(0, len(x), self.parameters.layout.columns)
        groups = [cells[start : start + starts.step].ravel() for start in starts]
        return [
            self._encrypted(ring.plaintext(group), index)
            for index, ring in enumerate(self.rings)
            for group in groups
        ]

    def ciphertexts_for(self, rows: int) -> int:
        if self.sizes.operation == "differences":
            return self.sizes.m_source * -(-rows // self.slots)
        return self.parameters.layout.moduli * self.parameters.layout.groups

    def subtract(self, ciphertexts: Sequence[bytes], y: Integers, pairs: Pairs) -> list[bytes]:
        """Subtract; the fresh Enc(0) that is always added also encrypts this party's own values."""
        check(y, self.sizes.bounds.result, "a value to encrypt")
        ring = self.rings[0]
        sources = [ring.from_bytes(raw, ring.first) for raw in ciphertexts]
        targets = [self._in_slots(chunk) for chunk in self.chunks(y)]
        exported = []
        for i, j in self.pairs_of_chunks(pairs, y.shape[1]):
            total = self.fresh_zero(0)
            if i is None:
                ring.evaluator.add_plain_inplace(total, targets[j])
            else:
                ring.evaluator.add_inplace(total, sources[i])
                ring.evaluator.sub_plain_inplace(total, targets[j])
            exported.append(self.flooded(total, 0, Stream(os.urandom(32))))
        return exported

    def multiply(self, encrypted: Iterable[Block]) -> list[Any]:
        """Return the sums of plaintext products, in the order of `order` and in transformed form.

        Each sum begins with a fresh Enc(0), which it needs in the end anyway: SEAL refuses a sum whose c1 is
        zero, and a source could send blocks that cancel out if the target's rows in them are equal.
        """
        sums = {place: self.fresh_zero(place[0]) for place in self.order}
        for (index, _, _), total in sums.items():
            self.rings[index].evaluator.transform_to_ntt_inplace(total)
        groups = self.parameters.layout.groups
        for raws, y in self.checked(encrypted):
            for index, ring in enumerate(self.rings):
                ciphertexts = [
                    ring.from_bytes(raw, ring.first) for raw in raws[index * groups : (index + 1) * groups]
                ]
                for ciphertext in ciphertexts:
                    ring.evaluator.transform_to_ntt_inplace(ciphertext)
                for column in np.flatnonzero(y.any(axis=1)).tolist():  # SEAL refuses to multiply by zero
                    plaintext = ring.plaintext(y[column, ::-1], start=self.rows - y.shape[1])
                    ring.evaluator.transform_to_ntt_inplace(plaintext, ring.first)
                    for group, ciphertext in enumerate(ciphertexts):
                        term = sealapi.Ciphertext()
                        ring.evaluator.multiply_plain(ciphertext, plaintext, term)
                        ring.evaluator.add_inplace(sums[index, column, group], term)
        return [*sums.values()]

    def export(self, sums: Sequence[Any], added: Sequence[int]) -> list[bytes]:
        """Add residues to the inner products, mask all else, and flood the sums."""
        residues, exported = np.array(added, dtype=object).reshape(self.sizes.m_target, -1), []
        for (index, column, group), total in zip(self.order, sums, strict=True):
            ring, stream = self.rings[index], Stream(os.urandom(32))
            ring.evaluator.transform_from_ntt_inplace(total)
            mask = seal.uniform(stream, ring.degree, ring.plain)
            places, columns = self.places(group)
            mask[[*places]] = residues[column, columns] % ring.plain
            ring.evaluator.add_plain_inplace(total, ring.plaintext(mask))
            exported.append(self.flooded(total, index, stream))
        return exported

    def residues(self, values: Integers) -> list[int]:
        """Reduce each integer modulo the product of all plaintext moduli, target vector by target vector."""
        check(values, self.sizes.bounds.result, "noise")
        return [value % self.modulus for value in values.T.ravel().tolist()]

    def places(self, group: int) -> tuple[range, slice]:
        """Return which coefficients hold the inner products of a group's vectors, and which these are."""
        layout = self.parameters.layout
        first = group * layout.columns
        last = min(first + layout.columns, self.sizes.m_source)
        return range(layout.rows - 1, (last - first) * layout.rows, layout.rows), slice(first, last)

    def fresh_zero(self, index: int) -> Any:
        """Return a fresh encryption of zero."""
        zero = sealapi.Ciphertext()
        self._encryptors[index].encrypt_zero(zero)
        return zero

    def flooded(self, ciphertext: Any, index: int, stream: Stream) -> bytes:
        """Flood a ciphertext's noise, then shrink it, and return its bytes for the coordinator.

        `BoundError` if more ciphertexts would leave than the flood is made for.
        """
        layout, ring = self.parameters.layout, self.rings[index]
        self._exported += 1
        if self._exported > layout.results:
            raise BoundError(f"the noise flooding of this key is made for {layout.results} ciphertexts")
        noise = np.zeros((2, len(self.parameters.data), layout.degree), dtype=np.uint64)
        noise[0] = seal.flood(stream, layout.degree, self.parameters.flood_bits, self.parameters.data)
        ring.evaluator.add_inplace(ciphertext, ring.write(noise, ring.first))
        return self.shrunk(ciphertext, index)

    def shrunk(self, ciphertext: Any, index: int) -> bytes:
        """Drop the primes that the flood needed, and return the ciphertext's bytes."""
        ring = self.rings[index]
        ring.evaluator.mod_switch_to_inplace(ciphertext, ring.kept)
        return ring.to_bytes(ciphertext)

    def _in_slots(self, values: Integers) -> Any:
        plaintext = sealapi.Plaintext()
        self.encoder.encode((values % self.rings[0].plain).tolist(), plaintext)
        return plaintext

    def _encrypted(self, plaintext: Any, index: int) -> bytes:
        ciphertext = sealapi.Ciphertext()
        self._encryptors[index].encrypt(plaintext, ciphertext)
        return self.rings[index].to_bytes(ciphertext)


class BfvSecretKey(SecretKey):
    """SEAL's decryptors. The secret polynomials are in SEAL's memory only; nothing here reads them."""

    public: BfvPublicKey

    def __init__(self, public: BfvPublicKey, decryptors: Sequence[Any]) -> None:
        self.public = public
        self._decryptors = decryptors

    @classmethod
    def generate(cls, settings: HeSettings, sizes: Sizes) -> BfvSecretKey:
        """Make one key pair per plaintext modulus."""
        parameters = choose(sizes)
        rings = [Ring(parameters, index) for index in range(len(parameters.plain))]
        pairs = [ring.generate() for ring in rings]
        public = BfvPublicKey(parameters, sizes, rings, [coefficients for _, coefficients in pairs])
        return cls(public, [decryptor for decryptor, _ in pairs])

    def decrypt(self, raws: Sequence[bytes], vectors: int, rows: int) -> Integers:
        t, slots = self.public.rings[0].plain, self.public.slots
        opened = np.full((vectors, -(-rows // slots), slots), IMPOSSIBLE)
        for chunk, raw in zip(opened.reshape(-1, slots), raws, strict=True):
            plaintext = self._decrypt(raw, 0)
            if plaintext is not None:
                chunk[:] = self.public.encoder.decode_uint64(plaintext)
                chunk -= t * (chunk > t // 2)
        return opened.reshape(vectors, -1)[:, :rows]

    def decrypt_products(self, raws: Sequence[bytes], added: Sequence[int]) -> NDArray[np.object_]:
        """Decrypt, join the remainders under all moduli, add residues, and only then choose the sign."""
        public, sizes, modulus = self.public, self.public.sizes, self.public.modulus
        products = np.array(added, dtype=object).reshape(sizes.m_target, sizes.m_source)
        failed = np.zeros(products.shape, dtype=bool)
        for (index, column, group), raw in zip(public.order, raws, strict=True):
            places, columns = public.places(group)
            plaintext = self._decrypt(raw, index)
            if plaintext is None:
                failed[column, columns] = True
                continue
            t, length = public.rings[index].plain, plaintext.coeff_count()
            unit = modulus // t * pow(modulus // t, -1, t)  # 1 mod t, 0 mod the others
            residues = [plaintext[place] if place < length else 0 for place in places]
            products[column, columns] += unit * np.array(residues, dtype=object)
        products %= modulus
        products = np.where(products > modulus // 2, products - modulus, products)
        return np.where(failed, IMPOSSIBLE, products).T

    def _decrypt(self, raw: bytes, index: int) -> Any:
        """Return the plaintext of a ciphertext; None if no honest ciphertext has so much noise."""
        ring = self.public.rings[index]
        ciphertext = ring.from_bytes(raw, ring.kept)
        if self._decryptors[index].invariant_noise_budget(ciphertext) < self.public.parameters.budget:
            return None
        plaintext = sealapi.Plaintext()
        self._decryptors[index].decrypt(ciphertext, plaintext)
        return plaintext
