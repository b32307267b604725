"""What coefficients are evidence of: p-values, intervals and q-values, from published numbers alone.

Beside the coefficients themselves only the number of rows, the grid they were rounded to and a word on each
column's ties go into them. So every party that was given coefficients computes the rest itself, and what it
computes tells it nothing that it was not given.

A published number stands for all that round to it: where that matters, what is given here holds for every
one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranks import total

if TYPE_CHECKING:
    from mpc_spearman.config import Estimator

#: Up to so many rows p-values of pairs without ties are exact: beyond, 2^n sets of rows take too long.
EXACT_ROWS = 15
#: Share of the largest possible tie term above which a column's coefficients get no interval. Five equally
#: frequent values have 0.04, four 0.06, a flag of one half 0.25, one of a fifth 0.52. What intervals would
#: cover there: ``python benchmarks/coverage.py``.
MANY_TIES = 0.05
#: Fewest rows for an interval: its variance has n - 3 below the line.
INTERVAL_ROWS = 4


class Ties(IntEnum):
    """How far a column is tied; of a pair, the worse of its two."""

    NONE = 0
    SOME = 1
    MANY = 2  # a tie term above `MANY_TIES` of the largest possible
    CONSTANT = 3


def ties(tie_terms: Sequence[int], n: int) -> NDArray[np.int64]:
    """Class of each column by its tie term T.

    Parameters
    ----------
    tie_terms : sequence of int
        T of each column.
    n : int
        Rows.

    Returns
    -------
    ndarray of int64
        Values of `Ties`.
    """
    full = total(n)

    def of(term: int) -> Ties:
        if term == full:
            return Ties.CONSTANT
        return Ties.MANY if term > MANY_TIES * full else Ties.SOME if term else Ties.NONE

    return np.array([of(int(term)) for term in tie_terms], dtype=np.int64)


def pairs(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Class of each pair of columns, shape (m_A, m_B): the worse of the two."""
    return np.maximum(source[:, None], target[None, :])


def testable(tied: NDArray[np.int64], estimator: Estimator) -> NDArray[np.bool_]:
    """Pairs that have a p-value.

    Under ``tie_corrected`` those without a constant column; under ``paper`` those without any tie, because
    eq. 2 is otherwise not the statistic whose null distribution is known.

    Parameters
    ----------
    tied : ndarray of int64
        From `pairs`.
    estimator : str
        As in the plan.
    """
    kept: NDArray[np.bool_] = tied <= (Ties.NONE if estimator == "paper" else Ties.MANY)
    return kept


def pvalues(
    rho: NDArray[np.float64], n: int, tied: NDArray[np.int64], estimator: Estimator, step: float = 0.0
) -> NDArray[np.float64]:
    """Two-sided p-values of no rank correlation.

    Pairs without ties at up to `EXACT_ROWS` rows have the exact value: the share of the n! arrangements whose
    |rho| is at least the given one less half a step. All others have Student's t with n - 2 degrees of
    freedom at t = rho sqrt((n - 2)/((1 + rho)(1 - rho))), as ``scipy.stats.spearmanr`` has it; a rounded ±1
    counts as ±(1 - step/2), and none is below the 2/n! of the rarest arrangement.

    Parameters
    ----------
    rho : ndarray of float64
        Coefficients; NaN where undefined.
    n : int
        Rows, at least 3.
    tied : ndarray of int64, same shape
        From `pairs`.
    estimator : str
        As in the plan.
    step : float
        Grid on whose multiples `rho` lies; 0 for exact coefficients.

    Returns
    -------
    ndarray of float64, same shape
        NaN where there is no coefficient or the pair is not `testable`.
    """
    from scipy.special import (
        stdtr,
    )  # only who has coefficients needs it, once: keep it out of everyone's start

    size = np.minimum(np.abs(rho), 1 - step / 2)
    with np.errstate(divide="ignore"):  # an exact 1 gives t = inf
        t = size * np.sqrt((n - 2) / ((1 + size) * (1 - size)))
    p = np.maximum(2 * stdtr(n - 2, -t), 2 * math.exp(-math.lgamma(n + 1)))
    if n <= EXACT_ROWS:
        tail = _tails(n)
        # Half a step to the safe side, and 1e-9 for what a float64 coefficient is off its fraction.
        farthest = np.nan_to_num((1 - np.abs(rho) + step / 2) * (len(tail) - 1)) + 1e-9
        p = np.where(tied == Ties.NONE, tail[np.minimum(farthest.astype(int), len(tail) - 1)], p)
    return np.where(testable(tied, estimator) & ~np.isnan(rho), p, np.nan)


@lru_cache(maxsize=1)
def _tails(n: int) -> NDArray[np.float64]:
    """Two-sided tail of D = sum d^2 over all arrangements of n ranks without ties.

    Row by row, over all sets of ranks that the rows so far can have: 2^n sets, each with the numbers of ways
    to every sum. Rho = 1 - D/half is symmetric about D = half = n(n^2 - 1)/6, so sums beyond it are dropped.

    Returns
    -------
    ndarray of float64, shape (half + 1,)
        At D: the share of the n! arrangements with |rho| >= 1 - D/half. Counts are exact up to n = 18.
    """
    half = n * (n * n - 1) // 6
    sizes = np.array([bin(chosen).count("1") for chosen in range(1 << n)])
    place = np.zeros(1 << n, dtype=np.int64)
    ways = np.zeros((1, half + 1))
    ways[0, 0] = 1
    for i in range(n):
        place[sizes == i] = np.arange(len(ways))
        larger = np.flatnonzero(sizes == i + 1)
        before, ways = ways, np.zeros((len(larger), half + 1))
        for j in range(n):
            square = (i - j) ** 2
            if square <= half:
                having = np.flatnonzero(larger >> j & 1)
                ways[having, square:] += before[place[larger[having] ^ (1 << j)], : half + 1 - square]
    tail: NDArray[np.float64] = np.minimum(1.0, 2 * np.cumsum(ways[0]) / math.factorial(n))
    return tail


def intervals(
    rho: NDArray[np.float64],
    n: int,
    tied: NDArray[np.int64],
    estimator: Estimator,
    confidence: float,
    step: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Confidence intervals of rank correlations, by Fisher's z.

    tanh(artanh(rho) ± z sqrt((1 + rho^2/2)/(n - 3))), with the variance of Bonett and Wright (2000), Sample
    size requirements for estimating Pearson, Kendall and Spearman correlations, Psychometrika 65. Of a
    rounded coefficient the lower end is that of the smallest value that it stands for, the upper end that of
    the largest: near ±1 the grid is coarser than the standard error. An exact ±1 counts as half way to the
    next that n rows without ties can have.

    Parameters
    ----------
    rho : ndarray of float64
        Coefficients; NaN where undefined.
    n : int
        Rows.
    tied : ndarray of int64, same shape
        From `pairs`.
    estimator : str
        As in the plan.
    confidence : float
        Such as 0.95.
    step : float
        Grid on whose multiples `rho` lies; 0 for exact coefficients.

    Returns
    -------
    low, high : ndarray of float64, same shape
        NaN where there is no coefficient, where a column has `Ties.MANY` (the variance is one of columns
        without ties), where the pair is not `testable`, and below `INTERVAL_ROWS` rows.
    """
    from scipy.special import ndtri

    if n < INTERVAL_ROWS:
        return np.full_like(rho, np.nan), np.full_like(rho, np.nan)
    most = 1 - max(step / 2, 6 / (n * (n * n - 1)))
    width = ndtri((1 + confidence) / 2) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    kept = testable(tied, estimator) & (tied != Ties.MANY)
    with np.errstate(divide="ignore"):  # artanh(±1) is ±inf
        low = np.tanh(np.arctanh(np.clip(rho - step / 2, -1, most)) - width)
        high = np.tanh(np.arctanh(np.clip(rho + step / 2, -most, 1)) + width)
    return np.where(kept, low, np.nan), np.where(kept, high, np.nan)


def qvalues(pvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    """Smallest false discovery rates at which each pair would be among the discoveries.

    Benjamini and Hochberg (1995), over all pairs that have a p-value.

    Parameters
    ----------
    pvalues : ndarray of float64
        NaN where there is none.

    Returns
    -------
    ndarray of float64, same shape
        NaN where there is no p-value.
    """
    found = np.full_like(pvalues, np.nan)
    defined = ~np.isnan(pvalues)
    values = pvalues[defined]
    # As scipy.stats.false_discovery_control, whose import would take longer than a small run.
    falling = np.argsort(values)[::-1]
    scaled = values[falling] * (len(values) / np.arange(len(values), 0, -1))
    values[falling] = np.minimum.accumulate(np.minimum(scaled, 1.0))
    found[defined] = values
    return found
