"""Help for reading numbers, compared with simulation and SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.data.ranks import total
from mpc_spearman.statistics import reading
from mpc_spearman.statistics.columns import Columns, Ties, rounded, upper_share
from mpc_spearman.statistics.strengths import mean_length, strength_errors
from support.references import sampled_coefficients


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_detectable_coefficients_are_found_four_times_in_five(noise: float) -> None:
    n, samples, generator = 100, 10_000, np.random.default_rng(1)
    rho = sampled_coefficients(reading.detectable(n, noise=noise), n, samples, generator)
    rho += noise * generator.normal(size=samples)
    assert np.mean(np.abs(rho) > 1.96 * math.sqrt(1 / (n - 1) + noise**2)) == pytest.approx(0.8, abs=0.02)
    assert reading.detectable(n, 24) > reading.detectable(n)


@pytest.mark.parametrize("strength", ["mean", "mean_abs"])
@pytest.mark.parametrize("estimator", ["tie_corrected", "paper"])
def test_a_strength_has_the_standard_error_of_its_permutations(strength: Any, estimator: Any) -> None:
    n, generator = 200, np.random.default_rng(2)
    base = generator.normal(size=n)
    related = [base + generator.normal(size=n) for _ in range(3)]
    ranks = rank_columns([*related, -related[0], generator.normal(size=n) > 1, np.zeros(n)])
    lengths = np.linalg.norm(ranks.matrix, axis=1)
    scales = np.full(6, math.sqrt(total(n))) if estimator == "paper" else np.maximum(lengths, 1)
    target = generator.permuted(np.tile(np.arange(1.0 - n, n, 2), (20_000, 1)), axis=1) / math.sqrt(total(n))
    rho = target @ (ranks.matrix / scales[:, None]).T
    averaged = rho if estimator == "paper" else rho[:, lengths > 0]
    mu = (np.abs(averaged) if strength == "mean_abs" else averaged).mean(axis=1)
    norm = mean_length(ranks, strength, estimator)
    (error,) = strength_errors([norm], [np.full(1, n)])
    assert mu.std() == pytest.approx(error, rel=0.03)
    if strength == "mean_abs" and estimator == "tie_corrected":
        assert mu.mean() == pytest.approx(0.8 / math.sqrt(n - 1), rel=0.03)


def test_a_flag_reaches_its_largest_coefficient_and_its_auc() -> None:
    n, upper, generator = 80, 20, np.random.default_rng(3)
    flag, score = np.arange(n) >= n - upper, generator.normal(size=n) + (np.arange(n) >= n - upper)
    ranks = rank_columns([flag, score, np.arange(n)])
    columns = Columns(np.array([Ties.TWO_VALUES]), ranks.skewness[:1])
    s = ranks.matrix.astype(float) @ ranks.matrix[0]
    rho = s / np.sqrt((total(n) - ranks.tie_terms[0]) * total(n))
    assert reading.largest(columns, n) == pytest.approx(rho[2])
    wins = stats.mannwhitneyu(score[flag], score[~flag]).statistic
    assert reading.auc(rho[1:2], columns, n) == pytest.approx(wins / (upper * (n - upper)))


def test_skewness_is_that_of_the_ranks() -> None:
    generator = np.random.default_rng(4)
    table = [generator.poisson(1, 500), generator.random(500) < 0.03, np.zeros(500), np.arange(500)]
    skewness = rank_columns(table).skewness
    expected = [stats.skew(stats.rankdata(column)) for column in table[:2]]
    np.testing.assert_allclose(skewness, [*expected, 0, 0], rtol=1e-9)
    assert rank_columns([~table[1]]).skewness[0] == pytest.approx(-skewness[1])
    for side, share in ((skewness, table[1].mean()), (-skewness, 1 - table[1].mean())):
        assert upper_share(side)[1] == pytest.approx(share)


def test_a_receiver_is_told_skewness_to_within_a_tenth() -> None:
    exact = np.array([0.0, 0.03, -0.4, 0.4, 7.0, 300.0])
    stated = rounded(exact)
    assert stated[:2].tolist() == [0, 0]
    np.testing.assert_allclose(stated[2:], exact[2:], rtol=2 ** (1 / 8) - 1 + 1e-9)
    assert rounded(exact * 1.001).tolist() == stated.tolist()


def test_errors_of_strengths_allow_for_values_missing_at_both_sides() -> None:
    generator, n, m = np.random.default_rng(8), 400, 3000
    missing = generator.random(n) < 0.5
    source = [np.ma.masked_array(generator.normal(size=n), missing) for _ in range(5)]
    target = rank_columns([np.ma.masked_array(generator.normal(size=n), missing) for _ in range(m)])
    ranks = rank_columns(source)
    units = [side.matrix / np.linalg.norm(side.matrix, axis=1)[:, None] for side in (ranks, target)]
    strengths = (units[0] @ units[1].T).mean(axis=0)
    norm = mean_length(ranks, "mean", "tie_corrected")
    (of_source,), of_target = (Columns.of(side).gaps.max(keepdims=True) for side in (ranks, target))
    rows = n * (1 - np.minimum(of_source, of_target))
    error = strength_errors([norm], [rows])[0]
    assert strengths.std() == pytest.approx(error, rel=0.06)
    assert strengths.std() > 1.3 * strength_errors([norm], [np.full(1, n)])[0]
