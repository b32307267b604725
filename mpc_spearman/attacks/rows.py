"""Linear estimates: the ranks of rows that an attacker's columns isolate, alone or together.

Every coefficient is a linear equation in the other side's unit rank vector, known to within its noise. The
best linear estimate of all ranks from all equations is a ridge regression (Hoerl and Kennard 1970). Whatever
combination of columns is zero on all rows but one (nested flags, a one-hot family whose rare member was left
out, a total and its parts, several columns on the same few rows) gives that row's rank if numbers are exact,
and so does a table as wide as it is long.
"""

from __future__ import annotations

import numpy as np

from mpc_spearman.attacks.simulated import Floats, Ints, unit

_EXACT = 1e-14  # what float64 leaves of an exact coefficient


def estimate(published: Floats, y: Ints, noise: Floats | float = 0.0) -> Floats:
    """Return estimates of a column's centred ranks, (n,), in standard deviations of ranks.

    Without ties a standard deviation is n/√12 ranks. `published`, (m_B,), are the column's coefficients with
    the attacker's columns `y`, encoded (m_B, n), none of them constant; `noise` is the standard deviation in
    each, 0 for exact ones.
    """
    # the variance of a unit vector's elements is 1/n
    weight = 1 / (np.sqrt(y.shape[1]) * np.maximum(noise, _EXACT) * np.ones(len(y)))
    left, values, right = np.linalg.svd(unit(y) * weight[:, None], full_matrices=False)
    return np.asarray(
        np.sqrt(y.shape[1]) * (published * weight) @ ((left * (values / (values**2 + 1))) @ right)
    )
