"""Noise has exactly the distribution that the guarantee assumes."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.privacy import gaussian
from mpc_spearman.privacy.gaussian import LARGEST, REACH, discrete_gaussian


def _fits(sigma: int, drawn: np.ndarray) -> float:
    """p-value that draws are of the discrete Gaussian (chi-square; rare values together)."""
    draws = len(drawn)
    x = np.arange(-REACH * sigma, REACH * sigma + 1)
    chances = np.exp(-(x**2) / (2 * sigma**2))
    chances /= chances.sum()
    counts = np.bincount(drawn + REACH * sigma, minlength=x.size)
    often = chances * draws >= 20
    counted = np.append(counts[often], counts[~often].sum())
    expected = np.append(chances[often], chances[~often].sum()) * draws
    return float(stats.chisquare(counted, expected).pvalue)


@pytest.mark.parametrize("sigma", [1, 2, 13, 16, 31, 33, 100])
def test_draws_have_the_probabilities_of_the_discrete_gaussian(sigma: int) -> None:
    assert _fits(sigma, discrete_gaussian(np.full(100_000, sigma))) > 1e-9


def test_draws_that_float64_cannot_decide_have_these_probabilities() -> None:
    drawn, accepted = gaussian._propose(np.full(100_000, 2), margin=0.9)  # digits settle all that is near
    assert _fits(2, drawn[accepted]) > 1e-9


def test_no_weight_of_a_strip_is_below_the_density_in_it() -> None:
    largest = [gaussian._TOP * (Decimal(-k * k) / 2048).exp() for k in range(gaussian._STRIPS)]
    assert all(
        weight >= density for weight, density in zip(gaussian._WEIGHTS.tolist(), largest, strict=False)
    )
    assert np.array_equal(np.bincount(gaussian._STRIP_OF)[:-1], gaussian._WEIGHTS[:-1])


def test_exact_comparisons_are_right() -> None:
    edge, top = 2_605_029_347, gaussian._TOP  # ⌊exp(-1/2)·2^32⌋, computed with 60 digits
    assert [gaussian._below(edge + by, top, 1, 1) for by in (-edge, -1, 1)] == [True, True, False]
    decided = [gaussian._below(edge, top, 1, 1) for _ in range(2000)]  # by the next bits
    assert abs(np.mean(decided) - 0.487) < 0.08
    assert gaussian._below(2**32 - 1, top, 0, 1)


def test_large_deviations_draw_as_normals_do_and_none_beyond_ten() -> None:
    drawn = discrete_gaussian(np.full(50_000, LARGEST))
    assert stats.kstest(drawn / LARGEST, "norm").pvalue > 1e-9
    assert np.abs(drawn // REACH).max() <= LARGEST
    assert len({int(x) % 2**20 for x in drawn}) > 40_000  # the low digits are drawn too


def test_every_number_has_its_own_deviation_and_zero_has_none() -> None:
    sigma = np.array([[0, 10**3], [10**6, 0]])
    drawn = np.array([discrete_gaussian(sigma) for _ in range(2000)])
    spread = drawn.std(axis=0)
    assert not drawn[:, sigma == 0].any()
    assert np.allclose(spread[sigma > 0] / sigma[sigma > 0], 1, atol=0.1)
    assert abs(np.corrcoef(drawn[:, 0, 1], drawn[:, 1, 0])[0, 1]) < 0.15


@pytest.mark.parametrize("sigma", [-1, LARGEST + 1])
def test_a_deviation_out_of_range_is_refused(sigma: int) -> None:
    with pytest.raises(ValueError, match="standard deviation"):
        discrete_gaussian(np.array([sigma]))
