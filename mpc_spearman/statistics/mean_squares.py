"""Strengths by size where coefficients have noise, which would add to every mean of |ρ|.

U = mean ρ² - mean s² - 1/(n - 1) estimates the mean of the squares of the true coefficients of a feature: it
has no bias, while a mean of |ρ| has about 0.8·√(s² + 1/(n - 1)) where all are 0. U may be below 0, and ranks
features as it is; its root, the *root mean square*, is for reading.
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.config import Estimator, Strength
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.columns import Floats, Ints


def by_squares(strength: Strength, estimator: Estimator, *, noisy: bool) -> bool:
    """Return whether strengths are root mean squares, since in a mean of noisy |ρ| noise adds up."""
    return noisy and strength == "mean_abs" and estimator != "paper"


def from_noisy(
    rho: Floats, noise: Floats, n: int, strength: Strength, estimator: Estimator
) -> tuple[Floats, Ints, Floats]:
    """Compute strengths from noisy coefficients, how many each averages, and the values that rank features.

    Arguments as of `mean_squares` and `estimators.strengths`; everything returned is (m_B,).
    """
    mu, counts = estimators.strengths(rho, strength)
    if not by_squares(strength, estimator, noisy=True):
        return mu, counts, mu
    squares = mean_squares(rho, noise, n)
    return root_mean_squares(squares), counts, squares


def mean_squares(rho: Floats, noise: Floats, n: int) -> Floats:
    """Return U of each target column, (m_B,), over its known coefficients.

    `rho` and `noise`, its standard deviations, are (m_A, m_B), with NaN where a coefficient is unknown. NaN
    where all are.
    """
    squares = np.square(rho) - np.square(noise) - 1 / (n - 1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(squares, axis=0) / (~np.isnan(rho)).sum(axis=0))


def root_mean_squares(squares: Floats) -> Floats:
    """Return the square root of each U; 0 where U is below 0."""
    return np.sqrt(np.maximum(squares, 0.0))


def null_errors(noise: Floats, related: float, n: int) -> Floats:
    """Return the standard error of each U, (m_B,), if its feature is independent of all source columns.

    √(2·Σ_pp' (c_pp'/(n - 1) + δ_pp'·s_p²)²)/m_A, with c the correlations of the source columns, of which only
    `related` = Σ_pp' c_pp'² is needed. `noise` is (m_A, m_B).
    """
    variances = np.square(noise)
    squares = related / (n - 1) ** 2 + 2 * variances.sum(axis=0) / (n - 1) + np.square(variances).sum(axis=0)
    return np.asarray(np.sqrt(2 * squares) / len(noise))


def rank_errors(squares: Floats, noise: Floats, related: float, n: int) -> Floats:
    """Bound the standard error of each U, (m_B,), also if its feature is related to source columns.

    Then ρ² varies by about 2ρ times what ρ does. The sampling errors of one feature's coefficients vary
    together by at most the largest eigenvalue of the source columns' correlations, which is at most
    √`related`. Arguments as of `null_errors`; `squares` are U.
    """
    linear = math.sqrt(related) / (n - 1) + np.square(noise).max(axis=0)
    more = 4 * np.maximum(squares, 0.0) * linear / len(noise)
    return np.asarray(np.sqrt(np.square(null_errors(noise, related, n)) + more))


def related_at_most(length: float, columns: int) -> float:
    """Bound Σ_pp' c_pp'² by the `length` that a source states of its columns for ``strength: mean_abs``.

    That length, `mpc_spearman.statistics.reading.mean_length`, has the square Σ h(c_pp')/m², where h(c) =
    (2/π)(√(1 - c²) + c·arcsin c - 1) lies between c²/π and 1.15·c²/π.
    """
    return np.pi * (length * columns) ** 2
