"""Masks of a Mersenne Twister: a receiver of masked ranks can recognise the generator, and then unmask them.

Stock CrypTen masks with ``torch.Generator``, a Mersenne Twister (M. Matsumoto, T. Nishimura, ACM Trans.
Model. Comput. Simul. 8, 1998). Ranks are small numbers, so the upper bits of a masked rank are the
generator's own output, of which every bit is a linear function of 19,937 unknown ones: some twelve hundred
masked ranks determine the generator, all masks and all ranks. This module only recognises the generator,
which takes twenty thousand values and no linear algebra.
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.attacks.simulated import Ints


def _mersenne_twister_polynomial() -> list[int]:
    """Return the exponents of MT19937's characteristic polynomial over GF(2): 135, up to 19,937.

    By Matsumoto's and Nishimura's formula with w = 32, r = 31, n = 624, m = 397 and the bits a_0 … a_31 of
    the twist. A polynomial is an int here, bit i the coefficient of t^i.
    """
    n, m, r, w, a = 624, 397, 31, 32, 0x9908B0DF

    def power(exponent: int, high: int, low: int) -> int:
        product = 1
        for _ in range(exponent):
            product = (product << high) ^ (product << low)
        return product

    def times_upper(polynomial: int) -> int:
        return (polynomial << n) ^ (polynomial << m)

    phi = times_upper(power(r, n - 1, m - 1))
    for i in range(w):
        if a >> i & 1:
            phi ^= times_upper(power(r - 1 - i, n - 1, m - 1)) if i < r else power(w - 1 - i, n, m)
    return [i for i in range(phi.bit_length()) if phi >> i & 1]


_TWISTER = _mersenne_twister_polynomial()
#: Relations checked per bit: anything but a Mersenne Twister passes all with probability 2^-(_SHIFTS - 1).
_SHIFTS = 64
#: How many values :func:`twisted_bits` needs.
ENOUGH = _TWISTER[-1] + _SHIFTS


def twisted_bits(values: Ints) -> list[int]:
    """Return which bits, 0 the lowest, of 64-bit values obey the Mersenne Twister's parity relation.

    Every output bit b of every MT19937, whatever its seed, obeys  Σ_j b[k + e_j] = 0  (mod 2) for all k, the
    e_j the exponents of its characteristic polynomial. It holds for every second output too, because
    squaring permutes the polynomial's roots, and so for a given bit of 64-bit values made of two outputs
    each. Flipping the top bit, or taking −1 − r for r, flips all relations of a bit alike; and small numbers
    added to a value (ranks) hardly ever reach its upper bits. So *masked* values obey it there.

    `values` are in the order in which they were masked, at least ``ENOUGH``.
    """
    bits = values.ravel()[:ENOUGH].astype("<i8").view(np.uint64)
    if len(bits) < ENOUGH:
        raise ValueError(f"recognising a Mersenne Twister takes {ENOUGH} values")
    obeying = []
    for i in range(64):
        b = (bits >> np.uint64(i)) & np.uint64(1)
        parities = {int(b[[k + e for e in _TWISTER]].sum()) % 2 for k in range(_SHIFTS)}
        if len(parities) == 1:
            obeying.append(i)
    return obeying
