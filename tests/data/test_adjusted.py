"""Residuals of ranks: least squares to many digits, and rows that exchange as people do."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc_spearman.data import ranks as ranks_module
from mpc_spearman.data.adjusted import Adjusted, adjusted
from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import inner_products


def kinds_of_columns(seed: int, n: int) -> tuple[list[np.ndarray], int]:
    """Columns of every kind, and how many of the last ones are covariates."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, n)
    kinds = (
        lambda: rng.normal(size=n) + age / 20,
        lambda: rng.random(n) < age / 200,
        lambda: rng.permutation(n) < 2,
        lambda: rng.poisson(0.5, n),
        lambda: np.ma.masked_array(rng.normal(size=n), rng.random(n) < 0.2),
    )
    covariates = [age, rng.random(n) < 0.5, np.where(rng.random(n) < 0.8, 0, rng.normal(size=n))]
    covariates += [2 * covariates[1], np.ones(n)]
    chosen = covariates[: int(rng.integers(1, 6))]
    return [*(kind() for kind in kinds), np.zeros(n), *chosen], len(chosen)


def least_squares(columns: list[np.ndarray], count: int) -> np.ndarray:
    ranks = rank_columns(columns).matrix / len(columns[0])
    powers = np.vstack([np.ones(ranks.shape[1]), *(ranks[-count:] ** k for k in (1, 2, 3))]).T
    fit, *_ = np.linalg.lstsq(powers, ranks[:-count].T, rcond=1e-9)
    return ranks[:-count] - (powers @ fit).T


@given(st.integers(0, 2**32 - 1), st.integers(30, 400))
@settings(max_examples=60, deadline=None)
def test_residuals_are_those_of_least_squares_on_powers_of_ranks(seed: int, n: int) -> None:
    columns, count = kinds_of_columns(seed, n)
    residuals, expected = adjusted(rank_columns(columns), count), least_squares(columns, count)
    sizes = np.linalg.norm(expected, axis=1)
    ranks = rank_columns(columns).first(residuals.m)
    for feature in range(residuals.m):
        if residuals.unexplained[feature] < 1e-6 or residuals.constant[feature]:
            continue
        unit = residuals.matrix[feature] / np.sqrt(float(residuals.squares[feature]))
        np.testing.assert_allclose(unit, expected[feature] / sizes[feature], rtol=0, atol=3e-8)
        assert residuals.unexplained[feature] == pytest.approx(
            (n * sizes[feature]) ** 2 / ranks.squares[feature], rel=1e-6
        )
    assert residuals.constant[-1]
    assert residuals.squares == tuple(sum(int(e) ** 2 for e in row) for row in residuals.matrix)
    third = [
        float(np.mean(e**3) / np.mean(e**2) ** 1.5) if e.any() else 0.0 for e in residuals.matrix / 2.0**30
    ]
    np.testing.assert_allclose(residuals.skewness, third, rtol=1e-4, atol=1e-4)
    assert residuals.fitted <= 3 * count


@pytest.mark.parametrize("seed", range(2))
def test_an_exchange_of_two_people_exchanges_their_residuals_and_nothing_else(seed: int) -> None:
    """To the last bit, for all pairs: the guarantee counts on it."""
    columns, count = kinds_of_columns(seed, 24)
    before = adjusted(rank_columns(columns), count)
    for i, j in combinations(range(24), 2):
        order = np.arange(24)
        order[[i, j]] = j, i
        after = adjusted(rank_columns([column[order] for column in columns]), count)
        np.testing.assert_array_equal(after.matrix, before.matrix[:, order])
        np.testing.assert_allclose(after.unequal_columns, before.unequal_columns, rtol=1e-12)
        assert (after.fitted, after.squares) == (before.fitted, before.squares)
        assert after.skewness.tolist() == before.skewness.tolist()


def test_rows_of_a_run_are_centred_and_keep_the_fit_of_the_whole_table() -> None:
    columns, count = kinds_of_columns(3, 200)
    whole, rows = adjusted(rank_columns(columns), count), np.arange(20, 90)[::-1]
    some = whole.of_rows(rows)
    assert isinstance(some, Adjusted)
    assert np.abs(some.matrix.sum(axis=1)).max() <= some.n
    differences = some.matrix.astype(np.int64) - whole.matrix[:, rows]
    assert (np.ptp(differences, axis=1) == 0).all()
    assert (some.fitted, some.unexplained.tolist()) == (whole.fitted, whole.unexplained.tolist())


def test_unequal_variances_count_fewer_rows_as_the_bound_says() -> None:
    """The variance of a coefficient is at most h_x·h_y times that of equal variances."""
    rng, n, draws = np.random.default_rng(5), 500, 400
    coefficients, bounds = [], []
    for _ in range(draws):
        age = rng.normal(size=n)
        x, y = (np.exp(0.7 * age) * rng.normal(size=n) for _ in range(2))
        residuals = adjusted(rank_columns([x, y, age]), 1)
        e = residuals.matrix / np.sqrt(np.array(residuals.squares, dtype=float))[:, None]
        coefficients.append(e[0] @ e[1] * np.sqrt(n - 4))
        bounds.append(residuals.unequal_columns.prod())
    spread = np.square(coefficients).mean()
    assert 1.1 < spread < np.mean(bounds) * (1 + 5 * np.sqrt(2 / draws))
    assert adjusted(rank_columns([rng.normal(size=n), np.ones(n)]), 1).unequal_columns[0] == 1


def test_a_group_of_fewer_than_ten_rows_counts_with_its_neighbour() -> None:
    rng = np.random.default_rng(3)
    for few, rows in ((9, 300), (10, 300), (2, 11)):
        x, flag = rng.normal(size=rows), np.arange(rows) < few
        residuals = adjusted(rank_columns([x * np.where(flag, 5, 1), flag]), 1)
        square = np.square(residuals.matrix[0].astype(float))
        v = np.where(flag, square[flag].mean(), square[~flag].mean())
        apart = np.sqrt(np.square(v).mean()) / v.mean() if few == 10 else 1.0
        np.testing.assert_allclose(residuals.unequal_columns, apart, rtol=1e-12)
    age = rng.normal(size=50)
    residuals = adjusted(rank_columns([age * rng.normal(size=50), age]), 1)
    v = np.square(residuals.matrix[0].astype(float))[np.argsort(age)].reshape(5, 10).mean(axis=1)
    np.testing.assert_allclose(residuals.unequal_columns, np.sqrt(np.square(v).mean()) / v.mean(), rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from([2**4, 2**20, 2**30]))
@settings(max_examples=40, deadline=None)
def test_inner_products_are_exact_integers_in_any_order(seed: int, largest: int) -> None:
    rng = np.random.default_rng(seed)
    rows, others = (rng.integers(-largest, largest + 1, (m, 90)).astype(np.int32) for m in (3, 2))
    exact = [[float(sum(map(int.__mul__, row.tolist(), other.tolist()))) for other in others] for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks_module, "BLOCK", 40)
        np.testing.assert_array_equal(inner_products(rows, others, largest), exact)
