"""BFV's inner products at the target. See keys.py for the method."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.engines.he.bfv.ciphertext import check, own_ciphertext
from mpc_spearman.engines.he.bfv.keys import BfvPublicKey
from mpc_spearman.engines.he.bfv.seal import Ring, uniform
from mpc_spearman.engines.he.bfv.tenseal_import import sealapi
from mpc_spearman.engines.he.scheme import ALONE, Ciphertext, Effort, Products
from mpc_spearman.errors import BoundError, ProtocolViolation
from mpc_spearman.wire.keys import Stream


class BfvProducts(Products):
    """Sums of plaintext products, kept in transformed form until they leave.

    Each begins with a fresh Enc(0), which it needs in the end anyway: SEAL refuses a sum whose c1 cancels
    out, and a source could send blocks that cancel out where the target's rows in them are alike.
    """

    def __init__(self, key: BfvPublicKey) -> None:
        key.only("products")
        self._key = key
        self._rows = 0
        self._spent = np.zeros(key.sizes.m_target, dtype=object)  # of target_sum, in each column
        # One per plaintext modulus, target column and group.
        self._sums: list[Any] = []
        for index, ring in enumerate(key.rings):
            for _ in range(key.parameters.layout.groups * key.sizes.m_target):
                self._sums.append(key.fresh_zero(index))
                ring.evaluator.transform_to_ntt_inplace(self._sums[-1])

    def add(
        self,
        block: Sequence[Ciphertext],
        y: NDArray[np.int64],
        effort: Effort = ALONE,
    ) -> None:
        """Add one block's products. `effort.workers` changes nothing."""
        key, layout = self._key, self._key.parameters.layout
        if y.ndim != 2 or len(y) != key.sizes.m_target or not 0 < y.shape[1] <= key.rows:
            raise ValueError(f"a block is {key.sizes.m_target} columns of one to {key.rows} rows")
        check(y, key.sizes.target_bound, "a value of the target's")
        self._rows += y.shape[1]
        if self._rows > key.sizes.n:
            raise BoundError(f"more than the agreed {key.sizes.n} rows")
        self._spent += np.abs(y).sum(axis=1)
        if self._spent.max() > key.sizes.target_sum:
            raise BoundError("the target's values add up to more than is agreed")
        expected = [index for index in range(layout.moduli) for _ in range(layout.groups)]
        ciphertexts = [own_ciphertext(one) for one in block]
        if [one.index for one in ciphertexts] != expected:
            raise ProtocolViolation("a block's ciphertexts are not one per plaintext modulus and group")
        transformed = []
        for one in ciphertexts:
            transformed.append(sealapi.Ciphertext())
            key.rings[one.index].evaluator.transform_to_ntt(one.seal, transformed[-1])
        done = 0
        for index, ring in enumerate(key.rings):
            group_ciphertexts = transformed[index * layout.groups :][: layout.groups]
            for column in range(len(y)):
                if y[column].any():  # SEAL refuses to multiply by zero
                    self._add_column(ring, index * len(y) + column, y[column], group_ciphertexts)
                done += layout.groups
                effort.tick(done)

    def _add_column(self, ring: Ring, at: int, y: NDArray[np.int64], ciphertexts: list[Any]) -> None:
        plaintext = ring.plaintext(y[::-1], start=self._key.rows - len(y))
        ring.evaluator.transform_to_ntt_inplace(plaintext, ring.first)
        for group, ciphertext in enumerate(ciphertexts, start=at * len(ciphertexts)):
            product = sealapi.Ciphertext()
            ring.evaluator.multiply_plain(ciphertext, plaintext, product)
            ring.evaluator.add_inplace(self._sums[group], product)

    def export(self, effort: Effort = ALONE) -> list[bytes]:
        """Return the sums, masked and flooded: modulus, target column, group."""
        if not self._sums:
            raise ValueError("these products have been exported")
        layout = self._key.parameters.layout
        results = []
        for at, total in enumerate(self._sums):
            group = at % layout.groups
            results.append(self._export(total, at // (layout.groups * self._key.sizes.m_target), group))
            effort.tick(len(results))
        self._sums = []
        return results

    def _export(self, total: Any, index: int, group: int) -> bytes:
        key, ring = self._key, self._key.rings[index]
        ring.evaluator.transform_from_ntt_inplace(total)
        stream = Stream(os.urandom(32))
        mask = uniform(stream, key.parameters.layout.degree, ring.plain)
        mask[key.places(group)] = 0
        ring.evaluator.add_plain_inplace(total, ring.plaintext(mask))
        return key.flooded(total, index, stream)
