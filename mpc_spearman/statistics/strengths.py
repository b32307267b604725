"""Tests of strengths: whether a mean over a source's columns differs from what chance gives.

A strength of a feature that is independent of all source columns is taken as normal: docs/statistics.md,
"Strengths".
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.config import Estimator, Strength
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.columns import Floats, Ints
from mpc_spearman.statistics.mean_squares import mean_squares, root_mean_squares


def by_squares(strength: Strength, estimator: Estimator, *, noisy: bool) -> bool:
    """Return whether strengths are root mean squares: a mean of noisy |ρ| would add noise up."""
    return noisy and strength == "mean_abs" and estimator != "paper"


def from_noisy(
    rho: Floats, noise: Floats, n: int, strength: Strength, estimator: Estimator
) -> tuple[Floats, Ints, Floats]:
    """Compute strengths of coefficients with noise, how many each is over, and the values that rank them.

    Arguments as of `mean_squares` and `estimators.strengths`; everything returned is (m_B,).
    """
    mu, counts = estimators.strengths(rho, strength)
    if not by_squares(strength, estimator, noisy=True):
        return mu, counts, mu
    squares = mean_squares(rho, noise, n)
    return root_mean_squares(squares), counts, squares


def by_chance(strength: Strength, n: int) -> float:
    """Return the mean of a strength of unrelated columns: 0, or that of |ρ| for ``mean_abs``."""
    return 0.0 if strength == "mean" else math.sqrt(2 / math.pi / (n - 1))


def rank_errors(sampling: Floats, strength: Strength, n: int) -> Floats:
    """Bound the standard errors of strengths, (m,), also if their features are related to source columns.

    `sampling` are those of unrelated features. Under ``mean`` they are a bound. A |ρ| far from 0 varies as ρ
    does, which is more than |ρ| varies around 0: the mean of m of them by at most √(λ/m), in standard errors,
    with λ the largest eigenvalue of the source columns' correlations. λ² is at most Σ_pp' c_pp'²
    (`mpc_spearman.statistics.mean_squares.related_at_most`).
    """
    return sampling if strength == "mean" else np.sqrt(math.sqrt(math.pi / (n - 1)) * sampling)


def pvalues(strengths: Floats, errors: Floats, mean: float, *, two_sided: bool = True) -> Floats:
    """Compute p-values of independence, (m,), of strengths with standard errors, (m,), and a mean by chance.

    A strength by size is tested on one side, and its distribution has a longer tail there: it is taken as the
    gamma of the same mean and variance where that, as without noise, gives the larger p-value. NaN where a
    strength is, or where its error is 0.
    """
    from scipy import special

    errors = np.where(errors > 0, errors, np.nan)
    z = (strengths - mean) / errors
    if two_sided:
        return np.asarray(2 * special.ndtr(-np.abs(z)))
    shape = np.square(mean / errors)
    gamma = special.gammaincc(shape, np.clip(strengths, 0, None) * mean / np.square(errors))
    return np.asarray(np.maximum(special.ndtr(-z), gamma))
