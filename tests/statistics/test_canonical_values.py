"""Canonical correlations and strengths by size, without what chance and noise add."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpc_spearman.statistics.canonical import largest_by_chance, without_bias
from mpc_spearman.statistics.explained import Directions
from mpc_spearman.statistics.mean_squares import (
    mean_squares,
    null_errors,
    related_at_most,
    root_mean_squares,
)


def first_singular_values(n: int, k: tuple[int, int], rho: float, noise: float, samples: int) -> np.ndarray:
    """The largest singular value of whitened columns of which one pair correlates, with noise."""
    generator, values = np.random.default_rng([n, *k]), np.empty(samples)
    for sample in range(samples):
        x, y = (generator.normal(size=(n, count)) for count in k)
        y[:, 0] = rho * x[:, 0] + math.sqrt(1 - rho**2) * y[:, 0]
        q, p = (np.linalg.qr(side - side.mean(axis=0))[0] for side in (x, y))
        z = q.T @ p + noise / math.sqrt(n - 1) * generator.normal(size=k)
        values[sample] = np.linalg.svd(z, compute_uv=False)[0]
    return values


@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize(("n", "k"), [(200, (5, 5)), (400, (3, 12)), (300, (1, 6))])
def test_chance_exceeds_its_limit_once_in_20_times_or_less(n: int, k: tuple[int, int], noise: float) -> None:
    s, samples = np.array(noise / math.sqrt(n - 1)), 400
    limit = largest_by_chance(Directions(n, np.array(k[0]), s, k_target=k[1]))
    above = int((first_singular_values(n, k, 0.0, noise, samples) > limit).sum())
    assert 1 <= above <= 20 + 5 * math.sqrt(20)


@pytest.mark.parametrize(("noise", "rho"), [(0.0, 0.5), (0.0, 0.9), (2.0, 0.8)])
def test_a_correlation_that_counts_loses_its_bias(noise: float, rho: float) -> None:
    n, k = 800, (6, 12)
    directions = Directions(n, np.array(k[0]), np.array(noise / math.sqrt(n - 1)), k_target=k[1])
    singular = first_singular_values(n, k, rho, noise, 60)
    corrected = without_bias(singular, directions)
    assert (singular > largest_by_chance(directions)).all()
    assert corrected.mean() == pytest.approx(rho, abs=0.02)
    assert singular.mean() > rho + 0.002


def test_no_correlation_is_above_one_and_none_is_made_of_chance() -> None:
    directions = Directions(500, np.array(8), np.array(0.1), k_target=8)
    assert without_bias(np.array([2.15, 0.05]), directions).tolist() == [
        1.0,
        pytest.approx(math.nan, nan_ok=True),
    ]


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_mean_squares_have_no_bias_and_the_stated_error(correlation: float, noise: float) -> None:
    m, n, samples = 12, 500, 4000
    generator = np.random.default_rng(9)
    c = np.where(np.eye(m, dtype=bool), 1.0, correlation)
    s = np.full((m, samples), noise / math.sqrt(n - 1))
    rho = np.linalg.cholesky(c) @ generator.normal(size=(m, samples)) / math.sqrt(n - 1)
    rho += s * generator.normal(size=rho.shape)
    squares = mean_squares(rho, s, n)
    error = null_errors(s, float(np.square(c).sum()), n)[0]
    assert abs(squares.mean()) < 5 * error / math.sqrt(samples)
    assert squares.std() == pytest.approx(error, rel=0.15)


def test_mean_squares_by_hand() -> None:
    rho = np.array([[0.3, math.nan], [-0.1, math.nan]])
    squares = mean_squares(rho, np.full((2, 2), 0.1), 101)
    assert squares[0] == pytest.approx((0.09 + 0.01) / 2 - 0.01 - 0.01)
    assert math.isnan(squares[1])
    assert root_mean_squares(np.array([0.09, -0.01])).tolist() == [pytest.approx(0.3), 0.0]


def test_a_stated_length_bounds_how_related_columns_are() -> None:
    c = np.array([[1, 0.7, 0], [0.7, 1, -0.3], [0, -0.3, 1]])
    h = 2 / math.pi * (np.sqrt(1 - c**2) + c * np.arcsin(c) - 1)
    bound = related_at_most(math.sqrt(h.sum()) / 3, 3)
    assert np.square(c).sum() <= bound <= 1.16 * np.square(c).sum()
