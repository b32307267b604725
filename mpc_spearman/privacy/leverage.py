"""How much of one row's rank a receiver's own columns can tell: their leverage.

The published coefficients of a column of the other side with one's own columns y_1 … y_m are linear
equations in that column's ranks. The best linear estimate of the ranks from all of them is a ridge
regression, in which the rounding to the grid is the noise, and the *leverage* of a row is the part of its
rank's variance that the estimate recovers. It depends on the receiver's columns and on the grid alone.
Leverages add up to m or less: where columns spread over all rows, each is about m/n. Columns that are the
same for all rows but a few (questions that only some people were asked) put all of their leverage on these,
and may tell everything about them though they tell little about all rows together.

So a party that is granted numbers tells its highest leverage h to those whose columns they are about, and
each owner counts with it (:mod:`mpc_spearman.privacy.budget`). To the last digit h would tell class sizes of
the sender's own flags; so it is told rounded up, to one of a few steps.

References
----------
A. Alaoui, M. W. Mahoney, "Fast randomized kernel ridge regression with statistical guarantees", NIPS 2015
(ridge leverage scores).
"""

from __future__ import annotations

import math

import numpy as np

from mpc_spearman.data.ranks import Ranks
from mpc_spearman.privacy.precision import Grid

_STEPS = 4  # a factor of two is so many steps
_EXACT = 1e-12  # what float64 leaves of an eigenvalue of 0


def highest_leverage(ranks: Ranks, grid: Grid | None) -> float:
    """Return the highest leverage of any row: 0 without a column that is not constant, 1 at most.

    Parameters
    ----------
    ranks : Ranks
        A party's own.
    grid : Grid, optional
        On which coefficients with these columns are published; ``None`` if they are exact.
    """
    if not ranks.defined:
        return 0.0
    n = ranks.n
    norms = np.maximum(np.sqrt(np.diag(ranks.gram)), 1.0)  # a constant column's is 0, as are all its elements
    values, vectors = np.linalg.eigh(ranks.gram / np.outer(norms, norms))
    # an element of a unit vector has variance 1/n, a rounding error δ²/12
    noise = _EXACT if grid is None else max(n * grid.step**2 / 12, _EXACT)
    weights = (vectors / np.sqrt(np.maximum(values, 0.0) + noise)).T / norms
    highest = max(float(np.square(weights @ block).sum(axis=0).max()) for block in ranks.blocks())
    return min(1.0, 1 / n + highest)


def rounded_up(leverage: float, n: int, distinct: int) -> float:
    """Round a highest leverage up to a step of `distinct`/n, what it is where columns spread evenly.

    The steps grow by a factor of 2^(1/4). So what is told is one of about 4·log2(n/`distinct`) numbers.

    Parameters
    ----------
    leverage : float
    n : int
        Rows.
    distinct : int
        The party's distinct columns that are not constant, which all know.
    """
    if not distinct:
        return 0.0
    steps = max(0, math.ceil(_STEPS * math.log2(leverage * n / distinct) - 1e-6))
    return min(1.0, distinct / n * 2 ** (steps / _STEPS))
