"""BFV: thousands of ranks in one lattice ciphertext, on Microsoft SEAL (through TenSEAL).

*Differences.* A ciphertext holds N integers, one per slot; a - b is one subtraction. The plaintext modulus t
is more than twice the largest difference that two encrypted values can have, so nothing wraps.

*Products.* Vectors lie in coefficients rather than slots. A block of r rows of k of the source's columns is
X(z) = sum_p sum_i x_pi z^(pr+i), with k r <= N; the target's column is Y(z) = sum_i y_i z^(r-1-i). In X Y the
coefficient of z^(pr+r-1) is sum_i x_pi y_i, column p's inner product: other terms could meet it only with
indices that differ by a multiple of r (each index is below r), and what leaves the ring at z^N = -1 comes
back below z^(r-1). Summed over all blocks, one ciphertext per target column and k source columns gives their
k inner products, without rotation keys or relinearisation, and with noise that grows with the ranks and
not with t. Where one t would be too long there are several, and the coordinator joins them by the
Chinese remainder theorem: their product exceeds twice the range, so nothing wraps.

*What the target sends* shows the coordinator its plaintext and nothing else. In this order:

1. A fresh Enc(0) is added, or c1 would be the target's own plaintext times what the source sent. With it c1
   holds a fresh RLWE sample whose secret only the target had, and is pseudo-random to the coordinator too
   (what its own key shows of that sample, step 3 hides).
2. Products: all N coefficients but the k results get a mask uniform mod t, unused ones too, drawn by
   rejection for each ciphertext and each t.
3. Noise flooding: :mod:`mpc_spearman.engines.he.bfv.parameters` proves how little is left.
4. Only public deterministic steps: the modulus shrinks to the primes that decryption needs, and the
   coefficients become bytes.

Masks and floods come from AES-256 under a key of its own, from the operating system, for each ciphertext;
encryption's randomness is SEAL's: see :mod:`mpc_spearman.engines.he.bfv.tenseal_import`.

*What the coordinator checks*: every coefficient's range; and that the noise is what an honest ciphertext's
may be, which no ciphertext of another key and no random change of c1 passes, and of one coefficient of c0 one
in 2^budget, else the integers are ``IMPOSSIBLE``. Against a change made with knowledge of the encoding there
is only the links' authentication; and BFV is not secure against chosen ciphertexts, whose maker sees what
becomes of them.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.engines.he import scheme
from mpc_spearman.engines.he.bfv.ciphertext import BfvCiphertext, check, own_ciphertext
from mpc_spearman.engines.he.bfv.parameters import Parameters, choose
from mpc_spearman.engines.he.bfv.seal import Coefficients, Ring, flood, pack, packed_bytes, unpack
from mpc_spearman.engines.he.bfv.tenseal_import import sealapi
from mpc_spearman.engines.he.scheme import ALONE, IMPOSSIBLE, Effort, HeSettings, Operation, Sizes
from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.wire.keys import Stream


class BfvPublicKey(scheme.PublicKey):
    """One SEAL public key per plaintext modulus."""

    name: ClassVar[str] = "bfv"
    caution = None

    def __init__(
        self, parameters: Parameters, sizes: Sizes, rings: Sequence[Ring], keys: Sequence[Coefficients]
    ) -> None:
        self.parameters, self.sizes, self.rings = parameters, sizes, rings
        self.operation = parameters.operation
        self.encoder = sealapi.BatchEncoder(rings[0].context)
        self._encryptors = [ring.encryptor(key) for ring, key in zip(rings, keys, strict=True)]
        primes = (*parameters.data, parameters.special)
        self._raw = b"".join(pack(key, primes) for key in keys)
        self._exported = 0
        layout = parameters.layout
        self.fingerprint = hashlib.sha256(self._raw).digest()
        self.ciphertext_bytes = 1 + packed_bytes(parameters.data, layout.degree)
        self.result_ciphertext_bytes = 1 + packed_bytes(parameters.kept, layout.degree)
        self.slots = layout.degree
        self.rows = layout.rows
        self.product_ciphertexts = layout.moduli * layout.groups * sizes.m_target

    def to_bytes(self) -> bytes:
        """Return the keys' coefficients, as ciphertexts are written."""
        return self._raw

    @classmethod
    def from_bytes(cls, raw: bytes, settings: HeSettings, sizes: Sizes, operation: Operation) -> BfvPublicKey:
        """Rebuild the coordinator's key."""
        parameters = choose(sizes, operation)
        primes, degree = (*parameters.data, parameters.special), parameters.layout.degree
        size = packed_bytes(primes, degree)
        if len(raw) != size * len(parameters.plain):
            raise ProtocolViolation(
                f"a BFV public key of {len(raw)} bytes, {size * len(parameters.plain)} expected"
            )
        keys = [unpack(raw[start : start + size], primes, degree) for start in range(0, len(raw), size)]
        if not all(key[1].any(axis=-1).all() for key in keys):
            raise ProtocolViolation("a BFV public key that hides nothing")
        return cls(parameters, sizes, [Ring(parameters, t) for t in parameters.plain], keys)

    def encrypt(self, chunks: Sequence[NDArray[np.int64]], effort: Effort = ALONE) -> list[scheme.Ciphertext]:
        """Take integers to encrypt, with fresh randomness whenever they leave, in this thread."""
        self.only("differences")
        ciphertexts: list[scheme.Ciphertext] = []
        for values in chunks:
            if values.ndim != 1 or not 0 < len(values) <= self.slots:
                raise ValueError(f"one to {self.slots} integers fit a ciphertext")
            check(values, self.sizes.result_bound, "a value to encrypt")
            plaintext = sealapi.Plaintext()
            self.encoder.encode((values % self.rings[0].plain).tolist(), plaintext)
            ciphertexts.append(BfvCiphertext(None, plain=plaintext, own=True))
            effort.tick(len(ciphertexts))
        return ciphertexts

    def subtract(
        self, a: Sequence[scheme.Ciphertext], b: Sequence[scheme.Ciphertext]
    ) -> list[scheme.Ciphertext]:
        """Return a - b; all are fresh, whoever encrypted them."""
        self.only("differences")
        lefts, rights = (list(map(own_ciphertext, side)) for side in (a, b))
        if any(one.minus is not None for one in (*lefts, *rights)):
            raise BoundError("the noise bound is for a difference of two fresh encryptions")
        return [
            BfvCiphertext(left.seal, plain=left.plain, minus=right)
            for left, right in zip(lefts, rights, strict=True)
        ]

    def export(
        self, ciphertexts: Sequence[scheme.Ciphertext], effort: Effort = ALONE, *, rerandomise: bool = True
    ) -> list[bytes]:
        """Return what the coordinator may see: always with a fresh Enc(0) and flooded."""
        self.only("differences")
        exported = []
        for ciphertext in map(own_ciphertext, ciphertexts):
            total, evaluator, minus = self.fresh_zero(0), self.rings[0].evaluator, ciphertext.minus
            if ciphertext.seal is None:
                evaluator.add_plain_inplace(total, ciphertext.plain)
            else:
                evaluator.add_inplace(total, ciphertext.seal)
            if minus is not None and minus.seal is None:
                evaluator.sub_plain_inplace(total, minus.plain)
            elif minus is not None:
                evaluator.sub_inplace(total, minus.seal)
            exported.append(self.flooded(total, 0, Stream(os.urandom(32))))
            effort.tick(len(exported))
        return exported

    def dump(self, a: scheme.Ciphertext) -> bytes:
        """Return a fresh encryption as bytes: the index of its plaintext modulus, then its coefficients."""
        ciphertext = own_ciphertext(a)
        if not ciphertext.own:
            raise ValueError("only a fresh encryption of one's own goes to the target")
        seal = ciphertext.seal if ciphertext.plain is None else self._encrypted(ciphertext.plain, 0)
        coefficients = self.rings[ciphertext.index].read(seal)
        return bytes([ciphertext.index]) + pack(coefficients, self.parameters.data)

    def load(self, raws: Sequence[bytes]) -> list[scheme.Ciphertext]:
        """Take ciphertexts from the wire."""
        loaded: list[scheme.Ciphertext] = []
        for raw in raws:
            index, coefficients = _taken(raw, self.parameters, self.parameters.data)
            if not coefficients[1].any():
                raise ProtocolViolation("a BFV ciphertext that hides nothing")
            ring = self.rings[index]
            loaded.append(BfvCiphertext(ring.write(coefficients, ring.first), index))
        return loaded

    def encrypt_block(self, x: NDArray[np.int64], effort: Effort = ALONE) -> list[scheme.Ciphertext]:
        """Encrypt a block of rows: for each plaintext modulus, one ciphertext per group of columns.

        SEAL holds the interpreter's lock, so `effort.workers` changes nothing.
        """
        self.only("products")
        layout = self.parameters.layout
        if x.ndim != 2 or len(x) != self.sizes.m_source or not 0 < x.shape[1] <= self.rows:
            raise ValueError(f"a block is {self.sizes.m_source} columns of one to {self.rows} rows")
        check(x, self.sizes.value_bound, "a value to encrypt")
        block: list[scheme.Ciphertext] = []
        for index, ring in enumerate(self.rings):
            for group in range(layout.groups):
                columns = x[group * layout.columns : (group + 1) * layout.columns]
                cells = np.zeros((len(columns), self.rows), dtype=np.int64)
                cells[:, : x.shape[1]] = columns
                seal = self._encrypted(ring.plaintext(cells.ravel()), index)
                block.append(BfvCiphertext(seal, index, own=True))
                effort.tick(len(block))
        return block

    def ciphertexts_for(self, rows: int) -> int:
        """Return how many hold a block: they are as many for any number of rows."""
        return self.parameters.layout.moduli * self.parameters.layout.groups

    def places(self, group: int) -> list[int]:
        """Return which coefficients hold the inner products of a group's columns."""
        layout = self.parameters.layout
        columns = min(layout.columns, self.sizes.m_source - group * layout.columns)
        return [(p + 1) * layout.rows - 1 for p in range(columns)]

    def fresh_zero(self, index: int) -> Any:
        """Return a fresh encryption of zero under the public key."""
        zero = sealapi.Ciphertext()
        self._encryptors[index].encrypt_zero(zero)
        return zero

    def flooded(self, ciphertext: Any, index: int, stream: Stream) -> bytes:
        """Flood a ciphertext's noise, then shrink and write it: the last two steps before it leaves.

        `BoundError` if more ciphertexts would leave than the flood is made for.
        """
        layout, ring = self.parameters.layout, self.rings[index]
        self._exported += 1
        if self._exported > layout.results:
            raise BoundError(f"the noise flooding of this key is made for {layout.results} ciphertexts")
        noise = np.zeros((2, len(self.parameters.data), layout.degree), dtype=np.uint64)
        noise[0] = flood(stream, layout.degree, self.parameters.flood_bits, self.parameters.data)
        ring.evaluator.add_inplace(ciphertext, ring.write(noise, ring.first))
        return self.shrunk(ciphertext, index)

    def shrunk(self, ciphertext: Any, index: int) -> bytes:
        """Drop the primes that only made room for the flood, and write the rest."""
        ring = self.rings[index]
        ring.evaluator.mod_switch_to_inplace(ciphertext, ring.kept)
        return bytes([index]) + pack(ring.read(ciphertext), self.parameters.kept)

    def _encrypted(self, plaintext: Any, index: int) -> Any:
        ciphertext = sealapi.Ciphertext()
        self._encryptors[index].encrypt(plaintext, ciphertext)
        return ciphertext


class BfvSecretKey(scheme.SecretKey):
    """SEAL's decryptors. The secret polynomials are in SEAL's memory only; nothing here reads them."""

    public: BfvPublicKey

    def __init__(self, public: BfvPublicKey, decryptors: Sequence[Any]) -> None:
        self.public = public
        self._decryptors = decryptors

    @classmethod
    def generate(cls, settings: HeSettings, sizes: Sizes, operation: Operation) -> BfvSecretKey:
        """Make one key pair per plaintext modulus."""
        parameters = choose(sizes, operation)
        rings = [Ring(parameters, t) for t in parameters.plain]
        pairs = [ring.generate() for ring in rings]
        public = BfvPublicKey(parameters, sizes, rings, [coefficients for _, coefficients in pairs])
        return cls(public, [decryptor for decryptor, _ in pairs])

    def decrypt(
        self, raws: Sequence[bytes], counts: Sequence[int], effort: Effort = ALONE
    ) -> list[NDArray[np.int64]]:
        """Decrypt ciphertexts of differences."""
        public, t = self.public, self.public.rings[0].plain
        public.only("differences")
        if not all(0 < count <= public.slots for count in counts):
            raise ValueError(f"a ciphertext holds one to {public.slots} integers")
        opened = []
        for raw, count in zip(raws, counts, strict=True):
            plaintext = self._opened(raw, 0)
            if plaintext is None:
                slots = np.full(count, IMPOSSIBLE)
            else:
                slots = np.array(public.encoder.decode_uint64(plaintext), dtype=np.int64)[:count]
                slots -= t * (slots > t // 2)
            opened.append(slots)
            effort.tick(len(opened))
        return opened

    def open_products(self, raws: Sequence[bytes], effort: Effort = ALONE) -> NDArray[np.object_]:
        """Decrypt the inner products and join their remainders."""
        self.public.only("products")
        parameters, sizes = self.public.parameters, self.public.sizes
        if len(raws) != self.public.product_ciphertexts:
            raise ProtocolViolation(
                f"{len(raws)} ciphertexts of products, {self.public.product_ciphertexts} expected"
            )
        whole = math.prod(parameters.plain)
        products = np.zeros((sizes.m_source, sizes.m_target), dtype=object)
        lost = np.zeros(products.shape, dtype=bool)
        remaining = iter(enumerate(raws, start=1))
        for index, t in enumerate(parameters.plain):
            unit = whole // t * pow(whole // t, -1, t)  # 1 mod t, 0 mod the others
            for column in range(sizes.m_target):
                for group in range(parameters.layout.groups):
                    done, raw = next(remaining)
                    plaintext = self._opened(raw, index)
                    length = 0 if plaintext is None else plaintext.coeff_count()
                    first = group * parameters.layout.columns
                    for p, place in enumerate(self.public.places(group), start=first):
                        lost[p, column] |= plaintext is None
                        products[p, column] += unit * (plaintext[place] if place < length else 0)
                    effort.tick(done)
        products %= whole
        products = np.where(products > whole // 2, products - whole, products)
        return np.where(lost, IMPOSSIBLE, products)

    def _opened(self, raw: bytes, index: int) -> Any:
        """Decrypt; None if the noise is not that of an honest ciphertext."""
        parameters = self.public.parameters
        found, coefficients = _taken(raw, parameters, parameters.kept)
        if found != index:
            raise ProtocolViolation("a BFV ciphertext is under another plaintext modulus")
        ring = self.public.rings[index]
        ciphertext = ring.write(coefficients, ring.kept)
        if self._decryptors[index].invariant_noise_budget(ciphertext) < parameters.budget:
            return None
        plaintext = sealapi.Plaintext()
        self._decryptors[index].decrypt(ciphertext, plaintext)
        return plaintext


def _taken(raw: bytes, parameters: Parameters, primes: Sequence[int]) -> tuple[int, Coefficients]:
    """Split what came over the wire into its plaintext modulus' index and its coefficients, checked."""
    if not raw or raw[0] >= len(parameters.plain):
        raise ProtocolViolation("a BFV ciphertext names no plaintext modulus")
    return raw[0], unpack(raw[1:], primes, parameters.layout.degree)
