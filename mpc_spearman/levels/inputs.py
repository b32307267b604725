"""Noise on inputs: an owner adds it to its vectors, before it shares or encrypts them (``noise: inputs``).

Everything that anybody computes follows from the noisy vectors. So the guarantee holds whatever the other
parties state, send or pool (docs/guarantee.md, "Noise on inputs"). This owner's rows need no further noise in
results. The noise for the rows of others has to cover the noisy vectors, which are multiplied.

An owner's noise has the standard deviation σ_p in each element of its vector p. With σ = 0 for owners that do
not add any, the noise in the product (p, q) has the variance

    σ_p²·‖b_q‖² + σ_q²·‖a_p‖² + n·σ_p²·σ_q²

and vectors are of length 1 at most. In a sum over p it is Σ_p σ_p² + σ_q²·‖Σ_p a_p‖² + n·σ_q²·Σ_p σ_p², since
the noise of b_q is the same in all products with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.arrays import BLOCK, parts, zeros_like
from mpc_spearman.privacy.gaussian import REACH, discrete_gaussian
from mpc_spearman.privacy.loss import separation
from mpc_spearman.privacy.scales import SLACK, Grid, Scales, deviations, input_deviations
from mpc_spearman.statistics.columns import Floats, Ints


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
        for at, part in parts(vector, BLOCK):
            inside = max(0, min(at.stop, rows) - at.start)
            total[at] = part if factor == 1 else np.rint(part * factor)
            total[at.start : at.start + inside] += discrete_gaussian(np.full(inside, deviation))
    return noisy


def element_noise(columns: int, loss: float) -> float:
    """Return a bound on the noise in one element of a vector of length 1, for any scales of the columns."""
    return REACH * (2 * SLACK * math.sqrt(columns) / separation(loss) * (1 + 2.0**-20) + 2.0**-20)


def product_noise(sources: float, target: float, rows: int) -> float:
    """Return a bound on the noise in products of vectors of length 1, from bounds on the noise in elements.

    It fails with a probability of 10^-21: sums of discrete Gaussian noise are sub-Gaussian, so that ten
    standard deviations of a product are as good a bound as those of an element.
    """
    return sources + target + 1.1 * math.sqrt(rows) * sources * target / REACH


def sum_of_sizes(target: float, rows: int) -> float:
    """Return a bound on the sum of absolute noise in one vector, whose elements have noise up to `target`."""
    return target / REACH * (rows + 10 * math.sqrt(rows))


def grid(exact: Grid, most_noise: float) -> Grid:
    """Return the grid for ranges of vectors with noise on inputs, of at most `most_noise` in an element."""
    return Grid(exact.unit, 2.0**-16 * exact.unit, exact.most + 2 * most_noise)


def foresee(
    own_scales: Scales,
    other_scales: Scales,
    lengths: tuple[float, float],
    on_inputs: tuple[bool, bool],
    loss: float,
    n: int,
    others: int | None,
) -> Floats:
    """Return the noise to expect in products of an owner's vectors with one of the other side, (m,).

    Arguments are of both sides: scales without noise, `lengths` of vectors, and whether owners add noise to
    inputs. `others` is as for `mpc_spearman.privacy.scales.deviations`.
    """
    unit = "row" if others is None else "value"
    sigma, sigma_other = (
        input_deviations(scales, loss, unit) if adds else np.zeros(len(scales.widths))
        for scales, adds in zip((own_scales, other_scales), on_inputs, strict=True)
    )
    variances, other_variance = np.square(sigma), float(np.square(sigma_other).max())
    squares = variances * lengths[1] ** 2 + other_variance * (lengths[0] ** 2 + n * variances)
    if not all(on_inputs):
        multiplied = _multiplied(own_scales, sigma, n), _multiplied(other_scales, sigma_other, n)
        squares = squares + np.square(deviations(*multiplied, loss, others).max(axis=1))
    return np.asarray(np.sqrt(squares))


def _multiplied(scales: Scales, sigma: Floats, n: int) -> Scales:
    """Return an estimate of the scales of vectors with noise: of the farthest draws and pairs of n rows."""
    if not sigma.any():
        return scales
    widths = scales.widths + 2 * NormalDist().inv_cdf(1 - 1 / n) * sigma
    apart = 2 * np.square(np.divide(sigma, widths, out=np.zeros(len(sigma)), where=widths > 0)).mean()
    count = max(float((widths > 0).sum()), scales.spread)  # one vector may stand for many: D is their number
    return Scales(widths, min(count, float(apart) * (math.sqrt(count) + 2 * math.sqrt(math.log(n))) ** 2))
