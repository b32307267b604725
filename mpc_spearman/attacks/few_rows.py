"""Meeting in the middle: the last two to four flagged rows from a handful of coefficients.

The sums of all pairs of rows are points with one coordinate per column of the attacker. Two pairs whose
sums add up to what the coefficients say are four rows: for every pair, look near its complement in a k-d
tree of all pairs. This is the classical 4-list algorithm with intervals in place of equality, so rounding
only widens where it looks. If the attacker knows some of the flagged rows, only the rest are looked for.

References
----------
R. Schroeppel, A. Shamir, "A T = O(2^(n/2)), S = O(2^(n/4)) algorithm for certain NP-complete problems",
SIAM J. Comput. 10 (1981).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from scipy.spatial import cKDTree

from mpc_spearman.attacks.flags import flag_equations
from mpc_spearman.attacks.simulated import Floats, Ints


def name_rows(
    published: Floats, y: Ints, ones: int, step: float = 0.0, known: Collection[int] = ()
) -> list[tuple[int, ...]]:
    """Find all sets of flagged rows that fit the coefficients.

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
    known : collection of int
        Flagged rows that the attacker knows otherwise; all but two, three or four.

    Returns
    -------
    list of tuple of int
        The other rows of each set, in order; a single one names them.
    """
    equations = flag_equations(published, y, ones, step)
    n, unknown = y.shape[1], ones - len(known)
    if unknown not in (2, 3, 4):
        raise ValueError("two, three or four rows can be looked for")
    singles = np.arange(n)[:, None]
    pairs = np.array(np.triu_indices(n, 1)).T
    left, right = (singles, singles) if unknown == 2 else (pairs, pairs if unknown == 4 else singles)
    points = [equations.matrix.T[rows].sum(axis=1) for rows in (left, right)]
    sought = equations.sums - equations.matrix[:, sorted(known)].sum(axis=1) - points[1]
    tree = cKDTree(points[0], balanced_tree=False, compact_nodes=False)
    near = {"r": equations.width, "p": np.inf}
    found = set()
    for at in np.flatnonzero(tree.query_ball_point(sought, return_length=True, **near)):
        for match in tree.query_ball_point(sought[at], **near):
            rows = {*left[match].tolist(), *right[at].tolist()}
            if len(rows) == unknown and rows.isdisjoint(known):
                found.add(tuple(sorted(rows)))
    return sorted(found)
