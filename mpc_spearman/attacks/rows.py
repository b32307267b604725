"""Attacks that solve for rows, from coefficients (or their means) with the attacker's own columns.

An attacker's columns `y`, (m, n), are encoded as every party ranks them, and none is constant. `published`,
(m,), are the numbers with each of them, and `noise` is their standard deviation, 0 for exact ones. A flag f
with T ones in n rows has the ranks x = n·f - T and ‖x‖² = n·T·(n - T). So with a column of unit length ŷ,
whose elements add up to 0, Σ_flagged ŷ_i = rho·√(T(n - T)/n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from mpc_spearman.attacks.simulated import Floats, Ints, unit

_EXACT = 1e-14  # what float64 leaves of an exact coefficient


def estimate(published: Floats, y: Ints, noise: Floats | float = 0.0) -> Floats:
    """Return the best linear estimates of a column's centred ranks, (n,), in standard deviations of ranks.

    Every coefficient is a linear equation in the other side's unit rank vector, known to within its noise, so
    this is a ridge regression (Hoerl and Kennard 1970). Whatever combination of columns is zero on all rows
    but one (nested flags, a one-hot family whose rare member was left out, a total and its parts, several
    columns on the same few rows) gives that row's rank if numbers are exact, and so does a table as wide as
    it is long. Without ties a standard deviation is n/√12 ranks.
    """
    # the variance of a unit vector's elements is 1/n
    weight = 1 / (np.sqrt(y.shape[1]) * np.maximum(noise, _EXACT) * np.ones(len(y)))
    left, values, right = np.linalg.svd(unit(y) * weight[:, None], full_matrices=False)
    return np.asarray(
        np.sqrt(y.shape[1]) * (published * weight) @ ((left * (values / (values**2 + 1))) @ right)
    )


def rare_flag(published: Floats, y: Ints, ones: int, noise: float = 0.0) -> Ints:
    """Return the rows that most probably have a rare flag: those with the largest shares, in order, (ones,).

    Allow every row any share of the flag between 0 and 1. The shares that fit the coefficients are a
    polytope, which shrinks to the true flag once there are a few coefficients per flagged row, far fewer than
    rows: compressed sensing of a vector of zeros and ones (I. Dinur, K. Nissim, PODS 2003; D. L. Donoho, J.
    Tanner, Discrete Comput. Geom. 43, 2010).
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


def where_columns_lie(y: Ints) -> Ints:
    """Return the rows that are not in the largest group of equal values of every column."""
    usual = [np.bincount(column - column.min()).argmax() + column.min() for column in y]
    return np.flatnonzero((y != np.array(usual)[:, None]).any(axis=0))


def pooled_flags(
    published: Floats, y: Ints, ones: Sequence[int], noise: float = 0.0, nodes: int = 500
) -> Ints | None:
    """Return the most probable flags of the rows of `where_columns_lie`: 0 and 1, (flags, M).

    Columns that are the same for all rows but M (questions that only M people were asked, say) are tests of
    pools of these M: an exact coefficient gives the number of flagged people in a pool, so tens of columns
    name everybody flagged among the M, in a table of any length. A mean over several flags can be solved as
    well, because the flags' groups differ in size. This is quantitative group testing (R. Dorfman, Ann. Math.
    Statist. 14, 1943; B. Lindström, Canad. Math. Bull. 8, 1965), by integer programme. Noise in proportion to
    a column's range stops it: a column that differs in few rows has a large range.

    `published` are means over all flags of their coefficients; for one flag, its coefficients. `ones` has how
    many rows each flag marks. None if there is no solution within so many `nodes` of the search tree.
    """
    n, rows = y.shape[1], where_columns_lie(y)
    columns = unit(y)
    elsewhere = np.delete(columns, rows, axis=1)[:, :1]  # all other rows have the same values
    parts, constant = [], np.zeros(len(y))
    for count in ones:
        weight = math.sqrt(n / (count * (n - count))) / len(ones)
        parts.append(weight * (columns[:, rows] - elsewhere))
        constant += weight * count * elsewhere[:, 0]
    sums, width = published - constant, 4 * noise + 1e-9
    solution = milp(
        np.repeat([math.log((n - count) / count) for count in ones], len(rows)),
        constraints=LinearConstraint(np.hstack(parts), sums - width, sums + width),
        integrality=np.ones(len(ones) * len(rows)),
        bounds=Bounds(0, 1),
        options={"node_limit": nodes},
    )
    if solution.x is None:
        return None
    flags: Ints = np.rint(solution.x).astype(np.int64).reshape(len(ones), len(rows))
    return flags
