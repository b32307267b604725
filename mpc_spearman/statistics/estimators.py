"""From exact integers to coefficients, strengths and their order.

Everything up to here is integers; the divisions below are the only roundings. Products, tie terms and N
are Python integers throughout, since 2S, S + T and (N - T_x)(N - T_y) need not fit 64 bits. The formulas are
in docs/protocol.md, "Exact integers".

If a party deviates, opened values may be anything. Integers that no ranks give become NaN here, whatever
their size, and nothing raises (docs/security.md, "Nothing that is opened stops a run").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc_spearman.config import Estimator, Order, Strength
from mpc_spearman.data.ranks import total
from mpc_spearman.statistics.columns import Floats, Ints

_BELOW_ONE = math.nextafter(1.0, 0.0)


def products_from_differences(
    squares: NDArray[Any], source_ties: Sequence[int], target_ties: Sequence[int], n: int
) -> NDArray[np.object_]:
    """S, (m_A, m_B), Python integers, from sums of squared differences of centred ranks.

    `squares` are Q_pq = sum_i (x_pi - y_qi)^2, at most 4N. 2S = (N - T_x) + (N - T_y) - Q; if that is odd, or
    Q negative, Q is not from ranks and S is N + 1, which ranks do not reach.
    """
    x, y = (
        np.array([total(n) - int(term) for term in ties], dtype=object) for ties in (source_ties, target_ties)
    )
    twice = x[:, None] + y - squares
    return np.where((squares < 0) | (twice % 2 == 1), total(n) + 1, twice // 2)


def coefficients(
    products: NDArray[Any],
    source_ties: Sequence[int],
    target_ties: Sequence[int],
    n: int,
    estimator: Estimator,
) -> Floats:
    """Compute the matrix M of rank correlations; NaN if the integers are not from ranks (|rho| > 1).

    ``tie_corrected``: S/sqrt((N - T_x)(N - T_y)), within two units in the last place; NaN where a column is
    constant; exactly 1 or -1 only if the integers say so (S^2 = (N - T_x)(N - T_y)).
    ``paper``: (2S + T_x + T_y)/(2N), correctly rounded, a number everywhere.

    `products` are S, Python integers or int64, (m_A, m_B), and so is the result, float64; tie terms are of
    each column. There are n >= 2 rows.
    """
    full = total(n)
    result = np.full((len(source_ties), len(target_ties)), math.nan)
    for p, row in enumerate(products.tolist()):
        for q, product in enumerate(row):
            t_x, t_y = int(source_ties[p]), int(target_ties[q])
            norms = (full - t_x) * (full - t_y)  # up to 2^126
            if product * product > norms:
                continue
            if estimator == "paper":
                result[p, q] = (2 * product + t_x + t_y) / (2 * full)
            elif norms == 0:
                continue
            elif product * product == norms:
                result[p, q] = 1.0 if product > 0 else -1.0
            else:
                rho = product / math.sqrt(norms)
                result[p, q] = max(-_BELOW_ONE, min(_BELOW_ONE, rho))
    return result


def strengths(rho: Floats, strength: Strength) -> tuple[Floats, Ints]:
    """Mean coefficient, or mean absolute coefficient, of each target column, and how many it averages.

    `rho`, shape (m_A, m_B), has the source columns as rows and NaN where undefined. A mean, shape (m_B,), is
    over the defined coefficients (the paper's mu), NaN where there are none.
    """
    values = np.abs(rho) if strength == "mean_abs" else rho
    defined = ~np.isnan(values)
    count = defined.sum(axis=0, dtype=np.int64)
    mu = [
        math.fsum(column[is_defined].tolist()) / int(k) if k else math.nan
        for column, is_defined, k in zip(values.T, defined.T, count, strict=True)
    ]
    return np.array(mu, dtype=np.float64), count


def positions(mu: Floats, order: Order) -> Ints:
    """Position of each of the target's columns in the ranking, from 1, shape (m_B,).

    Equal strengths share a position, and undefined ones the last.
    """
    sign = -1.0 if order == "descending" else 1.0
    keys = np.where(np.isnan(mu), np.inf, sign * mu)
    return (np.sort(keys).searchsorted(keys) + 1).astype(np.int64)


def in_order(positions: Ints) -> Ints:
    """Return the indices of the target's columns as a ranking lists them: equal ones in the table's order."""
    return np.argsort(positions, kind="stable")
