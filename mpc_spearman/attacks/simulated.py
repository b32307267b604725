"""Made-up tables and their coefficients, computed without encryption, for every attack.

Tables are drawn by NumPy's generators, so that a seed gives the same again. Nothing secret depends on these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.statistics.columns import Floats as Floats
from mpc_spearman.statistics.columns import Ints as Ints


def encoded(columns: NDArray[np.generic]) -> Ints:
    """Return columns, (m, n), as every party ranks them: centred doubled average ranks, int64."""
    return rank_columns(list(columns)).matrix.astype(np.int64)


def untied(m: int, n: int, rng: np.random.Generator) -> Ints:
    """Return `m` columns of different values in random order, encoded, (m, n)."""
    return encoded(rng.permuted(np.tile(np.arange(n), (m, 1)), axis=1))


def flag(n: int, ones: int, rng: np.random.Generator, among: Ints | None = None) -> Ints:
    """Return a random flag, 0 and 1, (n,): `ones` of all `n` rows, or of the rows in `among`, have 1."""
    marks = np.zeros(n, dtype=np.int64)
    marks[rng.choice(n if among is None else among, ones, replace=False)] = 1
    return marks


def coefficients(x: Ints, y: Ints) -> Floats:
    """Return coefficients of encoded columns, (m_A, n) and (m_B, n), exact to a unit in the last place."""
    products: Floats = (x @ y.T).astype(np.float64)
    norms = np.sqrt((x * x).sum(axis=1)), np.sqrt((y * y).sum(axis=1))
    rho: Floats = products / norms[0][:, None] / norms[1]
    return rho


def unit(y: Ints) -> Floats:
    """Return encoded columns, (m, n), scaled to length 1: coefficients are their inner products."""
    scaled: Floats = y / np.sqrt((y * y).sum(axis=1, keepdims=True))
    return scaled
