"""Standard errors of strengths, and tests whether these means over source columns differ from chance.

A strength of a feature that is independent of all source columns is taken as normal: docs/statistics.md,
"Strengths".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mpc_spearman.config import Estimator, Strength
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.statistics.columns import Floats


def mean_length(ranks: Ranks, strength: Strength, estimator: Estimator) -> float:
    """Return the length, 0 to 1, of a mean over a source's columns: how much it varies by chance.

    Times 1/sqrt(n - 1) that is the standard deviation, over all ways of pairing the source's rows with a
    target column, of the mean of its coefficients: for ``mean`` the length of the mean of the columns' unit
    vectors. For ``mean_abs`` two absolute coefficients, taken as normal with correlation c, have the
    covariance (2/pi)(sqrt(1 - c^2) + c arcsin c - 1). Under ``paper`` constant columns count, and vectors are
    ranks over sqrt(N).
    """
    squares = np.array(ranks.squares, dtype=np.float64)
    defined = squares > 0
    count = ranks.m if estimator == "paper" else int(defined.sum())
    if not count:
        return 0.0
    scales = np.sqrt(np.where(defined, squares, 1.0))
    if estimator == "paper":
        scales[:] = np.sqrt(total(ranks.n))
    if strength == "mean":
        weights = 1 / scales
        square = sum(float(np.square(weights @ block).sum()) for _, block in ranks.blocks())
    else:
        moving = ranks.gram[np.ix_(defined, defined)]
        c = np.clip(moving / np.sqrt(np.outer(np.diag(moving), np.diag(moving))), -1, 1)
        lengths = (np.sqrt(squares) / scales)[defined]
        square = float(lengths @ (2 / np.pi * (np.sqrt(1 - c**2) + c * np.arcsin(c) - 1)) @ lengths)
    return float(np.sqrt(max(square, 0.0))) / count


def strength_errors(norms: Sequence[float], rows: Sequence[Floats]) -> Floats:
    """Compute the standard errors of strengths, (m_B,), whose target columns are independent of the sources'.

    `norms` are each source's `mean_length` times its share of all columns, and `rows`, (m_B,) for each
    source, how many rows count (`mpc_spearman.statistics.pairs.Pairs`). With several sources the sum is an
    upper bound: docs/statistics.md, "Strengths".
    """
    return np.asarray(
        sum(norm / np.sqrt(np.maximum(count - 1, 1.0)) for norm, count in zip(norms, rows, strict=True))
    )


def by_chance(strength: Strength, n: int) -> float:
    """Return the expected strength of unrelated columns: 0, or for ``mean_abs`` the mean of |ρ|."""
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
