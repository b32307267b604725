"""Confidence intervals of coefficients: of any pair, of pairs chosen for their size, and of all at once.

An interval contains every rho that is compatible with the published value: docs/statistics.md, "Confidence
intervals". Intervals of pairs that were chosen for being large cover too rarely at the level of a single
pair: among 400 unrelated pairs nearly every interval of the strongest one excludes 0. For R pairs chosen of
m, intervals at level 1 - αR/m keep the *false coverage rate*, the expected share of the chosen pairs whose
interval misses, at α or below (Benjamini and Yekutieli, Journal of the American Statistical Association 100,
2005).
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.statistics.columns import Columns, Flags, Floats
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import SKEWED

#: Fewest rows that count for an interval: its variance has their number less 3 below the line.
INTERVAL_ROWS = 4
#: The largest |g_x g_y|, with g a column's skewness, for an interval of a pair that is not two flags. It must
#: not depend on r: intervals that are published only where r is small cover too rarely.
MOST_SKEWED = 2.0
#: By how much intervals of such a pair are wider if one of its columns is skewed by 2 or more.
WIDER = 0.1
_HALVINGS = 52


def intervals(rho: Floats, pairs: Pairs, confidence: float) -> tuple[Floats, Floats]:
    """Confidence intervals of rank correlations, (m_A, m_B), each at the level `confidence`, such as 0.95.

    Returns the low and the high ends; both are the end nearest to r if no rho is compatible. NaN without a
    coefficient, if the pair is not testable, if fewer than `INTERVAL_ROWS` rows count, for two flags if S is
    skewed beyond `SKEWED`, and for other pairs if both columns are skewed beyond `MOST_SKEWED`.
    """
    from scipy.special import ndtri

    n, source, target, flags = pairs.n, pairs.source, pairs.target, pairs.two_flags
    rows = pairs.counted_rows
    z = float(ndtri((1 + confidence) / 2))
    g = source.skewness * target.skewness
    # An exact ±1 counts as half way to the next value that n rows can have: 1/(4 p(1 - p)) is 1 + g^2/4.
    spread = (1 + source.skewness**2 / 4) * (1 + target.skewness**2 / 4)
    gap = np.where(flags, np.minimum(2 * spread / n, 0.5), 6 / (n * (n * n - 1)))
    # The variance is taken as far as a coefficient can be, whatever noise has done to it.
    r = np.clip(rho, gap - 1, 1 - gap)
    c = z * z / np.maximum(rows - 3, 1)
    middle = np.where(flags, c * g / 2, 0.0)
    most = np.maximum(source.skewness**2, target.skewness**2)
    of_others = (1 + np.clip(rho, -1, 1) ** 2 / 2) * (1 + WIDER * np.minimum(most, 4) / 4) ** 2
    half = np.sqrt(middle**2 + c * np.where(flags, _variance_of_flags(r, source, target), of_others))
    noise = np.broadcast_to(pairs.noise, rho.shape)
    below = np.where(noise > 0, rho, np.clip(rho, -1, 1 - gap))
    above = np.where(noise > 0, rho, np.clip(rho, gap - 1, 1))
    low = _lower_end(below, half - middle, z * noise)
    high = -_lower_end(-above, half + middle, z * noise)
    exact_skewness = Pairs(n, source, target).null_skewness
    refused = np.where(flags, exact_skewness > SKEWED, np.abs(g) > MOST_SKEWED)
    defined = pairs.testable & (rows >= INTERVAL_ROWS) & ~refused & ~np.isnan(rho)
    return np.where(defined, low, np.nan), np.where(defined, high, np.nan)


def selected_confidence(confidence: float, selected: int, of: int) -> float:
    """Return the level at which intervals of `selected` pairs, chosen of `of` by their values, hold together.

    With none selected it is that of one.
    """
    return 1 - (1 - confidence) * min(max(selected, 1) / max(of, 1), 1.0)


def selected_intervals(
    rho: Floats, pairs: Pairs, selected: Flags, confidence: float, tests: int
) -> tuple[Floats, Floats]:
    """Compute intervals of pairs that were selected for their size, which keep the false coverage rate.

    `selected`, (m_A, m_B), were chosen by their values from so many `tests`; the fewer, the wider their
    intervals. Ends are NaN for other pairs, and where a pair has no interval. No interval contains
    coefficients of both signs: its test has excluded 0, so an end beyond 0 is 0.
    """
    possible = selected & ~np.isnan(intervals(rho, pairs, confidence)[0])
    level = selected_confidence(confidence, int(possible.sum()), tests)
    low, high = intervals(rho, pairs, level)
    low, high = np.where(rho > 0, np.maximum(low, 0), low), np.where(rho < 0, np.minimum(high, 0), high)
    return np.where(possible, low, np.nan), np.where(possible, high, np.nan)


def bound_on_all(rho: Floats, pairs: Pairs, confidence: float, tests: int) -> tuple[float, int]:
    """Return a bound X on all |ρ| with probability `confidence`, and for how many pairs it holds.

    X is the largest |end| of all intervals at level 1 - α/m (Bonferroni; m is `tests`), for the pairs that
    have an interval. NaN and 0 if none has.
    """
    ends = np.abs(intervals(rho, pairs, 1 - (1 - confidence) / max(tests, 1))).max(axis=0)
    defined = ~np.isnan(ends)
    return (float(ends[defined].max()), int(defined.sum())) if defined.any() else (float("nan"), 0)


def _variance_of_flags(r: Floats, source: Columns, target: Columns) -> Floats:
    """Return the variance of artanh r of two flags, times n, by the delta method.

    With two values of mean 0 and mean square 1, u^2 = 1 + g u for a column of skewness g. So the joint
    moments are m_22 = 1 + g_x g_y r, m_31 = (1 + g_x^2) r and m_40 = 1 + g_x^2.
    """
    g_x, g_y = source.skewness, target.skewness
    fourths = 2 + g_x**2 + g_y**2
    variance = (1 + g_x * g_y * r) * (1 + r**2 / 2) - r**2 * fourths + r**2 / 4 * fourths
    return np.maximum(variance, 0.0) / (1 - r**2) ** 2


def _lower_end(r: Floats, width: Floats, noise: Floats) -> Floats:
    """Return the smallest rho compatible with r, by halving where there is noise; 1 if none is."""

    def out_of_reach(rho: Floats) -> Flags:
        with np.errstate(divide="ignore"):  # artanh(±1) is ±inf
            up = np.tanh(np.arctanh(rho) + width) - rho
        return (r > rho) & ((r - rho) ** 2 > up**2 + noise**2)

    with np.errstate(divide="ignore", invalid="ignore"):  # noise may carry r beyond ±1
        exact: Floats = np.tanh(np.arctanh(r) - width)
    if not noise.any():
        return exact
    low, high = np.full(r.shape, -1.0), np.full(r.shape, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        out = out_of_reach(middle)
        low, high = np.where(out, middle, low), np.where(out, high, middle)
    noisy = np.where(out_of_reach(np.full(r.shape, -1.0)), high, -1.0)
    return np.where(noise > 0, noisy, exact)
