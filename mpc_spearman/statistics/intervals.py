"""Confidence intervals of coefficients, from what is published beside them.

An interval contains every rho that is compatible with the published value: docs/statistics.md, "Confidence
intervals".
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.config import Estimator
from mpc_spearman.statistics.columns import Columns, Flags, Floats, counted_rows
from mpc_spearman.statistics.pvalues import SKEWED, null_skewness, testable, two_flags

#: Fewest rows that count for an interval: its variance has their number less 3 below the line.
INTERVAL_ROWS = 4
#: The largest |g_x g_y|, with g a column's skewness, for an interval of a pair that is not two flags. It must
#: not depend on r: intervals that are published only where r is small cover too rarely.
MOST_SKEWED = 2.0
#: By how much intervals of such a pair are wider if one of its columns is skewed by 2 or more.
WIDER = 0.1
_HALVINGS = 52


def intervals(
    rho: Floats,
    n: int,
    source: Columns,
    target: Columns,
    estimator: Estimator,
    confidence: float,
    noise: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """Confidence intervals of rank correlations; arguments as of `pvalues`, `confidence` such as 0.95.

    Returns the low and the high ends; both are the end nearest to r if no rho is compatible. NaN without a
    coefficient, if the pair is not testable, if fewer than `INTERVAL_ROWS` rows count (`counted_rows`), for
    two flags if S is skewed beyond `SKEWED`, and for other pairs if both columns are skewed beyond
    `MOST_SKEWED`.
    """
    from scipy.special import ndtri

    rows = counted_rows(n, source, target)
    z = float(ndtri((1 + confidence) / 2))
    g = source.skewness * target.skewness
    flags = two_flags(source, target)
    # An exact ±1 counts as half way to the next value that n rows can have: 1/(4 p(1 - p)) is 1 + g^2/4.
    spread = (1 + source.skewness**2 / 4) * (1 + target.skewness**2 / 4)
    gap = np.where(flags, np.minimum(2 * spread / n, 0.5), 6 / (n * (n * n - 1)))
    # The variance is taken as far as a coefficient can be, whatever noise has done to it.
    r = np.clip(rho, gap - 1, 1 - gap)
    c = z * z / np.maximum(rows - 3, 1)
    middle = np.where(flags, c * g / 2, 0.0)
    most = np.maximum(source.skewness**2, target.skewness**2)
    other = (1 + np.clip(rho, -1, 1) ** 2 / 2) * (1 + WIDER * np.minimum(most, 4) / 4) ** 2
    half = np.sqrt(middle**2 + c * np.where(flags, _flags(r, source, target), other))
    noise = np.broadcast_to(noise, rho.shape)
    below = np.where(noise > 0, rho, np.clip(rho, -1, 1 - gap))
    above = np.where(noise > 0, rho, np.clip(rho, gap - 1, 1))
    low = _end(below, half - middle, z * noise)
    high = -_end(-above, half + middle, z * noise)
    refused = np.where(flags, null_skewness(n, source, target) > SKEWED, np.abs(g) > MOST_SKEWED)
    kept = testable(source, target, estimator) & (rows >= INTERVAL_ROWS) & ~refused & ~np.isnan(rho)
    return np.where(kept, low, np.nan), np.where(kept, high, np.nan)


def _flags(r: Floats, source: Columns, target: Columns) -> Floats:
    """Variance of artanh r of two flags, times n, by the delta method.

    With two values of mean 0 and mean square 1, u^2 = 1 + g u for a column of skewness g. So the joint
    moments are m_22 = 1 + g_x g_y r, m_31 = (1 + g_x^2) r and m_40 = 1 + g_x^2.
    """
    g_x, g_y = source.skewness, target.skewness
    fourths = 2 + g_x**2 + g_y**2
    variance = (1 + g_x * g_y * r) * (1 + r**2 / 2) - r**2 * fourths + r**2 / 4 * fourths
    return np.maximum(variance, 0.0) / (1 - r**2) ** 2


def _end(r: Floats, reach: Floats, noise: Floats) -> Floats:
    """Lower ends: the smallest rho compatible with r, with noise found by halving; 1 if none is."""

    def out_of_reach(rho: Floats) -> Flags:
        with np.errstate(divide="ignore"):  # artanh(±1) is ±inf
            up = np.tanh(np.arctanh(rho) + reach) - rho
        return (r > rho) & ((r - rho) ** 2 > up**2 + noise**2)

    with np.errstate(divide="ignore", invalid="ignore"):  # noise may carry r beyond ±1
        exact: Floats = np.tanh(np.arctanh(r) - reach)
    if not noise.any():
        return exact
    low, high = np.full(r.shape, -1.0), np.full(r.shape, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        out = out_of_reach(middle)
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    noisy = np.where(out_of_reach(np.full(r.shape, -1.0)), high, -1.0)
    return np.where(noise > 0, noisy, exact)
