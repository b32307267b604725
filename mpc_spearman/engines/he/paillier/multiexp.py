"""Products of many powers modulo n², Pippenger's way (FOCS 1976).

An exponent of either sign is written with digits of c bits between -2^(c-1) and 2^(c-1) - 1:

    y = sum_k d_k 2^(ck),      prod_i c_i^(y_i) = prod_k (prod_i c_i^(d_ik))^(2^(ck)).

For one k, every base is multiplied into the bucket of its digit, and running products over the buckets,
from the largest digit down, raise each to its power: one multiplication per base and two per bucket, instead
of an exponentiation each. Buckets of negative digits make up a denominator, which one inversion at the end
turns over: cheaper than inverting bases, or than an offset that makes all exponents positive and longer.
Digits of zero cost nothing, so the time depends on the exponents, which are the target's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import NDArray

_WIDTHS = range(2, 15)


def best_width(bound: int, terms: int) -> int:
    """Return the quickest digit width c for a product of `terms` powers with exponents up to `bound`."""

    def multiplications(width: int) -> int:
        digits = -(-(bound.bit_length() + 1) // width)
        return digits * (terms + 4 * (1 << (width - 1)))

    return min(_WIDTHS, key=multiplications)


def signed_digits(exponents: NDArray[np.int64], width: int) -> list[NDArray[np.int64]]:
    """Cut exponents, (terms,), into digits of `width` bits, lowest first."""
    half, digits = 1 << (width - 1), []
    while exponents.any():
        # The sum may wrap at the ends of int64, which changes none of its lowest bits.
        digit = ((exponents + half) & (2 * half - 1)) - half
        exponents = (exponents >> width) + (digit < 0)
        digits.append(digit)
    return digits


def power_product(bases: Sequence[mpz], exponents: NDArray[np.int64], width: int, modulus: mpz) -> mpz:
    """Return prod_i bases[i]^exponents[i] modulo `modulus`, with digits of `width` bits."""
    above = below = mpz(1)
    for digits in reversed(signed_digits(exponents, width)):
        for _ in range(width):
            above, below = above * above % modulus, below * below % modulus
        buckets = [mpz(1)] * (1 << width)
        for base, digit in zip(bases, digits.tolist(), strict=True):
            if digit:  # a negative one counts from the end
                buckets[digit] = buckets[digit] * base % modulus
        half = len(buckets) // 2
        above = above * _weighted(buckets[half - 1 : 0 : -1], modulus) % modulus
        below = below * _weighted(buckets[half:], modulus) % modulus
    return above * invert(below, modulus) % modulus


def _weighted(buckets: Sequence[mpz], modulus: mpz) -> mpz:
    """Return the product of the buckets: the last to the power 1, the one before to the power 2, ..."""
    running = product = mpz(1)
    for bucket in buckets:
        running = running * bucket % modulus
        product = product * running % modulus
    return product
