"""A linear programme: a rare flag's rows from more coefficients than it has ones, far fewer than rows.

Allow every row any share of a flag between 0 and 1. The shares that fit the coefficients are a polytope,
which shrinks to the true flag once there are a few coefficients per flagged row: compressed sensing of a
vector of zeros and ones (I. Dinur, K. Nissim, PODS 2003; D. L. Donoho, J. Tanner, Discrete Comput. Geom. 43,
2010).

A flag f with T ones in n rows has the ranks x = n·f - T and ‖x‖² = n·T·(n - T), so that with an attacker's
column of unit length ŷ, whose elements add up to 0, Σ_flagged ŷ_i = rho·√(T(n - T)/n).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from mpc_spearman.attacks.simulated import Floats, Ints, unit


def name_rows(published: Floats, y: Ints, ones: int, noise: float = 0.0) -> Ints:
    """Return the rows that most probably are flagged: those with the largest shares, in order, (ones,).

    `published`, (m,), are the flag's coefficients with the attacker's columns `y`, encoded (m, n), with noise
    of a standard deviation; 0 for exact ones.
    """
    n = y.shape[1]
    scale = np.sqrt(ones * (n - ones) / n)
    matrix, sums = unit(y), published * scale
    width = max(7 * noise * scale, 1e-9)  # so wide that noise does not exclude the true flag
    solution = linprog(
        np.zeros(n),
        A_ub=np.vstack([matrix, -matrix]),
        b_ub=np.concatenate([sums + width, width - sums]),
        A_eq=np.ones((1, n)),
        b_eq=[ones],
        bounds=(0, 1),
    )
    return np.sort(np.argsort(-solution.x)[:ones])
