"""Noise: integers of the discrete Gaussian distribution, drawn exactly from the system's random source.

The distribution of standard deviation parameter σ gives each integer x the probability exp(-x²/2σ²)/Σ; what
that guarantees, and why it is no rounded normal, is in docs/guarantee.md.

Draws are by von Neumann's rejection. Strips of 2^j integers, with 16·2^j ≤ σ < 32·2^j, cover 10σ on both
sides of zero. First a strip is drawn, with a probability in proportion to an integer weight that is not
below the density anywhere in it, then one of its integers uniformly. It is kept with the probability
density/weight if it is not beyond 10σ; half of all to nearly all are. Whether it is kept is decided
exactly: a uniform number is compared with the density in float64, within bounds for all its errors, and
where these do not decide, once in 10^9, by further bits and more digits, until they do (the lazy comparison
of Karney, ACM TOMS 42, 2016). The number of draws does not depend on the value that is kept. A draw takes a
fifth of a microsecond.

OpenDP has this distribution as well, and was not used: it draws one number at a time for one σ, where here
every number has its own, and is a compiled dependency of many times the size of these lines.
"""

from __future__ import annotations

import os
from decimal import Decimal, localcontext
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import blocks

Unsigned = TypeVar("Unsigned", np.uint16, np.uint32, np.uint64)

#: No draw is further from zero than so many standard deviations.
REACH = 10
#: The largest σ: every step of a draw fits 64 bits.
LARGEST = 2**62 // REACH
_BLOCK = 1 << 16
_MARGIN = 2.0**-40  # above all relative errors of float64 below: exp's, of an argument below 200, is 2^-44
_BITS = 32  # of a uniform number, before more are drawn
_STRIPS = 32 * REACH
#: The density at zero, in the unit of weights: as much as gives weights for 2^16 draws in all.
_TOP = 1600
#: Of each strip k: not below the largest density in it, for any σ, which is less than 32 strips.
_WEIGHTS = np.ceil(_TOP * np.exp(-np.square(np.arange(_STRIPS + 1) / 32) / 2) + 1e-6).astype(np.int64)
#: The strip of each 16-bit number; the rest stand for a strip beyond ``REACH``, which is never kept.
_STRIP_OF = np.full(1 << 16, _STRIPS)
_STRIP_OF[: _WEIGHTS[:-1].sum()] = np.repeat(np.arange(_STRIPS), _WEIGHTS[:-1])


def discrete_gaussian(sigma: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw one integer for each standard deviation, 0 to ``LARGEST``, all independent; 0 gives 0.

    Returns int64 of the same shape, none larger in size than ``REACH * sigma``.
    """
    flat = np.asarray(sigma, dtype=np.int64).ravel()
    if flat.size and not 0 <= flat.min() <= flat.max() <= LARGEST:
        raise ValueError(f"a standard deviation of noise is from 0 to {LARGEST}")
    drawn = np.zeros(flat.size, dtype=np.int64)
    for block in blocks(flat.size, _BLOCK):
        missing = block.start + np.flatnonzero(flat[block])
        while missing.size:
            candidates, accepted = _propose(flat[missing])
            drawn[missing[accepted]] = candidates[accepted]
            missing = missing[~accepted]
    return drawn.reshape(np.shape(sigma))


def _propose(
    sigma: NDArray[np.int64], margin: float = _MARGIN
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a candidate for each σ, and which are accepted; close cases are decided with more digits."""
    words, uniform = _random(sigma.size, np.uint64), _random(sigma.size, np.uint32)
    strip = _STRIP_OF[_random(sigma.size, np.uint16)]
    j = np.maximum(np.frexp(sigma.astype(np.float64))[1] - 5, 0)
    size = (strip << j) + ((words >> np.uint64(1)).astype(np.int64) & ((1 << j.astype(np.int64)) - 1))
    x = size ^ -(words & np.uint64(1)).astype(np.int64)  # ~size is -size - 1: zero is drawn once
    chance = _TOP * np.exp(-np.square(x / sigma) / 2)
    weight = _WEIGHTS[strip]
    inside = np.abs(x) <= REACH * sigma
    accepted = inside & ((uniform + 1.0) * weight * 2.0**-_BITS <= chance * (1 - margin))
    unclear = inside & ~accepted & (uniform * (weight * 2.0**-_BITS) <= chance * (1 + margin))
    for i in np.flatnonzero(unclear):
        accepted[i] = _below(int(uniform[i]), int(weight[i]), int(x[i]), int(sigma[i]))
    return x, accepted


def _below(uniform: int, weight: int, x: int, sigma: int) -> bool:
    """Return whether `weight` times a uniform number with first bits `uniform` is below the density."""
    bits = _BITS
    while True:
        digits = bits // 3 + 20  # 10^-digits is far below 2^-bits
        with localcontext() as context:
            context.prec = digits
            density = _TOP * (Decimal(-x * x) / (2 * sigma * sigma)).exp() * 2**bits
            margin = density.scaleb(10 - digits)
        if (uniform + 1) * weight <= density - margin:
            return True
        if uniform * weight >= density + margin:
            return False
        uniform, bits = uniform << _BITS | int(_random(1, np.uint32)[0]), bits + _BITS


def _random(count: int, kind: type[Unsigned]) -> NDArray[Unsigned]:
    return np.frombuffer(os.urandom(count * np.dtype(kind).itemsize), dtype=kind)
