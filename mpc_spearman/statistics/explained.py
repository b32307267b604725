"""How much of a feature's ranks a side's columns explain together: R², its chance part, and its test.

`r2` here has the bias of noise subtracted: k·s², with s the standard deviation of the noise in each of its k
products. So it may be below 0. A side's kurtosis is Mardia's (1970), n·Σ h_i² over the leverages h_i. The
rest is in docs/statistics.md, "What is explained".
"""

from __future__ import annotations

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


def counted_rows(
    n: int, gaps: Floats | float, fitted: Ints | int, unequal: Floats | float, k: Ints
) -> Floats:
    """Return how many of n rows tests count, (n·(1 - π) - fitted)/unequal; NaN if too few for k.

    π, the share `gaps`, is the smaller of both sides' largest shares of missing cells. In at most that share
    of the rows both sides lack values, and such rows tell nothing. If there are fewer, tests are
    conservative. The rest is as in `mpc_spearman.statistics.columns.counted_rows`, with h_x·h_y `unequal`.
    """
    rows = (n * (1 - gaps) - fitted) / unequal
    return np.where(rows > k + 2, rows, np.nan)


def predictive(r2: Floats, k: Ints, n: Floats | int) -> Floats:
    """Estimate the share that the fitted combination explains in new rows.

    For normal columns (Stein 1960; Darlington 1968). Below 0 the weights do worse than the mean.
    """
    return 1 - (1 - r2) * ((n - 1) / (n - k - 1)) * ((n - 2) / (n - k - 2)) * ((n + 1) / n)


def spread(s: Floats, k: Ints, n: Floats | int) -> Floats:
    """Return about the standard deviation of `r2` of an unrelated feature, noise included."""
    return np.sqrt(2 * k) * (np.square(s) + 1 / n)


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


def pvalues(r2: Floats, s: Floats, k: Ints, n: Floats | int, dispersion: Floats | float = 1.0) -> Floats:
    """Compute p-values of independence of all of a side's columns; NaN where `r2`, n or `dispersion` is.

    Without noise by F with the degrees of freedom that give the right variance, with it as Pillai's trace.
    """
    from scipy import special

    rest, of_k = _beta(k, n, dispersion)
    exact = special.betainc(rest, of_k, np.clip(1 - r2, 0, 1))
    return np.asarray(np.where(s > 0, pillai_pvalues(r2, s, k, 1, n), exact) + 0 * r2)


def chance(s: Floats, k: Ints, n: Floats | int, dispersion: Floats | float = 1.0) -> Floats:
    """Return the `r2` whose p-value is 0.05: chance exceeds it in one of 20 features."""
    from scipy import special

    rest, of_k = _beta(k, n, dispersion)
    shape, scale = _gamma(s, k, n)
    exact = 1 - special.betaincinv(rest, of_k, 0.05)
    noisy = special.gammainccinv(shape, 0.05) * scale - k * np.square(s)
    return np.asarray(np.where(s > 0, noisy, exact))


def pillai_pvalues(
    trace: Floats,
    s: Floats,
    k: Ints,
    of_target: Ints | int,
    n: Floats | int,
    dispersion: Floats | float = 1.0,
) -> Floats:
    """Compute p-values of independence of two sides with k and `of_target` directions, from Pillai's trace.

    The trace, Σ of squared canonical correlations, is less k·of_target·s², which noise adds. Its distribution
    is taken as `_gamma` (Pillai 1955).
    """
    from scipy import special

    shape, scale = _gamma(s, k, n, of_target, dispersion)
    return np.asarray(
        special.gammaincc(shape, np.clip(trace + k * of_target * np.square(s), 0, None) / scale)
    )


def r2_intervals(r2: Floats, s: Floats, k: Ints, n: Floats | int, confidence: float) -> tuple[Floats, Floats]:
    """Compute intervals, from 0 to 1, of the share θ that a source's columns explain in the population.

    Σz² = `r2` + k·s² is taken as a gamma variable with mean θ + k·a and variance 2k·a² + 4θ·b, where a = s² +
    (1 - θ)/(n - 1) and b = s² + (1 - θ)²/(n - 1); ends are the θ for which it is this far out in either tail
    (docs/statistics-checks.md has the coverage). NaN where `r2` or n is; `s`, `k` and n broadcast.
    """
    from scipy import special

    tail, square = (1 - confidence) / 2, np.square(s)
    total = np.asarray(r2 + k * square + 0 * n, dtype=np.float64)

    def end(upper: bool) -> Floats:
        low, high = (
            np.zeros(total.shape),
            np.full(total.shape, 1 - 1e-12),
        )  # at 1 nothing varies without noise
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


def _beta(k: Ints, n: Floats | int, dispersion: Floats | float) -> tuple[Floats, Floats]:
    """Return the parameters of the beta distribution with the mean and variance of 1 - R²."""
    both_parameters = ((n + 1) / dispersion - 2) / 2
    return (n - 1 - k) / (n - 1) * both_parameters, k / (n - 1) * both_parameters


def _gamma(
    s: Floats, k: Ints, n: Floats | int, other: Ints | int = 1, dispersion: Floats | float = 1.0
) -> tuple[Floats, Floats]:
    """Return shape and scale of the gamma distribution with the moments of Σz² under independence."""
    square, rows, count = np.square(s), n - 1, k * other
    mean = count / rows + count * square
    exact = dispersion * (rows - k) * (rows - other) / (rows**2 * (rows - 1) * (rows + 2))
    variance = 2 * count * (exact + 2 * square / rows + square**2)
    return mean**2 / variance, variance / mean


def positions(r2: Floats, k: Ints, n: Floats | int, order: Order) -> Ints:
    """Rank features, (m_B,), by their highest predictive R² over sources; `r2` is (sources, m_B)."""
    return estimators.positions(np.fmax.reduce(predictive(r2, k[:, None], n), axis=0), order)
