"""Packs several signed integers into one, in slots that can be added and subtracted independently.

Let R bound the integers in the slots, w = bitlength(R) + 1 and H = 2^(w-1), so that

    R <= H - 1                                                                                    (1)

k integers d_0 ... d_(k-1) with |d_i| <= R are the one integer M = sum_i d_i 2^(wi), of either sign. Sums,
differences and multiples of such integers are those of the slots, whatever happens on the way: slots are only
read at the end, and then two things are needed of the *final* d_i, |d_i| <= R and k w <= bits - 1, where
the modulus n has `bits` bits.

*M comes back from its residue.* By (1), |M| <= (H - 1)(2^(wk) - 1)/(2^w - 1) < 2^(wk - 1) <= 2^(bits - 2)
<= n/2, so M is the representative of M mod n closest to 0.

*The slots come back from M.* With O = sum_i H 2^(wi), M + O = sum_i (d_i + H) 2^(wi), and by (1)
1 <= d_i + H <= 2^w - 1: these are the digits of M + O in base 2^w. No slot borrows from the next.

*All else is refused.* Only (2R + 1)^k residues are read at all, so one drawn at random modulo n is read with
probability at most (2R + 1)^k / 2^(bits - 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from mpc_spearman.engines.he.scheme import IMPOSSIBLE


@dataclass(frozen=True)
class Slots:
    """The layout of one plaintext.

    `bound` is R, below 2^63, `width` w, up to 64 bits, and `count` k.
    """

    bound: int
    width: int
    count: int

    @classmethod
    def fit(cls, bound: int, encoded: int, bits: int, *, packed: bool) -> Slots:
        """Return the layout with as many slots as fit a modulus of so many bits, or with one.

        A slot has space for results up to `bound` and encoded integers up to `encoded`.
        """
        width = max(bound, encoded).bit_length() + 1
        return cls(bound, width, (bits - 1) // width if packed else 1)

    def encode(self, values: NDArray[np.int64]) -> mpz:
        """Turn up to `count` integers, each below H in size, into M."""
        # In uint64, as d + H reaches 2^64 - 1 at w = 64.
        digits = values.astype(np.uint64) + np.uint64(1 << (self.width - 1))
        return gmpy2.pack(digits.tolist(), self.width) - self._offset(len(values))

    def decode(self, residue: mpz, n: mpz, count: int) -> NDArray[np.int64] | None:
        """Turn M mod n back into `count` integers; None if M cannot hold so many.

        An integer beyond R says nothing about those in other slots: it alone becomes ``IMPOSSIBLE``.
        """
        shifted = (residue if 2 * residue < n else residue - n) + self._offset(count)
        if shifted < 0:
            return None
        digits = gmpy2.unpack(shifted, self.width)
        if len(digits) != count:
            return None
        half = 1 << (self.width - 1)
        unsigned = np.array([int(digit) for digit in digits], dtype=np.uint64)
        in_bounds = (unsigned >= np.uint64(half - self.bound)) & (unsigned <= np.uint64(half + self.bound))
        return np.where(in_bounds, (unsigned - np.uint64(half)).view(np.int64), IMPOSSIBLE)

    def _offset(self, count: int) -> mpz:
        """Return O for `count` slots."""
        return ((mpz(1) << (self.width * count)) - 1) // ((1 << self.width) - 1) << (self.width - 1)
