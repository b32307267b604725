"""The coordinator's noise at ``coefficients`` and ``differences``, and rounding of published numbers.

Owners add theirs before anything is opened (:meth:`mpc_spearman.levels.level.Level.own_noise`). Here a number
v becomes the integer ⌊2^b·v⌉, b = 50 unless ten standard deviations then leave 62 bits, and σ is 2^b·s times
1 + 2·√k/(μ·σ_min) for k numbers, which allows for that rounding (docs/guarantee.md, "Integers").
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.config import Plan
from mpc_spearman.privacy.gaussian import LARGEST, discrete_gaussian
from mpc_spearman.privacy.loss import separation
from mpc_spearman.statistics.columns import Floats

_FINEST = 50
_ROUNDED = np.array([1.0, 2.0, 5.0])


def numbers_of_a_value(plan: Plan, m_sources: int, m_target: int) -> int:
    """Return c of ``privacy.unit: value``: how many numbers of a receiver depend on one value, at most.

    A value of the target affects a number for each column of a source, a value of a source one for each
    column of the target. The target receives the latter. So does each of several sources, in means over the
    columns of all.
    """
    results, counts = plan.results, [1]
    if results.target != "nothing":
        counts.append(m_target)
    if results.sources != "nothing":
        counts.append(m_sources if len(plan.parties.sources) == 1 else max(m_sources, m_target))
    return max(counts)


def noisy(values: Floats, s: Floats, loss: float, most: float = 1.0) -> tuple[Floats, Floats]:
    """Return numbers from -`most` to `most` with noise of standard deviation `s`, and the actual s.

    NaN, and numbers whose `s` is 0, stay; others may be beyond `most`. `loss` is ρ, ``privacy.loss``.
    """
    chosen = (s > 0) & ~np.isnan(values)
    if not chosen.any():
        return values, np.zeros_like(s)
    bits = min(
        _FINEST - math.ceil(math.log2(most)),
        math.floor(math.log2(LARGEST / (2 * (most + float(s[chosen].max()))))),
    )
    scaled = np.ldexp(s[chosen], bits)
    sigma = np.ceil(scaled * (1 + 2 * math.sqrt(scaled.size) / (separation(loss) * scaled.min()))).astype(
        np.int64
    )
    published, deviations = values.copy(), np.zeros_like(s)
    whole = np.rint(np.ldexp(values[chosen], bits)).astype(np.int64)
    published[chosen] = np.ldexp((whole + discrete_gaussian(sigma)).astype(np.float64), -bits)
    deviations[chosen] = np.ldexp(sigma.astype(np.float64), -bits)
    return published, deviations


def in_digits(values: Floats, s: Floats, error: Floats | float) -> Floats:
    """Return numbers with noise rounded to multiples of 1, 2 or 5 times a power of ten.

    The unit is at most a twentieth of the noise or of the standard `error`, whichever is larger: a coarser
    one would shift small p-values. Numbers without noise stay.
    """
    most = np.where(s > 0, np.maximum(s, error) / 20, 1.0)
    power = np.floor(np.log10(most) + 1e-9).astype(int)
    digit = _ROUNDED[np.searchsorted(_ROUNDED, most / 10.0**power + 1e-9) - 1]
    rounded = values.copy()
    for exponent in np.unique(power[s > 0]):
        at = (power == exponent) & (s > 0)
        steps = np.rint(values[at] / (digit[at] * 10.0**exponent)) * digit[at]
        rounded[at] = np.round(steps * 10.0**exponent, -exponent) + 0.0
    return rounded
