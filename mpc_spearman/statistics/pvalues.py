"""p-values and q-values of coefficients, from published numbers alone.

The hypothesis is independence: given the two columns, all n! ways of pairing their values are equally likely.
Which test a pair gets, and why: docs/statistics.md, "p-values".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.statistics.columns import Floats, Ties, upper_share
from mpc_spearman.statistics.pairs import Pairs

#: Skewness of S above which a p-value needs a warning, and above which there is none.
SKEWED, TOO_SKEWED = 0.2, 1.0
_NEXT_TO_NORMAL = 1e-3  # skewness below which Pearson's type III is the normal to three digits at any p


def pvalues(rho: Floats, pairs: Pairs) -> Floats:
    """Two-sided p-values of independence: how often |rho| is at least as large as observed.

    `rho` and the p-values are float64 of shape (m_A, m_B); noise may carry a coefficient beyond ±1. There are
    n >= 3 rows. NaN where `rho` is, where the pair is not `testable`, where S is skewed beyond `TOO_SKEWED`
    and has no exact test, and where fewer than 3 rows count.
    """
    from scipy.special import gammaln, ndtr, ndtri, stdtr  # here: only coefficients need it

    n, source, target = pairs.n, pairs.source, pairs.target
    tied = np.maximum(source.ties, target.ties)
    many = np.minimum(source.ties, target.ties) >= Ties.MANY
    noise = np.broadcast_to(pairs.noise, rho.shape)
    size = np.abs(rho)
    exact, rows = noise == 0, np.maximum(pairs.counted_rows, 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.minimum(size, 1)
        t = 2 * stdtr(rows - 2, -inner * np.sqrt((rows - 2) / ((1 + inner) * (1 - inner))))
    normal = 2 * ndtr(-size / np.sqrt(1 / (rows - 1) + noise**2))
    p = np.where(exact & ~many, t, normal)
    p = np.where(exact & (tied == Ties.NONE), np.maximum(p, 2 * np.exp(-gammaln(rows + 1))), p)
    skew = np.broadcast_to(pairs.null_skewness, rho.shape)
    skewed = skew > _NEXT_TO_NORMAL
    p[skewed] = _pearson3(-ndtri(p[skewed] / 2), skew[skewed])
    p[skew > TOO_SKEWED] = np.nan
    flags = pairs.two_flags & exact & ~np.isnan(rho)
    if flags.any():
        upper = (np.rint(n * upper_share(side.skewness)) for side in (source, target))
        a, b = (np.broadcast_to(rows, rho.shape)[flags] for rows in upper)
        p[flags] = _two_flags(rho[flags], a, b, n)
    return np.where(pairs.testable & (rows >= 3) & ~np.isnan(rho), p, np.nan)


def _pearson3(z: Floats, skew: Floats) -> Floats:
    """P(|Z| >= z) for Z of mean 0, variance 1 and that skewness: a shifted gamma of shape 4/skew^2."""
    from scipy.special import gammainc, gammaincc

    shape, apart = 4 / skew**2, 2 * z / skew
    return np.asarray(gammaincc(shape, shape + apart) + gammainc(shape, np.maximum(shape - apart, 0)))


def _two_flags(rho: Floats, a: Floats, b: Floats, n: int) -> Floats:
    """Compute exact p-values of pairs of flags, from the numbers of rows `a` and `b` with the upper value.

    If a rows have it in one column, b in the other and k in both, S = n (n k - a b); k is hypergeometric if
    the columns are independent. Both tails count if their |S| is at least as large.
    """
    k = np.rint((rho * np.sqrt(a * (n - a)) * np.sqrt(b * (n - b)) + a * b) / n).astype(np.int64)
    ab = a.astype(np.int64) * b.astype(np.int64)  # the mean of k, times n: integers, up to 2^62
    above = n * k >= ab
    upper = np.where(above, k, -((n * k - 2 * ab) // n))
    lower = np.where(above, (2 * ab - n * k) // n, k)
    # At most `lower` in both is at least a - lower in the first column alone.
    return np.minimum(_at_least(upper, a, b, n) + _at_least(a - lower, a, n - b, n), 1.0)


def _at_least(k: NDArray[Any], a: Floats, b: Floats, n: int) -> Floats:
    """P(K >= k) for K hypergeometric: how many of a rows are among b of n.

    Each term is the one before times a ratio that falls: once that is below 1, all that follow are less than
    a geometric series.
    """
    from scipy.special import gammaln

    k = np.maximum(k, np.maximum(0, a + b - n))
    possible = k <= np.minimum(a, b)
    p = np.zeros(k.shape)
    k, a, b = k[possible], a[possible], b[possible]
    margins, cells = (a, b, n - a, n - b), (k, a - k, b - k, n - a - b + k)
    first = sum(gammaln(m + 1) for m in margins) - gammaln(n + 1) - sum(gammaln(c + 1) for c in cells)
    total, term, open_sums = np.ones(k.shape), np.ones(k.shape), np.arange(k.size)
    while open_sums.size:
        ratio = (a - k) * (b - k) / ((k + 1) * (n - a - b + k + 1))
        term *= ratio
        total[open_sums] += term
        going = (ratio >= 1) | (term * ratio > 1e-17 * total[open_sums] * (1 - ratio))
        open_sums, term = open_sums[going], term[going]
        k, a, b = k[going] + 1, a[going], b[going]
    p[possible] = np.exp(first) * total
    return p


def qvalues(pvalues: Floats, tests: int | None = None) -> Floats:
    """Smallest false discovery rates at which each pair would be among the discoveries.

    Benjamini and Hochberg (1995), over all pairs that have a p-value, as
    ``scipy.stats.false_discovery_control``, whose import would take longer than a small run.
    With `tests`, over so many pairs: those without a p-value here count as if theirs were 1.
    NaN where there is no p-value.
    """
    q = np.full_like(pvalues, np.nan)
    defined = ~np.isnan(pvalues)
    values = pvalues[defined]
    falling = np.argsort(values)[::-1]
    scaled = values[falling] * ((tests or len(values)) / np.arange(len(values), 0, -1))
    values[falling] = np.minimum.accumulate(np.minimum(scaled, 1.0))
    q[defined] = values
    return q
