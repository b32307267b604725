"""Linear estimates: the ranks of rows that an attacker's columns single out, alone or together.

Every coefficient is a linear equation in the other side's unit rank vector, known to within its noise. The
best linear estimate of all ranks from all equations is a ridge regression. Whatever combination of columns is
zero on all rows but one (nested flags, a one-hot family whose rare member was left out, a total and its
parts, several columns on the same few rows) gives that row's rank if numbers are exact, and so does a table
as wide as it is long.

References
----------
A. E. Hoerl, R. W. Kennard, "Ridge regression", Technometrics 12 (1970).
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.attacks.simulated import Floats, Ints, unit

_EXACT = 1e-14  # what float64 leaves of an exact coefficient


def estimate(published: Floats, y: Ints, noise: Floats | float = 0.0) -> Floats:
    """Estimate the ranks of every row in a column of the other side.

    Parameters
    ----------
    published : ndarray of float64, shape (m_B,)
        Its coefficients with the attacker's columns.
    y : ndarray of int64, shape (m_B, n)
        The attacker's columns, encoded, none of them constant.
    noise : ndarray of float64, shape (m_B,), or float
        The standard deviation in each coefficient; 0 for exact ones.

    Returns
    -------
    ndarray of float64, shape (n,)
        In standard deviations of the column's ranks: n/√12 ranks each, without ties.
    """
    # a unit vector's elements vary by 1/n
    weight = 1 / (np.sqrt(y.shape[1]) * np.maximum(noise, _EXACT) * np.ones(len(y)))
    left, values, right = np.linalg.svd(unit(y) * weight[:, None], full_matrices=False)
    found: Floats = np.sqrt(y.shape[1]) * (published * weight) @ ((left * (values / (values**2 + 1))) @ right)
    return found
