"""Linear estimates: the ranks of rows that an attacker's columns single out, alone or together.

Every coefficient is a linear equation in the other side's unit rank vector, known to within the grid. The
best linear estimate of all ranks from all equations is a ridge regression. Whatever combination of
columns is zero on all rows but one (nested flags, a one-hot family whose rare member was left out, a
total and its parts, several columns on the same few rows) gives that row's rank, and so does a table as
wide as it is long.

How well it does for a row is known beforehand, from the attacker's columns and the grid alone: its
*leverage*, the part of the rank's variance that the estimate recovers. A combination of columns that is
zero outside g rows gives one of them a leverage of 1/g or more (if the grid is fine enough for it to tell
anything).

References
----------
A. E. Hoerl, R. W. Kennard, "Ridge regression", Technometrics 12 (1970). A. Alaoui, M. W. Mahoney, "Fast
randomized kernel ridge regression with statistical guarantees", NIPS 2015 (ridge leverage scores).
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.attacks.simulated import Floats, Ints, unit

#: The variance of a rounding error that float64 makes.
_EXACT = 1e-28


def leverage(y: Ints, step: float = 0.0) -> Floats:
    """Compute which part of the variance of each row's rank in an unknown column coefficients with y recover.

    Parameters
    ----------
    y : ndarray of int64, shape (m, n)
        The attacker's columns, encoded, none of them constant.
    step : float
        δ of the grid the coefficients are published on; 0 for exact ones.

    Returns
    -------
    ndarray of float64, shape (n,)
        0 to 1; 1/n of it because all ranks add up to a known sum. 1/T for the ones of a single flag.
    """
    return _filter(y, step)[1]


def estimate(published: Floats, y: Ints, step: float = 0.0) -> Floats:
    """Estimate the ranks of every row in every column of the other side.

    Parameters
    ----------
    published : ndarray of float64, shape (m_A, m_B)
        Coefficients of the other side's columns with the attacker's.
    y : ndarray of int64, shape (m_B, n)
        The attacker's columns, encoded, none of them constant.
    step : float
        δ of the grid; 0 for exact coefficients.

    Returns
    -------
    ndarray of float64, shape (m_A, n)
        In standard deviations of a column's ranks: n/√12 ranks each, for a column without ties.
    """
    estimates: Floats = np.sqrt(y.shape[1]) * published @ _filter(y, step)[0]
    return estimates


def _filter(y: Ints, step: float) -> tuple[Floats, Floats]:
    """Return what makes estimates of coefficients, (m, n), and the leverage of rows, (n,)."""
    n = y.shape[1]
    left, values, right = np.linalg.svd(unit(y), full_matrices=False)
    # a unit vector's elements vary by 1/n, a rounding error by δ²/12
    noise = n * max(step**2 / 12, _EXACT)
    weights = values / (values**2 + noise)
    return (left * weights) @ right, 1 / n + (values * weights) @ right**2
