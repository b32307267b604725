"""How much of a feature's ranks a side's columns explain together: R², its chance part, and its test.

`r2` here has the bias of noise subtracted, so it may be below 0. A side's kurtosis is Mardia's (1970),
n·Σ h_i² over the leverages h_i. The rest is in docs/statistics.md, "What is explained".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpc_spearman.config import Order
from mpc_spearman.statistics import estimators
from mpc_spearman.statistics.columns import Floats, Ints

#: The fewest rows for each direction.
ROWS_EACH = 5
#: A spread of R² of unrelated features above which there are too few rows.
SPREAD = 0.1
#: The largest dispersion for which there is a p-value, and the largest kurtosis, less 1, in rows.
MOST, HEAVIEST = 1.1, 0.05
_HALVINGS = 40


@dataclass(frozen=True)
class Directions:
    """What tests are given about products of a source's directions with the target's; all arrays broadcast.

    Attributes
    ----------
    n : float64
        How many rows count; NaN for too few.
    k, k_target : int64
        Directions of the source and of the target; for R² the target has one, the feature.
    noise : float64
        Standard deviation s of the noise in each of the k·k_target directions.
    dispersion : float64
        The variance of Σz² under independence, relative to normal columns (`dispersion`).
    """

    n: Floats | int
    k: Ints
    noise: Floats
    dispersion: Floats | float = 1.0
    k_target: Ints | int = 1

    @property
    def chance_variance(self) -> Floats:
        """The variance of each product if the columns are unrelated, with its noise."""
        return np.square(self.noise) + 1 / (self.n - 1)

    @property
    def added_by_noise(self) -> Floats:
        """The mean of what noise adds to the sum of all squared products."""
        return np.asarray(self.k * self.k_target * np.square(self.noise))

    @property
    def beta(self) -> tuple[Floats, Floats]:
        """The parameters of the beta distribution with the mean and variance of 1 - R² without noise."""
        both_parameters = ((self.n + 1) / self.dispersion - 2) / 2
        return (self.n - 1 - self.k) / (self.n - 1) * both_parameters, self.k / (self.n - 1) * both_parameters

    @property
    def gamma(self) -> tuple[Floats, Floats]:
        """Shape and scale of the gamma distribution with the moments of Σz² under independence."""
        square, rows, count = np.square(self.noise), self.n - 1, self.k * self.k_target
        exact = self.dispersion * (rows - self.k) * (rows - self.k_target)
        exact = exact / (rows**2 * (rows - 1) * (rows + 2))
        mean = count / rows + count * square
        variance = 2 * count * (exact + 2 * square / rows + square**2)
        return mean**2 / variance, variance / mean


def counted_rows(
    n: int, gaps: Floats | float, fitted: Ints | int, unequal: Floats | float, k: Ints
) -> Floats:
    """Return the number of rows that tests use, (n·(1 - π) - fitted)/unequal; NaN if too few for k.

    π, the share `gaps`, is the smaller of both sides' largest shares of missing cells. In at most that share
    of the rows both sides lack values, and such rows tell nothing. If there are fewer, tests are
    conservative. The rest is as in `mpc_spearman.statistics.pairs.Pairs`, with h_x·h_y `unequal`.
    """
    rows = (n * (1 - gaps) - fitted) / unequal
    return np.where(rows > k + 2, rows, np.nan)


def predictive(r2: Floats, k: Ints, n: Floats | int) -> Floats:
    """Estimate the share that the fitted combination explains in new rows.

    For normal columns (Stein 1960; Darlington 1968). Below 0 the weights do worse than the mean.
    """
    return 1 - (1 - r2) * ((n - 1) / (n - k - 1)) * ((n - 2) / (n - k - 2)) * ((n + 1) / n)


def spread(directions: Directions) -> Floats:
    """Return about the standard deviation of R² or Pillai's trace of unrelated columns, noise included."""
    root = np.sqrt(2 * directions.k * directions.k_target)
    return np.asarray(root * (np.square(directions.noise) + 1 / directions.n))


def dispersion(kurtosis: Floats, k: Ints, of_target: Floats, k_target: Ints | int, n: Floats | int) -> Floats:
    """Compute the variance of Σz² under independence, relative to normal columns, from both sides' kurtoses.

    NaN if it, or the weight of single rows, is too large for a valid p-value, and for a kurtosis below k²,
    which no columns have.
    """
    product: Floats = np.full(np.broadcast(kurtosis, of_target).shape, (n - 1) / (2 * n * (n - 3)))
    for weight, count in ((kurtosis, k), (of_target, k_target)):
        excess = weight / np.square(count) - 1
        right = np.where((excess >= -1e-6) & (excess <= HEAVIEST * n), weight, np.nan)
        product = product * ((n + 1) * right / count - (n - 1) * (count + 2)) / (n - 1 - count)
    return np.where(product <= MOST - 1, 1 + product, np.nan)


def pvalues(r2: Floats, directions: Directions) -> Floats:
    """Compute p-values of independence of all of a side's columns; NaN where `r2`, n or the dispersion is.

    Without noise by F with the degrees of freedom that give the right variance, with it as Pillai's trace of
    normal columns.
    """
    from scipy import special

    exact = special.betainc(*directions.beta, np.clip(1 - r2, 0, 1))
    noisy = pillai_pvalues(r2, Directions(directions.n, directions.k, directions.noise))
    return np.asarray(np.where(directions.noise > 0, noisy, exact) + 0 * r2)


def chance(directions: Directions) -> Floats:
    """Return the `r2` whose p-value is 0.05: chance exceeds it in one of 20 features."""
    from scipy import special

    shape, scale = Directions(directions.n, directions.k, directions.noise).gamma
    exact = 1 - special.betaincinv(*directions.beta, 0.05)
    noisy = special.gammainccinv(shape, 0.05) * scale - directions.added_by_noise
    return np.asarray(np.where(directions.noise > 0, noisy, exact))


def pillai_pvalues(trace: Floats, directions: Directions) -> Floats:
    """Compute p-values of independence of two sides from Pillai's trace (1955), by a gamma distribution.

    The trace, Σ of squared canonical correlations, is less what noise adds.
    """
    from scipy import special

    shape, scale = directions.gamma
    return np.asarray(special.gammaincc(shape, np.clip(trace + directions.added_by_noise, 0, None) / scale))


def r2_intervals(r2: Floats, directions: Directions, confidence: float) -> tuple[Floats, Floats]:
    """Compute intervals, from 0 to 1, of the share θ that a source's columns explain in the population.

    Σz² = `r2` + k·s² is taken as a gamma variable with mean θ + k·a and variance 2k·a² + 4θ·b, where a = s² +
    (1 - θ)/(n - 1) and b = s² + (1 - θ)²/(n - 1); ends are the θ for which it is this far out in either tail
    (docs/statistics-checks.md has the coverage). NaN where `r2` or n is.
    """
    from scipy import special

    n, k, square = directions.n, directions.k, np.square(directions.noise)
    tail = (1 - confidence) / 2
    total = np.asarray(r2 + directions.added_by_noise + 0 * n, dtype=np.float64)

    def end(upper: bool) -> Floats:
        low, high = np.zeros(total.shape), np.full(total.shape, 1 - 1e-12)  # at 1 only noise varies
        for _ in range(_HALVINGS):
            theta = (low + high) / 2
            a, b = square + (1 - theta) / (n - 1), square + np.square(1 - theta) / (n - 1)
            mean, variance = theta + k * a, 2 * k * np.square(a) + 4 * theta * b
            of_tail = special.gammainc if upper else special.gammaincc
            share = of_tail(np.square(mean) / variance, np.clip(total, 0, None) * mean / variance)
            too_low = share > tail if upper else share < tail
            low, high = np.where(too_low, theta, low), np.where(too_low, high, theta)
        return np.where(np.isnan(total), np.nan, high if upper else low)

    return end(False), end(True)


def positions(r2: Floats, k: Ints, n: Floats | int, order: Order) -> Ints:
    """Rank features, (m_B,), by their highest predictive R² over sources; `r2` is (sources, m_B)."""
    return estimators.positions(np.fmax.reduce(predictive(r2, k[:, None], n), axis=0), order)
