"""Pooled testing: every flagged row where the attacker's own columns lie, from coefficients or means.

Columns that are the same for all rows but M (questions that only M people were asked, say) are tests of pools
of these M. An exact coefficient gives the number of flagged people in a pool, and so would any grid that is
fine enough for the n rows. So tens of columns name everybody flagged among the M, in a table of any length.
A mean over several flags can be solved as well, because the flags' groups differ in size. Noise in proportion
to a column's range stops this attack: a column that differs in few rows has a large range.

This is quantitative group testing (R. Dorfman, Ann. Math. Statist. 14, 1943; B. Lindström, Canad. Math. Bull.
8, 1965), by integer programme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from mpc_spearman.attacks.simulated import Floats, Ints, unit


def where_columns_lie(y: Ints) -> Ints:
    """Return the rows that are not in the largest group of equal values of every column."""
    usual = [np.bincount(column - column.min()).argmax() + column.min() for column in y]
    return np.flatnonzero((y != np.array(usual)[:, None]).any(axis=0))


def name_rows(
    published: Floats, y: Ints, ones: Sequence[int], noise: float = 0.0, nodes: int = 500
) -> Ints | None:
    """Return the most probable flags of the rows of `where_columns_lie`: 0 and 1, (flags, M).

    `published`, (m,), are means over all flags of their coefficients with the attacker's columns `y`, encoded
    (m, n); for one flag, its coefficients. `ones` has how many rows each flag marks, and `noise` is the
    standard deviation, 0 for exact values. None if there is no solution within so many `nodes` of the search
    tree.
    """
    n, rows = y.shape[1], where_columns_lie(y)
    columns = unit(y)
    elsewhere = np.delete(columns, rows, axis=1)[:, :1]  # all other rows have the same values
    parts, constant = [], np.zeros(len(y))
    for some in ones:
        weight = math.sqrt(n / (some * (n - some))) / len(ones)
        parts.append(weight * (columns[:, rows] - elsewhere))
        constant += weight * some * elsewhere[:, 0]
    width = 4 * noise + 1e-9
    solution = milp(
        np.repeat([math.log((n - some) / some) for some in ones], len(rows)),
        constraints=LinearConstraint(
            np.hstack(parts), published - constant - width, published - constant + width
        ),
        integrality=np.ones(len(ones) * len(rows)),
        bounds=Bounds(0, 1),
        options={"node_limit": nodes},
    )
    if solution.x is None:
        return None
    flags: Ints = np.rint(solution.x).astype(np.int64).reshape(len(ones), len(rows))
    return flags
