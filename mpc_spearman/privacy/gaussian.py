"""Noise: integers of the discrete Gaussian distribution, drawn exactly from the system's random source.

The distribution of standard deviation parameter σ gives each integer x the probability exp(-x²/2σ²)/Σ; what
that guarantees, and why it is no rounded normal, is in docs/guarantee.md.

By von Neumann's rejection an integer is drawn uniformly from [-10σ, 10σ], and kept with probability
exp(-x²/2σ²); about one in eight is. Whether it is kept is decided exactly: a uniform number is compared with
exp(-x²/2σ²) in float64, within bounds for all its errors, and where these do not decide, once in 10^12, by
further bits and more digits, until they do (the lazy comparison of Karney, ACM TOMS 42, 2016). The number of
draws does not depend on the value that is kept.

OpenDP has this distribution as well, and was not used: it draws one number at a time for one σ, where here
every number has its own, and is a compiled dependency of many times the size of these lines.
"""

from __future__ import annotations

import os
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

#: No draw is further from zero than so many standard deviations.
REACH = 10
#: The largest σ: every step of a draw fits 64 bits.
LARGEST = 2**62 // REACH
_BLOCK = 1 << 16
_MARGIN = 2.0**-40  # above all relative errors of float64 below: exp's, of an argument below 50, is 2^-44
_WORD = 2.0**-64


def discrete_gaussian(sigma: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw one integer for each standard deviation, 0 to ``LARGEST``, all independent; 0 gives 0.

    Returns int64 of the same shape, none larger in size than ``REACH * sigma``.
    """
    flat = np.asarray(sigma, dtype=np.int64).ravel()
    if flat.size and not 0 <= flat.min() <= flat.max() <= LARGEST:
        raise ValueError(f"a standard deviation of noise is from 0 to {LARGEST}")
    drawn = np.zeros(flat.size, dtype=np.int64)
    left = np.flatnonzero(flat)
    while left.size:
        some = left[:_BLOCK]
        proposed, kept = _propose(flat[some])
        drawn[some[kept]] = proposed[kept]
        left = np.concatenate((some[~kept], left[_BLOCK:]))
    return drawn.reshape(np.shape(sigma))


def _propose(
    sigma: NDArray[np.int64], margin: float = _MARGIN
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw a candidate for each σ, and say which are kept; within the margin digits decide."""
    words = _words(2 * sigma.size).reshape(2, -1)
    most = (2 * REACH * sigma).astype(np.uint64)
    mask = most.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    place = words[0] & mask
    x = place.astype(np.int64) - REACH * sigma
    inside = place <= most
    chance = np.exp(-np.square(np.where(inside, x, 0) / sigma) / 2)
    uniform = words[1].astype(np.float64)
    kept = inside & ((uniform + 1) * _WORD <= chance * (1 - margin))
    unclear = inside & ~kept & (uniform * _WORD <= chance * (1 + margin))
    for i in np.flatnonzero(unclear):
        kept[i] = _below(int(words[1, i]), int(x[i]), int(sigma[i]))
    return x, kept


def _below(word: int, x: int, sigma: int) -> bool:
    """Return whether the uniform number that begins with these 64 bits is below exp(-x²/2σ²)."""
    bits = 64
    while x:
        digits = bits // 3 + 10  # 10^-digits is below 2^-bits
        with localcontext() as context:
            context.prec = digits
            chance = (Decimal(-x * x) / (2 * sigma * sigma)).exp() * 2**bits
            margin = chance.scaleb(5 - digits)
        if word + 1 <= chance - margin:
            return True
        if word >= chance + margin:
            return False
        word, bits = word << 64 | int(_words(1)[0]), bits + 64
    return True


def _words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
