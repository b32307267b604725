"""Help for reading numbers: standard errors of strengths, what n rows can show, the limits of flags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from mpc_spearman.config import Estimator, Strength
from mpc_spearman.data.ranks import Ranks, total
from mpc_spearman.statistics.columns import Columns, Flags, Floats, upper_share

#: A test that "shows" something finds it with this probability, at this level.
POWER, LEVEL = 0.8, 0.05
_HALVINGS = 52
#: Rows expected outside the largest group below which a random choice of rows may weaken a column.
FEW_OUTSIDE = 60
_STATED_LARGER = 1.21


def detectable(n: int, tests: int = 1, noise: float = 0.0) -> float:
    """About the smallest |rho| of untied columns that a test finds with probability `POWER`; 1 if none.

    There are n >= 4 rows; each of the `tests` is at `LEVEL` divided by their number (Bonferroni); `noise` is
    the standard deviation of the noise in a coefficient. r is taken as normal.
    """
    normal = NormalDist()  # SciPy's would take time to import in a process that needs nothing else of it
    critical = -normal.inv_cdf(LEVEL / tests / 2) * np.sqrt(1 / (n - 1) + noise**2)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        rho = (low + high) / 2
        spread = np.sqrt((1 - rho**2) ** 2 * (1 + rho**2 / 2) / (n - 3) + noise**2)
        low, high = (low, rho) if rho - normal.inv_cdf(POWER) * spread > critical else (rho, high)
    return high


def mean_length(ranks: Ranks, strength: Strength, estimator: Estimator) -> float:
    """Return how much a mean over a source's columns varies by chance, from 0 to 1.

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

    Parameters
    ----------
    norms : sequence of float
        Each source's `mean_length` times its share of all columns. With several sources the sum is an upper
        bound: docs/statistics.md, "Strengths".
    rows : sequence of (m_B,) float64
        How many rows count for each source's mean and each target column, as in
        `mpc_spearman.statistics.columns.counted_rows`.
    """
    return np.asarray(
        sum(norm / np.sqrt(np.maximum(count - 1, 1.0)) for norm, count in zip(norms, rows, strict=True))
    )


def weakened(ranges: Floats, n: int) -> Flags:
    """Say which columns a choice of n rows from a table may often weaken, from their stated ranges alone.

    `ranges` are in ranges of a column without ties, and stated up to 1.21 times as large as they are in the
    whole table (docs/guarantee.md, "Other rows than all"). That of a flag which a share p of the rows has is
    1/√(12·p·(1 - p)). If some `FEW_OUTSIDE` rows or fewer are expected to have it, a random choice has now
    and then so few that the range is beyond what is stated. No range is beyond √2, that of a single row.
    """
    whole = ranges / _STATED_LARGER
    few = n < FEW_OUTSIDE * 12 * np.square(whole)
    return np.asarray((ranges > 1.02) & (whole < math.sqrt(n / 6)) & few)


def largest(flags: Columns, n: int) -> Floats:
    """Largest |rho| that a flag can have with a column without ties: sqrt((N - T)/N).

    Reached if all rows of one value come before all of the other; about sqrt(3 p (1 - p)).
    """
    p = upper_share(flags.skewness)
    return np.sqrt(3 * p * (1 - p) / (1 - 1 / n**2))


def auc(rho: Floats, flags: Columns, n: int) -> Floats:
    """How often a row with the upper value of a flag has the larger value of a column without ties.

    1/2 + S/(2 (N - T)) with T of the flag, which is 1/2 + rho/(2 `largest`): the area under the curve of the
    column as a classifier of the flag.
    """
    return 0.5 + rho / (2 * largest(flags, n))
