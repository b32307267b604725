"""Inner products under Paillier: the source's ciphertexts to the power of the target's integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import NDArray

from mpc_spearman.engines.he.paillier.keys import PaillierPublicKey
from mpc_spearman.engines.he.paillier.multiexp import Digits, magnitude, power_product
from mpc_spearman.engines.he.scheme import ALONE, Ciphertext, Effort, Products
from mpc_spearman.engines.he.threads import spread
from mpc_spearman.errors import BoundError

# Rows multiplied up at a time, unless their ciphertexts take more bytes: the buckets add 1/8 to the work.
_ROWS, _ROWS_BYTES = 4096, 1 << 27


class PaillierProducts(Products):
    """Powers of the source's ciphertexts, multiplied up some thousand rows at a time."""

    def __init__(self, key: PaillierPublicKey) -> None:
        key.only("products")
        self._key = key
        self._most = min(_ROWS, max(1, _ROWS_BYTES // (key.groups * key.ciphertext_bytes)))
        self._digits = Digits.best(key.sizes.target_bound, min(key.sizes.n, self._most))
        self._rows: list[list[mpz]] = []  # of each waiting row the ciphertexts, one per group
        self._y: list[NDArray[np.int64]] = []  # of each waiting block the target's integers
        # Product q, group g is above / below at q * groups + g.
        self._above = [mpz(1)] * key.product_ciphertexts
        self._below = [mpz(1)] * key.product_ciphertexts

    def add(self, block: Sequence[Ciphertext], y: NDArray[np.int64], effort: Effort = ALONE) -> None:
        """See :meth:`Products.add`. Most calls only keep the block; one in some multiplies up all so far."""
        key, groups = self._key, self._key.groups
        if y.ndim != 2 or len(y) != key.sizes.m_target or len(block) != y.shape[1] * groups:
            raise ValueError("a block's ciphertexts and integers do not belong together")
        if magnitude(y) > key.sizes.target_bound:
            raise BoundError("a value of the target's is beyond the agreed bound")
        values = [key.own(c).value for c in block]
        self._rows += [values[start : start + groups] for start in range(0, len(values), groups)]
        self._y.append(y)
        if len(self._rows) >= self._most:
            self._settle(effort)

    def export(self, effort: Effort = ALONE) -> list[bytes]:
        """See :meth:`Products.export`: re-randomised, so that they show the inner products only.

        Before, a product's randomness is one of the source's n-th residues to the power of the target's
        integers: the source could test guesses of them, and the coordinator compare products.
        """
        self._settle(effort._replace(tick=lambda done: effort.tick(0)))
        square = self._key.square
        quotients = [
            above * invert(below, square) % square
            for above, below in zip(self._above, self._below, strict=True)
        ]
        return self._key.write_anew(quotients, effort)

    def _settle(self, effort: Effort) -> None:
        """Multiply up the rows that wait."""
        if not self._rows:
            return
        bases, y = list(zip(*self._rows, strict=True)), np.concatenate(self._y, axis=1)
        rows, groups, products = len(self._rows), self._key.groups, self._key.product_ciphertexts
        self._rows, self._y = [], []

        def work(product: int) -> tuple[mpz, mpz]:
            q, group = divmod(product, groups)
            return power_product(bases[group], y[q], self._digits, self._key.square)

        told = effort._replace(tick=lambda done: effort.tick(rows * groups * done // products))
        powers = spread(work, range(products), told, batch=1)
        for product, (above, below) in enumerate(powers):
            self._above[product] = self._above[product] * above % self._key.square
            self._below[product] = self._below[product] * below % self._key.square
