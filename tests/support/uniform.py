"""Is this noise? Tests of uniformity for ring elements, and one that recognises a Mersenne Twister.

Each single test raises a false alarm with probability below 1e-15; all that one file makes of them, a few ten
thousand, together with less than 1e-10.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

_ALARM = 1e-15


def signs_of_pattern(values: np.ndarray) -> list[str]:
    """What tells 64-bit values from uniform ones: their bytes by chi-square, each bit by its count.

    Parameters
    ----------
    values : ndarray of int64, any shape, at least 1,000 values

    Returns
    -------
    list of str
        Empty for uniform values. The chi-square approximation is used where a cell has 30 or more expected
        counts; for a bit's count, Hoeffding's inequality bounds the false alarm without approximation.
    """
    raw = np.ascontiguousarray(values, dtype="<i8").view(np.uint8).reshape(-1, 8)
    assert len(raw) >= 1000
    found = []
    for name, cells in (("bytes", raw), *((f"byte {i}", raw[:, i]) for i in range(8))):
        expected = cells.size / 256
        if expected >= 30:
            statistic = ((np.bincount(cells.ravel(), minlength=256) - expected) ** 2).sum() / expected
            if chi2.sf(statistic, 255) < _ALARM:
                found.append(f"{name}: chi-square {statistic:.0f} on 255 degrees of freedom")
    ones = np.unpackbits(raw, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    found += [
        f"bit {i}: {count} of {len(raw)} set"
        for i, count in enumerate(ones)
        if not fair(int(count), len(raw))
    ]
    return found


def fair(ones: int, of: int) -> bool:
    """Whether so many ones among independent fair bits are no surprise (Hoeffding)."""
    return abs(ones - of / 2) <= math.sqrt(of * math.log(2 / _ALARM) / 2)


def _mersenne_twister_polynomial() -> list[int]:
    """Exponents of the characteristic polynomial of MT19937 over GF(2): 135 of degree up to 19,937.

    The formula of Matsumoto and Nishimura (ACM TOMACS 8, 1998) with w = 32, r = 31, n = 624, m = 397 and
    the bits a_0 … a_31 of the twist. A polynomial is an int here, bit i the coefficient of t^i.
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


def twisted_bits(values: np.ndarray) -> list[int]:
    """Which bits of a sequence of 64-bit values obey the Mersenne Twister's parity relation.

    Every output bit b of every MT19937, whatever its seed, obeys  Σ_j b[k + e_j] = 0  (mod 2) for all k, the
    e_j the exponents of its characteristic polynomial. It holds for every second output too, because
    squaring permutes the polynomial's roots, and so for a given bit of 64-bit values made of two outputs
    each. Flipping the top bit, or taking −1 − r for r, flips all relations of a bit alike; and small numbers
    added to a value (ranks) hardly ever reach its upper bits. So *masked* values obey it there.
    """
    bits = values.ravel()[:ENOUGH].astype("<i8").view(np.uint64)
    assert len(bits) == ENOUGH
    obeying = []
    for i in range(64):
        b = (bits >> np.uint64(i)) & np.uint64(1)
        parities = {int(b[[k + e for e in _TWISTER]].sum()) % 2 for k in range(_SHIFTS)}
        if len(parities) == 1:
            obeying.append(i)
    return obeying
