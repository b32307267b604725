"""Evidence about discovered pairs: false coverage, bounds, best guesses, ranges of ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, spearmanr

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.statistics.columns import Columns, Ties
from mpc_spearman.statistics.intervals import (
    bound_on_all,
    intervals,
    selected_confidence,
    selected_intervals,
)
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues
from mpc_spearman.statistics.rank_ranges import difference_variances, own_correlations, rank_ranges
from mpc_spearman.statistics.shrinkage import best_guesses

N, CONFIDENCE = 1000, 0.95
ERROR = 1 / np.sqrt(N - 1)


def untied_pairs(m_a: int, m_b: int, noise: float) -> Pairs:
    """Pairs of columns without ties, with noise in standard errors."""
    source, target = (Columns(np.full(m, Ties.NONE), np.zeros(m)) for m in (m_a, m_b))
    s = np.full((m_a, m_b), noise * ERROR)
    return Pairs(N, source.rows, target, noise=s)


def drawn(rho: np.ndarray, noise: float, generator: np.random.Generator) -> np.ndarray:
    """Coefficients of a sample, with noise."""
    spread = np.sqrt((1 + rho**2 / 2) / (N - 3))
    sample = np.tanh(np.arctanh(rho) + spread * generator.normal(size=rho.shape))
    return sample + noise * ERROR * generator.normal(size=rho.shape)


# --- intervals of what was found


def test_the_level_of_selected_pairs_follows_benjamini_and_yekutieli() -> None:
    assert selected_confidence(0.95, 400, 400) == pytest.approx(0.95)
    assert selected_confidence(0.95, 1, 400) == pytest.approx(1 - 0.05 / 400)
    assert selected_confidence(0.9, 0, 10) == pytest.approx(0.99)


@pytest.mark.parametrize(("share", "size", "noise"), [(0.0, 0.0, 0.0), (0.02, 0.15, 1.0), (0.3, 0.12, 2.0)])
def test_few_intervals_of_selected_pairs_miss_where_plain_intervals_miss_often(
    share: float, size: float, noise: float
) -> None:
    generator, pairs, false, plain = np.random.default_rng(7), untied_pairs(20, 20, noise), [], []
    for _ in range(100):
        truth = np.where(
            generator.random((20, 20)) < share, size * generator.uniform(0.5, 1.5, (20, 20)), 0.0
        )
        rho = drawn(truth, noise, generator)
        selected = qvalues(pvalues(rho, pairs)) <= 0.05
        low, high = selected_intervals(rho, pairs, selected, CONFIDENCE, 400)
        assert np.array_equal(~np.isnan(low), selected)
        missed = ~((low <= truth) & (truth <= high))
        false.append(missed[selected].mean() if selected.any() else 0.0)
        low, high = intervals(rho, pairs, CONFIDENCE)
        missed = ~((low <= truth) & (truth <= high))
        plain.append(missed[selected].mean() if selected.any() else 0.0)
    assert np.mean(false) <= 0.05 + 4 * 0.05**0.5 / 100**0.5
    assert np.mean(false) <= np.mean(plain)
    assert np.mean(plain) > (0.09 if noise else 0.0)


def test_an_interval_of_a_found_pair_ends_at_zero() -> None:
    pairs = untied_pairs(1, 3, 0.0)
    rho = np.array([[2.1 * ERROR, -2.1 * ERROR, 0.5]])
    low, high = selected_intervals(rho, pairs, rho != 0.5, CONFIDENCE, 3)
    assert (low[0, 0], high[0, 1]) == (0, 0)
    assert high[0, 0] == -low[0, 1] > 0
    assert np.isnan([low[0, 2], high[0, 2]]).all()


def test_a_pair_without_an_interval_counts_for_no_other() -> None:
    flags = Columns(np.array([Ties.TWO_VALUES] * 2), np.array([5.0, 0.0]))
    pairs = Pairs(N, flags.select([0]).rows, flags)
    rho, selected = np.full((1, 2), 0.3), np.full((1, 2), True)
    low, _ = selected_intervals(rho, pairs, selected, CONFIDENCE, 2)
    assert np.isnan(low).tolist() == [[True, False]]  # the first pair is too skewed for an interval
    assert low[0, 1] == intervals(rho, pairs, selected_confidence(0.95, 1, 2))[0][0, 1]


def test_all_coefficients_are_below_the_bound_if_none_is_found() -> None:
    generator, pairs, over = np.random.default_rng(8), untied_pairs(20, 20, 1.0), 0
    truth = np.where(np.arange(400).reshape(20, 20) < 3, 0.08, 0.0)
    for _ in range(200):
        rho = drawn(truth, 1.0, generator)
        bound, count = bound_on_all(rho, pairs, CONFIDENCE, 400)
        assert count == 400
        assert np.abs(rho).max() < bound < np.abs(rho).max() + 4.1 * np.sqrt(2) * ERROR
        over += bound < 0.08
    assert over <= 30
    assert bound_on_all(np.full((1, 1), np.nan), untied_pairs(1, 1, 0.0), CONFIDENCE, 1)[1] == 0


def test_q_of_chosen_pairs_counts_the_others_as_not_significant() -> None:
    p = np.array([0.001, np.nan, 0.2, 0.01])
    padded = np.concatenate([p[[0, 2, 3]], np.ones(37)])
    assert qvalues(p, 40)[[0, 2, 3]] == pytest.approx(qvalues(padded)[:3])


# --- best guesses


def test_one_strong_number_is_hardly_shrunk_and_many_null_ones_are() -> None:
    r = np.append(0.07 * np.random.default_rng(1).normal(size=99), 0.5)
    guesses = best_guesses(r, 0.07**2)
    assert 0.45 < guesses[-1] < 0.5
    assert np.abs(guesses[:-1]).max() < 0.05


@pytest.mark.parametrize(
    ("m", "share", "size"), [(400, 0.0, 0.0), (400, 0.1, 0.2), (100, 0.01, 0.5), (8, 0.2, 0.3)]
)
def test_best_guesses_are_nearer_to_the_truth_than_the_numbers(m: int, share: float, size: float) -> None:
    generator, variance, errors = np.random.default_rng(m), 5 * ERROR**2, []
    for _ in range(30):
        truth = np.where(generator.random(m) < share, size, 0.0)
        r = truth + np.sqrt(variance) * generator.normal(size=m)
        guesses, first = best_guesses(r, variance), np.argmax(np.abs(r))
        errors.append([np.square(of - truth).mean() for of in (guesses, r)])
        errors[-1] += [abs(abs(of[first]) - truth[first]) for of in (guesses, r)]
    guessed, published, largest_guessed, largest_published = np.mean(errors, axis=0)
    assert guessed < 0.7 * published
    assert largest_guessed < largest_published


@given(
    st.lists(st.one_of(st.floats(-2, 2), st.just(float("nan"))), min_size=1, max_size=30),
    st.floats(1e-4, 1.0),
)
def test_a_best_guess_has_its_numbers_sign_and_is_nearer_to_zero(
    values: list[float], variance: float
) -> None:
    r = np.array(values)
    guesses = best_guesses(r, variance)
    assert np.array_equal(np.isnan(guesses), np.isnan(r))
    assert (np.abs(guesses) <= np.abs(r))[~np.isnan(r)].all()
    assert (guesses * r >= 0)[~np.isnan(r)].all()


def test_few_numbers_are_shrunk_by_the_positive_part_rule() -> None:
    assert best_guesses(np.array([0.3, -0.1, 0.0]), 0.03).tolist() == [pytest.approx(0.2), 0, 0]


# --- ranges of ranks


@pytest.mark.parametrize("correlation", [0.0, 0.5, -0.8])
@pytest.mark.parametrize("with_correlations", [True, False])
def test_ranges_hold_all_true_ranks_together(correlation: float, with_correlations: bool) -> None:
    m, generator, error = 6, np.random.default_rng(3), np.full(6, 0.01)
    related = np.eye(m)
    related[0, 1] = related[1, 0] = related[2, 3] = related[3, 2] = correlation
    root, truth, held = np.linalg.cholesky(related), np.linspace(0.03, 0, m), 0
    variances = difference_variances(error, 0.005, related if with_correlations else None)
    for _ in range(400):
        noisy = truth + 0.01 * root @ generator.normal(size=m) + 0.005 * generator.normal(size=m)
        first, last = rank_ranges(noisy, variances, CONFIDENCE)
        held += ((first <= np.arange(1, m + 1)) & (np.arange(1, m + 1) <= last)).all()
    assert held >= 0.95 * 400 - 4 * (400 * 0.05 * 0.95) ** 0.5


def test_ranges_by_hand() -> None:
    strengths, error = np.array([0.1, 0.9, np.nan, 0.5, 0.6]), np.full(5, 0.05)
    variances = difference_variances(error, 0.0, np.eye(5))
    # 12 ordered pairs of 4 features: z = 2.64, times sqrt(2) * 0.05 is 0.187.
    assert -norm.ppf(0.05 / 12) * np.sqrt(2) * 0.05 == pytest.approx(0.187, abs=1e-3)
    assert [places.tolist() for places in rank_ranges(strengths, variances, CONFIDENCE)] == [
        [4, 1, 5, 2, 2],
        [4, 1, 5, 3, 3],
    ]
    assert [places.tolist() for places in rank_ranges(strengths, variances, CONFIDENCE, "ascending")] == [
        [1, 4, 5, 2, 2],
        [1, 4, 5, 3, 3],
    ]
    assert rank_ranges(np.array([0.3]), np.zeros((1, 1)), CONFIDENCE) == (1, 1)
    values = np.array([0.5, np.nan, 0.1])
    undefined, withheld = (
        np.stack(rank_ranges(values, np.full((3, 3), 1e-4), CONFIDENCE, withheld=flag)).T.tolist()
        for flag in (False, True)
    )
    assert undefined == [[1, 1], [3, 3], [2, 2]]
    assert withheld == [[1, 2], [1, 3], [2, 3]]  # the withheld one can be anywhere


def test_a_difference_varies_as_own_correlations_say() -> None:
    error, generator = np.full(2, 1.0), np.random.default_rng(5)
    for correlation in (0.9, -0.8):
        related = np.array([[1, correlation], [correlation, 1]])
        drawn = generator.normal(size=(4000, 2)) @ np.linalg.cholesky(related).T
        variance = difference_variances(error, 0.0, related)[0, 1]
        assert np.diff(drawn).std() == pytest.approx(np.sqrt(variance), rel=0.06)
        assert variance <= difference_variances(error)[0, 1] == 4


def test_own_correlations_are_those_of_ranks() -> None:
    generator = np.random.default_rng(6)
    base = generator.normal(size=200)
    ranks = rank_columns([base, base + generator.normal(size=200), np.zeros(200)])
    related = own_correlations(ranks, "mean")
    assert related is not None
    assert related[0, 1] == pytest.approx(spearmanr(base, ranks.matrix[1]).statistic)
    assert not related[2].any()
    assert own_correlations(ranks, "mean_abs") is None
