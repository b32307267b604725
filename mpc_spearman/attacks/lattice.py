"""Lattice reduction: any flag's rows in a small table, dense ones too, from a fraction as many coefficients.

For a flag f with T ones the lattice spanned by the rows of

    [ 2·I   0   2w·Ŷᵀ   2c  ]          (n rows)
    [ −1    1   −2w·b  −2cT ]          (one)

with Ŷ·f = b holds the vector (2f − 1, 1, 0, 0). It is unusually short if w is large, and reduction finds
it. Under rounding its last entries are of size 1 if w is the inverse of the rounding error: it stays
short, and is found as long as the coefficients tell enough more than the flag holds.

References
----------
J. C. Lagarias, A. M. Odlyzko, "Solving low-density subset sum problems", J. ACM 32 (1985). A. K. Lenstra,
H. W. Lenstra, L. Lovász, "Factoring polynomials with rational coefficients", Math. Ann. 261 (1982).
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.attacks.flags import flag_equations
from mpc_spearman.attacks.simulated import Floats, Ints

#: Entries of the lattice are integers: what stands for 1.
_ONE = 1000
#: w for exact coefficients; more is not needed, and Gram-Schmidt in float64 bears it.
_HEAVIEST = 4000.0
_COUNT = 10.0  # c
#: Lovász's condition; closer to 1 reduces better and takes longer.
_LOVASZ = 0.99


def name_rows(published: Floats, y: Ints, ones: int, step: float = 0.0) -> Ints | None:
    """Find the flagged rows.

    Parameters
    ----------
    published : ndarray of float64, shape (m,)
        The flag's coefficients with the attacker's columns.
    y : ndarray of int64, shape (m, n)
        The attacker's columns, encoded; n up to about 100 takes seconds.
    ones : int
        How many rows are flagged.
    step : float
        δ of the grid; 0 for exact coefficients.

    Returns
    -------
    ndarray of int64, shape (ones,), or None
        The rows, in order; None if the reduced basis holds no flag that fits all coefficients.
    """
    equations = flag_equations(published, y, ones, step)
    m, n = y.shape
    weight = min(_HEAVIEST, math.sqrt(3) / (2 * equations.width))  # rounding deviates by width/√3
    basis = np.zeros((n + 1, n + m + 2))
    basis[:n, :n], basis[n, :n], basis[n, n] = 2 * np.eye(n), -1, 1
    basis[:, n + 1 : -1] = 2 * weight * np.vstack([equations.matrix.T, -equations.sums])
    basis[:, -1] = 2 * _COUNT * np.append(np.ones(n), -ones)
    for row in reduced(np.rint(_ONE * basis).astype(np.int64)):
        flagged = np.flatnonzero(row[:n] * row[n] > 0)
        misfit = np.abs(equations.matrix[:, flagged].sum(axis=1) - equations.sums)
        if abs(row[n]) == _ONE and len(flagged) == ones and (misfit <= equations.width).all():
            return flagged
    return None


def reduced(basis: Ints) -> Ints:
    """Reduce a lattice basis, one vector a row (LLL; exact integers, Gram-Schmidt in float64).

    Parameters
    ----------
    basis : ndarray of int64, shape (m, d)
        Linearly independent; entries up to about 10^7.

    Returns
    -------
    ndarray of int64, shape (m, d)
    """
    rows = basis.copy()
    count = len(rows)
    ortho, squares = np.zeros(rows.shape), np.zeros(count)
    ratios = np.zeros((count, count))

    def orthogonalise(k: int) -> None:
        """Make row k short along the rows before it, and Gram-Schmidt's vector of it."""
        large = True
        while large:
            ratio = ortho[:k] @ rows[k] / squares[:k]
            steps = np.zeros(k, dtype=np.int64)
            for j in range(k - 1, -1, -1):
                if abs(ratio[j]) > 0.501:
                    steps[j] = round(ratio[j])
                    ratio[:j] -= steps[j] * ratios[j, :j]
            rows[k] -= steps @ rows[:k]
            large = bool((np.abs(steps) > 1000).any())  # then the ratios were not exact enough
        ratios[k, :k] = ortho[:k] @ rows[k] / squares[:k]
        ortho[k] = rows[k] - ratios[k, :k] @ ortho[:k]
        ortho[k] -= (ortho[:k] @ ortho[k] / squares[:k]) @ ortho[:k]  # once more, against rounding
        squares[k] = ortho[k] @ ortho[k]

    k = 0
    while k < count:
        orthogonalise(k)
        if k and squares[k] < (_LOVASZ - ratios[k, k - 1] ** 2) * squares[k - 1]:
            rows[[k - 1, k]] = rows[[k, k - 1]]
            k -= 1
        else:
            k += 1
    return rows
