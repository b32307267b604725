"""Products of many powers modulo n², Pippenger's way (FOCS 1976).

An exponent of either sign is written with digits of c bits between -2^(c-1) and 2^(c-1) - 1:

    y = sum_k d_k 2^(ck),      prod_i c_i^(y_i) = prod_k (prod_i c_i^(d_ik))^(2^(ck)).

For one k, every base is multiplied into the bucket of its digit, and running products over the buckets,
from the largest digit down, raise each to its power: one multiplication per base and two per bucket, instead
of an exponentiation each. Buckets of negative digits make up a denominator, which one inversion at the very
end turns over: cheaper than inverting bases, or than an offset that makes all exponents positive and longer.
Digits of zero cost nothing, so the time depends on the exponents, which are the target's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

_WIDTHS = range(2, 15)


@dataclass(frozen=True)
class Digits:
    """How exponents are cut into digits: each of c = `width` bits, `count` of them per exponent."""

    width: int
    count: int

    @classmethod
    def best(cls, bound: int, terms: int) -> Digits:
        """Return the digits that take the fewest multiplications for so many exponents up to `bound`."""
        choices = [cls(width, _digits(bound, width)) for width in _WIDTHS]
        return min(choices, key=lambda digits: digits.multiplications(terms))

    def multiplications(self, terms: int) -> int:
        """Return how many multiplications so many exponents take, about."""
        return self.count * (terms + 4 * (1 << (self.width - 1)))

    def of(self, exponents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cut exponents, shape (terms,), into digits, shape (count, terms), lowest first."""
        half, digits = 1 << (self.width - 1), np.empty((self.count, len(exponents)), dtype=np.int64)
        for row in digits:
            row[:] = exponents & (2 * half - 1)
            carry = row >= half
            row -= 2 * half * carry
            exponents = (exponents >> self.width) + carry
        return digits


def _digits(bound: int, width: int) -> int:
    """Return how many digits all |y| <= bound need: k digits hold up to (2^(c-1) - 1) sum_j 2^(cj)."""
    count, largest = 0, 0
    while largest < bound:
        largest += ((1 << (width - 1)) - 1) << (width * count)
        count += 1
    return count


def power_product(
    bases: Sequence[mpz], exponents: NDArray[np.int64], digits: Digits, modulus: mpz
) -> tuple[mpz, mpz]:
    """Return (a, b) with a / b = prod_i bases[i]^exponents[i] modulo `modulus`."""
    above = below = mpz(1)
    for row in digits.of(exponents)[::-1]:
        for _ in range(digits.width):
            above, below = above * above % modulus, below * below % modulus
        buckets: list[mpz | None] = [None] * (1 << digits.width)
        for base, digit in zip(bases, row.tolist(), strict=True):
            if digit:  # a negative one counts from the end
                product = buckets[digit]
                buckets[digit] = base if product is None else product * base % modulus
        half = len(buckets) // 2
        above = above * _weighted(buckets[half - 1 : 0 : -1], modulus) % modulus
        below = below * _weighted(buckets[half:], modulus) % modulus
    return above, below


def _weighted(buckets: Sequence[mpz | None], modulus: mpz) -> mpz:
    """Return the product of the buckets: the last to the power 1, the one before to the power 2, ..."""
    running: mpz | None = None
    product = mpz(1)
    for bucket in buckets:
        if bucket is not None:
            running = bucket if running is None else running * bucket % modulus
        if running is not None:
            product = product * running % modulus
    return product
