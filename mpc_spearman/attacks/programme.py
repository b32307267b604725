"""A linear programme: a rare flag's rows from more coefficients than it has ones, far fewer than rows.

Allow every row any share of a flag between 0 and 1. The shares that fit the coefficients are a polytope,
which shrinks to the true flag once there are a few coefficients per flagged row: compressed sensing of a
vector of zeros and ones. Rounding makes it a small ball around the true flag and changes little.

References
----------
D. L. Donoho, J. Tanner, "Counting the faces of randomly-projected hypercubes and orthants, with
applications", Discrete Comput. Geom. 43 (2010). I. Dinur, K. Nissim, "Revealing information while
preserving privacy", PODS 2003.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from mpc_spearman.attacks.flags import flag_equations
from mpc_spearman.attacks.simulated import Floats, Ints


def name_rows(published: Floats, y: Ints, ones: int, step: float = 0.0) -> Ints:
    """Name the rows that most probably are flagged.

    Parameters
    ----------
    published : ndarray of float64, shape (m,)
        The flag's coefficients with the attacker's columns.
    y : ndarray of int64, shape (m, n)
        The attacker's columns, encoded.
    ones : int
        How many rows are flagged.
    step : float
        δ of the grid; 0 for exact coefficients.

    Returns
    -------
    ndarray of int64, shape (ones,)
        The rows with the largest shares, in order.
    """
    equations = flag_equations(published, y, ones, step)
    n, width = y.shape[1], max(equations.width, 1e-9)  # what the solver takes for equal
    solution = linprog(
        np.zeros(n),
        A_ub=np.vstack([equations.matrix, -equations.matrix]),
        b_ub=np.concatenate([equations.sums + width, width - equations.sums]),
        A_eq=np.ones((1, n)),
        b_eq=[ones],
        bounds=(0, 1),
    )
    largest: Ints = np.sort(np.argsort(-solution.x)[:ones])
    return largest
