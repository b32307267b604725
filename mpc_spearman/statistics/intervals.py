"""Confidence intervals of coefficients, from what is published beside them.

An interval holds every rho under which the published value r is not too far out. An exact coefficient strays
on Fisher's scale by u upwards and d downwards; noise of standard deviation s comes on top of that, as

    (r - rho)^2 <= (tanh(artanh rho + u) - rho)^2 + z^2 s^2     where r >= rho, and likewise below.

Without noise that is artanh r - u <= artanh rho <= artanh r + d, with u = d = z sqrt((1 + r^2/2)/(n - 3))
(Bonett and Wright 2000), or for two columns of two values from their own variance (`_flags`). See
docs/statistics.md, "Confidence intervals".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.pvalues import SKEWED, null_skewness, testable, two_flags

if TYPE_CHECKING:
    from mpc_spearman.config import Estimator

#: Fewest rows for an interval: its variance has n - 3 below the line.
INTERVAL_ROWS = 4
#: Where both columns have many ties, and are not two flags: largest |rho|, and |g_x g_y rho| with g the
#: skewness of a column, that an interval may reach. Beyond, they would not cover as often as they say.
FARTHEST, MOST_SKEWED = 0.4, 0.2
_HALVINGS = 52

_Floats = NDArray[np.float64]


def intervals(
    rho: _Floats,
    n: int,
    source: Columns,
    target: Columns,
    estimator: Estimator,
    confidence: float,
    noise: _Floats | float = 0.0,
) -> tuple[_Floats, _Floats]:
    """Confidence intervals of rank correlations; arguments as of `pvalues`, `confidence` such as 0.95.

    Returns the low and the high ends: the end nearest to r, twice, where no rho is near enough. NaN where
    there is no coefficient, where the pair is not testable, below `INTERVAL_ROWS` rows, for two flags where S
    is skewed beyond `SKEWED`, and where otherwise both columns have many ties and an end is beyond `FARTHEST`
    or `MOST_SKEWED`.
    """
    from scipy.special import ndtri

    if n < INTERVAL_ROWS:
        return np.full(rho.shape, np.nan), np.full(rho.shape, np.nan)
    z = float(ndtri((1 + confidence) / 2))
    g = source.skewness * target.skewness
    flags = two_flags(source, target)
    # An exact ±1 counts as half way to the next value that n rows can have: 1/(4 p(1 - p)) is 1 + g^2/4.
    spread = (1 + source.skewness**2 / 4) * (1 + target.skewness**2 / 4)
    gap = np.where(flags, np.minimum(2 * spread / n, 0.5), 6 / (n * (n * n - 1)))
    # The variance is taken as far as a coefficient can be, whatever noise has done to it.
    r = np.clip(rho, gap - 1, 1 - gap)
    c = z * z / (n - 3)
    middle = np.where(flags, c * g / 2, 0.0)
    half = np.sqrt(
        middle**2 + c * np.where(flags, _flags(r, source, target), 1 + np.clip(rho, -1, 1) ** 2 / 2)
    )
    noise = np.broadcast_to(noise, rho.shape)
    below = np.where(noise > 0, rho, np.clip(rho, -1, 1 - gap))
    above = np.where(noise > 0, rho, np.clip(rho, gap - 1, 1))
    low = _end(below, half - middle, z * noise)
    high = -_end(-above, half + middle, z * noise)
    far, skewed = np.maximum(np.abs(low), np.abs(high)), null_skewness(n, source, target) > SKEWED
    many = np.minimum(source.ties, target.ties) >= Ties.MANY
    refused = np.where(flags, skewed, many & ((far > FARTHEST) | (np.abs(g) * far > MOST_SKEWED)))
    kept = testable(source, target, estimator) & ~refused & ~np.isnan(rho)
    return np.where(kept, low, np.nan), np.where(kept, high, np.nan)


def _flags(r: _Floats, source: Columns, target: Columns) -> _Floats:
    """Variance of artanh r of two columns of two values, times n.

    By the delta method, of their joint moments m_ij once both have mean 0 and mean square 1. With two values
    u^2 = 1 + g u for a column of skewness g, so that m_22 = 1 + g_x g_y r, m_31 = (1 + g_x^2) r and
    m_40 = 1 + g_x^2.
    """
    g_x, g_y = source.skewness, target.skewness
    fourths = 2 + g_x**2 + g_y**2
    variance = (1 + g_x * g_y * r) * (1 + r**2 / 2) - r**2 * fourths + r**2 / 4 * fourths
    found: _Floats = np.maximum(variance, 0.0) / (1 - r**2) ** 2
    return found


def _end(r: _Floats, reach: _Floats, noise: _Floats) -> _Floats:
    """Lower ends: the smallest rho from which r is in reach, with noise found by halving; 1 where none is."""
    noisy = noise > 0
    if noisy.any():
        ends = np.empty(r.shape)
        ends[noisy] = _noisy_end(r[noisy], reach[noisy], noise[noisy])
        ends[~noisy] = _end(r[~noisy], reach[~noisy], noise[~noisy])
        return ends
    with np.errstate(divide="ignore"):  # artanh(±1) is ±inf
        found: _Floats = np.tanh(np.arctanh(r) - reach)
    return found


def _noisy_end(r: _Floats, reach: _Floats, noise: _Floats) -> _Floats:
    def out_of_reach(rho: _Floats) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore"):
            up = np.tanh(np.arctanh(rho) + reach) - rho
        found: NDArray[np.bool_] = (r > rho) & ((r - rho) ** 2 > up**2 + noise**2)
        return found

    low, high = np.full(r.shape, -1.0), np.full(r.shape, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        out = out_of_reach(middle)
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    return np.where(out_of_reach(np.full(r.shape, -1.0)), high, -1.0)
