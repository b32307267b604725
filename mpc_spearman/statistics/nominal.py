"""How strongly a column whose categories have no order is related to another, from coefficients of its flags.

Of a category g with the share p_g of rows, flag and other column have the coefficient ρ_g. Then

    η² = Σ_g ρ_g²·(1 − p_g)

is the share of the variance of the other column's ranks that the categories explain, and (n − 1)·η² is
Kruskal and Wallis' H. Of two such columns, χ²/n is Σ_gh φ_gh²·(1 − p_g)(1 − p_h), and Cramér's V is the root
of that over min(k, l) − 1. Flags of one column depend on each other: w_g = ρ_g·√(1 − p_g) is orthogonal to
√p. In a basis U of all that is, z = Uᵀw has independent elements if columns are unrelated, of variance
1/(n − 1); noise adds Uᵀdiag(s_g²·(1 − p_g))U. docs/statistics.md has the tests' sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mpc_spearman.statistics.columns import Columns, Floats, upper_share
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import TOO_SKEWED


@dataclass(frozen=True)
class Side:
    """One of two columns: one with an order, or the flags of one without."""

    #: What is known of each flag, or of the column alone.
    columns: Columns
    nominal: bool = False

    @property
    def categories(self) -> int:
        """How many categories the column has; a single flag stands for two."""
        return max(2, len(self.columns.ties))

    @property
    def weights(self) -> Floats:
        """The weight √(1 − p) of each flag; 1 for a single flag or a column with an order."""
        return np.sqrt(1 - self._shares) if len(self._shares) > 1 else np.ones(1)

    @property
    def basis(self) -> Floats:
        """An orthonormal basis, in its columns, of what weighted coefficients can be."""
        if len(self._shares) == 1:
            return np.ones((1, 1))
        return np.asarray(np.linalg.qr(np.sqrt(self._shares)[:, None], mode="complete")[0][:, 1:])

    @property
    def _shares(self) -> Floats:
        """The share of each category among rows with a value; it may be approximate."""
        present = self.columns.skewness * np.sqrt(1 - self.columns.gaps)
        shares = upper_share(np.broadcast_to(present, self.columns.ties.shape))
        return np.asarray(shares / shares.sum())


@dataclass(frozen=True)
class Association:
    """How strongly two columns are related."""

    #: η², or V² of two columns without an order; noise may carry it below 0.
    square: float
    #: Degrees of freedom of the test.
    freedom: int
    p: float


def association(
    rho: Floats, noise: Floats, n: int, source: Side, target: Side, *, on_inputs: bool = False
) -> Association:
    """Compute η² of a column without an order and one with, or V² of two without; test independence.

    `rho` and `noise`, (k, l), are the coefficients of all flags of the source's column with all of the
    target's, none undefined, and the standard deviations of the noise in them, 0 for none. With noise
    `on_inputs` flags may have noise in common, and the test allows for more. What noise adds to the square on
    average is taken off. p is NaN where ties skew a pair of flags too much for an approximation, and where
    fewer than 3 rows count.
    """
    from scipy.special import chdtrc  # here: only columns without an order need it

    two_nominal = source.nominal and target.nominal
    weights = np.outer(source.weights, target.weights)
    square = float((np.square(weights) * (np.square(rho) - np.square(noise))).sum())
    bases = source.basis, target.basis
    freedom = bases[0].shape[1] * bases[1].shape[1]
    pairs = Pairs(n, source.columns.rows, target.columns, noise=noise)
    rows = float(pairs.counted_rows.min()) - (0 if two_nominal else 1)
    p = math.nan
    if rows >= 2 and pairs.null_skewness.max() <= TOO_SKEWED:
        statistic = rows * square
        if noise.any():
            z = bases[0].T @ (weights * rho) @ bases[1]
            statistic = _noisy_statistic(z, noise if on_inputs else weights * noise, bases, 1 / rows)
        p = float(chdtrc(freedom, max(0.0, statistic)))
    most = min(source.categories, target.categories) - 1 if two_nominal else 1
    return Association(square / most, freedom, p)


def _noisy_statistic(z: Floats, noise: Floats, bases: tuple[Floats, Floats], variance: float) -> float:
    """Return zᵀ[variance + noise]⁻¹z; `noise` are standard deviations in weighted coefficients, (k, l).

    These are a product of one factor for each flag, or are taken as the least product above them.
    """
    squares = np.square(noise)
    columns = squares.max(axis=0)
    rows = np.divide(squares, columns, out=np.zeros(squares.shape), where=columns > 0).max(axis=1)
    (of_rows, turn), (of_columns, other_turn) = (
        np.linalg.eigh(basis.T @ (scale[:, None] * basis))
        for basis, scale in zip(bases, (rows, columns), strict=True)
    )
    turned = turn.T @ z @ other_turn
    return float((np.square(turned) / (variance + np.outer(of_rows, of_columns))).sum())
