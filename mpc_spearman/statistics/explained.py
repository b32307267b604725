"""What a side's columns explain together of a feature's ranks: R², what of it is chance, and its test.

R² is the share of the variance of a feature's ranks that the best linear combination of k directions gives.
Under independence it has mean k/(n - 1), exactly, over all ways of pairing rows, and about the beta
distribution of k/2 and (n - 1 - k)/2. `r2` here is less the bias of noise, k·s², with s the standard
deviation of the noise in each of the k products that it is made of: it may be below 0. See
docs/statistics.md, "What is explained".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.statistics import estimators

if TYPE_CHECKING:
    from mpc_spearman.config import Order

Floats = NDArray[np.float64]

#: The fewest rows for each direction.
ROWS_EACH = 5
#: A spread of R² under no relation above which there are too few rows.
SPREAD = 0.1


def predictive(r2: Floats, k: NDArray[np.int64], n: int) -> Floats:
    """Estimate the share that the fitted combination explains of new rows.

    For normal columns (Stein 1960; Darlington 1968). Below 0 the weights do worse than the mean.
    """
    return 1 - (1 - r2) * ((n - 1) / (n - k - 1)) * ((n - 2) / (n - k - 2)) * ((n + 1) / n)


def spread(s: Floats, k: NDArray[np.int64], n: int) -> Floats:
    """Return the standard deviation of `r2` where there is no relation, noise included, about."""
    return np.sqrt(2 * k) * (np.square(s) + 1 / n)


def pvalues(r2: Floats, s: Floats, k: NDArray[np.int64], n: int) -> Floats:
    """Compute p-values of independence of all of a side's columns; NaN where `r2` is.

    Without noise by F, with it by the gamma distribution that has R²'s mean and variance (`_gamma`).
    """
    from scipy import special

    exact = special.betainc((n - 1 - k) / 2, k / 2, np.clip(1 - r2, 0, 1))
    shape, scale = _gamma(s, k, n)
    noisy = special.gammaincc(shape, np.clip(r2 + k * np.square(s), 0, None) / scale)
    return np.asarray(np.where(s > 0, noisy, exact) + 0 * r2)


def chance(s: Floats, k: NDArray[np.int64], n: int, p: float = 0.05) -> Floats:
    """Return the `r2` of which `p` is the p-value: so much chance gives once in 20 features."""
    from scipy import special

    shape, scale = _gamma(s, k, n)
    exact = 1 - special.betaincinv((n - 1 - k) / 2, k / 2, p)
    noisy = special.gammainccinv(shape, p) * scale - k * np.square(s)
    return np.asarray(np.where(s > 0, noisy, exact))


def pillai_pvalues(
    trace: Floats, s: Floats, k: NDArray[np.int64], of_target: NDArray[np.int64], n: int
) -> Floats:
    """Compute p-values of independence of two sides with k and `of_target` directions, from Pillai's trace.

    The trace, Σ of squared canonical correlations, is less k·of_target·s², which noise adds. Its
    distribution is taken as the gamma distribution of its mean and variance (Pillai 1955; `_gamma`).
    """
    from scipy import special

    shape, scale = _gamma(s, k, n, of_target)
    return np.asarray(
        special.gammaincc(shape, np.clip(trace + k * of_target * np.square(s), 0, None) / scale)
    )


def edge(s: Floats, k: NDArray[np.int64], of_target: NDArray[np.int64], n: int) -> Floats:
    """Return about the largest canonical correlation by chance, noise included (Marchenko, Pastur)."""
    return (np.sqrt(k) + np.sqrt(of_target)) * np.sqrt(1 / (n - 1) + np.square(s))


def _gamma(
    s: Floats, k: NDArray[np.int64], n: int, other: NDArray[np.int64] | int = 1
) -> tuple[Floats, Floats]:
    """Return shape and scale of the gamma distribution with the moments of Σz² under independence."""
    square, rows, count = np.square(s), n - 1, k * other
    mean = count / rows + count * square
    exact = (rows - k) * (rows - other) / (rows**2 * (rows - 1) * (rows + 2))
    variance = 2 * count * (exact + 2 * square / rows + square**2)
    return mean**2 / variance, variance / mean


def positions(r2: Floats, k: NDArray[np.int64], n: int, order: Order) -> NDArray[np.int64]:
    """Rank features, (m_B,), by the highest predictive R² that any source gives; `r2` is (sources, m_B)."""
    return estimators.positions(predictive(r2, k[:, None], n).max(axis=0), order)
