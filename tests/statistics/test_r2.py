"""R² of ranks: its test has the stated size, and predictive R² is right for new rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpc_spearman.statistics import explained
from mpc_spearman.statistics.explained import Directions


@pytest.mark.parametrize("noise", [0.0, 3.0])
@pytest.mark.parametrize(("n", "k"), [(60, 10), (500, 40)])
@pytest.mark.parametrize("kind", ["untied", "flag"])
def test_the_test_has_the_size_that_it_says(n: int, k: int, noise: float, kind: str) -> None:
    """Independent columns: p ≤ α about as often as α; `noise` is in standard errors."""
    rng, times = np.random.default_rng([n, k, int(2 * noise), kind == "flag"]), 4000
    x = rng.normal(size=(n, k))
    x = np.linalg.qr(x - x.mean(axis=0))[0]
    y = np.arange(n) - (n - 1) / 2 if kind == "untied" else (np.arange(n) < n // 5) - (n // 5) / n
    drawn = rng.permuted(np.tile(y / np.linalg.norm(y), (times, 1)), axis=1)
    s = np.full(times, noise / np.sqrt(n - 1))
    z = drawn @ x + s[:, None] * rng.normal(size=(times, k))
    p = explained.pvalues(np.square(z).sum(axis=1) - k * s**2, Directions(n, np.array(k), s))
    for alpha, low, high in ((0.05, 0.75, 1.25), (0.01, 0.5, 1.6)):
        assert low < (p <= alpha).mean() / alpha < high
    directions = Directions(n, np.array([k]), s[:1])
    assert explained.pvalues(explained.chance(directions), directions)[0] == pytest.approx(0.05, abs=1e-6)


def test_people_who_lack_values_at_both_sides_count_in_no_test() -> None:
    """The same 40 % of the rows are 0 at both sides: tests keep their size with the other 60 %."""
    n, k, times, rng = 500, 5, 4000, np.random.default_rng(8)
    present = np.arange(n) < 300
    x = np.linalg.qr(rng.normal(size=(300, k)))[0]
    x = np.linalg.qr(x - x.mean(axis=0))[0]
    y = np.arange(300) - 299 / 2
    r2 = np.square(rng.permuted(np.tile(y / np.linalg.norm(y), (times, 1)), axis=1) @ x).sum(axis=1)
    none, counts = np.zeros(times), np.full(times, k)
    rows = explained.counted_rows(n, 1 - present.mean(), 0, 1.0, counts)
    assert 0.035 < (explained.pvalues(r2, Directions(rows, counts, none)) <= 0.05).mean() < 0.066
    assert (explained.pvalues(r2, Directions(n, counts, none)) <= 0.05).mean() > 0.15
    assert np.isnan(explained.counted_rows(n, np.array(0.99), 0, 1.0, np.array(k)))


@pytest.mark.parametrize(
    ("n", "of_x", "of_y", "tested"),
    [(2000, 200, 100, True), (2000, 100, 40, False), (500, 100, 30, True), (100, 20, 3, False)],
)
@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_flags_on_both_sides_have_honest_p_values_or_none(
    n: int, of_x: int, of_y: int, m: int, tested: bool, noise: float
) -> None:
    """With several columns at the target by Pillai's trace; without noise the variance is the exact one."""
    rng, times, s = np.random.default_rng([n, of_x, m]), 3000, noise / np.sqrt(n - 1)
    sides = [np.array([rng.permutation(n) < count for _ in range(k)]) for k, count in ((5, of_x), (m, of_y))]
    x, y = (np.linalg.qr((side - side.mean(axis=1)[:, None]).T)[0] for side in sides)
    z = np.array([x.T @ y[rng.permutation(n)] + s * rng.normal(size=(5, m)) for _ in range(times)])
    traces = np.square(z).sum(axis=(1, 2)) - 5 * m * s**2
    of_source, of_target = (np.array(n * np.square(np.square(side).sum(axis=1)).sum()) for side in (x, y))
    dispersion = explained.dispersion(of_source, np.array(5), of_target, np.array(m), n)
    assert np.isnan(dispersion) == (not tested)
    if tested:
        directions = Directions(n, np.full(times, 5), np.full(times, s), 1.0 if noise else dispersion, m)
        p = (explained.pvalues if m == 1 else explained.pillai_pvalues)(traces, directions)
        assert 0.037 < (p <= 0.05).mean() < 0.064
        assert 0.004 < (p <= 0.01).mean() < 0.018
        expected = 2 * 5 * m * dispersion * (n - 6) * (n - 1 - m) / ((n - 1) ** 2 * (n - 2) * (n + 1))
        assert noise or traces.var() == pytest.approx(float(expected), rel=0.15)


@pytest.mark.parametrize("kurtosis", [np.nan, np.inf, -np.inf, 1e308, -1e308, 8.9, 0.0])
def test_a_kurtosis_that_no_columns_have_gives_no_p_value(kurtosis: float) -> None:
    """Of three directions it is 9 at least; an owner may state anything."""
    for sides in ((np.array(kurtosis), 3, np.array(2.0), 1), (np.array(2.0), 1, np.array(kurtosis), 3)):
        assert np.isnan(explained.dispersion(sides[0], np.array(sides[1]), sides[2], np.array(sides[3]), 500))
    assert explained.dispersion(np.array(9.1), np.array(3), np.array(2.0), 1, 500) < 1.1


def test_predictive_r2_is_right_for_new_rows() -> None:
    """n = 200, k = 15: over 400 samples, the fit's squared error on new rows against the mean's."""
    rng, n, k = np.random.default_rng(4), 200, 15
    predicted, reached = [], []
    for _ in range(400):
        x, new = rng.normal(size=(2, n, k))
        y, later = (0.15 * (rows @ np.ones(k)) + rng.normal(size=n) for rows in (x, new))
        weights = np.linalg.lstsq(np.column_stack([x, np.ones(n)]), y, rcond=None)[0]
        r2 = (
            1
            - np.square(y - np.column_stack([x, np.ones(n)]) @ weights).sum() / np.square(y - y.mean()).sum()
        )
        off = later - np.column_stack([new, np.ones(n)]) @ weights
        predicted.append(explained.predictive(np.array(r2), np.array(k), n))
        reached.append(1 - np.square(off).mean() / (1 + k * 0.15**2))
    assert np.mean(predicted) == pytest.approx(np.mean(reached), abs=0.02)


def drawn_r2(theta: float, k: int, n: int, noise: float, samples: int) -> np.ndarray:
    """R² of normal columns that explain `theta` in the population, with noise, less what noise adds."""
    generator = np.random.default_rng([k, n])
    far = generator.chisquare(n - 1, samples) * theta / (1 - theta)
    explained = generator.noncentral_chisquare(k, far)
    r2 = explained / (explained + generator.chisquare(n - 1 - k, samples))
    z = noise / math.sqrt(n - 1) * generator.normal(size=(samples, k))
    z[:, 0] += np.sqrt(r2)
    return np.asarray(np.square(z).sum(axis=1) - k * noise**2 / (n - 1))


@pytest.mark.parametrize("theta", [0.0, 0.05, 0.4, 0.9])
@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize(("k", "n"), [(1, 300), (10, 300), (10, 3000)])
def test_intervals_of_what_is_explained_cover_about_as_stated(
    k: int, n: int, theta: float, noise: float
) -> None:
    samples, s = 1500, np.array(noise / math.sqrt(n - 1))
    low, high = explained.r2_intervals(
        drawn_r2(theta, k, n, noise, samples), Directions(n, np.array(k), s), 0.95
    )
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()
    assert 0.9 - 0.03 <= np.mean((low <= theta) & (theta <= high)) <= 0.99
    if not theta:
        assert np.mean(low > 0) <= 0.05


def test_an_undefined_r2_has_no_interval_and_an_exact_one_ends_there() -> None:
    low, high = explained.r2_intervals(
        np.array([math.nan, 1.0, -0.5]), Directions(100, np.array(3), np.array([0.1, 0.0, 0.1])), 0.95
    )
    assert np.isnan([low[0], high[0]]).all()
    assert low[1] > 0.99
    assert (low[2], high[2]) == (0, pytest.approx(0, abs=1e-9))
