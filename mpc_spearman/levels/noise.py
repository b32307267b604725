"""Noise on inputs and on published numbers, and the digits of these.

**On inputs** (``noise: inputs``) an owner adds noise to its vectors before it shares or encrypts them.
Everything that anybody computes follows from the noisy vectors. So the guarantee holds whatever the other
parties state, send or pool (docs/guarantee.md, "Noise on inputs"). This owner's rows need no further noise in
results. The noise for the rows of others has to cover the noisy vectors, which are multiplied.

An owner's noise has the standard deviation σ_p in each element of its vector p. With σ = 0 for owners that do
not add any, the noise in the product (p, q) has the variance

    σ_p²·‖b_q‖² + σ_q²·‖a_p‖² + n·σ_p²·σ_q²

and vectors are of length 1 at most. In a sum over p it is Σ_p σ_p² + σ_q²·‖Σ_p a_p‖² + n·σ_q²·Σ_p σ_p², since
the noise of b_q is the same in all products with it.

**On published numbers** the coordinator adds noise at ``coefficients`` and ``differences``; at other levels
owners add theirs before anything is opened (:meth:`mpc_spearman.levels.level.Level.draw_noise`). A number v
becomes the integer ⌊2^b·v⌉, b = 50 unless ten standard deviations then leave 62 bits, and σ is 2^b·s times
1 + 2·√k/(μ·σ_min) for k numbers, which allows for that rounding (docs/guarantee.md, "Integers").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, parts, zeros_like
from mpc_spearman.config import Plan
from mpc_spearman.privacy.gaussian import LARGEST, REACH, discrete_gaussian
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import SLACK, Grid
from mpc_spearman.statistics.columns import Floats, Ints

_FINEST = 50
_ROUNDED = np.array([1.0, 2.0, 5.0])


@dataclass(frozen=True)
class InputNoise:
    """The standard deviation of the noise in each element of vectors, in the vectors' unit: 0 for none."""

    n: int
    #: Of all sources' vectors, (m_A,), and of the target's, (m_B,).
    sources: Floats
    target: Floats

    @property
    def of_products(self) -> Floats:
        """Return the standard deviation of the noise in each product, (m_A, m_B)."""
        of_sources, of_target = np.square(self.sources)[:, None], np.square(self.target)
        return np.asarray(np.sqrt(of_sources + of_target + self.n * of_sources * of_target))

    def of_sums(self, length: Floats | float) -> Floats:
        """Return the standard deviation of the noise in sums over all sources' vectors, (m_B,).

        The sum of these vectors has at most that `length`.
        """
        of_sources, of_target = np.square(self.sources).sum(), np.square(self.target)
        return np.asarray(np.sqrt(of_sources + of_target * (np.square(length) + self.n * of_sources)))


def with_noise(vectors: NDArray[np.signedinteger[Any]], factors: Floats, sigma: Ints, rows: int) -> Ints:
    """Return vectors, (m, columns), times their factors, with noise in the first `rows`.

    `factors` and the standard deviations `sigma` are (m,).
    """
    noisy = zeros_like(vectors, vectors.shape, np.int64)
    for vector, total, factor, deviation in zip(vectors, noisy, factors, sigma.tolist(), strict=True):
        for columns, part in parts(vector, BLOCK):
            end = max(columns.start, min(columns.stop, rows))
            total[columns] = part if factor == 1 else np.rint(part * factor)
            total[columns.start : end] += discrete_gaussian(np.full(end - columns.start, deviation))
    return noisy


def element_noise(columns: int, loss: float) -> float:
    """Return a bound on the noise in one element of a vector of length 1, for any scales of the columns."""
    return REACH * (2 * SLACK * math.sqrt(columns) / separation(loss) * (1 + 2.0**-20) + 2.0**-20)


def product_noise(sources: float, target: float, rows: int) -> float:
    """Return a bound on the noise in products of vectors of length 1, from bounds on the noise in elements.

    It fails with a probability of 10^-21: sums of discrete Gaussian noise are sub-Gaussian, so that ten
    standard deviations are as good a bound for a product as for an element.
    """
    return sources + target + 1.1 * math.sqrt(rows) * sources * target / REACH


def sum_of_sizes(target: float, rows: int) -> float:
    """Return a bound on the sum of absolute noise in one vector, whose elements have noise up to `target`."""
    return target / REACH * (rows + 10 * math.sqrt(rows))


def grid_on_inputs(exact: Grid, most_noise: float) -> Grid:
    """Return the grid for ranges of vectors with noise on inputs, of at most `most_noise` in an element."""
    return Grid(exact.unit, 2.0**-16 * exact.unit, exact.most + 2 * most_noise)


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
    most_scale = LARGEST / (2 * (most + float(s[chosen].max())))
    bits = min(_FINEST - math.ceil(math.log2(most)), math.floor(math.log2(most_scale)))
    scaled = np.ldexp(s[chosen], bits)
    for_rounding = 1 + 2 * math.sqrt(scaled.size) / (separation(loss) * scaled.min())
    sigma = np.ceil(scaled * for_rounding).astype(np.int64)
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
        places = (power == exponent) & (s > 0)
        steps = np.rint(values[places] / (digit[places] * 10.0**exponent)) * digit[places]
        rounded[places] = np.round(steps * 10.0**exponent, -exponent) + 0.0
    return rounded
