"""p-values against SciPy: its hypergeometric distribution and its t distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mpc_spearman.data.ranking import rank_columns
from mpc_spearman.statistics import result_warnings
from mpc_spearman.statistics.columns import Columns, Ties, rounded
from mpc_spearman.statistics.intervals import intervals
from mpc_spearman.statistics.pairs import Pairs
from mpc_spearman.statistics.pvalues import pvalues, qvalues
from support.references import row_coefficients

EXACT, PAPER = "tie_corrected", "paper"


def untied(m: int) -> Columns:
    return Columns(np.full(m, Ties.NONE), np.zeros(m))


def described(table: np.ndarray) -> Columns:
    return Columns.of(rank_columns(list(table)))


def flags(n: int, *upper: int) -> Columns:
    """Columns of two values, by how many rows have the upper."""
    return described(np.arange(n) >= n - np.array(upper)[:, None])


def phi(k: int, a: int, b: int, n: int) -> np.ndarray:
    """The coefficient of two flags of a and b rows with k in common."""
    return np.array([[(n * k - a * b) / math.sqrt(a * (n - a) * b * (n - b))]])


# --- two flags -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "a", "b", "n", "right"),
    [(5, 50, 50, 2000, 7.2e-3), (4, 120, 120, 20_190, 5.7e-3), (10, 10, 10, 30, 3.3e-8)],
)
def test_two_flags_have_fishers_exact_test(k: int, a: int, b: int, n: int, right: float) -> None:
    p = pvalues(phi(k, a, b, n), Pairs(n, flags(n, a).rows, flags(n, b)))[0, 0]
    assert p == pytest.approx(right, rel=0.02)
    table = [[k, a - k], [b - k, n - a - b + k]]
    assert p == pytest.approx(stats.fisher_exact(table).pvalue, rel=1e-9)


@given(st.data())
def test_the_pvalue_of_two_flags_sums_tables_at_least_as_extreme(data: st.DataObject) -> None:
    n = data.draw(st.integers(3, 400))
    a, b = (data.draw(st.integers(1, n - 1)) for _ in range(2))
    least, most = max(0, a + b - n), min(a, b)
    k = data.draw(st.integers(least, most))
    every = np.arange(least, most + 1)
    as_large = np.abs(n * every - a * b) >= abs(n * k - a * b)
    p = pvalues(phi(k, a, b, n), Pairs(n, flags(n, a).rows, flags(n, b)))[0, 0]
    assert p == pytest.approx(stats.hypergeom(n, a, b).pmf(every)[as_large].sum(), rel=1e-8)


def test_two_flags_of_many_rows_have_the_normals_pvalue() -> None:
    n, half = 2**24, Columns(np.array([Ties.TWO_VALUES]), np.zeros(1))
    p = pvalues(np.array([[3 / math.sqrt(n)]]), Pairs(n, half.rows, half))[0, 0]
    assert p == pytest.approx(2 * stats.norm.sf(3), rel=3e-3)


# --- more rows, and ties -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [16, 30, 2000])
def test_pvalues_without_skewness_are_scipys(n: int) -> None:
    data = np.random.default_rng(n).normal(size=(n, 7)) + np.arange(n)[:, None] / n
    data[:2, 0] = data[0, 0]  # one tie, which is nothing beside a column without any
    expected = stats.spearmanr(data)
    columns = described(data.T)
    assert columns.ties[0] == Ties.SOME
    p = pvalues(expected.statistic, Pairs(n, columns.rows, columns))
    off = ~np.eye(7, dtype=bool)
    np.testing.assert_allclose(p[off], expected.pvalue[off], rtol=1e-13)


@pytest.mark.parametrize(("a", "b"), [(0.8, 0.6), (0.9, 0.7), (0.9, 0.9)])
@pytest.mark.parametrize("n", [60, 400])
def test_tied_pairs_are_tested_at_about_the_right_size(n: int, a: float, b: float) -> None:
    """Two columns of counts with many zeros; 40,000 permutations."""
    generator = np.random.default_rng(n)
    x, y = (generator.permutation(np.maximum(0, np.arange(n) - round(share * n))) // 2 for share in (a, b))
    ranks = rank_columns([x, y])
    u, v = (row / np.linalg.norm(row) for row in ranks.matrix.astype(float))
    rho = (generator.permuted(np.tile(u, (40_000, 1)), axis=1) @ v)[None]
    source, target = described(x[None]), described(y[None])
    many = Columns(np.repeat(target.ties, rho.size), np.repeat(target.skewness, rho.size))
    p = pvalues(rho, Pairs(n, source.rows, many))
    skew = Pairs(n, source, target).null_skewness[0]
    assert stats.skew(rho[0]) == pytest.approx(skew, abs=0.1 + skew / 10)
    for alpha in (0.05, 0.01, 0.001):
        assert np.mean(p <= alpha) <= 1.4 * alpha
    if skew > 1:
        assert np.isnan(p).all()
        return
    assert np.mean(p <= 0.05) >= 0.03
    z = np.abs(rho[0]) * np.sqrt(n - 1)
    right = stats.pearson3.sf(z, skew) + stats.pearson3.cdf(-z, skew)
    np.testing.assert_allclose(p[0], right, rtol=1e-7)


def test_a_pair_too_skewed_has_no_pvalue_unless_both_are_flags() -> None:
    n = 200
    rare = described((np.arange(n) >= 197)[None] * np.arange(n))
    assert rare.ties[0] == Ties.MANY
    p = pvalues(np.array([[0.3]]), Pairs(n, rare.rows, flags(n, 3)))
    assert np.isnan(p).all()
    assert not np.isnan(pvalues(phi(1, 3, 3, n), Pairs(n, flags(n, 3).rows, flags(n, 3)))).any()
    # With little noise two flags are no longer exact; much noise takes the skewness away.
    for noise, missing in ((0.01, True), (0.2, False)):
        p = pvalues(phi(1, 3, 3, n), Pairs(n, flags(n, 3).rows, flags(n, 3), noise=noise))
        assert np.isnan(p).all() == missing


@pytest.mark.parametrize("n", [16, 40, 170])
def test_no_pvalue_without_ties_is_below_that_of_the_rarest_arrangement(n: int) -> None:
    p = pvalues(np.array([[1.0, -1.0, 1 - 1e-15]]), Pairs(n, untied(1).rows, untied(3)))[0]
    assert p[:2] == pytest.approx(2 / math.factorial(n), rel=1e-10)
    assert (p >= p[0]).all()


@pytest.mark.parametrize("n", [10, 100])
@pytest.mark.parametrize(
    ("estimator", "missing"), [(EXACT, [False, False, True]), (PAPER, [False, True, True])]
)
def test_undefined_pairs_have_no_pvalue(n: int, estimator: str, missing: list[bool]) -> None:
    columns = Columns(np.array([Ties.NONE, Ties.SOME, Ties.CONSTANT]), np.zeros(3))
    p = pvalues(np.array([[0.5, 0.5, math.nan]]), Pairs(n, untied(1).rows, columns, estimator))  # type: ignore[arg-type]
    assert np.isnan(p[0]).tolist() == missing
    assert np.isnan(pvalues(np.array([[math.nan]]), Pairs(n, untied(1).rows, untied(1)))).all()
    poor = [f"2 of 3 p-values are approximations, which are poor for {n} rows"]
    sentences = result_warnings.pvalues(Pairs(n, untied(1).rows, columns))
    assert sentences[1:] == (poor if n < 20 else [])


# --- noise ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", [0.3, 1.0, 3.0])
def test_noisy_coefficients_are_tested_at_about_the_right_size(s: float) -> None:
    """Two flags, with the noise in standard errors and the rounded skewness that a receiver has."""
    n, a, b, draws = 2000, 50, 100, 200_000
    generator = np.random.default_rng(5)
    k = generator.hypergeometric(a, n - a, b, draws)
    noise = s / math.sqrt(n - 1)
    rho = (n * k - a * b) / math.sqrt(a * (n - a) * b * (n - b)) + noise * generator.normal(size=draws)
    source, target = (Columns(side.ties, rounded(side.skewness)) for side in (flags(n, a), flags(n, b)))
    many = Columns(np.repeat(target.ties, draws), np.repeat(target.skewness, draws))
    p = pvalues(rho[None], Pairs(n, source.rows, many, noise=noise))
    for alpha in (0.05, 0.01, 0.001):
        assert 0.5 * alpha <= np.mean(p <= alpha) <= 1.25 * alpha


def test_noise_is_a_number_a_pair_and_coefficients_may_exceed_one() -> None:
    noise = np.array([[0.5, 0.0]])
    p = pvalues(np.array([[1.2, 0.3]]), Pairs(101, untied(1).rows, untied(2), noise=noise))[0]
    assert p[0] == pytest.approx(2 * stats.norm.sf(1.2 / math.sqrt(0.01 + 0.25)))
    assert p[1] == pvalues(np.array([[0.3]]), Pairs(101, untied(1).rows, untied(1)))[0, 0]


# --- q-values ------------------------------------------------------------------------------------------


def test_qvalues_are_scipys_over_the_defined_pairs() -> None:
    p = np.random.default_rng(4).uniform(size=(6, 7)) ** 3
    p[2, 3] = p[0, 0] = math.nan
    q = qvalues(p)
    assert np.array_equal(np.isnan(q), np.isnan(p))
    np.testing.assert_array_equal(q[~np.isnan(p)], stats.false_discovery_control(p[~np.isnan(p)]))
    assert np.isnan(qvalues(np.full((2, 2), math.nan))).all()


# --- what docs/statistics.md says of p-values ------------------------------------------------------------


def share_below(x: np.ndarray, y: np.ndarray, alpha: float = 0.05) -> float:
    """How many of these samples, one a row, have p <= alpha."""
    pairs = Pairs(x.shape[1], untied(1).rows, untied(len(x)))
    return float(np.mean(pvalues(row_coefficients(x, y)[None], pairs) <= alpha))


def test_tests_are_of_independence_not_zero_correlation() -> None:
    x, y = np.random.default_rng(6).normal(size=(2, 5000, 300))
    assert share_below(x, y) == pytest.approx(0.05, abs=0.01)
    assert share_below(x, y * np.abs(x)) == pytest.approx(0.11, abs=0.015)


def test_rows_repeated_ten_times_make_every_second_test_significant() -> None:
    generator = np.random.default_rng(7)
    x, y = (np.repeat(generator.normal(size=(2000, 50)), 10, axis=1) for _ in range(2))
    x, y = (values + 1e-9 * generator.normal(size=values.shape) for values in (x, y))
    assert share_below(x, y) == pytest.approx(0.54, abs=0.04)


# --- missing cells


def scores(values: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Scores of columns, (m, n), as unit vectors; 0 where a cell is missing."""
    ranks = rank_columns([np.ma.masked_array(*column) for column in zip(values, missing, strict=True)])
    return np.asarray(ranks.matrix / np.linalg.norm(ranks.matrix, axis=1)[:, None])


@pytest.mark.parametrize("share", [0.2, 0.6])
@pytest.mark.parametrize("kind", ["untied", "counts"])
def test_tests_keep_their_size_where_the_same_people_lack_both(share: float, kind: str) -> None:
    generator, n, m = np.random.default_rng(11), 300, 45
    values = generator.normal(size=(2 * m, n)) if kind == "untied" else generator.poisson(0.7, (2 * m, n))
    p = []
    for _ in range(3):
        missing = np.broadcast_to(generator.random(n) < share, values.shape)
        unit = scores(values, missing)
        described = Columns(np.full(m, Ties.SOME), np.zeros(m), np.full(m, missing[0].mean()))
        p.append(pvalues(unit[:m] @ unit[m:].T, Pairs(n, described.rows, described)))
        values = generator.permuted(values, axis=1)
    rejected = np.mean(np.array(p) <= 0.05)
    assert abs(rejected - 0.05) < 5 * math.sqrt(
        0.05 * 0.95 / (3 * m)
    )  # tests of one column are hardly independent
    plain = Columns(described.ties, described.skewness)
    wrong = pvalues(unit[:m] @ unit[m:].T, Pairs(n, plain.rows, plain))
    assert np.mean(wrong <= 0.05) > (0.06 if share < 0.5 else 0.15)


def test_tests_count_the_rows_that_one_of_both_columns_has() -> None:
    r, whole = np.array([[0.2]]), column_of(0.0)

    def of(n: int, source: Columns, target: Columns) -> np.ndarray:
        pairs = Pairs(n, source.rows, target)
        return np.ravel([pvalues(r, pairs), *intervals(r, pairs, 0.95)])

    assert of(100, column_of(0.5), column_of(0.1)) == pytest.approx(of(90, whole, whole), abs=1e-6)
    assert of(100, column_of(0.5), whole).tolist() == of(100, whole, whole).tolist()
    assert np.isnan(of(100, column_of(0.99), column_of(0.99))).all()


def column_of(gaps: float) -> Columns:
    """One column without ties, with a share of missing cells."""
    return Columns(np.array([Ties.NONE]), np.zeros(1), np.array([gaps]))


def test_a_class_of_ties_is_of_the_cells_that_are_not_missing() -> None:
    missing = np.arange(100) >= 40
    table = [np.arange(100), np.arange(100) // 2, np.arange(100) % 2, np.zeros(100)]
    described = Columns.of(rank_columns([np.ma.masked_array(values, missing) for values in table]))
    assert described.ties.tolist() == [Ties.NONE, Ties.SOME, Ties.MANY, Ties.CONSTANT]
    assert described.gaps.tolist() == [0.6] * 4
