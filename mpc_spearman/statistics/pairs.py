"""What tests and intervals of coefficients are given about each pair of columns, besides the coefficient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc_spearman.config import Estimator
from mpc_spearman.statistics.columns import Columns, Flags, Floats, Ties


@dataclass(frozen=True)
class Pairs:
    """Every pair of a source column and a target column; all arrays have the shape (m_A, m_B).

    Attributes
    ----------
    n : int
        Rows of the tables.
    source, target : Columns
        The columns of both sides, which broadcast: the sources' come as `Columns.rows`. Where there is no
        noise their skewness is not rounded.
    noise : float64
        Standard deviations of the noise in the coefficients, 0 for exact ones.
    """

    n: int
    source: Columns
    target: Columns
    estimator: Estimator = "tie_corrected"
    noise: Floats | float = 0.0

    @property
    def counted_rows(self) -> Floats:
        """The number of rows that tests use: (n·(1 - min(π_x, π_y)) - k)/(h_x·h_y).

        π is a share of gaps: at most so many rows have no value in both columns, and these rows tell nothing.
        If fewer lack both, tests are conservative. After an adjustment k powers of covariates are fitted, and
        if variances of residuals change with the covariates, a coefficient varies up to h_x·h_y times as
        much.
        """
        source, target = self.source, self.target
        present = self.n * (1 - np.minimum(source.gaps, target.gaps))
        present = present - np.maximum(source.fitted, target.fitted)
        return np.asarray(np.maximum(present, 0) / (source.unequal * target.unequal))

    @property
    def testable(self) -> Flags:
        """Which pairs can be tested at all.

        Under ``tie_corrected`` those without a constant column, under ``paper`` those without any tie:
        otherwise eq. 2 is not the statistic whose null distribution is known.
        """
        worst = np.maximum(self.source.ties, self.target.ties)
        return worst <= (Ties.NONE if self.estimator == "paper" else Ties.TWO_VALUES)

    @property
    def two_flags(self) -> Flags:
        """Of which pairs both columns have two values."""
        return np.asarray((self.source.ties == Ties.TWO_VALUES) & (self.target.ties == Ties.TWO_VALUES))

    @property
    def null_skewness(self) -> Floats:
        """Absolute skewness of a coefficient with its noise, if the columns are independent."""
        product = np.abs(self.source.skewness * self.target.skewness)
        return np.asarray(product / np.sqrt(self.n) / (1 + np.square(self.noise) * (self.n - 1)) ** 1.5)
