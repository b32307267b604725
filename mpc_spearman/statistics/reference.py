"""The answer on pooled data, for tests and notebooks: what a run must reproduce without pooling.

It deliberately shares no code with a run's arithmetic: ranks by ``scipy.stats.rankdata``, eq. 2 as the paper
writes it, square roots of integers to 128 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from mpc_spearman.config import Estimator, Order, Strength
from mpc_spearman.statistics.columns import Ints

_BITS = 128  # |rho| is 0 or above 2^-63, so 65 bits or more of it are exact before the final rounding


@dataclass(frozen=True, eq=False)
class Reference:
    """What :func:`reference` found, in the form of a run's result."""

    coefficients: pd.DataFrame
    strengths: pd.Series[float]
    counts: pd.Series[int]
    ranking: pd.DataFrame


def reference(
    source: Mapping[str, pd.DataFrame],
    target: pd.DataFrame,
    *,
    estimator: Estimator = "tie_corrected",
    strength: Strength = "mean",
    order: Order = "descending",
) -> Reference:
    """Compute rank correlations and the ranking without privacy, on all parties' tables together.

    `source` has a table for each party, with rows aligned with the target's; no table has ids. The other
    arguments are as in the plan.
    """
    n = len(target)
    x = np.stack([_doubled(table[name]) for table in source.values() for name in table.columns])
    y = np.stack([_doubled(target[name]) for name in target.columns])
    products = _products(x, y)
    squares = [[int(_products(row[None], row[None])[0, 0]) for row in side] for side in (x, y)]
    a, b = np.meshgrid(*(np.array(side, dtype=object) for side in squares), indexing="ij")
    rho = np.vectorize(_rho, otypes=[float])(products, a, b, n, estimator)
    rows = pd.MultiIndex.from_tuples(
        [(party, name) for party, table in source.items() for name in table.columns],
        names=["party", "feature"],
    )
    matrix = pd.DataFrame(rho, index=rows, columns=list(target.columns))
    measured = matrix.abs() if strength == "mean_abs" else matrix
    mu = measured.mean().rename("strength")  # pandas skips NaN
    ranking = mu.sort_values(ascending=order == "ascending", kind="stable", na_position="last")
    return Reference(
        coefficients=matrix,
        strengths=mu,
        counts=matrix.notna().sum().rename("count"),
        ranking=ranking.rename_axis("feature")
        .reset_index()
        .assign(position=range(1, len(mu) + 1))[["position", "feature", "strength"]],
    )


def _doubled(column: pd.Series[Any]) -> Ints:
    """Centred doubled average ranks, which are integers."""
    ranks = stats.rankdata(column.to_numpy())
    doubled: Ints = (2 * ranks).astype(np.int64) - (len(column) + 1)
    return doubled


def _products(x: Ints, y: Ints) -> NDArray[Any]:
    """Every inner product of a row of x with a row of y, as Python integers.

    A product of two is below n^2, so 2^18 of them fit int64 up to n = 5,900,000.
    """
    blocks = (slice(start, start + 2**18) for start in range(0, x.shape[1], 2**18))
    return sum((x[:, rows] @ y[:, rows].T).astype(object) for rows in blocks)  # type: ignore[return-value]


def _rho(s: int, a: int, b: int, n: int, estimator: Estimator) -> float:
    """One coefficient from sum xy, sum x^2 and sum y^2."""
    if estimator == "paper":
        d_squared = Fraction(a + b - 2 * s, 4)  # sum (r - r')^2, as x - y = 2 (r - r')
        return float(1 - 6 * d_squared / (n * (n * n - 1)))
    if a * b == 0:
        return math.nan
    root = math.isqrt((s * s << (2 * _BITS)) // (a * b))
    return math.copysign(root / (1 << _BITS), s)
