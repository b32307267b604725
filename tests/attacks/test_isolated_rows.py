"""Attacks on the ranks of few rows that a party's own columns single out together; how well they do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpc_spearman.attacks import rows
from mpc_spearman.attacks.simulated import Ints, coefficients, encoded, untied
from mpc_spearman.privacy.precision import coefficient_grid


def marks(n: int, *sets: range) -> Ints:
    """Flags of these rows."""
    flags = np.zeros((len(sets), n), dtype=np.int64)
    for one, those in zip(flags, sets, strict=True):
        one[those] = 1
    return flags


def errors(columns: np.ndarray, at: list[int], *, exact: bool) -> np.ndarray:
    """How far the estimates of a few rows' ranks are off, in parts of n, over 200 untied columns."""
    y = encoded(columns)
    n = y.shape[1]
    x = untied(200, n, np.random.default_rng(1))
    grid = coefficient_grid(n)
    rho, step = (coefficients(x, y), 0.0) if exact else (grid.round(coefficients(x, y)), grid.step)
    off = rows.estimate(rho, y, step)[:, at] * math.sqrt((n + 1) * (n - 1)) - x[:, at] * math.sqrt(3)
    return np.abs(off) / (2 * math.sqrt(3) * n)


# an estimate that knows nothing is off by a quarter of n in the median
CASES = {
    # flags of 4 and 3 rows; the fewest rows of either do not help at 100 and 99
    "nested": (marks(1000, range(4), range(3)), [3], 0.015),
    "nested, many rows": (marks(1000, range(100), range(99)), [99], 0.06),
    # one-hot columns of which the one for the last row was left out
    "family": (marks(178, range(59), range(59, 118), range(118, 177)), [177], 0.05),
    # a total that misses one row of its parts
    "total": (marks(1000, range(20), range(20, 40), range(39)), [39], 0.05),
    # three columns that differ from 0 in the same three rows
    "sparse": (np.hstack([[[1, 1, 1], [1, -1, 1], [1, 1, -1]], np.zeros((3, 997))]), [0, 1, 2], 0.02),
    # as many columns as rows, but for one
    "solve": (np.random.default_rng(2).random((39, 40)), list(range(40)), 0.03),
}
cases = pytest.mark.parametrize(("columns", "at", "close"), CASES.values(), ids=CASES)


@cases
def test_exact_coefficients_give_the_ranks_of_rows_that_columns_isolate(columns, at, close):
    n = columns.shape[1]
    assert errors(columns, at, exact=True).max() < 0.1 / n  # round to the rank itself
    assert rows.leverage(encoded(columns))[at] == pytest.approx(1)


@cases
def test_rounding_only_blurs_them(columns, at, close):
    assert np.median(errors(columns, at, exact=False)) < close
    n = columns.shape[1]
    assert rows.leverage(encoded(columns), coefficient_grid(n).step)[at].mean() > 0.9


def test_a_count_and_its_flags_that_differ_in_one_cell_are_drowned_by_rounding():
    rng = np.random.default_rng(3)
    count = rng.integers(0, 4, 1000)
    count[0] = 0
    columns = np.vstack([count, [count == value for value in (1, 2, 3)]]).astype(np.int64)
    columns[1, 0] = 1  # says 1 for a row that the count says 0 for
    assert errors(columns, [0], exact=True).max() < 0.1 / 1000
    assert np.median(errors(columns, [0], exact=False)) > 0.1


# ---- leverage: how well any of these can do, from one's own columns alone ----


@pytest.mark.parametrize("ones", [5, 10, 100])
def test_leverage_in_a_flag_is_one_over_its_rows(ones):
    assert rows.leverage(encoded(marks(400, range(ones))))[:ones] == pytest.approx(1 / ones)


@pytest.mark.parametrize("isolated", [2, 5, 9])
def test_a_combination_that_is_zero_outside_g_rows_gives_one_of_them_a_leverage_of_one_over_g(isolated):
    rng = np.random.default_rng(isolated)
    count = rng.integers(0, 5, 500)
    changed = count.copy()
    changed[:isolated] = rng.integers(5, 9, isolated)
    columns = np.vstack([rng.random((4, 500)), [changed == value for value in range(1, 5)], [count == 0]])
    # rows that are in none of the flags, although the five values of the count were one-hot
    apart = np.flatnonzero(~columns[4:].astype(bool).any(axis=0))
    assert 0 < len(apart) <= isolated
    assert rows.leverage(encoded(columns)).max() >= 1 / len(apart) - 1e-9


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "statistical"])
@pytest.mark.parametrize(("n", "columns"), [(40, 12), (300, 30)])
def test_leverage_is_the_part_of_the_variance_that_the_estimate_recovers(n, columns, exact):
    y = untied(columns, n, np.random.default_rng(4))
    x = untied(2000, n, np.random.default_rng(5))
    grid = coefficient_grid(n)
    rho, step = (coefficients(x, y), 0.0) if exact else (grid.round(coefficients(x, y)), grid.step)
    truth = x / np.sqrt((x * x).mean(axis=1, keepdims=True))
    left = ((rows.estimate(rho, y, step) - truth) ** 2).mean(axis=0)
    expected = 1 + 1 / n - rows.leverage(y, step)  # the sum of all ranks is known beforehand
    assert left.mean() == pytest.approx(expected.mean(), abs=0.01)
    assert np.corrcoef(left, expected)[0, 1] > 0.5


def test_a_table_of_a_third_as_many_columns_as_rows_recovers_a_third_of_every_ranks_variance():
    y = untied(100, 300, np.random.default_rng(6))
    x = untied(50, 300, np.random.default_rng(7))
    grid = coefficient_grid(300)
    estimates = rows.estimate(grid.round(coefficients(x, y)), y, grid.step)
    correlations = [np.corrcoef(one, other)[0, 1] for one, other in zip(estimates, x, strict=True)]
    assert np.mean(correlations) == pytest.approx(math.sqrt(1 / 3), abs=0.03)
