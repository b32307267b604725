"""Decomposition of a mean: two flags' coefficients from nothing but their exact average.

With a_1 and a_2 the integer sums of an attacker's column over the ones of two flags (see :mod:`.flags`),
a mean says

    2·mu·‖y‖/√n = a_1/√(T_1(n − T_1)) + a_2/√(T_2(n − T_2)).

The two roots are incommensurable, so only the true class sizes and the true integers fit a mean that is
known to 15 digits. One mean determines both coefficients; others confirm it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.attacks.simulated import Floats, Ints

Sizes = tuple[int, int]
#: What float64 leaves of a mean that is not rounded.
EXACT = 2e-16
#: Sums over random rows lie within so many standard deviations, but for one in two million.
_DEVIATIONS = 5


def possible_sizes(
    mean: float, y: Ints, sizes: Iterable[Sizes] | None = None, step: float = EXACT
) -> list[Sizes]:
    """Find the class sizes (T_1 ≤ T_2) that fit a mean of two flags' coefficients.

    Run by the target, or by the coordinator: of the column only the length counts, which a tie term tells.

    Parameters
    ----------
    mean : float
        With one of the attacker's columns.
    y : ndarray of int64, shape (n,)
        That column, encoded and untied.
    sizes : iterable of (int, int), optional
        Those still possible; by default all up to half the rows.
    step : float
        The grid the mean lies on.

    Returns
    -------
    list of (int, int)
        On a grid all of them: any two flags can have a mean in any interval.
    """
    half = range(1, len(y) // 2 + 1)
    by_first: dict[int, list[int]] = {}
    for first, second in sizes if sizes is not None else ((a, b) for a in half for b in half if a <= b):
        by_first.setdefault(first, []).append(second)
    found: list[Sizes] = []
    for first, seconds in by_first.items():
        fits = _misfit(mean, y, first, np.array(seconds), step)[1] <= 0
        found += [(first, second) for second, row in zip(seconds, fits, strict=True) if row.any()]
    return found


def take_apart(means: Floats, y: Ints, sizes: Sizes) -> Floats:
    """Split exact means into the two flags' coefficients.

    Parameters
    ----------
    means : ndarray of float64, shape (m,)
    y : ndarray of int64, shape (m, n)
    sizes : (int, int)
        From :func:`possible_sizes`.

    Returns
    -------
    ndarray of float64, shape (2, m)
    """
    first, second = sizes
    n = y.shape[1]
    parts = []
    for mean, column in zip(means, y, strict=True):
        sums, misfit = _misfit(float(mean), column, first, np.array([second]), EXACT)
        one = sums[misfit[0].argmin()] * math.sqrt(n / (first * (n - first)) / int(column @ column))
        parts.append((one, 2 * mean - one))
    return np.array(parts).T


def _misfit(mean: float, y: Ints, first: int, seconds: Ints, step: float) -> tuple[Ints, Floats]:
    """Try every sum over the first flag; say how far the second's is off an integer, less what is allowed.

    Sums of the ranks of T rows of an untied column have the parity of T(n + 1): only those are tried.
    """
    n = len(y)
    unit = math.sqrt(int(y @ y) / n)  # of 2·mu·‖y‖/√n per 2·mu
    roots: NDArray[np.float64] = np.sqrt(seconds * (n - seconds))
    most = int(_DEVIATIONS * math.sqrt(first * (n - first) / n) * unit)
    parity = first * (n + 1) % 2
    sums = np.arange(-2 * (most // 2) - parity, most + 1, 2)
    rest = 2 * mean * unit - sums / math.sqrt(first * (n - first))
    halves = (rest * roots[:, None] - (seconds * (n + 1) % 2)[:, None]) / 2
    allowed = roots * unit * step / 2
    misfit: Floats = np.abs(halves - np.rint(halves)) - allowed[:, None]
    return sums, misfit
