"""Confidence statements about the pairs that were found, and about all pairs where none was.

Intervals of pairs that were chosen for being large cover too rarely at the level of a single pair: among 400
unrelated pairs nearly every interval of the strongest one excludes 0. For R pairs chosen of m, intervals at
level 1 - αR/m keep the *false coverage rate*, the expected share of the chosen pairs whose interval misses,
at α or below (Benjamini and Yekutieli, Journal of the American Statistical Association 100, 2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpc_spearman.statistics.columns import Flags, Floats
from mpc_spearman.statistics.intervals import intervals


def selected_confidence(confidence: float, selected: int, of: int) -> float:
    """Return the level at which intervals of `selected` pairs, chosen of `of` by their values, hold together.

    With none selected it is that of one.
    """
    return 1 - (1 - confidence) * min(max(selected, 1) / max(of, 1), 1.0)


def found_intervals(
    rho: Floats, selected: Flags, confidence: float, tests: int, **pairs: Any
) -> tuple[Floats, Floats]:
    """Compute intervals of the pairs that were found, at the level of their false coverage rate.

    Parameters
    ----------
    rho : (m_A, m_B) float64
        Coefficients, NaN where unknown.
    selected : (m_A, m_B) bool
        Which pairs are chosen by their values, such as those of q ≤ 0.05; the fewer, the wider.
    confidence : float
        1 - α, such as 0.95.
    tests : int
        How many pairs `selected` was chosen from.
    **pairs
        The other arguments of :func:`mpc_spearman.statistics.intervals.intervals`.

    Returns
    -------
    low, high : (m_A, m_B) float64
        NaN where a pair was not found, or has no interval. No interval contains coefficients of both signs:
        its test has excluded 0, so an end beyond 0 is 0.
    """
    possible = selected & ~np.isnan(intervals(rho, confidence=confidence, **pairs)[0])
    level = selected_confidence(confidence, int(possible.sum()), tests)
    low, high = intervals(rho, confidence=level, **pairs)
    low, high = np.where(rho > 0, np.maximum(low, 0), low), np.where(rho < 0, np.minimum(high, 0), high)
    return np.where(possible, low, np.nan), np.where(possible, high, np.nan)


def bound_on_all(rho: Floats, confidence: float, tests: int, **pairs: Any) -> tuple[float, int]:
    """Return X such that all |ρ| are at most X with probability `confidence`, and of how many pairs it holds.

    X is the largest |end| of all intervals at level 1 - α/m (Bonferroni), for the pairs that have an interval
    (arguments as of `found_intervals`). NaN and 0 if none has.
    """
    ends = np.abs(intervals(rho, confidence=1 - (1 - confidence) / max(tests, 1), **pairs)).max(axis=0)
    there = ~np.isnan(ends)
    return (float(ends[there].max()), int(there.sum())) if there.any() else (float("nan"), 0)
