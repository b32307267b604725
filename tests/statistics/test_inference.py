"""p-values against SciPy: exact ones against its permutation test, the others against its t distribution."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections import Counter
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mpc_spearman.data.ranks import rank_columns, total
from mpc_spearman.statistics import inference, result_warnings
from mpc_spearman.statistics.inference import Ties
from mpc_spearman.statistics.reference import reference
from support.harness import ROOT


def untied(rho: np.ndarray) -> np.ndarray:
    return np.full(rho.shape, Ties.NONE)


def frame(table: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(table.T, columns=[f"f{i}" for i in range(len(table))])


def tied_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    one, other = (inference.ties(rank_columns(list(table)).tie_terms, table.shape[1]) for table in (a, b))
    return inference.pairs(one, other)


def by_permutation_test(x: np.ndarray, y: np.ndarray) -> float:
    def size(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        ranks = stats.rankdata(x, axis=axis) - (len(y) + 1) / 2
        other = stats.rankdata(y) - (len(y) + 1) / 2
        return np.abs((ranks * other).sum(axis=axis))

    found = stats.permutation_test(
        (x,),
        lambda x, axis: size(x, y, axis),
        permutation_type="pairings",
        alternative="greater",
        n_resamples=np.inf,
        vectorized=True,
    )
    return float(found.pvalue)


# --- few rows ------------------------------------------------------------------------------------------


def test_six_rows_in_the_same_order_have_two_of_720_arrangements() -> None:
    rho = np.array([[1.0, -1.0]])
    for step in (0.0, 0.01):
        p = inference.pvalues(rho, 6, untied(rho), "tie_corrected", step)
        assert p.tolist() == [[2 / math.factorial(6)] * 2]


@pytest.mark.parametrize("n", range(3, 9))
def test_exact_pvalues_are_those_of_scipys_permutation_test(n: int) -> None:
    generator = np.random.default_rng(n)
    a, b = generator.normal(size=(2, 3, n))
    a[0] = b[0]  # a coefficient of 1
    rho = reference({"A": frame(a)}, frame(b)).coefficients.to_numpy()
    p = inference.pvalues(rho, n, tied_pairs(a, b), "tie_corrected")
    for i, j in np.ndindex(3, 3):
        assert p[i, j] == pytest.approx(by_permutation_test(a[i], b[j]), rel=1e-14)


def test_six_rows_are_right_by_scipys_own_coefficient() -> None:
    x, y = [3, 1, 2, 5, 4, 6], [10, 20, 30, 40, 50, 60]
    found = stats.permutation_test(
        (x,), lambda x: stats.spearmanr(x, y).statistic, permutation_type="pairings", n_resamples=np.inf
    )
    p = inference.pvalues(np.array([found.statistic]), 6, np.array([Ties.NONE]), "tie_corrected")
    assert p[0] == pytest.approx(found.pvalue, rel=1e-14)


@pytest.mark.parametrize("n", [3, 4, 7, 8])
def test_every_arrangement_is_counted_once(n: int) -> None:
    squares = Counter(
        sum((i - j) ** 2 for i, j in enumerate(arrangement))
        for arrangement in itertools.permutations(range(n))
    )
    half = n * (n * n - 1) // 6
    for square in range(half + 1):
        at_least = sum(count for s, count in squares.items() if abs(half - s) >= half - square)
        assert inference._tails(n)[square] == pytest.approx(at_least / math.factorial(n), rel=1e-14)


@pytest.mark.parametrize("n", [10, 12, pytest.param(15, marks=pytest.mark.long)])
def test_exact_pvalues_are_the_references_beyond_what_can_be_enumerated(n: int) -> None:
    a, b = np.random.default_rng(n).normal(size=(2, 3, n))
    found = reference({"A": frame(a)}, frame(b))
    p = inference.pvalues(found.coefficients.to_numpy(), n, tied_pairs(a, b), "tie_corrected")
    np.testing.assert_allclose(p, found.pvalues, rtol=1e-13)


@pytest.mark.parametrize(("n", "least"), [(7, "0.0003968"), (9, "0.0000055"), (12, "0.0000000042")])
def test_the_smallest_exact_pvalue_is_that_of_published_tables(n: int, least: str) -> None:
    assert f"{inference._tails(n)[0]:.{len(least) - 2}f}" == least


def test_a_published_value_counts_all_arrangements_that_round_to_it_or_beyond() -> None:
    n, step = 8, 0.01
    half = n * (n * n - 1) // 6
    every = 1 - np.arange(0, half + 1, 2) / half
    rho = np.round(every / step) * step
    published = inference.pvalues(rho, n, untied(rho), "tie_corrected", step)
    exact = inference.pvalues(every, n, untied(rho), "tie_corrected")
    # Each counts the least extreme of those that round to it; at 8 rows the grid is the finer one.
    assert (published >= exact).all()
    np.testing.assert_array_equal(published, exact)
    coarse = np.round(every / 0.1) * 0.1
    found = inference.pvalues(coarse, n, untied(rho), "tie_corrected", 0.1)
    for value, p in zip(coarse, found, strict=True):
        assert p == exact[every >= value - 0.05 - 1e-9].max()


@pytest.mark.parametrize("n", [5, 6, 8])
def test_the_reference_is_exact_for_ties_too(n: int) -> None:
    a, b = np.random.default_rng(n).integers(0, 3, (2, 3, n)).astype(float)
    found = reference({"A": frame(a)}, frame(b))
    for i, j in np.ndindex(3, 3):
        if math.isnan(found.coefficients.iloc[i, j]):
            assert math.isnan(found.pvalues.iloc[i, j])
        else:
            assert found.pvalues.iloc[i, j] == pytest.approx(by_permutation_test(a[i], b[j]), rel=1e-12)


# --- more rows, and ties -------------------------------------------------------------------------------


def test_tied_pairs_have_students_t_at_few_rows() -> None:
    x, y = [1.0, 2, 3, 4, 5, 6, 7, 7], [2.0, 1, 4, 3, 6, 5, 8, 7]
    expected = stats.spearmanr(x, y)
    p = inference.pvalues(np.array([[expected.statistic]]), 8, np.array([[Ties.SOME]]), "tie_corrected")
    assert p[0, 0] == pytest.approx(expected.pvalue, rel=1e-12)


@pytest.mark.parametrize("n", [inference.EXACT_ROWS + 1, 30, 2000])
def test_pvalues_are_scipys_to_the_last_bit_given_its_coefficients(n: int) -> None:
    data = np.random.default_rng(n).normal(size=(n, 7)) + np.arange(n)[:, None] / n
    expected = stats.spearmanr(data)
    found = inference.pvalues(expected.statistic, n, untied(expected.statistic), "tie_corrected")
    off = ~np.eye(7, dtype=bool)
    np.testing.assert_array_equal(found[off], expected.pvalue[off])


@pytest.mark.parametrize("n", [16, 40, 170])
def test_no_pvalue_is_below_that_of_the_rarest_arrangement(n: int) -> None:
    rho = np.array([1.0, -1.0, 1 - 1e-15])
    p = inference.pvalues(rho, n, untied(rho), "tie_corrected")
    assert p[:2] == pytest.approx(2 / math.factorial(n), rel=1e-10)
    assert (p >= p[0]).all()


def test_a_published_one_counts_as_what_rounds_to_it() -> None:
    rho = np.array([1.0, -1.0, 0.995])
    p = inference.pvalues(rho, 100, untied(rho), "tie_corrected", 0.01)
    assert p[0] == p[1] == p[2] == pytest.approx(stats.beta(49, 49, loc=-1, scale=2).sf(0.995) * 2, rel=1e-6)


@pytest.mark.parametrize("n", [10, 100])
def test_undefined_pairs_have_no_pvalue(n: int) -> None:
    tied = np.array([[Ties.NONE, Ties.SOME, Ties.CONSTANT]])
    rho = np.array([[0.5, 0.5, math.nan]])
    for estimator, missing in (("tie_corrected", [False, False, True]), ("paper", [False, True, True])):
        p = inference.pvalues(rho, n, tied, estimator)  # type: ignore[arg-type]
        assert np.isnan(p[0]).tolist() == missing
    # An undefined number is nobody's tie's doing only.
    assert np.isnan(inference.pvalues(np.array([[math.nan]]), n, tied[:, :1], "tie_corrected")).all()


def test_a_pair_is_as_tied_as_its_worse_column() -> None:
    n = 6
    source, target = inference.ties([0, 2], n), inference.ties([0, 2, total(n)], n)
    assert inference.pairs(source, target).tolist() == [
        [Ties.NONE, Ties.SOME, Ties.CONSTANT],
        [Ties.SOME, Ties.SOME, Ties.CONSTANT],
    ]


# --- what the reader is told ---------------------------------------------------------------------------


def test_cautions_say_which_pvalues_are_missing_or_poor() -> None:
    tied = np.array([[Ties.NONE, Ties.SOME], [Ties.SOME, Ties.CONSTANT]])
    assert result_warnings.pvalues(untied(tied), 15, "tie_corrected") == []
    assert result_warnings.pvalues(np.minimum(tied, Ties.SOME), 20, "tie_corrected") == []
    (missing,) = result_warnings.pvalues(tied, 20, "paper")
    assert missing.startswith("3 of 4 p-values are missing: with ties")
    missing, poor = result_warnings.pvalues(tied, 15, "tie_corrected")
    assert missing.startswith("1 of 4 p-values are missing: a constant column")
    assert poor.startswith("2 of 4 p-values, those of pairs with ties, are Student's t approximation")
    missing, poor = result_warnings.pvalues(tied, 16, "paper")
    assert poor.startswith("1 of 4 p-values are Student's t approximation")


# --- intervals -----------------------------------------------------------------------------------------


def interval(
    rho: float, n: int, step: float = 0.0, confidence: float = 0.95, tied: Ties = Ties.NONE
) -> list[float]:
    ends = inference.intervals(np.array([rho]), n, np.array([tied]), "tie_corrected", confidence, step)
    return [float(end[0]) for end in ends]


def test_an_interval_is_bonett_and_wrights() -> None:
    # By hand: z = 0.5493, sqrt((1 + 0.125)/97) = 0.10769, times 1.95996 is 0.21107.
    low, high = interval(0.5, 100)
    assert (low, high) == (
        pytest.approx(math.tanh(math.atanh(0.5) - 0.211078), abs=2e-6),
        pytest.approx(math.tanh(math.atanh(0.5) + 0.211078), abs=2e-6),
    )
    assert interval(-0.5, 100) == [pytest.approx(-high), pytest.approx(-low)]


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.99])
def test_more_confidence_takes_a_wider_interval(confidence: float) -> None:
    wide, narrow = interval(0.3, 60, confidence=confidence + 0.005), interval(0.3, 60, confidence=confidence)
    assert wide[0] < narrow[0] < 0.3 < narrow[1] < wide[1]


def test_an_interval_holds_those_of_all_values_that_round_to_what_is_published() -> None:
    for value in np.linspace(0.895, 0.905, 11):
        inner, outer = interval(float(value), 40), interval(0.9, 40, step=0.01)
        assert outer[0] <= inner[0] + 1e-4
        assert outer[1] >= inner[1] - 1e-4


@pytest.mark.parametrize("step", [0.0, 0.01])
def test_a_coefficient_of_one_has_an_interval_that_ends_there(step: float) -> None:
    low, high = interval(1.0, 50, step)
    assert high == 1
    assert 0.98 < low < 1 - step / 2
    assert interval(-1.0, 50, step) == [-high, -low]


@pytest.mark.parametrize(
    ("n", "tied", "there"),
    [(3, Ties.NONE, False), (4, Ties.NONE, True), (40, Ties.SOME, True), (40, Ties.MANY, False)],
)
def test_there_is_no_interval_of_few_rows_or_many_ties(n: int, tied: Ties, there: bool) -> None:
    assert [not math.isnan(end) for end in interval(0.4, n, tied=tied)] == [there, there]
    assert all(map(math.isnan, interval(math.nan, n, tied=tied)))


def test_many_ties_are_more_than_a_twentieth_of_the_largest_tie_term() -> None:
    n = 1000
    groups = {k: np.repeat(np.arange(k), n // k) for k in (4, 5, 500)}
    flag = np.arange(n) < 200
    ranks = rank_columns([*groups.values(), flag, np.zeros(n), np.arange(n)])
    assert inference.ties(ranks.tie_terms, n).tolist() == [
        *(Ties.MANY, Ties.SOME, Ties.SOME, Ties.MANY, Ties.CONSTANT, Ties.NONE)
    ]
    # As a share of rows: the cubes of the groups' shares.
    assert ranks.tie_terms[3] / total(n) == pytest.approx(0.2**3 + 0.8**3, rel=1e-5)


def test_a_caution_counts_coefficients_without_an_interval() -> None:
    tied = np.array([[Ties.NONE, Ties.MANY], [Ties.SOME, Ties.CONSTANT]])
    assert result_warnings.intervals(np.minimum(tied, Ties.SOME), 4, "tie_corrected") == []
    (sentence,) = result_warnings.intervals(tied, 40, "tie_corrected")
    assert sentence.startswith("1 of 4 coefficients have no confidence interval: a column has many ties")
    assert result_warnings.intervals(tied, 40, "paper") == []  # none of these has a p-value either
    assert "3 of 4 coefficients" in result_warnings.intervals(tied, 3, "tie_corrected")[0]


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    """The benchmark that docs/statistics.md quotes."""
    spec = importlib.util.spec_from_file_location("benchmark", ROOT / "benchmarks" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("n", [50, 500])
@pytest.mark.parametrize("which", range(3), ids=["0", "0.5", "0.9"])
def test_intervals_cover_what_they_say(coverage: ModuleType, n: int, which: int) -> None:
    _, share = coverage.covered(coverage.LATENT[which], n, 4000, np.random.default_rng(n + which))
    assert 0.92 <= share <= 0.97


def test_intervals_of_two_flags_would_cover_too_little(coverage: ModuleType) -> None:
    flag = [0.8, 0.2]
    _, share = coverage.covered(coverage.LATENT[2], 500, 2000, np.random.default_rng(1), flag, flag)
    assert share < 0.85


# --- q-values ------------------------------------------------------------------------------------------


def test_qvalues_are_scipys_over_the_defined_pairs() -> None:
    p = np.random.default_rng(4).uniform(size=(6, 7)) ** 3
    p[2, 3] = p[0, 0] = math.nan
    q = inference.qvalues(p)
    assert np.array_equal(np.isnan(q), np.isnan(p))
    np.testing.assert_array_equal(q[~np.isnan(p)], stats.false_discovery_control(p[~np.isnan(p)]))


def test_qvalues_of_nothing_defined_are_undefined() -> None:
    assert np.isnan(inference.qvalues(np.full((2, 2), math.nan))).all()
